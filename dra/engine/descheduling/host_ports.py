"""Host ports that pods use: kube-scheduler's filter NodePorts. What Reservations hold is checked with resources."""

from collections.abc import Collection

from dra.engine.descheduling.candidate import Candidate
from dra.engine.descheduling.node_labels import NodeLabels
from dra.engine.kube_scheduler import host_ports
from dra.engine.kube_scheduler.host_ports import HOST_PORTS_TAKEN, HostPorts
from dra.engine.reservations.capacity_index import NodeSet
from dra.model.meta import Uid


class UsedHostPorts:
    """The filter, over all nodes at once."""

    def __init__(self, labels: NodeLabels) -> None:
        """Create the filter without pods."""
        self._labels = labels
        self._by_number: dict[int, dict[tuple[Uid, str], HostPorts]] = {}
        """Number of a port → pods that use it with their nodes, and all their ports."""

    def add(self, uid: Uid, ports: HostPorts, *, node: str) -> None:
        """Count the ports of a pod on a node."""
        for port in ports:
            self._by_number.setdefault(port.number, {})[uid, node] = ports

    def remove(self, uid: Uid, ports: HostPorts, *, node: str) -> None:
        """Count the ports of a pod on a node no longer."""
        for port in ports:
            self._by_number.get(port.number, {}).pop((uid, node), None)

    def nodes(self, candidate: Candidate) -> NodeSet:
        """Return the nodes on which no pod uses a port that the candidate wants."""
        taken = 0
        for _, node in self._conflicts(candidate.demand.info.host_ports):
            taken |= self._labels.single(node)
        return self._labels.all & ~taken

    def reason(self, candidate: Candidate, name: str, *, gone: Collection[Uid] = ()) -> str:
        """Return why a node does not pass; the candidate itself, and the pods that are ``gone``, do not count there."""
        conflicts = self._conflicts(candidate.demand.info.host_ports)
        taken = any(node == name and uid != candidate.uid and uid not in gone for uid, node in conflicts)
        return HOST_PORTS_TAKEN if taken else ""

    def _conflicts(self, wanted: HostPorts) -> list[tuple[Uid, str]]:
        """Return the pods that use a wanted port, with their nodes."""
        return [
            user
            for port in wanted
            for user, ports in self._by_number.get(port.number, {}).items()
            if host_ports.have_conflict(wanted, ports)
        ]
