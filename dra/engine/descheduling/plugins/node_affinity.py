"""Evict pods whose node does not match their node affinity any more, or matches it worse than another node.

A pod goes only if a node that matches, or matches better, has room for it, even if the profile evicts without a place
(``nodeFit: false``): otherwise it would come back in every round, or stay Pending.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

import msgspec

from dra.api.descheduler.pod_plugin_args import NodeAffinityType, RemovePodsViolatingNodeAffinityArgs
from dra.engine.descheduling import pod_selection
from dra.engine.descheduling.plugin import Evict
from dra.engine.descheduling.pod_selection import Proposals
from dra.engine.descheduling.pods import DeschedulingPod, PreferredNodeAffinity, PreferredNodeTerm
from dra.engine.descheduling.snapshot import Snapshot, SnapshotNode
from dra.model.nodes import NodeSelector, matches_node_selector

MATCHES_PER_NAMESPACE: Final = 1_000_000
"""Number of times in a round that preferences of a namespace's pods are matched with nodes, about a second.

The authors of pods decide how many different preferences there are; pods beyond the number stay.
"""

_Weights: TypeAlias = Mapping[str, int]
"""Node → sum of the weights of the preferences that the node matches."""


class RemovePodsViolatingNodeAffinity:
    """Evicts pods that violate their required node affinity, or would run on a node that they prefer."""

    name = "RemovePodsViolatingNodeAffinity"
    Args = RemovePodsViolatingNodeAffinityArgs

    def deschedule(self, snapshot: Snapshot, args: RemovePodsViolatingNodeAffinityArgs) -> Proposals:
        """Yield the pods that are to run on another node, kind by kind."""
        preferences = _Preferences(snapshot)
        for kind in args.node_affinity_type:
            for host, pods in pod_selection.selected_pods(snapshot, args):
                for pod in pods:
                    match kind:
                        case NodeAffinityType.REQUIRED:
                            yield from _violating_required(pod, host)
                        case NodeAffinityType.PREFERRED:
                            yield from preferences.improving(pod, host)
        return preferences.note()


def _node_affinity(pod: DeschedulingPod) -> PreferredNodeAffinity:
    affinity = pod.spec.affinity
    return (affinity.node_affinity if affinity is not None else None) or PreferredNodeAffinity()


def _violating_required(pod: DeschedulingPod, host: SnapshotNode) -> Iterator[Evict]:
    """Yield a pod with a required node affinity if its node does not match that, or not its node selector."""
    required = _node_affinity(pod).required_during_scheduling_ignored_during_execution
    if required is not None and not pod.spec.selects_node(host.name, host.node.metadata.labels or {}):
        yield Evict(pod, "its node does not match its required node affinity", insists_on_place=True)


class _Preferences:
    """What nodes weigh for pods by their preferred node affinity."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._weights: dict[bytes, _Weights] = {}
        self._matches: Counter[str] = Counter()
        """Namespace → how many matches were made for its pods."""
        self._skipped: Counter[str] = Counter()
        """Namespace → how many of its pods stay because of that."""

    def improving(self, pod: DeschedulingPod, host: SnapshotNode) -> Iterator[Evict]:
        """Yield a pod with the nodes that weigh more for it than its own, if there are such nodes."""
        terms = _node_affinity(pod).preferred_during_scheduling_ignored_during_execution
        if not terms:
            return
        own = _weight(_selectors(terms), host)
        if own == sum(term.weight for term in terms):
            return
        weights = self._of_all_nodes(terms, namespace=pod.metadata.namespace)
        better = frozenset(name for name, weight in weights.items() if weight > own)
        if better:
            most = max(weights[name] for name in better)
            reason = f"other nodes match its preferred node affinity better (weight {most}, its own {own})"
            yield Evict(pod, reason, receivers=better, insists_on_place=True)

    def note(self) -> str | None:
        """Return how many pods were not looked at; None if all were."""
        if not self._skipped:
            return None
        namespace, count = max(self._skipped.items(), key=lambda skipped: (skipped[1], skipped[0]))
        return (
            f"{self._skipped.total()} pods stay, {count} of them in namespace {namespace}: their pods have too many "
            "different preferred node affinities to compare all nodes"
        )

    def _of_all_nodes(self, terms: list[PreferredNodeTerm], *, namespace: str) -> _Weights:
        key = msgspec.msgpack.encode(terms)
        known = self._weights.get(key)
        if known is not None:
            return known
        nodes, cost = self._snapshot.nodes, len(self._snapshot.nodes) * len(terms)
        if self._matches[namespace] + cost > MATCHES_PER_NAMESPACE:
            self._skipped[namespace] += 1
            return {}
        self._matches[namespace] += cost
        selectors = _selectors(terms)
        self._weights[key] = {name: _weight(selectors, host) for name, host in nodes.items()}
        return self._weights[key]


def _selectors(terms: list[PreferredNodeTerm]) -> list[tuple[int, NodeSelector]]:
    return [(term.weight, NodeSelector(node_selector_terms=[term.preference])) for term in terms]


def _weight(selectors: list[tuple[int, NodeSelector]], host: SnapshotNode) -> int:
    labels = host.node.metadata.labels
    return sum(
        weight for weight, selector in selectors if matches_node_selector(selector, name=host.name, labels=labels)
    )
