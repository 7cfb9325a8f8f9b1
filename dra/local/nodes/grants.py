"""Which devices of a pod's claims each container gets, as the kubelet finds them: pure.

A container names entries of the pod's claims, each whole or one request of it; what it gets for extended resources
stands in the pod's status. A device that its driver has given to no request in particular answers all of them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from dra.local.nodes.drivers import Device, Health
from dra.local.nodes.manifests import Container, Pod

Devices: TypeAlias = Callable[[str], tuple[Device, ...]]
"""What a claim of the pod's namespace has been given, by its name."""


@dataclass(frozen=True, slots=True)
class _Ask:
    claim: str
    request: str
    label: str = ""
    """How the pod's status calls it; nothing for extended resources."""


def cdi_names(pod: Pod, container: Container, devices: Devices) -> tuple[str, ...]:
    """Return the CDI names of all devices of a container, each once."""
    names = (
        name
        for ask in _asks(pod, container)
        for device in devices(ask.claim)
        if _answers(device, ask.request)
        for name in device.cdi
    )
    return tuple(dict.fromkeys(names))


def allocated_resources(
    pod: Pod, devices: Devices, *, health: Callable[[Device], Health]
) -> dict[str, list[dict[str, Any]]]:
    """Return ``allocatedResourcesStatus`` of each container that has devices."""
    found = {}
    for container in pod.spec.containers or ():
        entries: dict[str, dict[str, dict[str, str]]] = {}
        for ask in _asks(pod, container):
            for device in devices(ask.claim) if ask.label else ():
                if _answers(device, ask.request.partition("/")[0]):
                    name = device.cdi[0] if device.cdi else str(device)
                    entries.setdefault(ask.label, {}).setdefault(name, _told(name, health(device)))
        if entries:
            found[container.name] = [{"name": label, "resources": [*each.values()]} for label, each in entries.items()]
    return found


def _asks(pod: Pod, container: Container) -> Iterator[_Ask]:
    """Yield what a container asks of which claim."""
    generated = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses or ()}
    names = {each.name: each.resource_claim_name or generated.get(each.name) for each in pod.spec.resource_claims or ()}
    for wanted in container.resources.claims or ():
        claim = names.get(wanted.name)
        if claim:
            label = f"claim:{wanted.name}" + (f"/{wanted.request}" if wanted.request else "")
            yield _Ask(claim, wanted.request, label)
    extended = pod.status.extended_resource_claim_status
    for mapping in (extended.request_mappings or ()) if extended is not None else ():
        if mapping.container_name == container.name and mapping.resource_name in (container.resources.requests or {}):
            yield _Ask(extended.resource_claim_name if extended is not None else "", mapping.request_name)


def _answers(device: Device, request: str) -> bool:
    return not request or not device.requests or request in device.requests


def _told(name: str, health: Health) -> dict[str, str]:
    return {"resourceID": name, "health": health.state, **({"message": health.message} if health.message else {})}
