"""Extended resources of pods that devices serve, as kube-scheduler's DynamicResources plugin serves them (KEP-5004).

A DeviceClass serves the extended resource that its ``extendedResourceName`` names, and always the implicit name
``deviceclass.resource.kubernetes.io/NAME``. On a node whose allocatable has none of the resource, the scheduler
allocates devices for it: it makes one claim for all such resources of the pod. So the claim may differ by node.

Containers that run at the same time get devices of their own. An init container uses the devices of the containers that
start after it, and asks only for what it needs beyond these; init containers run one after the other, so that of their
requests only the largest is made.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from dra.model import quantities
from dra.model.claims import EXTENDED_RESOURCE_CLAIM, ResourceClaim, ResourceClaimSpec
from dra.model.device_classes import DeviceClass
from dra.model.meta import ObjectMeta, OwnerReference, Uid
from dra.model.quantities import Amounts
from dra.model.scheduling import SIDECAR, Container, SchedulerPod

IMPLICIT_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""Prefix of the extended resource that every DeviceClass serves (upstream ``ResourceDeviceClassPrefix``)."""


class ContainerRequest(NamedTuple):
    """The request of the pod's claim that serves an extended resource of a container."""

    container_name: str
    resource_name: str
    request_name: str


class ExtendedResourceClaim(NamedTuple):
    """The claim that a scheduler makes for extended resources of a pod on a node."""

    claim: ResourceClaim
    mappings: tuple[ContainerRequest, ...]


class _Request(NamedTuple):
    """A request of the claim for one container."""

    name: str
    devices: int


def served_resources(classes: Collection[DeviceClass]) -> dict[str, str]:
    """Return the extended resources that devices serve, each with its DeviceClass.

    Of several classes with one name the newest counts, then the one whose name comes first.
    """
    preferred: dict[str, DeviceClass] = {}
    for device_class in classes:
        resource = device_class.spec.extended_resource_name
        other = preferred.get(resource) if resource else None
        if resource and (other is None or _is_preferred(device_class, other)):
            preferred[resource] = device_class
    names = [device_class.metadata.name for device_class in classes]
    explicit = {resource: device_class.metadata.name for resource, device_class in preferred.items()}
    return {IMPLICIT_PREFIX + name: name for name in names} | explicit


def _is_preferred(one: DeviceClass, other: DeviceClass) -> bool:
    created = (one.metadata.creation_timestamp, other.metadata.creation_timestamp)
    return created[0] > created[1] or (created[0] == created[1] and one.metadata.name < other.metadata.name)


def resources_by_devices(requested: Amounts, allocatable: Amounts, served: Mapping[str, str]) -> frozenset[str]:
    """Return the requested resources that devices serve on a node with these allocatable amounts."""
    return frozenset(
        resource
        for resource, amount in requested.items()
        if amount and resource in served and not allocatable.get(resource)
    )


def extended_resource_claim(
    pod: SchedulerPod, resources: Iterable[str], served: Mapping[str, str]
) -> ExtendedResourceClaim:
    """Return the claim for some extended resources of a pod; its name and uid are unique in the pod's namespace."""
    requests: dict[str, tuple[str, int]] = {}
    mappings: list[ContainerRequest] = []
    for resource in sorted(resources):
        for request in _requests(pod, resource, mappings):
            requests[request.name] = (served[resource], request.devices)
    written = [
        {"name": name, "exactly": {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count}}
        for name, (device_class, count) in sorted(requests.items())
    ]
    meta = pod.metadata
    owner = OwnerReference(api_version="v1", kind="Pod", name=meta.name, uid=meta.uid, controller=True)
    claim = ResourceClaim(
        metadata=ObjectMeta(
            name=f"{meta.name}-extended-resources",
            namespace=meta.namespace,
            uid=Uid(f"{meta.uid}-extended-resources"),
            annotations={EXTENDED_RESOURCE_CLAIM: "true"},
            owner_references=[owner],
        ),
        spec=ResourceClaimSpec(devices={"requests": written}),
    )
    return ExtendedResourceClaim(claim, tuple(mappings))


def _requests(pod: SchedulerPod, resource: str, mappings: list[ContainerRequest]) -> Iterator[_Request]:
    """Yield the requests for one resource, and add which request serves which container."""
    initial = pod.spec.init_containers or []
    containers = [*initial, *(pod.spec.containers or ())]
    lasting: list[_Request | None] = [None] * len(containers)
    for index, container in enumerate(containers):
        if index >= len(initial) or container.restart_policy == SIDECAR:
            lasting[index] = _own_request(index, container, resource, reused=(), mappings=mappings)
    passing: list[_Request] = []
    later: list[ContainerRequest] = []
    for index, container in enumerate(initial):
        if container.restart_policy != SIDECAR:
            request = _own_request(index, container, resource, reused=lasting[index:], mappings=later)
            passing += [request] if request is not None else []
    largest = max(passing, key=lambda request: request.devices, default=None)
    if largest is None:
        mappings += later
    else:
        names = {request.name for request in passing}
        mappings += [m._replace(request_name=largest.name) if m.request_name in names else m for m in later]
        yield largest
    yield from (request for request in lasting if request is not None)


def _own_request(
    index: int,
    container: Container,
    resource: str,
    *,
    reused: Sequence[_Request | None],
    mappings: list[ContainerRequest],
) -> _Request | None:
    """Return what a container requests beyond the devices of others that it may use, if anything."""
    requests = container.resources.requests or {}
    wanted = _count(requests.get(resource, 0))
    for other in reused if wanted else ():
        if other is not None:
            mappings.append(ContainerRequest(container.name, resource, other.name))
            wanted -= other.devices
            if wanted <= 0:
                return None
    if not wanted:
        return None
    name = f"container-{index}-request-{sorted(requests).index(resource)}"
    mappings.append(ContainerRequest(container.name, resource, name))
    return _Request(name, wanted)


def _count(quantity: str | int) -> int:
    """Return a whole number of devices; 0 for an amount that is none, as upstream's ``AsInt64`` decides."""
    amount = quantities.parse(str(quantity))
    return int(amount) if amount.denominator == 1 else 0
