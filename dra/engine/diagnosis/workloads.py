"""The diagnosis of a workload: its claims, and the reasons of its pods, equal reasons counted.

Pods of a workload are mostly alike. Pods that differ only in names are explained once: what keeps a thousand pods from
being scheduled is one answer, found in the time of one.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

import msgspec

from dra.engine.claims.annotation_keys import unknown_annotations
from dra.engine.claims.consumers import CONSUMING, Stage, stage_of
from dra.engine.diagnosis import claims, pods
from dra.engine.diagnosis.claims import NAMED_PODS_MAX, ClaimDiagnosis, ConsumerCounts
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.pods import PodDiagnosis
from dra.engine.diagnosis.problem_codes import ProblemCode
from dra.engine.diagnosis.problems import Problem
from dra.engine.diagnosis.snapshot import PodController
from dra.model import pods as model
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, Struct, Uid
from dra.model.references import POD_GROUPS, MalformedReferenceError
from dra.model.scheduling import SchedulerPod
from dra.model.workload_reservations import NO_UID, workload_reservation

EXPLAINED_GROUPS_MAX: Final = 20
"""Maximum number of groups of alike pods that are explained; a workload has one or two kinds of pods."""

_OWN_FACTS: Final = frozenset({"namespace", "name", "uid", "claim", "owner", "pods", "revision"})
"""Facts of a problem that differ between pods, or claims, with the same reason."""


class AlikePods(Struct, frozen=True):
    """Pods of a workload that differ only in names, with the diagnosis of one."""

    names: tuple[str, ...]
    """Names of some of the pods."""

    count: int
    example: PodDiagnosis


class CountedProblem(Struct, frozen=True):
    """A problem that several objects have for the same reason."""

    problem: Problem
    """The problem of the first object."""

    names: tuple[str, ...]
    """Names of some of the objects."""

    count: int


class WorkloadDiagnosis(Struct, frozen=True):
    """The diagnosis of a workload, for the command line."""

    key: Key
    uid: Uid
    kind: str
    reference: str
    """``jobs.batch/train``"""

    exists: bool
    finished: bool
    suspended: bool
    users: ConsumerCounts
    """The pods of the workload, by stage, whether or not they use claims."""

    claims: tuple[ClaimDiagnosis, ...]
    """The claims that are reserved for the workload, or that its pods use."""

    groups: tuple[AlikePods, ...]
    unexplained: int
    """The number of pods of further groups."""

    problems: tuple[CountedProblem, ...]


def explain(cluster: ClusterState, target: PodController) -> WorkloadDiagnosis:
    """Return the diagnosis of a workload, which may not exist while claims are reserved for it."""
    search = _WorkloadSearch(cluster, target)
    groups = search.groups()
    stages = [search.stages[pod.metadata.uid] for pod in search.pods]
    explained = groups[:EXPLAINED_GROUPS_MAX]
    return WorkloadDiagnosis(
        key=(target.namespace, target.name),
        uid=target.uid,
        kind=target.kind,
        reference=f"{target.key.kind}/{target.name}",
        exists=target.uid != NO_UID,
        finished=target.finished,
        suspended=target.suspended,
        users=ConsumerCounts(
            gated=stages.count(Stage.GATED),
            waiting=stages.count(Stage.WAITING),
            starting=stages.count(Stage.STARTING),
            started=stages.count(Stage.STARTED),
            finished=stages.count(Stage.FINISHED),
            node_not_ready=sum(
                search.stages[pod.metadata.uid] in CONSUMING and cluster.is_node_lost(pod.spec.node_name)
                for pod in search.pods
            ),
        ),
        claims=tuple(search.claims.values()),
        groups=tuple(explained),
        unexplained=sum(group.count for group in groups[EXPLAINED_GROUPS_MAX:]),
        problems=tuple(_count_problems(search.claims.values(), explained, generated=search.generated)),
    )


class _WorkloadSearch:
    """The search for the pods and claims of one workload."""

    def __init__(self, cluster: ClusterState, target: PodController) -> None:
        self.cluster = cluster
        self.target = target
        self.pods = sorted(self._own_pods(), key=_object_key)
        self.stages = {pod.metadata.uid: self._stage(pod) for pod in self.pods}
        self.claims = {key: facts for key in self._claim_keys() if (facts := claims.explain(cluster, key)) is not None}

    def _own_pods(self) -> Iterator[SchedulerPod]:
        target = self.target
        if target.key.kind == POD_GROUPS:
            for pod in self._pods_of_namespace():
                group = pod.spec.scheduling_group
                if group is not None and group.pod_group_name == target.name:
                    yield pod
            return
        controlled = self._controlled_uids()
        for pod in self._pods_of_namespace():
            owner = pod.metadata.controller
            if owner is not None and owner.uid in controlled:
                yield pod

    def _pods_of_namespace(self) -> Iterator[SchedulerPod]:
        return (pod for pod in self.cluster.snapshot.pods if pod.metadata.namespace == self.target.namespace)

    def _controlled_uids(self) -> set[Uid]:
        """Return the uids of the workload and of all objects below it; empty if the workload does not exist."""
        uids = {self.target.uid} - {NO_UID}
        while more := {
            controller.uid
            for controller in self.cluster.snapshot.controllers
            if controller.controller in uids and controller.uid not in uids
        }:
            uids |= more
        return uids

    def _stage(self, pod: SchedulerPod) -> Stage:
        consumer = self.cluster.claim_cache.consumer(pod.metadata.uid)
        return consumer.stage if consumer is not None else stage_of(pod, started=pods.is_ready_to_start_containers(pod))

    def _claim_keys(self) -> Iterable[Key]:
        """Return the keys of the claims in order: reserved for the workload, then used by its pods."""
        namespace = self.target.namespace
        reserved = [
            claim.metadata.key
            for claim in self.cluster.snapshot.claims
            if claim.metadata.namespace == namespace and self._is_reserved(claim)
        ]
        used = [(namespace, name) for pod in self.pods for name in model.claim_names(pod)]
        return dict.fromkeys((*reserved, *used))

    def _is_reserved(self, claim: ResourceClaim) -> bool:
        kind, name = self.target.key.kind, self.target.name
        references = [entry for entry in claim.entries if not entry.is_pod]
        with suppress(MalformedReferenceError):
            reservation = workload_reservation(claim)
            references += [reservation.reference] if reservation is not None else []
        return any((reference.group_resource, reference.name) == (kind, name) for reference in references)

    @property
    def generated(self) -> frozenset[Key]:
        """The keys of claims that belong to a single pod each."""
        pairs = ((key, self.cluster.claim_cache.claim(key)) for key in self.claims)
        return frozenset(key for key, claim in pairs if claim is not None and claim.controller is not None)

    def groups(self) -> list[AlikePods]:
        """Return the unfinished pods in groups, those that make no progress first."""
        alike: dict[bytes, list[SchedulerPod]] = {}
        for pod in sorted(self.pods, key=self._stage_order):
            if self.stages[pod.metadata.uid] is not Stage.FINISHED:
                alike.setdefault(self._likeness(pod), []).append(pod)
        groups: list[AlikePods] = []
        for number, members in enumerate(alike.values()):
            first = members[0].metadata.key
            facts = pods.explain(self.cluster, first) if number < EXPLAINED_GROUPS_MAX else None
            example = facts if facts is not None else PodDiagnosis(key=first, uid=members[0].metadata.uid, stage="")
            names = tuple(pod.metadata.name for pod in members[:NAMED_PODS_MAX])
            groups.append(AlikePods(names=names, count=len(members), example=example))
        return groups

    def _stage_order(self, pod: SchedulerPod) -> tuple[Stage, Key]:
        return (self.stages[pod.metadata.uid], pod.metadata.key)

    def _likeness(self, pod: SchedulerPod) -> bytes:
        """Return a text that is equal for pods with equal explanations."""
        node = self.cluster.nodes.get(pod.spec.node_name)
        condition = pod.condition(model.POD_SCHEDULED)
        spec = msgspec.structs.replace(pod.spec, node_name="", resource_claims=None)
        entries = [(entry.name, entry.resource_claim_template_name) for entry in pod.spec.resource_claims or ()]
        own_claims = [self._claim_likeness(name, pod.metadata.uid) for name in model.claim_names(pod)]
        annotations = list(unknown_annotations(pod.metadata.annotations))
        message = condition.message if condition is not None and condition.status == "False" else ""
        return msgspec.json.encode(
            (
                *(
                    self.stages[pod.metadata.uid],
                    pod.metadata.deleting,
                    message,
                    spec,
                    entries,
                    own_claims,
                    annotations,
                ),
                *(bool(pod.spec.node_name), node is not None and node.ready),
                [problem.code for problem in pods.pod_problems(self.cluster, pod.metadata.key)],
            )
        )

    def _claim_likeness(self, name: str, pod: Uid) -> tuple[object, ...]:
        facts = self.claims.get((self.target.namespace, name))
        claim = self.cluster.claim_cache.claim((self.target.namespace, name))
        if facts is None or claim is None:
            return (name,)
        concerning = (
            problem for problem in facts.problems if problem.subject.kind != "Pod" or problem.subject.uid == pod
        )
        # A claim reports Unsatisfiable for one of its pods, but the problem is that of each pod.
        codes = [problem.code for problem in concerning if problem.code is not ProblemCode.UNSATISFIABLE]
        shared = name if claim.controller is None else ""
        return (shared, claim.spec, facts.allocated, facts.deleting, codes)


def _count_problems(
    found_claims: Iterable[ClaimDiagnosis], groups: Iterable[AlikePods], *, generated: frozenset[Key]
) -> Iterator[CountedProblem]:
    """Yield the problems of claims and pods, equal ones counted, in the order in which they were found."""
    counted: dict[tuple[object, ...], tuple[Problem, list[str], int]] = {}

    def add(problem: Problem, names: tuple[str, ...], count: int, *, alone: object = None) -> None:
        facts = tuple(pair for pair in problem.facts if pair[0] not in _OWN_FACTS)
        reason = (problem.code, problem.subject.kind, facts, alone)
        first, known, before = counted.get(reason, (problem, [], 0))
        counted[reason] = (first, [*known, *names][:NAMED_PODS_MAX], before + count)

    diagnosed = list(found_claims)
    own = {facts.key for facts in diagnosed}
    for facts in diagnosed:
        for problem in facts.problems:
            if problem.subject.kind != "Pod":
                add(problem, (facts.key[1],), 1, alone=None if facts.key in generated else facts.key)
    for group in groups:
        for problem in group.example.problems:
            if problem.subject.kind == "Pod":
                add(problem, group.names, group.count)
            elif problem.subject.key not in own:  # of a claim that holds the devices
                add(problem, (problem.subject.key[1],), 1, alone=problem.subject.key)
    for problem, names, count in counted.values():
        yield CountedProblem(problem=problem, names=tuple(dict.fromkeys(names)), count=count)


def _object_key(pod: SchedulerPod) -> Key:
    return pod.metadata.key
