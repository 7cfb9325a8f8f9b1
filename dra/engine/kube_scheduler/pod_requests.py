"""The requests of a pod, or of a pod template, as its node counts them.

The requests of a pod are the sum of its containers, or what an init container needs if that is more. Sidecars
(restartable init containers) run beside the containers after them. Node resources that the pod has through its claims
are added, to the pod or to its containers; requests at pod level override those sums; overhead comes on top.

During an in-place resize the greater of allocated and requested resources counts, until the kubelet has actuated the
resize. A resize that the kubelet reports as Infeasible does not count. (component-helpers ``resource.PodRequests``.)
"""

from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction
from math import ceil
from typing import Any

from dra.engine.devices import node_allocatable
from dra.engine.devices.allocator_releases import RELEASE_1_37, AllocatorRelease
from dra.model.quantities import (
    NANOS_PER_UNIT,
    NO_AMOUNTS,
    PODS,
    Amounts,
    MalformedAmountsError,
    add,
    from_validated_list,
    maximum,
    parse_resource_list,
    total,
)
from dra.model.scheduling import SIDECAR, Container, ContainerStatus, ResourceRequirements, SchedulerPod


def pod_requests(pod: SchedulerPod, *, release: AllocatorRelease = RELEASE_1_37) -> dict[str, int]:
    """Return what a pod takes of its node, including one of ``pods`` for itself.

    ``release``: of kube-scheduler; where it is not known, overhead of init containers never ends, which takes more.
    """
    spec, status = pod.spec, pod.status
    has = {
        reported.name: reported
        for reported in (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    }
    infeasible = _is_resize_infeasible(pod)
    costs = {name: _amounts(cost) for name, cost in node_allocatable.overhead_of_containers(pod).items()}
    passing = costs if release.init_overhead_ends else {}
    initial = []
    for container in spec.init_containers or ():
        sidecar = container.restart_policy == SIDECAR
        asked = _container_amounts(container, has, infeasible=infeasible) if sidecar else _requests(container)
        initial.append((add(asked, passing.get(container.name, NO_AMOUNTS)), sidecar))
    whole: Amounts = NO_AMOUNTS
    if spec.resources is not None:
        whole = _effective_amounts(
            from_validated_list(spec.resources.requests),
            status.resources,
            status.allocated_resources,
            infeasible=infeasible,
        )
    taken = _sum_containers(
        containers=(
            add(_container_amounts(container, has, infeasible=infeasible), passing.get(container.name, NO_AMOUNTS))
            for container in spec.containers or ()
        ),
        initial=initial,
        whole=whole,
        overhead=from_validated_list(spec.overhead),
        through_claims=total(
            (_amounts(node_allocatable.resources_through_claims(pod)), *(() if passing else costs.values()))
        ),
    )
    return {**taken, PODS: NANOS_PER_UNIT}


def template_requests(template: Mapping[str, Any]) -> dict[str, int]:
    """Return the requests of a pod template. Raises MalformedAmountsError.

    The API server has neither validated the template nor set missing requests to the limits, as it does for pods.
    """
    path = "spec.template.spec"
    spec = template.get("spec")
    if not isinstance(spec, Mapping):
        raise MalformedAmountsError(f"{path}: must be a pod's spec")
    containers = [
        _template_requests(container, where) for container, where in _container_list(spec, "containers", path)
    ]
    initial = [
        (_template_requests(container, where), container.get("restartPolicy") == SIDECAR)
        for container, where in _container_list(spec, "initContainers", path)
    ]
    asked = {name for amounts in (*containers, *(of_container for of_container, _ in initial)) for name in amounts}
    return _sum_containers(
        containers=containers,
        initial=initial,
        whole=_template_requests(spec, path, without_limits=asked),
        overhead=parse_resource_list(spec.get("overhead"), path=f"{path}.overhead"),
    )


def template_quantities(template: Mapping[str, Any]) -> dict[str, str | int]:
    """Return each resource as the template first writes it; `format_quantity` then uses the same units."""
    quantities: dict[str, str | int] = {}
    for container, _ in _container_list(template.get("spec") or {}, "containers", ""):
        resources = container.get("resources") or {}
        for kind in ("requests", "limits"):
            for name, text in (resources.get(kind) or {}).items():
                quantities.setdefault(name, text)
    return quantities


def _amounts(resources: Mapping[str, Fraction]) -> Amounts:
    return {name: ceil(amount * NANOS_PER_UNIT) for name, amount in resources.items()}


def _requests(container: Container) -> Amounts:
    return from_validated_list(container.resources.requests)


def _container_amounts(container: Container, has: Mapping[str, ContainerStatus], *, infeasible: bool) -> Amounts:
    asked, status = _requests(container), has.get(container.name)
    if status is None:
        return asked
    return _effective_amounts(asked, status.resources, status.allocated_resources, infeasible=infeasible)


def _effective_amounts(
    asked: Amounts,
    actual: ResourceRequirements | None,
    allocated: Mapping[str, str | int] | None,
    *,
    infeasible: bool,
) -> Amounts:
    if actual is None:  # the kubelet does not report resources
        return asked
    had = maximum(from_validated_list(actual.requests), from_validated_list(allocated))
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
    for index, container in enumerate(given):
        if not isinstance(container, Mapping):
            raise MalformedAmountsError(f"{path}.{name}[{index}]: must be a container")
    return [(container, f"{path}.{name}[{index}]") for index, container in enumerate(given)]


def _template_requests(
    container: Mapping[str, Any], path: str, *, without_limits: Collection[str] = frozenset()
) -> Amounts:
    """Return the requests of a container or of a whole pod; limits stand for missing requests, but for these names."""
    resources = container.get("resources")
    if resources is None:
        return NO_AMOUNTS
    if not isinstance(resources, Mapping):
        raise MalformedAmountsError(f"{path}.resources: must be an object with requests")
    limits = parse_resource_list(resources.get("limits"), path=f"{path}.resources.limits")
    implied = {name: amount for name, amount in limits.items() if name not in without_limits}
    return implied | parse_resource_list(resources.get("requests"), path=f"{path}.resources.requests")


def _sum_containers(
    *,
    containers: Iterable[Amounts],
    initial: Iterable[tuple[Amounts, bool]],
    whole: Amounts,
    overhead: Amounts,
    through_claims: Amounts = NO_AMOUNTS,
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
