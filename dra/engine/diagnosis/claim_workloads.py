"""The workloads that claims are reserved for, with what their claims hold and who uses it."""

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from dra.engine.claims.view import WorkloadPhase
from dra.engine.claims.workload_entry import WorkloadFate
from dra.engine.diagnosis.claims import ClaimDiagnosis
from dra.engine.diagnosis.problem_codes import ProblemSeverity
from dra.engine.diagnosis.snapshot import PodController, Snapshot
from dra.model.meta import Key, Struct, Uid
from dra.model.scheduling import SchedulerPod
from dra.model.workload_types import WORKLOAD_TYPES

_OVER: Final = frozenset({WorkloadFate.GONE.name.lower()})
"""Fates of a workload that does not exist any more: what is left of it are claims."""


class ClaimWorkload(Struct, frozen=True):
    """A workload with the sums of its claims."""

    namespace: str
    reference: str
    """``jobs.batch/train``, or the Reservation that keeps claims without a workload; empty for all other claims."""

    fate: str
    """As in `ClaimDiagnosis`."""

    claims: int
    devices: int
    pods: int
    """The number of pods that use any of the claims."""

    waiting: int
    grade: str
    """The grade of the worst problem of its claims; empty without one."""


_SEVERITIES: Final = tuple(ProblemSeverity)
_KIND_NAMES: Final = {workload_type.resource: workload_type.kind for workload_type in WORKLOAD_TYPES}


def claim_workloads(
    diagnoses: Iterable[ClaimDiagnosis], *, users: Callable[[Key], AbstractSet[Uid]]
) -> Iterator[ClaimWorkload]:
    """Yield the workloads and Reservations of claims by namespace and name; a workload that was deleted is none.

    ``users`` returns the pods that use a claim.
    """
    members: dict[tuple[str, str], list[ClaimDiagnosis]] = {}
    for facts in diagnoses:
        members.setdefault((facts.key[0], facts.kept_for if facts.fate in _OVER else facts.holder), []).append(facts)
    for name in sorted(members):
        pods = frozenset[Uid]().union(*(users(facts.key) for facts in members[name]))
        yield _summed(name, members[name], pods=len(pods))


def _summed(name: tuple[str, str], members: list[ClaimDiagnosis], *, pods: int) -> ClaimWorkload:
    namespace, reference = name
    severities = (problem.severity for facts in members for problem in facts.problems)
    worst = min(severities, key=_SEVERITIES.index, default=None)
    return ClaimWorkload(
        namespace=namespace,
        reference=reference,
        fate=members[0].fate if reference else "",
        claims=len(members),
        devices=sum(len(facts.held_devices) for facts in members),
        pods=pods,
        waiting=sum(facts.users.waiting + facts.users.gated for facts in members),
        grade=worst.value if worst is not None else "",
    )


def controller_of(snapshot: Snapshot, namespace: str, *, reference: str) -> PodController | None:
    """Return the workload that claims name as ``jobs.batch/train``; None if none names it, or it was not looked up."""
    for workload in snapshot.workloads:
        key = workload.key
        if (key.namespace, f"{key.kind}/{key.name}") == (namespace, reference):
            return PodController(
                resource=workload.resource,
                group=workload.group,
                kind=_KIND_NAMES.get(key.kind, "workload"),
                namespace=namespace,
                name=workload.name,
                uid=workload.uid,
                finished=workload.phase is WorkloadPhase.FINISHED,
                suspended=workload.suspended,
            )
    return None


def pod_controllers(target: PodController, users: Iterable[SchedulerPod]) -> Iterator[PodController]:
    """Yield the controllers of the pods that use a workload's claims, as objects that the workload controls.

    Without this, a pod of a Deployment belongs to a ReplicaSet that nobody has read.
    """
    owners = {owner.uid: owner for pod in users if (owner := pod.metadata.controller) is not None}
    for owner in owners.values():
        if owner.uid != target.uid:
            yield PodController(
                resource="",
                group="",
                kind=owner.kind,
                namespace=target.namespace,
                name=owner.name,
                uid=owner.uid,
                controller=target.uid,
            )
