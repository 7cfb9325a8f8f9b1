"""The host ports that pods use and reservations hold: a node has each port of a protocol once.

Two host ports conflict if number and protocol are equal, and the host IPs are equal or one of them is 0.0.0.0.

kube-scheduler checks host ports of pods itself (plugin NodePorts). It does not see the ports that a reservation holds
once the placeholder is deleted, so those are checked here.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from dra.model.meta import Struct
from dra.model.scheduling import ContainerPort, SchedulerPod

BIND_ALL_HOST_IP: Final = "0.0.0.0"  # noqa: S104 - as upstream reads an empty hostIP
TCP: Final = "TCP"


class HostPort(Struct, frozen=True, order=True):
    """A host port; fields as in ``containers[].ports[]``."""

    number: int
    protocol: str = TCP
    address: str = BIND_ALL_HOST_IP


HostPorts: TypeAlias = frozenset[HostPort]
NO_HOST_PORTS: Final[HostPorts] = frozenset()

_SIDECAR: Final = "Always"


def pod_host_ports(pod: SchedulerPod) -> HostPorts:
    """Return the host ports of a pod; of its init containers, only sidecars count."""
    found: set[HostPort] | None = None  # hardly any pod has host ports, and this runs for each pod that is scheduled
    for each in pod.spec.containers or ():
        for port in each.ports or ():
            if port.host_port:
                found = (found or set()) | {_host_port(port)}
    for each in pod.spec.init_containers or ():
        for port in each.ports or ():
            if port.host_port and each.restart_policy == _SIDECAR:
                found = (found or set()) | {_host_port(port)}
    return frozenset(found) if found else NO_HOST_PORTS


def template_host_ports(template: Mapping[str, Any]) -> HostPorts:
    """Return the host ports of a template; values that no Pod could have are ignored.

    With ``hostNetwork`` each container port is a host port: for pods the API server sets that default.
    """
    spec = template.get("spec")
    return frozenset(_template_ports(spec)) if isinstance(spec, Mapping) else NO_HOST_PORTS


def have_conflict(one: HostPorts, other: HostPorts) -> bool:
    """Return whether two sets of host ports conflict on one node."""
    return any(
        (a.number, a.protocol) == (b.number, b.protocol)
        and (BIND_ALL_HOST_IP in {a.address, b.address} or a.address == b.address)
        for a in one
        for b in other
    )


def container_ports(ports: HostPorts) -> list[dict[str, Any]]:
    """Return host ports as ``ports`` of a container."""
    return [
        {
            "containerPort": each.number,
            "hostPort": each.number,
            "protocol": each.protocol,
            **({} if each.address == BIND_ALL_HOST_IP else {"hostIP": each.address}),
        }
        for each in sorted(ports)
    ]


def _host_port(port: ContainerPort) -> HostPort:
    return HostPort(port.host_port, port.protocol or TCP, port.host_ip or BIND_ALL_HOST_IP)


def _template_ports(spec: Mapping[str, Any]) -> Iterator[HostPort]:
    on_host = spec.get("hostNetwork") is True
    for each in (*_mappings(spec.get("containers")), *_sidecars(spec)):
        for port in _mappings(each.get("ports")):
            number = port.get("hostPort") or (port.get("containerPort") if on_host else None)
            if isinstance(number, int) and not isinstance(number, bool):
                yield HostPort(number, str(port.get("protocol") or TCP), str(port.get("hostIP") or BIND_ALL_HOST_IP))


def _sidecars(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return (each for each in _mappings(spec.get("initContainers")) if each.get("restartPolicy") == _SIDECAR)


def _mappings(given: object) -> Iterable[Mapping[str, Any]]:
    return [each for each in given if isinstance(each, Mapping)] if isinstance(given, list) else ()
