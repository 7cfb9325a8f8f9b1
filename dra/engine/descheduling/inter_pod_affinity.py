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
from dra.engine.descheduling.label_groups import LabelGroup, LabelGroups, TooManySelectionsError, counted
from dra.engine.descheduling.label_selectors import with_label_keys
from dra.engine.descheduling.node_labels import NodeLabels
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.reservations.capacity_index import NodeSet
from dra.model.pod_affinity import PodAffinityTerm
from dra.model.preemption import LabelSelector

AFFINITY: Final = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY: Final = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY: Final = "node(s) didn't satisfy existing pods anti-affinity rules"

Namespaces = Mapping[str, Mapping[str, str]]
"""Namespace → its labels; a namespace that is not known has none."""
_NO_LABELS: Final[Mapping[str, str]] = {}

TERMS_MAX: Final = 256
"""Maximum different terms of running pods that may match the pods of a namespace with a label."""


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


_Bucket = tuple[str, tuple[str, str] | None]
"""Namespace whose pods a term may match, empty for several namespaces; and a label that they have, None for any."""


class _ExistingTerms:
    """The anti-affinity terms of all pods, in buckets by namespace and label of the pods that they may match.

    A bucket has a maximum number of different terms: whoever creates pods can give each another term, and each question
    would look at all of them. Further terms count as if they matched every pod of the bucket.
    """

    def __init__(self, pods: Iterable[DeschedulingPod], labels: NodeLabels, namespaces: Namespaces) -> None:
        self._labels = labels
        self._namespaces = namespaces
        self._terms: dict[bytes, _ExistingTerm] = {}
        self._buckets: dict[_Bucket, list[_ExistingTerm]] = {}
        for pod in pods:
            if not pod.terminal:
                for term in self.of(pod):
                    if node := pod.spec.node_name:
                        term.nodes[node] = term.nodes.get(node, 0) + 1

    def of(self, pod: DeschedulingPod) -> Iterable[_ExistingTerm]:
        """Return the terms of a pod whose topology key some node has, each once."""
        terms = anti_affinity_terms(pod)
        if not terms:
            return ()
        known = (self._known(term, pod) for term in terms if self._labels.values(term.topology_key))
        return {id(term): term for term in known if term is not None}.values()

    def matching(self, pod: DeschedulingPod) -> list[_ExistingTerm]:
        """Return the terms that match a pod."""
        if not self._buckets:
            return []
        labels = (None, *(pod.metadata.labels or _NO_LABELS).items())
        return [
            existing
            for namespace in ("", pod.metadata.namespace)
            for label in labels
            for existing in self._buckets.get((namespace, label), ())
            if matches_term(existing.term, carrier=existing.carrier, pod=pod, namespaces=self._namespaces)
        ]

    def _known(self, term: PodAffinityTerm, pod: DeschedulingPod) -> _ExistingTerm | None:
        """Return the one object for equal terms; None for a term that matches no pod."""
        selector = _selector(term, pod)
        if selector is None:
            return None
        key = msgspec.json.encode((pod.metadata.namespace, term, selector))
        known = self._terms.get(key)
        if known is None:
            bucket = self._buckets.setdefault(_bucket_of(term, selector, pod), [])
            if len(bucket) >= TERMS_MAX and (wide := _widened(term, selector)) != term:
                return self._known(wide, pod)
            known = self._terms[key] = _ExistingTerm(term, pod)
            bucket.append(known)
        return known


def _bucket_of(term: PodAffinityTerm, selector: LabelSelector, carrier: DeschedulingPod) -> _Bucket:
    # The last label by name: labels that tell workloads apart sort behind those that workloads share ("app").
    label = max(selector.match_labels.items()) if selector.match_labels else None
    is_wide = bool(term.namespaces) or term.namespace_selector is not None
    return ("" if is_wide else carrier.metadata.namespace, label)


def _widened(term: PodAffinityTerm, selector: LabelSelector) -> PodAffinityTerm:
    """Return the term of the same topology key that matches all pods of the term's bucket."""
    label = dict([max(selector.match_labels.items())]) if selector.match_labels else None
    is_wide = bool(term.namespaces) or term.namespace_selector is not None
    return PodAffinityTerm(
        topology_key=term.topology_key,
        label_selector=LabelSelector(match_labels=label),
        namespace_selector=LabelSelector() if is_wide else None,
    )


class _Terms(NamedTuple):
    """The pods that the terms of a demand look at, and the terms of others that concern the demand."""

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
        self._existing = _ExistingTerms(pods, labels, namespaces)
        self._terms: dict[Demand, _Terms | None] = {}
        self._by_group: dict[LabelGroup, list[Demand]] = {}
        """Pods → the demands whose terms look at these."""
        self._by_term: dict[int, list[Demand]] = {}
        """Identity of an existing term → the demands that it concerns."""
        self._sets: dict[Demand, dict[str, tuple[AffinitySets, AffinitySets]]] = {}
        """Demand → node of a pod → the nodes that pass while the pod runs, and after it has gone."""

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
        concerned = list(self._by_group.get(self._groups.group(pod), ()))
        for term in self._existing.of(pod):
            concerned += self._by_term.get(id(term), ())
            if after:
                term.nodes[after] = term.nodes.get(after, 0) + 1
        for demand in concerned:
            self._sets.pop(demand, None)

    def _both(self, candidate: Candidate, terms: _Terms) -> tuple[AffinitySets, AffinitySets]:
        by_node = self._sets.setdefault(candidate.demand, {})
        known = by_node.get(candidate.node)
        if known is None:
            known = by_node[candidate.node] = (
                self._passing(terms, without=""),
                self._passing(terms, without=candidate.node),
            )
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
        for labelled in attracted:
            passing &= labelled
        return passing

    def _repelled(self, terms: _Terms, without: str) -> NodeSet:
        repelled = 0
        for key, groups in terms.anti_affinity:
            nodes = _less(counted(groups), without if terms.group in groups else "")
            repelled |= self._labels.domains(key, (*nodes, *(node for group in groups for node in group.left)))
        return repelled

    def _repelled_by_others(self, terms: _Terms, without: str) -> NodeSet:
        repelled = 0
        for existing in terms.existing:
            nodes = _less(existing.nodes, without if id(existing) in terms.own else "")
            repelled |= self._labels.domains(existing.term.topology_key, nodes)
        return repelled

    def _terms_of(self, demand: Demand) -> _Terms | None:
        """Return what the filter looks at for a demand; None if nothing concerns the demand."""
        if demand in self._terms:
            return self._terms[demand]
        try:
            terms = self._find_terms(demand.example)
        except TooManySelectionsError as error:
            terms, demand.problem = None, str(error)
        self._terms[demand] = terms
        if terms is not None:
            for group in {*terms.attracting, *(group for _, groups in terms.anti_affinity for group in groups)}:
                self._by_group.setdefault(group, []).append(demand)
            for term in terms.existing:
                self._by_term.setdefault(id(term), []).append(demand)
        return terms

    def _find_terms(self, pod: DeschedulingPod) -> _Terms | None:
        affinity, anti, existing = affinity_terms(pod), anti_affinity_terms(pod), self._existing.matching(pod)
        if not (affinity or anti or existing):
            return None
        selected = [self._matched(term, pod) for term in affinity]
        return _Terms(
            affinity_keys=tuple(term.topology_key for term in affinity),
            attracting=_in_all(selected),
            attracts_itself=all(
                matches_term(term, carrier=pod, pod=pod, namespaces=self._namespaces) for term in affinity
            ),
            anti_affinity=tuple((term.topology_key, self._matched(term, pod)) for term in anti),
            existing=existing,
            group=self._groups.group(pod),
            own=frozenset(id(term) for term in self._existing.of(pod)),
        )

    def _matched(self, term: PodAffinityTerm, pod: DeschedulingPod) -> list[LabelGroup]:
        """Return the pods that a term of a pod matches."""
        namespace = pod.metadata.namespace
        return self._groups.selected(_selector(term, pod), self._namespaces_of(term, namespace), asked_by=namespace)

    def _namespaces_of(self, term: PodAffinityTerm, own: str) -> Iterator[str]:
        if not term.namespaces and term.namespace_selector is None:
            yield own
            return
        for namespace in self._groups.namespaces if term.namespace_selector is not None else set(term.namespaces or ()):
            if _in_namespaces(term, own, namespace, self._namespaces):
                yield namespace


def _in_all(selected: list[list[LabelGroup]]) -> list[LabelGroup]:
    """Return the groups that are in all lists; none without lists."""
    if not selected:
        return []
    others = [{id(group) for group in groups} for groups in selected[1:]]
    return [group for group in selected[0] if all(id(group) in ids for ids in others)]


def _less(nodes: Mapping[str, int], without: str) -> Iterable[str]:
    """Return the nodes with pods if one of the pods of a node does not count."""
    return nodes if nodes.get(without) != 1 else [node for node in nodes if node != without]
