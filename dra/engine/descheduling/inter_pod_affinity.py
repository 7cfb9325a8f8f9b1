"""Required affinity and anti-affinity between pods: kube-scheduler's filter InterPodAffinity, in both directions.

A term counts pods in the topology domains of nodes. A node without the topology key is in no domain: no affinity is
satisfied there, and no anti-affinity violated. The first pod of a workload whose pods attract each other may go
anywhere. The anti-affinity of a running pod keeps others away from its domain just as its own keeps it from theirs. A
pod that moves repels and is repelled on both nodes until it has gone.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from dra.engine.descheduling.candidate import Candidate, Demand
from dra.engine.descheduling.label_groups import LabelGroup, LabelGroups, counted
from dra.engine.descheduling.label_selectors import with_label_keys
from dra.engine.descheduling.node_labels import NodeLabels
from dra.engine.descheduling.pods import DeschedulingPod, PodAffinityTerm
from dra.engine.reservations.capacity_index import NodeSet
from dra.model.preemption import LabelSelector

AFFINITY: Final = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY: Final = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY: Final = "node(s) didn't satisfy existing pods anti-affinity rules"

Namespaces = Mapping[str, Mapping[str, str]]
"""Namespace → its labels; a namespace that is not known has none."""
_NO_LABELS: Final[Mapping[str, str]] = {}


def affinity_terms(pod: DeschedulingPod) -> list[PodAffinityTerm]:
    """Return the required affinity terms of a pod."""
    affinity = pod.spec.affinity.pod_affinity if pod.spec.affinity is not None else None
    return (affinity.required_during_scheduling_ignored_during_execution or []) if affinity is not None else []


def anti_affinity_terms(pod: DeschedulingPod) -> list[PodAffinityTerm]:
    """Return the required anti-affinity terms of a pod."""
    affinity = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity is not None else None
    return (affinity.required_during_scheduling_ignored_during_execution or []) if affinity is not None else []


def matches_term(
    term: PodAffinityTerm, *, carrier: DeschedulingPod, pod: DeschedulingPod, namespaces: Namespaces
) -> bool:
    """Return whether a term of one pod, the carrier, matches another pod, wherever both are."""
    return _in_namespaces(term, carrier.metadata.namespace, pod.metadata.namespace, namespaces) and _selects_labels(
        _selector(term, carrier), pod.metadata.labels or _NO_LABELS
    )


def _in_namespaces(term: PodAffinityTerm, own: str, namespace: str, namespaces: Namespaces) -> bool:
    if not term.namespaces and term.namespace_selector is None:
        return namespace == own
    return namespace in (term.namespaces or ()) or _selects_labels(
        term.namespace_selector, namespaces.get(namespace, _NO_LABELS)
    )


def _selects_labels(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    return selector is not None and selector.selects(labels)


def _selector(term: PodAffinityTerm, carrier: DeschedulingPod) -> LabelSelector | None:
    return with_label_keys(
        term.label_selector,
        carrier.metadata.labels or _NO_LABELS,
        match=term.match_label_keys,
        mismatch=term.mismatch_label_keys,
    )


@dataclass(slots=True, eq=False)
class _ExistingTerm:
    """An anti-affinity term that running pods have, with the pods that have it."""

    term: PodAffinityTerm
    carrier: DeschedulingPod
    """One of the pods."""
    nodes: dict[str, int] = field(default_factory=dict)
    """Node → number of these pods there."""


class _ExistingTerms:
    """The anti-affinity terms of all pods, by one label that the pods which a term matches must have."""

    def __init__(self, pods: Iterable[DeschedulingPod], namespaces: Namespaces) -> None:
        self._namespaces = namespaces
        self._terms: dict[bytes, _ExistingTerm] = {}
        self._by_label: dict[tuple[str, str], list[_ExistingTerm]] = {}
        self._others: list[_ExistingTerm] = []
        for pod in pods:
            if not pod.terminal:
                for term in self.of(pod):
                    if node := pod.spec.node_name:
                        term.nodes[node] = term.nodes.get(node, 0) + 1

    def of(self, pod: DeschedulingPod) -> Iterable[_ExistingTerm]:
        """Return the terms of a pod, each once."""
        terms = anti_affinity_terms(pod)
        return {id(known): known for known in (self._known(term, pod) for term in terms)}.values() if terms else ()

    def matching(self, pod: DeschedulingPod) -> list[_ExistingTerm]:
        """Return the terms that match a pod."""
        labels = (pod.metadata.labels or _NO_LABELS).items()
        likely = [each for label in labels for each in self._by_label.get(label, ())] if self._by_label else []
        return [
            each
            for each in (*likely, *self._others)
            if matches_term(each.term, carrier=each.carrier, pod=pod, namespaces=self._namespaces)
        ]

    def _known(self, term: PodAffinityTerm, pod: DeschedulingPod) -> _ExistingTerm:
        selector = _selector(term, pod)
        key = msgspec.json.encode((pod.metadata.namespace, term, selector))
        known = self._terms.get(key)
        if known is None:
            known = self._terms[key] = _ExistingTerm(term, pod)
            wanted = selector.match_labels if selector is not None else None
            if wanted:
                # The last by name: labels that tell workloads apart sort behind those that workloads share ("app").
                self._by_label.setdefault(max(wanted.items()), []).append(known)
            elif selector is not None:
                self._others.append(known)
        return known


class _Terms(NamedTuple):
    """What the terms of a demand, and the terms of others about the demand, look at."""

    affinity_keys: tuple[str, ...]
    attracting: list[LabelGroup]
    """The pods that match all affinity terms."""
    attracts_itself: bool
    anti_affinity: tuple[tuple[str, list[LabelGroup]], ...]
    """Topology key of each anti-affinity term, with the pods that the term matches."""
    existing: list[_ExistingTerm]
    group: LabelGroup
    own: AbstractSet[int]
    """Identities of the existing terms that the pods of the demand have themselves."""


class AffinitySets(NamedTuple):
    """The nodes that satisfy each part of the filter."""

    affinity: NodeSet
    anti_affinity: NodeSet
    existing: NodeSet


class InterPodAffinity:
    """The filter, over all nodes at once."""

    def __init__(
        self, labels: NodeLabels, groups: LabelGroups, pods: Iterable[DeschedulingPod], namespaces: Namespaces
    ) -> None:
        """Index the terms of ``pods``; ``groups`` are all pods."""
        self._labels = labels
        self._groups = groups
        self._namespaces = namespaces
        self._existing = _ExistingTerms(pods, namespaces)
        self._terms: dict[Demand, _Terms | None] = {}
        self._sets: dict[tuple[Demand, str], tuple[AffinitySets, AffinitySets]] = {}

    def nodes(self, candidate: Candidate) -> NodeSet:
        """Return the nodes that pass, while the pod runs where it is and after it has gone."""
        terms = self._terms_of(candidate.demand)
        if terms is None:
            return self._labels.all
        (one, two, three), (four, five, six) = self._both(candidate, terms)
        return one & two & three & four & five & six

    def reason(self, candidate: Candidate, node: NodeSet, *, is_own: bool) -> str:
        """Return why a single node does not pass; ``is_own``: it is the node of the pod, which does not count there."""
        terms = self._terms_of(candidate.demand)
        if terms is None:
            return ""
        while_running, after = self._both(candidate, terms)
        for sets in (after,) if is_own else (while_running, after):
            for passing, text in zip(sets, (AFFINITY, ANTI_AFFINITY, EXISTING_ANTI_AFFINITY), strict=True):
                if not passing & node:
                    return text
        return ""

    def move(self, pod: DeschedulingPod, *, after: str) -> None:
        """Note that a pod counts on another node as well; the caller has moved the pod in the groups."""
        self._sets.clear()
        for term in self._existing.of(pod):
            if after:
                term.nodes[after] = term.nodes.get(after, 0) + 1

    def _both(self, candidate: Candidate, terms: _Terms) -> tuple[AffinitySets, AffinitySets]:
        key = (candidate.demand, candidate.node)
        known = self._sets.get(key)
        if known is None:
            known = self._sets[key] = (self._passing(terms, without=""), self._passing(terms, without=candidate.node))
        return known

    def _passing(self, terms: _Terms, *, without: str) -> AffinitySets:
        """Return the nodes that pass if a pod of the demand on a node does not count."""
        return AffinitySets(
            self._satisfying_affinity(terms, without),
            self._labels.all & ~self._repelled(terms, without),
            self._labels.all & ~self._repelled_by_others(terms, without),
        )

    def _satisfying_affinity(self, terms: _Terms, without: str) -> NodeSet:
        passing = self._labels.all
        if not terms.affinity_keys:
            return passing
        nodes = _less(counted(terms.attracting), without if terms.group in terms.attracting else "")
        attracted = [self._labels.domains(key, nodes) for key in terms.affinity_keys]
        if not any(attracted) and terms.attracts_itself:
            attracted = [self._labels.with_key(key) for key in terms.affinity_keys]
        for each in attracted:
            passing &= each
        return passing

    def _repelled(self, terms: _Terms, without: str) -> NodeSet:
        repelled = 0
        for key, groups in terms.anti_affinity:
            nodes = _less(counted(groups), without if terms.group in groups else "")
            repelled |= self._labels.domains(key, (*nodes, *(node for group in groups for node in group.left)))
        return repelled

    def _repelled_by_others(self, terms: _Terms, without: str) -> NodeSet:
        repelled = 0
        for each in terms.existing:
            nodes = _less(each.nodes, without if id(each) in terms.own else "")
            repelled |= self._labels.domains(each.term.topology_key, nodes)
        return repelled

    def _terms_of(self, demand: Demand) -> _Terms | None:
        """Return what the filter looks at for a demand; None if nothing concerns the demand."""
        if demand in self._terms:
            return self._terms[demand]
        pod = demand.example
        affinity, anti, existing = affinity_terms(pod), anti_affinity_terms(pod), self._existing.matching(pod)
        found = None
        if affinity or anti or existing:
            selected = [self._matched(term, pod) for term in affinity]
            found = _Terms(
                affinity_keys=tuple(term.topology_key for term in affinity),
                attracting=[g for g in selected[0] if all(g in others for others in selected[1:])] if selected else [],
                attracts_itself=all(
                    matches_term(term, carrier=pod, pod=pod, namespaces=self._namespaces) for term in affinity
                ),
                anti_affinity=tuple((term.topology_key, self._matched(term, pod)) for term in anti),
                existing=existing,
                group=self._groups.group(pod),
                own=frozenset(id(each) for each in self._existing.of(pod)),
            )
        self._terms[demand] = found
        return found

    def _matched(self, term: PodAffinityTerm, pod: DeschedulingPod) -> list[LabelGroup]:
        """Return the pods that a term of a pod matches."""
        return self._groups.selected(_selector(term, pod), self._namespaces_of(term, pod.metadata.namespace))

    def _namespaces_of(self, term: PodAffinityTerm, own: str) -> Iterator[str]:
        if not term.namespaces and term.namespace_selector is None:
            yield own
            return
        for namespace in self._groups.namespaces if term.namespace_selector is not None else set(term.namespaces or ()):
            if _in_namespaces(term, own, namespace, self._namespaces):
                yield namespace


def _less(nodes: Mapping[str, int], without: str) -> Iterable[str]:
    """Return the nodes with pods if one of the pods of a node does not count."""
    return nodes if nodes.get(without) != 1 else [node for node in nodes if node != without]
