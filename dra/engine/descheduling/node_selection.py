"""Readiness, cordons, taints, node selectors and required node affinity: what a node is, whatever runs there."""

from typing import Final

from dra.engine.descheduling.candidate import Candidate, Demand
from dra.engine.descheduling.node_labels import NodeLabels
from dra.engine.reservations.capacity_index import NodeSet
from dra.model.nodes import UNSCHEDULABLE_TAINT, Taint
from dra.model.scheduling import SchedulerNode, Toleration

NOT_READY: Final = "node(s) were not ready"
UNSCHEDULABLE: Final = "node(s) were unschedulable"
NOT_SELECTED: Final = "node(s) didn't match Pod's node affinity/selector"


class NodeSelection:
    """The filters NodeUnschedulable, TaintToleration and NodeAffinity; a node that is not ready is out as well."""

    def __init__(self, nodes: dict[str, SchedulerNode], labels: NodeLabels) -> None:
        """Group the nodes by their taints."""
        self._nodes = nodes
        self._labels = labels
        self._ready: NodeSet = 0
        self._by_taints: dict[tuple[Taint, ...], NodeSet] = {}
        self._tolerated: dict[tuple[Toleration, ...], NodeSet] = {}
        self._selected: dict[Demand, NodeSet] = {}
        for name, node in nodes.items():
            bit, taints = labels.single(name), node.spec.filtering_taints
            self._by_taints[taints] = self._by_taints.get(taints, 0) | bit
            if node.ready:
                self._ready |= bit

    def nodes(self, candidate: Candidate) -> NodeSet:
        """Return the nodes that pass."""
        return self._ready & self.tolerated(candidate.demand) & self.selected(candidate.demand)

    def reason(self, candidate: Candidate, name: str) -> str:
        """Return why a node does not pass; empty if it does."""
        node, demand = self._nodes[name], candidate.demand
        if not node.ready:
            return NOT_READY
        if node.spec.unschedulable and not _tolerates(demand, UNSCHEDULABLE_TAINT):
            return UNSCHEDULABLE
        for taint in node.spec.filtering_taints:
            if not _tolerates(demand, taint):
                return f"node(s) had untolerated taint {taint}"
        return "" if demand.example.spec.selects_node(name, node.metadata.labels or {}) else NOT_SELECTED

    def selected(self, demand: Demand) -> NodeSet:
        """Return the nodes that a pod selects."""
        known = self._selected.get(demand)
        if known is None:
            known = self._selected[demand] = self._labels.selected(demand.example.spec)
        return known

    def tolerated(self, demand: Demand) -> NodeSet:
        """Return the nodes all of whose NoSchedule and NoExecute taints a pod tolerates."""
        known = self._tolerated.get(demand.tolerations)
        if known is None:
            known = 0
            for taints, nodes in self._by_taints.items():
                if all(_tolerates(demand, taint) for taint in taints):
                    known |= nodes
            self._tolerated[demand.tolerations] = known
        return known


def _tolerates(demand: Demand, taint: Taint) -> bool:
    return any(by.tolerates(taint) for by in demand.tolerations)
