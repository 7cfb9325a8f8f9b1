"""Amounts of named resources, exact, as integer billionths.

A quantity of the API has at most nine decimals (the API server itself rounds finer ones up), so billionths are exact.
Integers are added and compared twenty times faster than fractions, and a scheduler does little else.

The requests of a pod are the sum of its containers, or what an init container needs if that is more. Sidecars
(restartable init containers) run beside the containers after them. Node resources that the pod has through its claims
are added; requests at pod level override those sums; overhead comes on top.

During an in-place resize the greater of allocated and requested resources counts, until the kubelet has actuated the
resize. A resize that the kubelet reports as Infeasible does not count.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import ceil
from typing import Any, Final, TypeAlias

from dra.engine.devices import node_allocatable
from dra.model import quantities
from dra.model.quantities import MalformedQuantityError
from dra.model.scheduling import Container, ContainerStatus, ResourceRequirements, SchedulerPod

NanoAmounts: TypeAlias = Mapping[str, int]
"""Resource → billionths; a resource without an entry is 0."""

NANOS_PER_UNIT: Final = 10**9
PODS: Final = "pods"
CPU: Final = "cpu"
NO_AMOUNTS: Final[NanoAmounts] = {}


class MalformedAmountsError(ValueError):
    """A resource list cannot be parsed; the text begins with the path of the field."""


@lru_cache(maxsize=16384)
def to_nanos(text: str | int) -> int:
    """Return the billionths of a quantity. Raises MalformedQuantityError."""
    return ceil(quantities.parse(text) * NANOS_PER_UNIT)


def parse_resource_list(texts: object, *, path: str) -> dict[str, int]:
    """Return the amounts of an unvalidated resource list. Raises MalformedAmountsError, also for negative amounts."""
    if texts is None:
        return {}
    if not isinstance(texts, Mapping):
        raise MalformedAmountsError(f"{path}: must be an object as in: {{cpu: 500m, memory: 1Gi}}")
    found = {}
    for name, text in texts.items():
        if isinstance(text, bool) or not isinstance(text, str | int | float):
            raise MalformedAmountsError(f"{path}.{name}: must be a quantity as in: 500m, 2, 16Gi")
        try:
            amount = to_nanos(repr(text) if isinstance(text, float) else text)
        except MalformedQuantityError as error:
            raise MalformedAmountsError(f"{path}.{name}: {error}") from error
        if amount < 0:
            raise MalformedAmountsError(f"{path}.{name}: {text} is negative; write an amount of 0 or more")
        found[name] = amount
    return found


def from_resource_list(texts: Mapping[str, str | int] | None) -> dict[str, int]:
    """Return the amounts of a resource list that the API server has validated. Raises MalformedQuantityError."""
    return {name: to_nanos(text) for name, text in (texts or {}).items()}


def add(one: NanoAmounts, other: NanoAmounts) -> dict[str, int]:
    """Return the sum of two resource lists."""
    total = dict(one)
    for name, amount in other.items():
        total[name] = total.get(name, 0) + amount
    return total


def subtract(one: NanoAmounts, other: NanoAmounts) -> dict[str, int]:
    """Return the difference of two resource lists, without resources whose difference is 0."""
    rest = dict(one)
    for name, amount in other.items():
        rest[name] = rest.get(name, 0) - amount
        if not rest[name]:
            del rest[name]
    return rest


def maximum(one: NanoAmounts, other: NanoAmounts) -> dict[str, int]:
    """Return the greater amount of each resource."""
    return dict(one) | {name: amount for name, amount in other.items() if amount > one.get(name, 0)}


def total(parts: Iterable[NanoAmounts]) -> dict[str, int]:
    """Return the sum of all given resource lists."""
    found: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            found[name] = found.get(name, 0) + amount
    return found


def pod_amounts(pod: SchedulerPod) -> dict[str, int]:
    """Return what a pod takes of its node, including one of ``pods`` for itself."""
    spec, status = pod.spec, pod.status
    has = {each.name: each for each in (*(status.container_statuses or ()), *(status.init_container_statuses or ()))}
    infeasible = _is_resize_infeasible(pod)
    initial = []
    for each in spec.init_containers or ():
        sidecar = each.restart_policy == _SIDECAR
        initial.append((_container_amounts(each, has, infeasible=infeasible) if sidecar else _requests(each), sidecar))
    whole: NanoAmounts = NO_AMOUNTS
    if spec.resources is not None:
        whole = _effective_amounts(
            from_resource_list(spec.resources.requests),
            status.resources,
            status.allocated_resources,
            infeasible=infeasible,
        )
    taken = _sum_containers(
        containers=(_container_amounts(each, has, infeasible=infeasible) for each in spec.containers or ()),
        initial=initial,
        whole=whole,
        overhead=from_resource_list(spec.overhead),
        through_claims={
            name: ceil(amount * NANOS_PER_UNIT)
            for name, amount in node_allocatable.resources_through_claims(pod).items()
        },
    )
    return {**taken, PODS: NANOS_PER_UNIT}


def template_amounts(template: Mapping[str, Any]) -> dict[str, int]:
    """Return the requests of a pod template. Raises MalformedAmountsError.

    The API server has neither validated the template nor set missing requests to the limits, as it does for pods.
    """
    path = "spec.template.spec"
    spec = template.get("spec")
    if not isinstance(spec, Mapping):
        raise MalformedAmountsError(f"{path}: must be a pod's spec")
    return _sum_containers(
        containers=[_template_requests(each, where) for each, where in _container_list(spec, "containers", path)],
        initial=[
            (_template_requests(each, where), each.get("restartPolicy") == _SIDECAR)
            for each, where in _container_list(spec, "initContainers", path)
        ],
        whole=_template_requests(spec, path),
        overhead=parse_resource_list(spec.get("overhead"), path=f"{path}.overhead"),
    )


def template_quantities(template: Mapping[str, Any]) -> dict[str, str | int]:
    """Return each resource as the template first writes it; `format_quantity` then uses the same units."""
    found: dict[str, str | int] = {}
    for each, _ in _container_list(template.get("spec") or {}, "containers", ""):
        resources = each.get("resources") or {}
        for kind in ("requests", "limits"):
            for name, text in (resources.get(kind) or {}).items():
                found.setdefault(name, text)
    return found


_SIDECAR: Final = "Always"


def _requests(container: Container) -> NanoAmounts:
    return from_resource_list(container.resources.requests)


def _container_amounts(container: Container, has: Mapping[str, ContainerStatus], *, infeasible: bool) -> NanoAmounts:
    asked, status = _requests(container), has.get(container.name)
    if status is None:
        return asked
    return _effective_amounts(asked, status.resources, status.allocated_resources, infeasible=infeasible)


def _effective_amounts(
    asked: NanoAmounts,
    actual: ResourceRequirements | None,
    allocated: Mapping[str, str | int] | None,
    *,
    infeasible: bool,
) -> NanoAmounts:
    if actual is None:  # the kubelet does not report resources
        return asked
    had = maximum(from_resource_list(actual.requests), from_resource_list(allocated))
    return had if infeasible else maximum(asked, had)


def _is_resize_infeasible(pod: SchedulerPod) -> bool:
    pending = pod.condition("PodResizePending")
    return pending is not None and pending.reason == "Infeasible"


def _container_list(spec: Mapping[str, Any], name: str, path: str) -> list[tuple[Mapping[str, Any], str]]:
    given = spec.get(name)
    if given is None:
        return []
    if not isinstance(given, list):
        raise MalformedAmountsError(f"{path}.{name}: must be a list of containers")
    for index, each in enumerate(given):
        if not isinstance(each, Mapping):
            raise MalformedAmountsError(f"{path}.{name}[{index}]: must be a container")
    return [(each, f"{path}.{name}[{index}]") for index, each in enumerate(given)]


def _template_requests(container: Mapping[str, Any], path: str) -> NanoAmounts:
    resources = container.get("resources")
    if resources is None:
        return NO_AMOUNTS
    if not isinstance(resources, Mapping):
        raise MalformedAmountsError(f"{path}.resources: must be an object with requests")
    limits = parse_resource_list(resources.get("limits"), path=f"{path}.resources.limits")
    return limits | parse_resource_list(resources.get("requests"), path=f"{path}.resources.requests")


def _sum_containers(
    *,
    containers: Iterable[NanoAmounts],
    initial: Iterable[tuple[NanoAmounts, bool]],
    whole: NanoAmounts,
    overhead: NanoAmounts,
    through_claims: NanoAmounts = NO_AMOUNTS,
) -> dict[str, int]:
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for asked, stays in initial:
        peak = maximum(peak, add(sidecars, asked))
        if stays:
            sidecars = add(sidecars, asked)
    taken = add(maximum(add(total(containers), sidecars), peak), through_claims)
    taken = add({**taken, **whole}, overhead)
    return {name: amount for name, amount in taken.items() if amount}


_DECIMAL: Final = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def format_quantity(amount: int, *, like: str | int = "") -> str:
    """Return an amount as Kubernetes prints a quantity: with binary units if `like` has binary units."""
    if not amount:
        return "0"
    if str(like).endswith("i") and amount % NANOS_PER_UNIT == 0:
        return _format_scaled(amount // NANOS_PER_UNIT, 1024, _BINARY)
    return _format_scaled(amount, 1000, _DECIMAL)


def _format_scaled(amount: int, base: int, suffixes: tuple[str, ...]) -> str:
    power = 0
    while amount % base == 0 and power + 1 < len(suffixes):
        amount //= base
        power += 1
    return f"{amount}{suffixes[power]}"
