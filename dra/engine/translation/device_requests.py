"""Requests for devices in the claims that stand for requests in Koordinator's form.

A node has one device for all of its CPUs, and one for each NUMA node (``--cpu-devices node``); a card is a device with
the capacities `memory` and `core`. All are consumable, so the scheduler adds up what claims take.

Memory is counted in bytes alone. A ratio becomes bytes for each size of card in the cluster, as an alternative
(``firstAvailable``) with a selector for that size, the smallest card first. Bytes are rounded down to MiB, the step of
the capacity: rounded up, two halves of a card of 81559 MiB would not fit on the card.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple

from dra.api.koordinator import well_known
from dra.api.parameters.cpu_policies import CpuBindPolicy, CpuExclusivePolicy
from dra.api.parameters.opaque import API_VERSION
from dra.engine.translation.requests import CPU_REQUEST, WHOLE_CARD, CpuBinding, DeviceTopologyScope, GpuShare
from dra.model import quantities
from dra.model.koordinator_classes import NumaTopologyPolicy, QosClass

MAX_ALTERNATIVES: Final = 8
"""Maximum subrequests of a request (``FirstAvailableDeviceRequestMaxSize``)."""

MEBI: Final = 2**20

NUMA_REQUEST: Final = "numa"
NEAR: Final = "near"
"""Subrequest for CPUs of one NUMA node: that of the cards, if the claim has any."""
FAR: Final = "far"
"""Subrequest for no CPUs of the NUMA node: the driver divides the CPUs evenly among as few NUMA nodes as possible."""

NUMA_NODE: Final = "resource.kubernetes.io/numaNode"
PCIE_ROOT: Final = "resource.kubernetes.io/pcieRoot"

_CPU_ATTRIBUTES: Final = f"device.attributes['{well_known.CPU_DRIVER}']"
_UUID: Final = f"{well_known.GPU_DRIVER}/uuid"

_BIND_POLICY: Final = "bindPolicy"
_NUMA_BIND_POLICY: Final = "numaBindPolicy"
_NODE_NUMA_POLICY: Final = "numaTopologyPolicy"

_TOLERATIONS: Final = [{"key": well_known.NUMA_NODE_TAINT, "operator": "Exists", "effect": "NoSchedule"}]
"""Tolerations of the taint that keeps other claims from the devices of NUMA nodes."""

_NEAR_SUFFIX: Final = f"-{NEAR}"


class Scope(NamedTuple):
    """A set of cards that alternatives of a request prefer or require."""

    suffix: str
    """Suffix of the names of these alternatives."""
    attribute: str = ""
    """Attribute that all cards of such an alternative share."""


ANY: Final = Scope("")
PCIE: Final = Scope("-pcie", PCIE_ROOT)
NUMA: Final = Scope("-numa", NUMA_NODE)
SCOPES: Final = (PCIE, NUMA, ANY)
"""Scopes of several whole cards, the narrowest first."""
SCOPES_OF_NUMA_NODE: Final = (PCIE, ANY)
"""Scopes of several whole cards of which another constraint demands one NUMA node."""


class CardRequest(NamedTuple):
    """A request for cards, with the constraints on these cards alone."""

    request: dict[str, Any]
    constraints: list[dict[str, Any]]
    near: list[str]
    """The request, or its subrequests, whose cards are to be on the NUMA node of the CPUs."""


def cpu_request(binding: CpuBinding, *, numa_policy: NumaTopologyPolicy = NumaTopologyPolicy.NONE) -> dict[str, Any]:
    """Return the request for a number of CPUs of a node."""
    conditions = _cpu_conditions(binding, _BIND_POLICY)
    policy, known = f"{_CPU_ATTRIBUTES}.{_NODE_NUMA_POLICY}", f"'{_NODE_NUMA_POLICY}' in {_CPU_ATTRIBUTES}"
    if numa_policy is NumaTopologyPolicy.NONE:
        one = f"{_CPU_ATTRIBUTES}.freeNUMANodeCPUs >= {binding.cpus}"
        larger = f"{policy} == 'Restricted' && {_CPU_ATTRIBUTES}.numaNodeCPUs < {binding.cpus}"
        conditions.append(f"(!({known}) || {policy} in ['None', 'BestEffort'] || {one} || {larger})")
    else:
        conditions.append(f"(!({known}) || {policy} in ['None', '{numa_policy.value}'])")
    exactly = {
        "deviceClassName": well_known.CPU_DRIVER,
        "selectors": _selectors(" && ".join(conditions)),
        "capacity": {"requests": _cpu_amounts(binding, well_known.CPU_CAPACITY)},
    }
    return {"name": CPU_REQUEST, "exactly": exactly}


def numa_request(binding: CpuBinding, policy: NumaTopologyPolicy) -> dict[str, Any]:
    """Return the request for the NUMA node of the CPUs that `cpu_request` asks for."""
    near = {
        "deviceClassName": well_known.CPU_DRIVER,
        "selectors": _selectors(" && ".join(_cpu_conditions(binding, _NUMA_BIND_POLICY))),
        "tolerations": _TOLERATIONS,
        "capacity": {"requests": _cpu_amounts(binding, well_known.NUMA_CPU_CAPACITY)},
    }
    if policy is NumaTopologyPolicy.SINGLE_NUMA_NODE:
        return {"name": NUMA_REQUEST, "exactly": near}
    conditions = [f"'{_NUMA_BIND_POLICY}' in {_CPU_ATTRIBUTES}"]
    if policy is NumaTopologyPolicy.RESTRICTED:
        conditions.append(f"{_CPU_ATTRIBUTES}.numaNodeCPUs < {binding.cpus}")
    far = {
        "deviceClassName": well_known.CPU_DRIVER,
        "selectors": _selectors(" && ".join(conditions)),
        "tolerations": _TOLERATIONS,
    }
    return {"name": NUMA_REQUEST, "firstAvailable": [{"name": NEAR, **near}, {"name": FAR, **far}]}


def cpu_config(binding: CpuBinding) -> dict[str, Any]:
    """Return the configuration of the request for CPUs."""
    parameters = {"apiVersion": API_VERSION, "kind": "CpuConfig"}
    if binding.policy is not None:
        parameters["requiredCPUBindPolicy" if binding.required else "preferredCPUBindPolicy"] = binding.policy.value
    if binding.exclusivity is not CpuExclusivePolicy.NONE:
        parameters["preferredCPUExclusivePolicy"] = binding.exclusivity.value
    if binding.qos is QosClass.LSR:
        parameters["sharedWith"] = "BestEffort"
    return {"requests": [CPU_REQUEST], "opaque": {"driver": well_known.CPU_DRIVER, "parameters": parameters}}


def card_request(
    name: str, share: GpuShare, *, card_sizes: Sequence[int], policy: NumaTopologyPolicy = NumaTopologyPolicy.NONE
) -> CardRequest | None:
    """Return the request for the cards of a container; None if a ratio is requested and no card is published.

    With a policy, the request is part of an aligned claim.
    """
    if share.ratio is not None and not card_sizes:
        return None
    # Without the constraint, the scheduler may put two shares on one card.
    distinct = [{"requests": [name], "distinctAttribute": _UUID}] if share.cards > 1 else []
    if policy is NumaTopologyPolicy.BEST_EFFORT:
        alternatives = _near_or_not(share, card_sizes)
        near = [f"{name}/{alternative['name']}" for alternative in alternatives if alternative["name"].endswith(NEAR)]
        return CardRequest({"name": name, "firstAvailable": alternatives}, distinct, near)
    if share.memory_mebibytes is not None:
        exactly = _cards(share, memory=share.memory_mebibytes * MEBI // share.cards)
        return CardRequest({"name": name, "exactly": exactly}, distinct, [name])
    alternatives, constraints = _by_size(name, share, card_sizes, _scopes(share, policy))
    return CardRequest({"name": name, "firstAvailable": alternatives}, [*distinct, *constraints], [name])


def _cpu_amounts(binding: CpuBinding, capacity: str) -> dict[str, str]:
    """Return what a pod consumes of a device; of cores only if the pod cannot do without."""
    amounts = {capacity: str(binding.cpus)}
    if binding.required:
        whole = binding.policy is CpuBindPolicy.FULL_PCPUS
        cores = well_known.WHOLE_CORE_CAPACITY if whole else well_known.DISTINCT_CORE_CAPACITY
        amounts[cores] = str(binding.cpus)
    return amounts


def _cpu_conditions(binding: CpuBinding, attribute: str) -> list[str]:
    """Return the conditions on the device of a node or NUMA node; each kind has its attribute for the bind policy.

    Nodes with the bind policy FullPCPUsOnly take whole cores alone, nodes with SpreadByPCPUs at most one CPU of each
    core. A required policy excludes nodes whose own policy is the other one. The driver keeps `freeCores` current: with
    too few cores, it could never prepare the claim.
    """
    policy = f"{_CPU_ATTRIBUTES}.{attribute}"
    whole_cores = f"{binding.cpus} % {_CPU_ATTRIBUTES}.threadsPerCore == 0"
    enough_cores = f"{_CPU_ATTRIBUTES}.freeCores >= {binding.cpus}"
    conditions = [f"'{attribute}' in {_CPU_ATTRIBUTES}"]
    if binding.required and binding.policy is CpuBindPolicy.FULL_PCPUS:
        return [*conditions, f"{policy} != 'SpreadByPCPUs'", whole_cores]
    if binding.required:
        return [*conditions, f"{policy} != 'FullPCPUsOnly'", enough_cores]
    return [
        *conditions,
        f"({policy} != 'FullPCPUsOnly' || {whole_cores})",
        f"({policy} != 'SpreadByPCPUs' || {enough_cores})",
    ]


def _by_size(
    name: str, share: GpuShare, card_sizes: Iterable[int], scopes: Sequence[Scope]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return a subrequest for each size of card, and the constraints on them.

    Several whole cards prefer the narrowest scope, as far as the number of alternatives allows, else have the widest.
    """
    sizes = _sizes(card_sizes)
    used = (
        scopes if share.is_whole and share.cards > 1 and len(sizes) * len(scopes) <= MAX_ALTERNATIVES else scopes[-1:]
    )
    alternatives, constraints = [], []
    for size in sizes:
        for scope in used:
            made = _of_size(share, size, suffix=scope.suffix)
            alternatives.append(made)
            if scope.attribute:
                constraints.append({"requests": [f"{name}/{made['name']}"], "matchAttribute": scope.attribute})
    return alternatives, constraints


def _scopes(share: GpuShare, policy: NumaTopologyPolicy) -> Sequence[Scope]:
    """Return the scopes that whole cards may have, the narrowest first; none is wider than the required one."""
    if share.scope is DeviceTopologyScope.PCIE:
        return (PCIE,)
    if policy is not NumaTopologyPolicy.NONE:
        return SCOPES_OF_NUMA_NODE
    return (PCIE, NUMA) if share.scope is DeviceTopologyScope.NUMA_NODE else SCOPES


def _near_or_not(share: GpuShare, card_sizes: Iterable[int]) -> list[dict[str, Any]]:
    """Return the subrequests for cards near the CPUs, then for any: for any alone if both would be too many."""
    if share.memory_mebibytes is not None:
        cards = _cards(share, memory=share.memory_mebibytes * MEBI // share.cards)
        return [{"name": NEAR, **cards}, {"name": FAR, **cards}]
    sizes = _sizes(card_sizes)
    suffixes = (_NEAR_SUFFIX, "") if len(sizes) * 2 <= MAX_ALTERNATIVES else ("",)
    return [_of_size(share, size, suffix=suffix) for suffix in suffixes for size in sizes]


def _sizes(card_sizes: Iterable[int]) -> list[int]:
    return sorted(list(dict.fromkeys(card_sizes))[:MAX_ALTERNATIVES])


def _of_size(share: GpuShare, size: int, *, suffix: str) -> dict[str, Any]:
    """Return the subrequest for cards of one size."""
    name = f"m{size // MEBI}{suffix}" if size % MEBI == 0 else f"b{size}{suffix}"
    cards = _cards(share, memory=_part((share.ratio or 0) // share.cards, size))
    return {"name": name, **cards, "selectors": _selectors(_size_selector(size))}


def _cards(share: GpuShare, *, memory: int) -> dict[str, Any]:
    amounts = {well_known.GPU_MEMORY: quantities.canonical(Fraction(memory), quantities.Format.BINARY_SI)}
    if share.core is not None:
        amounts[well_known.GPU_CORE] = str(share.core // share.cards)
    return {
        "deviceClassName": well_known.GPU_DRIVER,
        "allocationMode": "ExactCount",
        "count": share.cards,
        "capacity": {"requests": amounts},
    }


def _part(ratio: int, size: int) -> int:
    """Return the bytes of a ratio of a card: whole MiB, at least one."""
    return size if ratio == WHOLE_CARD else max(1, ratio * size // WHOLE_CARD // MEBI) * MEBI


def _size_selector(size: int) -> str:
    text = quantities.canonical(Fraction(size), quantities.Format.BINARY_SI)
    memory = f"device.capacity['{well_known.GPU_DRIVER}'].{well_known.GPU_MEMORY}"
    return f"{memory}.compareTo(quantity('{text}')) == 0"


def _selectors(expression: str) -> list[dict[str, Any]]:
    return [{"cel": {"expression": expression}}]
