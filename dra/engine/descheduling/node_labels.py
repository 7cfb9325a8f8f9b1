"""The index of nodes by label: node selectors and topology domains as sets of nodes.

Thousands of nodes are selected in the time in which a few dozen are checked one by one: a set has one bit per node, as
in `dra.engine.reservations.capacity_index`.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from dra.engine.descheduling.node_names import NodeNumbers
from dra.engine.reservations.capacity_index import CapacityIndex, NodeSet
from dra.model.nodes import NodeSelector, NodeSelectorRequirement
from dra.model.scheduling import SchedulerNode, SchedulerPodSpec

_NO_VALUES: Final[Mapping[str, NodeSet]] = {}
_NAME: Final = "metadata.name"


class NodeLabels:
    """The nodes by label; nodes never change within a round."""

    def __init__(self, nodes: Iterable[SchedulerNode], index: CapacityIndex) -> None:
        """Index nodes that ``index`` knows already."""
        self._labels: dict[str, Mapping[str, str]] = {n.metadata.name: n.metadata.labels or {} for n in nodes}
        self._index = index
        self._keys = {key for labels in self._labels.values() for key in labels}
        self._values: dict[str, dict[str, NodeSet]] = {}
        self._value_of: dict[str, dict[str, str]] = {}
        """Label → node → its value; filled with `values`."""
        self._with_key: dict[str, NodeSet] = {}
        self.all: NodeSet = index.known
        self.numbers = NodeNumbers(index.names(index.known))
        """The nodes by number: they were counted before all others, so that these are the numbers of ``index``."""

    def single(self, node: str) -> NodeSet:
        """Return the set of one node; the empty set for a node that does not exist."""
        return self._index.single(node) & self.all

    def value(self, node: str, key: str) -> str | None:
        """Return the value of a label of a node; None without the node or the label."""
        return self._labels.get(node, {}).get(key)

    def values(self, key: str) -> Mapping[str, NodeSet]:
        """Return each value of a label with the nodes that have it: the domains of a topology key."""
        if key not in self._keys:  # whoever creates pods can name any number of keys
            return _NO_VALUES
        known = self._values.get(key)
        if known is None:
            known = self._values[key] = {}
            value_of = self._value_of[key] = {}
            for name, labels in self._labels.items():
                if (value := labels.get(key)) is not None:
                    value_of[name] = value
                    known[value] = known.get(value, 0) | self._index.single(name)
        return known

    def with_key(self, key: str) -> NodeSet:
        """Return the nodes that have a label."""
        known = self._with_key.get(key)
        if known is None:
            values = self.values(key)
            known = _union(values.values())
            if values:
                self._with_key[key] = known
        return known

    def domains(self, key: str, nodes: Iterable[str]) -> NodeSet:
        """Return the nodes in the same topology domains as the given ones; none for a node without the key."""
        values = self.values(key)
        if not values:
            return 0
        if self._are_single(key):
            return self.numbers.set_of(nodes) & self.with_key(key)
        there = set(map(self._value_of[key].get, nodes))
        return _union(values[value] for value in there if value is not None)

    def count_domains(self, key: str, nodes: NodeSet) -> int:
        """Return the number of topology domains that the given nodes are in."""
        if self._are_single(key):
            return (nodes & self.with_key(key)).bit_count()
        return sum(1 for there in self.values(key).values() if there & nodes)

    def _are_single(self, key: str) -> bool:
        """Return whether each node with a label is a domain of its own, as with the hostname."""
        return len(self.values(key)) == self.with_key(key).bit_count()

    def selected(self, spec: SchedulerPodSpec) -> NodeSet:
        """Return the nodes that the node selector and the required node affinity of a pod match."""
        nodes = self.all
        for key, value in (spec.node_selector or {}).items():
            nodes &= self.values(key).get(value, 0)
        if spec.affinity is not None and spec.affinity.node_affinity is not None:
            nodes &= self.matching(spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution)
        return nodes

    def matching(self, selector: NodeSelector | None) -> NodeSet:
        """Return the nodes that satisfy a node selector (`matches_node_selector`); None selects every node."""
        if selector is None:
            return self.all
        selected = 0
        for term in selector.node_selector_terms:
            expressions, fields = term.match_expressions or (), term.match_fields or ()
            if expressions or fields:
                nodes = self.all
                for requirement in expressions:
                    nodes &= self._with_label(requirement)
                for requirement in fields:
                    nodes &= self._with_field(requirement)
                selected |= nodes
        return selected

    def _with_label(self, requirement: NodeSelectorRequirement) -> NodeSet:
        values = self.values(requirement.key)
        match requirement.operator:
            case "In":
                return _union(values.get(value, 0) for value in requirement.values or ())
            case "NotIn":
                return self.all & ~_union(values.get(value, 0) for value in requirement.values or ())
            case _:
                without = self.all & ~self.with_key(requirement.key) if requirement.matches(None) else 0
                return without | _union(nodes for value, nodes in values.items() if requirement.matches(value))

    def _with_field(self, requirement: NodeSelectorRequirement) -> NodeSet:
        if requirement.key != _NAME:
            return self.all if requirement.matches(None) else 0
        named = _union(self._index.single(name) for name in requirement.values or () if name in self._labels)
        match requirement.operator:
            case "In":
                return named
            case "NotIn":
                return self.all & ~named
            case _:
                return _union(self._index.single(name) for name in self._labels if requirement.matches(name))


def _union(sets: Iterable[NodeSet]) -> NodeSet:
    union = 0
    for nodes in sets:
        union |= nodes
    return union
