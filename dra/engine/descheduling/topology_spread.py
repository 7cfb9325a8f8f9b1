"""Hard topology spread constraints: kube-scheduler's filter PodTopologySpread.

A pod may go to a domain if the domain then has at most ``maxSkew`` more matching pods than the domain with the fewest.
Domains are those of the nodes that have the topology keys of all hard constraints and, as the policies of a constraint
say, that the pod selects and tolerates; a node that is not ready counts. With fewer domains than ``minDomains`` the
fewest are 0. Terminating pods do not count. An empty selector counts no pod but matches the pod itself, as upstream.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from dra.engine.descheduling.candidate import Candidate, Demand
from dra.engine.descheduling.label_groups import LabelGroup, LabelGroups, TooManySelectionsError
from dra.engine.descheduling.label_selectors import with_label_keys
from dra.engine.descheduling.node_labels import NodeLabels
from dra.engine.descheduling.node_selection import NodeSelection
from dra.engine.descheduling.pods import DeschedulingPod, TopologySpreadConstraint
from dra.engine.reservations.capacity_index import NodeSet

MISSING_LABEL: Final = "node(s) didn't match pod topology spread constraints (missing required label)"
SKEW: Final = "node(s) didn't match pod topology spread constraints"

_HARD: Final = "DoNotSchedule"
_HONOR: Final = "Honor"
_NO_LABELS: Final[Mapping[str, str]] = {}


def hard_constraints(pod: DeschedulingPod) -> list[TopologySpreadConstraint]:
    """Return the constraints of a pod that a scheduler may not violate."""
    return [
        constraint
        for constraint in pod.spec.topology_spread_constraints or ()
        if constraint.when_unsatisfiable == _HARD
    ]


@dataclass(slots=True, eq=False)
class _Constraint:
    demand: Demand
    constraint: TopologySpreadConstraint
    matches_itself: bool
    counts_itself: bool
    """Whether the pods of the demand are among those that count."""
    eligible: NodeSet
    """The nodes whose pods and domains count."""
    domains: int
    """The number of domains that count."""
    counts: dict[str, int] = field(default_factory=dict)
    """Domain → number of matching pods, without domains that have none."""


class SpreadSets(NamedTuple):
    """The nodes that have the topology keys, and those that a pod may go to without too much skew."""

    labelled: NodeSet
    balanced: NodeSet


class TopologySpread:
    """The filter, over all nodes at once."""

    def __init__(self, labels: NodeLabels, groups: LabelGroups, selection: NodeSelection) -> None:
        """Create the filter; ``groups`` are all pods."""
        self._labels = labels
        self._groups = groups
        self._selection = selection
        self._constraints: dict[Demand, tuple[_Constraint, ...]] = {}
        self._by_group: dict[LabelGroup, list[_Constraint]] = {}
        """Pods → the constraints that count these."""
        self._sets: dict[Demand, dict[str, tuple[SpreadSets, SpreadSets]]] = {}
        """Demand → node of a pod → the nodes that pass while the pod runs, and after it has gone."""

    def nodes(self, candidate: Candidate) -> NodeSet:
        """Return the nodes that pass, while the pod runs where it is and after it has gone."""
        if not self._constraints_of(candidate.demand):
            return self._labels.all
        (labelled, while_running), (_, after) = self._both(candidate)
        return labelled & while_running & after

    def reason(self, candidate: Candidate, node: NodeSet, *, is_own: bool) -> str:
        """Return why a single node does not pass; ``is_own``: it is the node of the pod, which does not count there."""
        if not self._constraints_of(candidate.demand):
            return ""
        (labelled, while_running), (_, after) = self._both(candidate)
        if not labelled & node:
            return MISSING_LABEL
        return "" if node & after and (is_own or node & while_running) else SKEW

    def move(self, pod: DeschedulingPod, *, before: str, after: str) -> None:
        """Count a pod on another node; on none if ``after`` is empty."""
        for constraint in self._by_group.get(self._groups.group(pod), ()):
            self._count(constraint, before, -1)
            self._count(constraint, after, 1)
            self._sets.pop(constraint.demand, None)

    def _both(self, candidate: Candidate) -> tuple[SpreadSets, SpreadSets]:
        by_node = self._sets.setdefault(candidate.demand, {})
        known = by_node.get(candidate.node)
        if known is None:
            known = by_node[candidate.node] = (
                self._passing(candidate.demand, without=""),
                self._passing(candidate.demand, without=candidate.node),
            )
        return known

    def _passing(self, demand: Demand, *, without: str) -> SpreadSets:
        """Return the nodes that pass if a pod of the demand on a node does not count."""
        labelled = balanced = self._labels.all
        for spread in self._constraints_of(demand):
            key = spread.constraint.topology_key
            labelled &= self._labels.with_key(key)
            counts = spread.counts
            if spread.counts_itself and self._labels.single(without) & spread.eligible:
                domain = self._labels.value(without, key) or ""
                counts = {value: count - (value == domain) for value, count in counts.items()}
                if not counts.get(domain):
                    counts.pop(domain, None)
            is_complete = spread.domains >= (spread.constraint.min_domains or 1)
            fewest = min(counts.values()) if is_complete and len(counts) >= spread.domains else 0
            allowed = fewest + spread.constraint.max_skew - spread.matches_itself
            balanced &= self._with_at_most(allowed, counts, key)
        return SpreadSets(labelled, labelled & balanced)

    def _count(self, constraint: _Constraint, node: str, number: int) -> None:
        """Add to the number of matching pods in the domain of a node, if the node counts."""
        if self._labels.single(node) & constraint.eligible:
            domain = self._labels.value(node, constraint.constraint.topology_key) or ""
            total = constraint.counts.get(domain, 0) + number
            if total:
                constraint.counts[domain] = total
            else:
                constraint.counts.pop(domain, None)

    def _with_at_most(self, allowed: int, counts: Mapping[str, int], key: str) -> NodeSet:
        """Return the nodes of the domains with at most so many matching pods."""
        if allowed < 0:
            return 0
        passing, values = self._labels.all, self._labels.values(key)
        for value, number in counts.items():
            if number > allowed:
                passing &= ~values[value]
        return passing

    def _constraints_of(self, demand: Demand) -> tuple[_Constraint, ...]:
        known = self._constraints.get(demand)
        if known is None:
            hard = hard_constraints(demand.example)
            eligible = self._labels.all
            for constraint in hard:
                eligible &= self._labels.with_key(constraint.topology_key)
            try:
                known = tuple(self._constraint(constraint, demand, eligible) for constraint in hard)
            except TooManySelectionsError as error:
                known, demand.problem = (), str(error)
            self._constraints[demand] = known
        return known

    def _constraint(self, constraint: TopologySpreadConstraint, demand: Demand, eligible: NodeSet) -> _Constraint:
        meta = demand.example.metadata
        labels = meta.labels or _NO_LABELS
        if constraint.node_affinity_policy == _HONOR:
            eligible &= self._selection.selected(demand)
        if constraint.node_taints_policy == _HONOR:
            eligible &= self._selection.tolerated(demand)
        selector = with_label_keys(constraint.label_selector, labels, match=constraint.match_label_keys)
        groups: list[LabelGroup] = []
        if selector is not None and not selector.is_empty:
            groups = self._groups.selected(selector, [meta.namespace], asked_by=meta.namespace)
            groups = [group for group in groups if not group.is_terminating]
        spread = _Constraint(
            demand=demand,
            constraint=constraint,
            matches_itself=selector is not None and selector.selects(labels),
            counts_itself=self._groups.group(demand.example) in groups,
            eligible=eligible,
            domains=self._labels.count_domains(constraint.topology_key, eligible),
        )
        for group in groups:
            self._by_group.setdefault(group, []).append(spread)
            for node, number in group.nodes.items():
                self._count(spread, node, number)
        return spread
