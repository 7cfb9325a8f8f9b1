"""Decides which devices of a pod's claims each container gets, as the kubelet does: pure.

A container names entries of the pod's claims: an entry as a whole, or one request of the entry. Its devices for
extended resources are listed in the pod's status. A device that its driver assigned to no particular request serves all
requests.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from localplane.nodes.drivers import Device, DeviceHealthStatus
from localplane.nodes.pod_types import Container, KubeletPod

DevicesOfClaim: TypeAlias = Callable[[str], tuple[Device, ...]]
"""Returns the prepared devices of a claim in the pod's namespace, by the claim's name."""


@dataclass(frozen=True, slots=True)
class _DeviceRequest:
    claim: str
    request: str
    label: str = ""
    """Name of the entry in ``allocatedResourcesStatus``; empty for extended resources."""


def cdi_names(pod: KubeletPod, container: Container, devices: DevicesOfClaim) -> tuple[str, ...]:
    """Return the CDI names of all devices of a container, each once."""
    names = (
        name
        for ask in _device_requests(pod, container)
        for device in devices(ask.claim)
        if _serves_request(device, ask.request)
        for name in device.cdi
    )
    return tuple(dict.fromkeys(names))


def allocated_resources(
    pod: KubeletPod, devices: DevicesOfClaim, *, health: Callable[[Device], DeviceHealthStatus]
) -> dict[str, list[dict[str, Any]]]:
    """Return ``allocatedResourcesStatus`` of each container that has devices."""
    resources = {}
    for container in pod.spec.containers or ():
        entries: dict[str, dict[str, dict[str, str]]] = {}
        for ask in _device_requests(pod, container):
            for device in devices(ask.claim) if ask.label else ():
                if _serves_request(device, ask.request.partition("/")[0]):
                    name = device.cdi[0] if device.cdi else str(device)
                    entries.setdefault(ask.label, {}).setdefault(name, _resource_health(name, health(device)))
        if entries:
            resources[container.name] = [
                {"name": label, "resources": [*reported.values()]} for label, reported in entries.items()
            ]
    return resources


def _device_requests(pod: KubeletPod, container: Container) -> Iterator[_DeviceRequest]:
    """Yield the requests of a container for devices of the pod's claims."""
    generated = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses or ()}
    names = {
        entry.name: entry.resource_claim_name or generated.get(entry.name) for entry in pod.spec.resource_claims or ()
    }
    for wanted in container.resources.claims or ():
        claim = names.get(wanted.name)
        if claim:
            label = f"claim:{wanted.name}" + (f"/{wanted.request}" if wanted.request else "")
            yield _DeviceRequest(claim, wanted.request, label)
    extended = pod.status.extended_resource_claim_status
    for mapping in (extended.request_mappings or ()) if extended is not None else ():
        if mapping.container_name == container.name and mapping.resource_name in (container.resources.requests or {}):
            yield _DeviceRequest(extended.resource_claim_name if extended is not None else "", mapping.request_name)


def _serves_request(device: Device, request: str) -> bool:
    return not request or not device.requests or request in device.requests


def _resource_health(name: str, health: DeviceHealthStatus) -> dict[str, str]:
    return {"resourceID": name, "health": health.state, **({"message": health.message} if health.message else {})}
