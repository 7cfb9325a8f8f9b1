"""Host ports of pods, as kube-scheduler's plugin NodePorts compares them.

A node has each host port of a protocol once. Two host ports conflict if number and protocol are equal, and the host IPs
are equal or one of them is 0.0.0.0.
"""

from typing import Final, TypeAlias

from dra.model.meta import Struct
from dra.model.scheduling import SIDECAR, ContainerPort, SchedulerPod

HOST_PORTS_TAKEN: Final = "node(s) didn't have free ports for the requested pod ports"
"""Message of a node where a pod uses one of the wanted host ports."""

BIND_ALL_HOST_IP: Final = "0.0.0.0"  # noqa: S104 - as upstream reads an empty hostIP
TCP: Final = "TCP"


class HostPort(Struct, frozen=True, order=True):
    """A host port; fields as in ``containers[].ports[]``."""

    number: int
    protocol: str = TCP
    address: str = BIND_ALL_HOST_IP

    def __str__(self) -> str:
        at = "" if self.address == BIND_ALL_HOST_IP else f" of {self.address}"
        return f"{self.number}/{self.protocol}{at}"


HostPorts: TypeAlias = frozenset[HostPort]
NO_HOST_PORTS: Final[HostPorts] = frozenset()


def pod_host_ports(pod: SchedulerPod) -> HostPorts:
    """Return the host ports of a pod; of its init containers, only sidecars count."""
    host_ports: set[HostPort] | None = None  # few pods have any, and this runs for each pod that is scheduled
    for container in pod.spec.containers or ():
        for port in container.ports or ():
            if port.host_port:
                host_ports = (host_ports or set()) | {_host_port(port)}
    for container in pod.spec.init_containers or ():
        for port in container.ports or ():
            if port.host_port and container.restart_policy == SIDECAR:
                host_ports = (host_ports or set()) | {_host_port(port)}
    return frozenset(host_ports) if host_ports else NO_HOST_PORTS


def have_conflict(one: HostPorts, other: HostPorts) -> bool:
    """Return whether two sets of host ports conflict on one node."""
    return any(
        (a.number, a.protocol) == (b.number, b.protocol)
        and (BIND_ALL_HOST_IP in {a.address, b.address} or a.address == b.address)
        for a in one
        for b in other
    )


def _host_port(port: ContainerPort) -> HostPort:
    return HostPort(port.host_port, port.protocol or TCP, port.host_ip or BIND_ALL_HOST_IP)
