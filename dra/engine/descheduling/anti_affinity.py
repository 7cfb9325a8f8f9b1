"""The pods that violate the required anti-affinity of a pod: an index, so that no pod is compared with all others.

Pods of a namespace with equal labels form a group, and a term is compared with groups. The number of comparisons for
the pods of one namespace is limited, since the authors of pods decide how many labels and terms differ.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from dra.engine.descheduling.inter_pod_affinity import anti_affinity_terms
from dra.engine.descheduling.label_selectors import with_label_keys
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.snapshot import Snapshot, SnapshotNode
from dra.model.meta import Struct, Uid
from dra.model.pod_affinity import PodAffinityTerm
from dra.model.preemption import LabelSelector

COMPARISONS_PER_NAMESPACE: Final = 1_000_000
"""Comparisons in a round for the terms of one namespace's pods, about a second; further pods stay."""


@dataclass(slots=True, eq=False)
class _Group:
    """Pods of one namespace with equal labels, by node."""

    labels: Mapping[str, str]
    nodes: dict[str, dict[Uid, DeschedulingPod]] = field(default_factory=dict)


class Conflict(Struct, frozen=True):
    """A term of a pod's required anti-affinity that another pod violates."""

    partner: DeschedulingPod
    topology_key: str
    domain: str
    """The value of the topology key on the nodes of both pods."""

    def __str__(self) -> str:
        other = "/".join(self.partner.metadata.key)
        return f"must not run beside pod {other} in {self.topology_key}={self.domain} (required anti-affinity)"


class AntiAffinityPartners:
    """The pods on nodes that a term of another pod may match."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._groups: dict[str, dict[frozenset[tuple[str, str]], _Group]] | None = None
        """Namespace → labels → group; None until the first term is looked at."""
        self._by_label: dict[tuple[str, str, str], list[_Group]] = {}
        """(namespace, key, value) of a label → the groups that have it."""
        self._matching: dict[bytes, list[_Group]] = {}
        self._domains: dict[str, dict[str, dict[str, None]]] = {}
        """Topology key → its value → names of nodes."""
        self._comparisons: Counter[str] = Counter()
        self._skipped: dict[Uid, str] = {}
        """Pod that was not looked at → its namespace."""

    def conflict(self, pod: DeschedulingPod, *, host: SnapshotNode) -> Conflict | None:
        """Return a conflict of a pod that runs on a node; None if there is none."""
        for term in anti_affinity_terms(pod):
            if (partner := self._partner(pod, term, host=host)) is not None:
                return Conflict(partner=partner, topology_key=term.topology_key, domain=host.labels[term.topology_key])
        return None

    def _partner(self, pod: DeschedulingPod, term: PodAffinityTerm, *, host: SnapshotNode) -> DeschedulingPod | None:
        """Return a pod in the same domain as `host` that a term of `pod`, which runs there, matches; None if none."""
        value = host.labels.get(term.topology_key)
        if value is None:
            return None
        domain = self._nodes_of(term.topology_key, value)
        namespace = pod.metadata.namespace
        if self._comparisons[namespace] > COMPARISONS_PER_NAMESPACE:
            self._skipped[pod.metadata.uid] = namespace
            return None
        groups = self._matching_groups(pod, term)
        self._comparisons[namespace] += len(groups)
        for group in groups:
            fewer, more = sorted((group.nodes, domain), key=len)
            for node in fewer:
                if node in more:
                    others = (other for uid, other in group.nodes[node].items() if uid != pod.metadata.uid)
                    if (partner := next(others, None)) is not None:
                        return partner
        return None

    def remove(self, pod: DeschedulingPod) -> None:
        """Leave out a pod that goes."""
        group = self._all_groups()[pod.metadata.namespace][frozenset((pod.metadata.labels or {}).items())]
        on_node = group.nodes[pod.spec.node_name]
        del on_node[pod.metadata.uid]
        if not on_node:
            del group.nodes[pod.spec.node_name]

    def note(self) -> str | None:
        """Return how many pods were not looked at; None if all were."""
        if not self._skipped:
            return None
        (namespace, count), *_ = Counter(self._skipped.values()).most_common(1)
        return (
            f"{len(self._skipped)} pods stay, {count} of them in namespace {namespace}: their anti-affinity has too "
            "many different terms and labels to compare all"
        )

    def _all_groups(self) -> dict[str, dict[frozenset[tuple[str, str]], _Group]]:
        if self._groups is None:
            self._groups = {}
            # Whether a pod of a node that is not ready still runs, nobody knows; it is replaced if the node stays away.
            for name in (name for name, host in self._snapshot.nodes.items() if host.node.ready):
                for pod in self._snapshot.nodes[name].pods.values():
                    if not pod.terminal and not pod.metadata.deleting:
                        self._add(pod, self._groups, node=name)
        return self._groups

    def _add(
        self, pod: DeschedulingPod, groups: dict[str, dict[frozenset[tuple[str, str]], _Group]], *, node: str
    ) -> None:
        namespace, labels = pod.metadata.namespace, pod.metadata.labels or {}
        of_namespace = groups.setdefault(namespace, {})
        key = frozenset(labels.items())
        group = of_namespace.get(key)
        if group is None:
            group = of_namespace[key] = _Group(labels)
            for name, value in labels.items():
                self._by_label.setdefault((namespace, name, value), []).append(group)
        group.nodes.setdefault(node, {})[pod.metadata.uid] = pod

    def _nodes_of(self, topology_key: str, value: str) -> Mapping[str, None]:
        """Return the nodes of a domain."""
        domains = self._domains.get(topology_key)
        if domains is None:
            domains = self._domains[topology_key] = {}
            for name, host in self._snapshot.nodes.items():
                if (own := host.labels.get(topology_key)) is not None:
                    domains.setdefault(own, {})[name] = None
        return domains.get(value, {})

    def _matching_groups(self, pod: DeschedulingPod, term: PodAffinityTerm) -> list[_Group]:
        """Return the groups that a term of a pod matches, wherever they run."""
        own = pod.metadata.labels or {}
        selector = with_label_keys(
            term.label_selector, own, match=term.match_label_keys, mismatch=term.mismatch_label_keys
        )
        if selector is None:
            return []
        namespaces = self._namespaces_of(pod, term)
        key = msgspec.msgpack.encode((sorted(namespaces), selector))
        known = self._matching.get(key)
        if known is None:
            candidates = list(self._candidates(namespaces, selector))
            self._comparisons[pod.metadata.namespace] += len(candidates)
            known = self._matching[key] = [group for group in candidates if selector.selects(group.labels)]
        return known

    def _candidates(self, namespaces: frozenset[str], selector: LabelSelector) -> Iterator[_Group]:
        """Yield the groups that have one of the labels that a selector requires, or all groups of the namespaces."""
        groups = self._all_groups()
        required = (selector.match_labels or {}).items()
        for namespace in namespaces:
            if required:
                yield from min((self._by_label.get((namespace, *label), []) for label in required), key=len)
            else:
                yield from groups.get(namespace, {}).values()

    def _namespaces_of(self, pod: DeschedulingPod, term: PodAffinityTerm) -> frozenset[str]:
        """Return the namespaces of a term; by default that of its pod."""
        named = frozenset(term.namespaces or ())
        if term.namespace_selector is None:
            return named or frozenset({pod.metadata.namespace})
        if term.namespace_selector.is_empty:
            return named | self._all_groups().keys()
        selected = self._snapshot.objects.namespaces.items()
        return named | {name for name, labels in selected if term.namespace_selector.selects(labels)}
