"""Requests for shares of GPUs: the resources ``koordinator.sh/gpu*`` of a container.

A container has a claim of its own, since each container sees its own cards alone. Init containers run one after the
other, before the containers: one that asks for no more than a container, or than another init container, uses that
one's claim, so that a pod needs the most of them and not the sum. An amount of 0 asks for nothing.

Whole cards by a vendor's name, such as ``nvidia.com/gpu``, are left alone: Kubernetes itself turns that name into a
claim (DRAExtendedResource).
"""

from collections.abc import Mapping
from typing import Any, Final

from dra.engine.translation import pod_fields
from dra.engine.translation.cpu_requests import ALIGNED_CLAIM_NAME
from dra.engine.translation.device_requests import MEBI
from dra.engine.translation.pod_fields import ContainerFields
from dra.engine.translation.requests import MAX_CARDS, WHOLE_CARD, ClaimEntry, ContainerPath, GpuShare, Refusal

PREFIX: Final = "koordinator.sh/"
DEPRECATED_PREFIX: Final = "kubernetes.io/"
PREFIXES: Final = (PREFIX, DEPRECATED_PREFIX)

GPU: Final = "gpu"
CORE: Final = "gpu-core"
MEMORY: Final = "gpu-memory"
RATIO: Final = "gpu-memory-ratio"
SHARED: Final = "gpu.shared"
SUFFIXES: Final = (GPU, CORE, MEMORY, RATIO, SHARED)
PERCENTS: Final = (GPU, CORE, RATIO)
GPU_NAMES: Final = tuple(prefix + suffix for prefix in PREFIXES for suffix in SUFFIXES)

VENDOR_NAMES: Final = ("nvidia.com/gpu", "amd.com/gpu", "dcu.com/gpu")
UNSUPPORTED_NAMES: Final = (
    *(prefix + suffix for prefix in PREFIXES for suffix in ("rdma", "fpga")),
    *("huawei.com/npu-core", "huawei.com/npu-cpu", "huawei.com/npu-dvpp"),
)

ALLOWED_SETS: Final = (
    (GPU,),
    (MEMORY,),
    (RATIO,),
    (CORE, MEMORY),
    (CORE, RATIO),
    (MEMORY, SHARED),
    (RATIO, SHARED),
    (CORE, MEMORY, SHARED),
    (CORE, RATIO, SHARED),
)
"""Sets of resources that a container may ask for together, each in the order of `SUFFIXES`."""

MAX_PERCENT: Final = WHOLE_CARD * MAX_CARDS
MAX_MEMORY: Final = 2**46
"""Maximum bytes: 64Ti. From 100Ti on, apimachinery, and so CEL, takes quantities for fractions (``isInteger``)."""

AMOUNT_TEXTS: Final = {
    **dict.fromkeys(PERCENTS, f"must be a whole number of percent, from 1 to {MAX_PERCENT}"),
    MEMORY: "must be a whole number of bytes, from 1 to 64Ti",
    SHARED: f"must be a whole number of cards, from 1 to {MAX_CARDS}",
}
MAX_AMOUNTS: Final = {**dict.fromkeys(PERCENTS, MAX_PERCENT), MEMORY: MAX_MEMORY, SHARED: MAX_CARDS}

UNSUPPORTED_TEXT: Final = "no driver here has such devices; remove the request"
TWICE_TEXT: Final = f"is requested with the prefix {PREFIX} as well; remove the deprecated name"
UNEQUAL_TEXT: Final = "must equal the limit of the same name; set limits alone"
SET_TEXT: Final = (
    "invalid resource device requests; ask for one of these sets: "
    + "; ".join(", ".join(names) for names in ALLOWED_SETS)
    + f"; or for a vendor's whole cards alone ({', '.join(VENDOR_NAMES)})"
)
UNIT_TEXT: Final = f"must be at most {WHOLE_CARD}, or whole cards: a multiple of {WHOLE_CARD}"
CARDS_TEXT: Final = (
    f"must be a multiple of the number of cards ({SHARED}, or one card for each {WHOLE_CARD} percent), "
    f"and at most {WHOLE_CARD} for each card"
)

NAME_TEXT: Final = "is the name of the entry for the GPUs that a container asks for; rename this one"

_CLAIM_PREFIXES: Final = {"containers": "koord-gpu-", "initContainers": "koord-gpu-init-"}


def claim_name(field: str, index: int | str = "") -> str:
    """Return the name of the entry for the GPUs of a container."""
    return f"{_CLAIM_PREFIXES[field]}{index}"


def asked_names(container: ContainerFields) -> tuple[str, ...]:
    """Return the names of GPU resources that a container asks for."""
    given = container.limits.keys() | container.requests.keys()
    return tuple(name for name in GPU_NAMES if name in given and asks_for(container, name))


def asks_for(container: ContainerFields, name: str) -> bool:
    """Report whether a container asks for a resource: 0 asks for nothing, but for no card to share."""
    given = [amounts[name] for amounts in (container.limits, container.requests) if name in amounts]
    return any(pod_fields.amount(amount) != 0 or name.endswith(f"/{SHARED}") for amount in given)


def gpu_refusals(pod: Mapping[str, Any]) -> list[Refusal]:
    """Return the refusals of the devices that containers ask for, at most one for each container."""
    taken = pod_fields.claim_names(pod)
    refusals = (_refusal(container) or _taken_name(container, taken) for container in pod_fields.containers(pod))
    return [refusal for refusal in refusals if refusal is not None]


def gpu_entries(pod: Mapping[str, Any]) -> list[ClaimEntry]:
    """Return the entries for the GPUs of a pod without refusals; each is of one container, and of those that borrow."""
    asking = [
        (container, _share(_amounts(container))) for container in pod_fields.containers(pod) if asked_names(container)
    ]
    lenders = [
        (container, share)
        for place, (container, share) in enumerate(asking)
        if not any(
            _lends(other, container)
            and _covers(more, share)
            and (other.at[0] == "containers" or number < place or not _covers(share, more))
            for number, (other, more) in enumerate(asking)
        )
    ]
    users: dict[ContainerPath, list[ContainerPath]] = {container.at: [container.at] for container, _ in lenders}
    for container, share in asking:
        if container.at not in users:
            first = next(other for other, more in lenders if _lends(other, container) and _covers(more, share))
            users[first.at].append(container.at)
    return [ClaimEntry(claim_name(*container.at), share, tuple(users[container.at])) for container, share in lenders]


def lenders(pod: Mapping[str, Any]) -> frozenset[ContainerPath]:
    """Return the containers that have a claim of their own; all that ask for GPUs if the pod has refusals."""
    if gpu_refusals(pod):
        return frozenset(container.at for container in pod_fields.containers(pod) if asked_names(container))
    return frozenset(entry.containers[0] for entry in gpu_entries(pod))


def _lends(one: ContainerFields, other: ContainerFields) -> bool:
    """Report whether a container never uses its cards while an init container runs."""
    return other.is_initial and one.at != other.at and not one.is_sidecar


def _covers(one: GpuShare, other: GpuShare) -> bool:
    """Report whether a share has as many cards as another one, each with as much of all that the other asks for."""
    amounts = ((one.core, other.core), (one.ratio, other.ratio), (one.memory_mebibytes, other.memory_mebibytes))
    return one.cards >= other.cards and all(
        wanted is None or (has is not None and has // one.cards >= wanted // other.cards) for has, wanted in amounts
    )


def _refusal(container: ContainerFields) -> Refusal | None:
    return (
        _unsupported(container)
        or _unequal(container)
        or _unknown_set(container)
        or _not_whole(container)
        or _no_unit(container)
    )


def _unsupported(container: ContainerFields) -> Refusal | None:
    for name in UNSUPPORTED_NAMES:
        for field, amounts in (("limits", container.limits), ("requests", container.requests)):
            if pod_fields.amount(amounts.get(name, 0)) != 0:
                return Refusal(f"{container.path}.{field}[{name}]", UNSUPPORTED_TEXT)
    return None


def _unequal(container: ContainerFields) -> Refusal | None:
    """Refuse a request that differs from the limit, as the API server does for names that the translation takes off."""
    for name in asked_names(container):
        limit = container.limits.get(name)
        if limit is None or pod_fields.amount(container.requests.get(name, limit)) != pod_fields.amount(limit):
            return Refusal(f"{container.path}.requests[{name}]", UNEQUAL_TEXT)
    return None


def _unknown_set(container: ContainerFields) -> Refusal | None:
    names = asked_names(container)
    if not names:
        return None
    twice = [suffix for suffix in SUFFIXES if {PREFIX + suffix, DEPRECATED_PREFIX + suffix} <= set(names)]
    if twice:
        return Refusal(f"{container.path}.limits[{DEPRECATED_PREFIX}{twice[0]}]", TWICE_TEXT)
    suffixes = tuple(suffix for suffix in SUFFIXES if any(prefix + suffix in names for prefix in PREFIXES))
    vendors = [name for name in VENDOR_NAMES if asks_for(container, name)]
    if suffixes not in ALLOWED_SETS or vendors:
        return Refusal(f"{container.path}.limits", SET_TEXT)
    return None


def _not_whole(container: ContainerFields) -> Refusal | None:
    for suffix, name in _by_suffix(container).items():
        amount = pod_fields.integer(container.limits[name])
        if amount is None or not 1 <= amount <= MAX_AMOUNTS[suffix]:
            return Refusal(f"{container.path}.limits[{name}]", AMOUNT_TEXTS[suffix])
    return None


def _no_unit(container: ContainerFields) -> Refusal | None:
    names, amounts = _by_suffix(container), _amounts(container)
    percents = {suffix: amounts[suffix] for suffix in PERCENTS if suffix in amounts}
    if SHARED not in amounts:
        for suffix, amount in percents.items():
            if amount > WHOLE_CARD and amount % WHOLE_CARD:
                return Refusal(f"{container.path}.limits[{names[suffix]}]", UNIT_TEXT)
    cards = _cards(amounts)
    for suffix, amount in percents.items():
        if amount % cards or amount > WHOLE_CARD * cards:
            return Refusal(f"{container.path}.limits[{names[suffix]}]", CARDS_TEXT)
    return None


def _taken_name(container: ContainerFields, taken: frozenset[str]) -> Refusal | None:
    if not asked_names(container):
        return None
    names = (name for name in (claim_name(*container.at), ALIGNED_CLAIM_NAME) if name in taken)
    return next((Refusal(f"spec.resourceClaims[{name}]", NAME_TEXT) for name in names), None)


def _by_suffix(container: ContainerFields) -> dict[str, str]:
    """Return suffix → name, in the order of `SUFFIXES`."""
    names = asked_names(container)
    return {suffix: prefix + suffix for suffix in SUFFIXES for prefix in PREFIXES if prefix + suffix in names}


def _amounts(container: ContainerFields) -> dict[str, int]:
    names = _by_suffix(container)
    return {suffix: pod_fields.integer(container.limits[name]) or 0 for suffix, name in names.items()}


def _cards(amounts: Mapping[str, int]) -> int:
    """Return the number of cards: as asked, or one for each 100 percent of memory, or else of compute."""
    if SHARED in amounts:
        return amounts[SHARED]
    for suffix in (GPU, RATIO, CORE):
        if amounts.get(suffix, 0) > WHOLE_CARD:
            return amounts[suffix] // WHOLE_CARD
    return 1


def _share(amounts: Mapping[str, int]) -> GpuShare:
    cards = _cards(amounts)
    memory = amounts.get(MEMORY)
    return GpuShare(
        cards=cards,
        core=amounts.get(CORE, amounts.get(GPU)),
        ratio=amounts.get(RATIO, amounts.get(GPU)),
        memory_mebibytes=None if memory is None else -(-memory // (cards * MEBI)) * cards,
    )
