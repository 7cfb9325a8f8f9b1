"""Evict pods whose node does not match their node affinity any more, or matches it worse than another node.

A pod goes only if a node that matches, or matches better, has room for it, even if the profile evicts without a place
(``nodeFit: false``): otherwise it would come back in every round, or stay Pending.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from dra.api.descheduler.pod_plugin_args import NodeAffinityType, RemovePodsViolatingNodeAffinityArgs
from dra.engine.descheduling import pod_selection
from dra.engine.descheduling.plugin import Evict
from dra.engine.descheduling.pod_selection import Proposals
from dra.engine.descheduling.pods import DeschedulingPod, PreferredNodeAffinity, PreferredNodeTerm
from dra.engine.descheduling.snapshot import Snapshot, SnapshotNode
from dra.model.nodes import NodeSelector, matches_node_selector

MATCHES_PER_NAMESPACE: Final = 500_000
"""Number of times in a round that preferences of a namespace's pods are matched with nodes, about half a second.

The authors of pods decide how many different preferences there are; pods beyond the number stay.
"""


class RemovePodsViolatingNodeAffinity:
    """Evicts pods that violate their required node affinity, or would run on a node that they prefer."""

    name = "RemovePodsViolatingNodeAffinity"
    Args = RemovePodsViolatingNodeAffinityArgs

    def deschedule(self, snapshot: Snapshot, args: RemovePodsViolatingNodeAffinityArgs) -> Proposals:
        """Yield the pods that are to run on another node, kind by kind."""
        preferences = _Preferences(snapshot)
        for kind in args.node_affinity_type:
            for host, pods in pod_selection.selected_pods(snapshot, args):
                match kind:
                    case NodeAffinityType.REQUIRED:
                        yield from _violating_required(pods, host)
                    case NodeAffinityType.PREFERRED:
                        yield from preferences.improving(pods, host)
        return preferences.note()


def _node_affinity(pod: DeschedulingPod) -> PreferredNodeAffinity:
    affinity = pod.spec.affinity
    return (affinity.node_affinity if affinity is not None else None) or _NO_NODE_AFFINITY


_NO_NODE_AFFINITY: Final = PreferredNodeAffinity()


def _violating_required(pods: list[DeschedulingPod], host: SnapshotNode) -> Iterator[Evict]:
    """Yield the pods with a required node affinity whose node does not match that, or not their node selector."""
    labels = host.node.metadata.labels or {}
    violating = (
        pod
        for pod in pods
        if _node_affinity(pod).required_during_scheduling_ignored_during_execution is not None
        and not pod.spec.selects_node(host.name, labels)
    )
    for pod in pod_selection.cheapest_first(violating):
        yield Evict(pod, "its node does not match its required node affinity", insists_on_place=True)


class _Better(NamedTuple):
    """The nodes that weigh more for a pod than its own."""

    nodes: frozenset[str]
    weight: int
    """The greatest weight of these nodes."""


_NOTHING_BETTER: Final = _Better(nodes=frozenset(), weight=0)


class _Preferences:
    """The weights that nodes have for pods by their preferred node affinity."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._nodes_by_weight: dict[bytes, dict[int, list[str]]] = {}
        """Preferences → weight → the nodes with that weight."""
        self._better: dict[tuple[bytes, int], _Better] = {}
        self._matches: Counter[str] = Counter()
        """Namespace → how many matches were made for its pods."""
        self._skipped: Counter[str] = Counter()
        """Namespace → how many of its pods stay because of that."""

    def improving(self, pods: list[DeschedulingPod], host: SnapshotNode) -> Iterator[Evict]:
        """Yield the pods of a node for which other nodes weigh more, with these nodes."""
        unsatisfied = {pod.metadata.uid: own for pod in pods if (own := _improvable_weight(pod, host)) is not None}
        for pod in pod_selection.cheapest_first(pod for pod in pods if pod.metadata.uid in unsatisfied):
            own = unsatisfied[pod.metadata.uid]
            better = self._better_than(own, pod)
            if better.nodes:
                reason = f"other nodes match its preferred node affinity better (weight {better.weight}, its own {own})"
                yield Evict(pod, reason, receivers=better.nodes, insists_on_place=True)

    def note(self) -> str | None:
        """Return how many pods were not looked at; None if all were."""
        if not self._skipped:
            return None
        namespace, count = max(self._skipped.items(), key=lambda skipped: (skipped[1], skipped[0]))
        return (
            f"{self._skipped.total()} pods stay, {count} of them in namespace {namespace}: their pods have too many "
            "different preferred node affinities to compare all nodes"
        )

    def _better_than(self, own: int, pod: DeschedulingPod) -> _Better:
        terms = _preferred_terms(pod)
        key = msgspec.msgpack.encode(terms)
        if (key, own) not in self._better:
            by_weight = self._compare_nodes(key, terms, namespace=pod.metadata.namespace)
            if by_weight is None:
                return _NOTHING_BETTER
            weights = [weight for weight in by_weight if weight > own]
            nodes = frozenset(name for weight in weights for name in by_weight[weight])
            self._better[key, own] = _Better(nodes=nodes, weight=max(weights, default=0))
        return self._better[key, own]

    def _compare_nodes(
        self, key: bytes, terms: list[PreferredNodeTerm], *, namespace: str
    ) -> dict[int, list[str]] | None:
        """Return the nodes by what they weigh; None if too much was compared for the namespace already."""
        if (known := self._nodes_by_weight.get(key)) is not None:
            return known
        nodes = self._snapshot.nodes
        cost = len(nodes) * len(terms)
        if self._matches[namespace] + cost > MATCHES_PER_NAMESPACE:
            self._skipped[namespace] += 1
            return None
        self._matches[namespace] += cost
        selectors = _selectors(terms)
        by_weight = self._nodes_by_weight[key] = {}
        for name, host in nodes.items():
            by_weight.setdefault(_weight(selectors, host), []).append(name)
        return by_weight


def _preferred_terms(pod: DeschedulingPod) -> list[PreferredNodeTerm]:
    return _node_affinity(pod).preferred_during_scheduling_ignored_during_execution or []


def _improvable_weight(pod: DeschedulingPod, host: SnapshotNode) -> int | None:
    """Return what its own node weighs for a pod; None if no node can weigh more."""
    terms = _preferred_terms(pod)
    if not terms:
        return None
    own = _weight(_selectors(terms), host)
    return own if own < sum(term.weight for term in terms) else None


def _selectors(terms: list[PreferredNodeTerm]) -> list[tuple[int, NodeSelector]]:
    return [(term.weight, NodeSelector(node_selector_terms=[term.preference])) for term in terms]


def _weight(selectors: list[tuple[int, NodeSelector]], host: SnapshotNode) -> int:
    labels = host.node.metadata.labels
    return sum(
        weight for weight, selector in selectors if matches_node_selector(selector, name=host.name, labels=labels)
    )
