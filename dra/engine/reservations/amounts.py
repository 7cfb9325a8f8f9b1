"""Amounts of named resources: exact, as whole billionths.

A quantity of the API has at most nine decimals (finer ones are rounded up by the API server itself), so billionths are
exact, and integers are added and compared twenty times faster than fractions: a scheduler does little else.

What a pod takes is the sum of its containers, or what an init container needs if that is more; sidecars (init
containers that are restarted) run beside those after them; what the pod has through its claims is added; what the pod
says as a whole wins; overhead comes on top.

A pod that is resized in place has what it had until its kubelet has taken that back, and is to have what it asks for:
the greater counts. What its kubelet calls infeasible will not be, so that does not.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import ceil
from typing import Any, Final, TypeAlias

from dra.engine import allocatable
from dra.model import quantities
from dra.model.placement import Container, ContainerStatus, PlacedPod, ResourceRequirements
from dra.model.quantities import MalformedQuantityError

Amounts: TypeAlias = Mapping[str, int]
"""Resource → billionths; what is not named is 0."""

ONE: Final = 10**9
PODS: Final = "pods"
CPU: Final = "cpu"
NOTHING: Final[Amounts] = {}


class MalformedAmountsError(ValueError):
    """A list of resources that cannot be read; the text begins with the path of the field."""


@lru_cache(maxsize=16384)
def exact(text: str | int) -> int:
    """Return the billionths of a quantity. Raises MalformedQuantityError."""
    return ceil(quantities.parse(text) * ONE)


def read(texts: object, *, path: str) -> dict[str, int]:
    """Return the amounts of a resource list as somebody wrote it. Raises MalformedAmountsError; so do negative ones."""
    if texts is None:
        return {}
    if not isinstance(texts, Mapping):
        raise MalformedAmountsError(f"{path}: must be an object as in: {{cpu: 500m, memory: 1Gi}}")
    found = {}
    for name, text in texts.items():
        if isinstance(text, bool) or not isinstance(text, str | int | float):
            raise MalformedAmountsError(f"{path}.{name}: must be a quantity as in: 500m, 2, 16Gi")
        try:
            amount = exact(repr(text) if isinstance(text, float) else text)
        except MalformedQuantityError as error:
            raise MalformedAmountsError(f"{path}.{name}: {error}") from error
        if amount < 0:
            raise MalformedAmountsError(f"{path}.{name}: {text} is negative; write an amount of 0 or more")
        found[name] = amount
    return found


def known(texts: Mapping[str, str | int] | None) -> dict[str, int]:
    """Return the amounts of a resource list that the API server has validated. Raises MalformedQuantityError."""
    return {name: exact(text) for name, text in (texts or {}).items()}


def plus(one: Amounts, other: Amounts) -> dict[str, int]:
    """Return the sum."""
    total = dict(one)
    for name, amount in other.items():
        total[name] = total.get(name, 0) + amount
    return total


def minus(one: Amounts, other: Amounts) -> dict[str, int]:
    """Return the difference, without names of which nothing is left."""
    rest = dict(one)
    for name, amount in other.items():
        rest[name] = rest.get(name, 0) - amount
        if not rest[name]:
            del rest[name]
    return rest


def most(one: Amounts, other: Amounts) -> dict[str, int]:
    """Return the greater amount of each."""
    return dict(one) | {name: amount for name, amount in other.items() if amount > one.get(name, 0)}


def total(parts: Iterable[Amounts]) -> dict[str, int]:
    """Return the sum of all."""
    found: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            found[name] = found.get(name, 0) + amount
    return found


def of_pod(pod: PlacedPod) -> dict[str, int]:
    """Return what a pod takes of its node, itself (one of ``pods``) included."""
    spec, status = pod.spec, pod.status
    has = {each.name: each for each in (*(status.container_statuses or ()), *(status.init_container_statuses or ()))}
    infeasible = _infeasible(pod)
    initial = []
    for each in spec.init_containers or ():
        sidecar = each.restart_policy == _SIDECAR
        initial.append((_taken(each, has, infeasible=infeasible) if sidecar else _asked(each), sidecar))
    whole: Amounts = NOTHING
    if spec.resources is not None:
        whole = _greater(
            known(spec.resources.requests), status.resources, status.allocated_resources, infeasible=infeasible
        )
    taken = _together(
        containers=(_taken(each, has, infeasible=infeasible) for each in spec.containers or ()),
        initial=initial,
        whole=whole,
        overhead=known(spec.overhead),
        through_claims={name: ceil(amount * ONE) for name, amount in allocatable.through_claims(pod).items()},
    )
    return {**taken, PODS: ONE}


def of_template(template: Mapping[str, Any]) -> dict[str, int]:
    """Return what a pod template asks for. Raises MalformedAmountsError.

    Nobody has validated it, nor set requests that are missing to the limits, as the API server does for pods.
    """
    path = "spec.template.spec"
    spec = template.get("spec")
    if not isinstance(spec, Mapping):
        raise MalformedAmountsError(f"{path}: must be a pod's spec")
    return _together(
        containers=[_asked_in(each, where) for each, where in _listed(spec, "containers", path)],
        initial=[
            (_asked_in(each, where), each.get("restartPolicy") == _SIDECAR)
            for each, where in _listed(spec, "initContainers", path)
        ],
        whole=_asked_in(spec, path),
        overhead=read(spec.get("overhead"), path=f"{path}.overhead"),
    )


def texts(template: Mapping[str, Any]) -> dict[str, str | int]:
    """Return how a template writes each resource, where it does first: amounts of it are written in the same units."""
    found: dict[str, str | int] = {}
    for each, _ in _listed(template.get("spec") or {}, "containers", ""):
        resources = each.get("resources") or {}
        for kind in ("requests", "limits"):
            for name, text in (resources.get(kind) or {}).items():
                found.setdefault(name, text)
    return found


_SIDECAR: Final = "Always"


def _asked(container: Container) -> Amounts:
    return known(container.resources.requests)


def _taken(container: Container, has: Mapping[str, ContainerStatus], *, infeasible: bool) -> Amounts:
    asked, status = _asked(container), has.get(container.name)
    if status is None:
        return asked
    return _greater(asked, status.resources, status.allocated_resources, infeasible=infeasible)


def _greater(
    asked: Amounts,
    actual: ResourceRequirements | None,
    allocated: Mapping[str, str | int] | None,
    *,
    infeasible: bool,
) -> Amounts:
    if actual is None:  # its kubelet does not tell
        return asked
    had = most(known(actual.requests), known(allocated))
    return had if infeasible else most(asked, had)


def _infeasible(pod: PlacedPod) -> bool:
    pending = pod.condition("PodResizePending")
    return pending is not None and pending.reason == "Infeasible"


def _listed(spec: Mapping[str, Any], name: str, path: str) -> list[tuple[Mapping[str, Any], str]]:
    given = spec.get(name)
    if given is None:
        return []
    if not isinstance(given, list):
        raise MalformedAmountsError(f"{path}.{name}: must be a list of containers")
    for index, each in enumerate(given):
        if not isinstance(each, Mapping):
            raise MalformedAmountsError(f"{path}.{name}[{index}]: must be a container")
    return [(each, f"{path}.{name}[{index}]") for index, each in enumerate(given)]


def _asked_in(container: Mapping[str, Any], path: str) -> Amounts:
    resources = container.get("resources")
    if resources is None:
        return NOTHING
    if not isinstance(resources, Mapping):
        raise MalformedAmountsError(f"{path}.resources: must be an object with requests")
    limits = read(resources.get("limits"), path=f"{path}.resources.limits")
    return limits | read(resources.get("requests"), path=f"{path}.resources.requests")


def _together(
    *,
    containers: Iterable[Amounts],
    initial: Iterable[tuple[Amounts, bool]],
    whole: Amounts,
    overhead: Amounts,
    through_claims: Amounts = NOTHING,
) -> dict[str, int]:
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for asked, stays in initial:
        peak = most(peak, plus(sidecars, asked))
        if stays:
            sidecars = plus(sidecars, asked)
    taken = plus(most(plus(total(containers), sidecars), peak), through_claims)
    taken = plus({**taken, **whole}, overhead)
    return {name: amount for name, amount in taken.items() if amount}


_DECIMAL: Final = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def printed(amount: int, *, like: str | int = "") -> str:
    """Return an amount as Kubernetes writes it: with binary units if those were used where it comes from."""
    if not amount:
        return "0"
    if str(like).endswith("i") and amount % ONE == 0:
        return _scaled(amount // ONE, 1024, _BINARY)
    return _scaled(amount, 1000, _DECIMAL)


def _scaled(amount: int, base: int, suffixes: tuple[str, ...]) -> str:
    power = 0
    while amount % base == 0 and power + 1 < len(suffixes):
        amount //= base
        power += 1
    return f"{amount}{suffixes[power]}"
