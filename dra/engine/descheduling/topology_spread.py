"""Hard topology spread constraints: kube-scheduler's filter PodTopologySpread.

A pod may go to a domain if the domain then has at most ``maxSkew`` more matching pods than the domain with the fewest.
Domains are those of the nodes that have the topology keys of all hard constraints and, as the policies of a constraint
say, that the pod selects and tolerates; a node that is not ready counts. With fewer domains than ``minDomains`` the
fewest are 0. Terminating pods do not count. An empty selector counts no pod but matches the pod itself, as upstream.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from dra.engine.descheduling.candidate import Candidate, Demand
from dra.engine.descheduling.label_groups import LabelGroup, LabelGroups, counted
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
    return [each for each in pod.spec.topology_spread_constraints or () if each.when_unsatisfiable == _HARD]


class _Constraint(NamedTuple):
    constraint: TopologySpreadConstraint
    groups: list[LabelGroup]
    """The pods that count."""
    matches_itself: bool
    eligible: NodeSet
    """The nodes whose pods and domains count."""
    domains: int
    """The number of domains that count."""


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
        self._sets: dict[tuple[Demand, str], tuple[SpreadSets, SpreadSets]] = {}

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

    def move(self) -> None:
        """Note that a pod counts on another node."""
        self._sets.clear()

    def _both(self, candidate: Candidate) -> tuple[SpreadSets, SpreadSets]:
        key = (candidate.demand, candidate.node)
        known = self._sets.get(key)
        if known is None:
            known = self._sets[key] = (
                self._passing(candidate.demand, without=""),
                self._passing(candidate.demand, without=candidate.node),
            )
        return known

    def _passing(self, demand: Demand, *, without: str) -> SpreadSets:
        """Return the nodes that pass if a pod of the demand on a node does not count."""
        labelled = balanced = self._labels.all
        own = self._groups.group(demand.example)
        for each in self._constraints_of(demand):
            labelled &= self._labels.with_key(each.constraint.topology_key)
            counts = self._counts(each, without=without if own in each.groups else "")
            is_complete = each.domains >= (each.constraint.min_domains or 1)
            fewest = min(counts.values()) if is_complete and len(counts) >= each.domains else 0
            allowed = fewest + each.constraint.max_skew - each.matches_itself
            balanced &= self._with_at_most(allowed, counts, each.constraint.topology_key)
        return SpreadSets(labelled, labelled & balanced)

    def _counts(self, constraint: _Constraint, *, without: str) -> dict[str, int]:
        """Return the numbers of matching pods by domain, without domains that have none."""
        key, counts = constraint.constraint.topology_key, dict[str, int]()
        for node, number in counted(constraint.groups).items():
            if number - (node == without) > 0 and self._labels.single(node) & constraint.eligible:
                value = self._labels.value(node, key) or ""
                counts[value] = counts.get(value, 0) + number - (node == without)
        return counts

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
            for each in hard:
                eligible &= self._labels.with_key(each.topology_key)
            known = self._constraints[demand] = tuple(self._constraint(each, demand, eligible) for each in hard)
        return known

    def _constraint(self, constraint: TopologySpreadConstraint, demand: Demand, eligible: NodeSet) -> _Constraint:
        meta = demand.example.metadata
        labels = meta.labels or _NO_LABELS
        if constraint.node_affinity_policy == _HONOR:
            eligible &= self._selection.selected(demand)
        if constraint.node_taints_policy == _HONOR:
            eligible &= self._selection.tolerated(demand)
        selector = with_label_keys(constraint.label_selector, labels, match=constraint.match_label_keys)
        groups = []
        if selector is not None and not selector.is_empty:
            groups = [g for g in self._groups.selected(selector, [meta.namespace]) if not g.is_terminating]
        return _Constraint(
            constraint=constraint,
            groups=groups,
            matches_itself=selector is not None and selector.selects(labels),
            eligible=eligible,
            domains=self._labels.count_domains(constraint.topology_key, eligible),
        )
