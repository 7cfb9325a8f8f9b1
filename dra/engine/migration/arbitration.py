"""Arbitration: which of the waiting jobs may begin now, so that no limit and no budget is exceeded.

Jobs are taken in the order of `order`. A job that must never begin is refused, and fails; a job that would exceed a
limit waits, and says for what; all others pass, and count for those that follow. The verdict of a job that passes is an
annotation, and the limits are counted from objects, so arbitration goes on after a crash as if nothing had happened.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import partial
from typing import Final

from dra.api.descheduler.migration_controller_args import MigrationControllerArgs
from dra.api.migration.model import ENDED_PHASES, EvictionPolicy, MigrationMode, MigrationPhase, PodMigrationJob
from dra.api.migration.well_known import ANNOTATION_JOB_CREATED_BY, ANNOTATION_PASSED_ARBITRATION, ANNOTATION_WORKLOAD
from dra.engine.instants import NEVER, WallTime
from dra.engine.migration import evictability
from dra.engine.migration.budgets import Budgets
from dra.engine.migration.conditions import eviction_time, report_failure, report_waiting
from dra.engine.migration.decide import effective_mode, has_passed_arbitration
from dra.engine.migration.limits import MigrationCounts, Refusal, effective_args
from dra.engine.migration.order import Candidate, sort_candidates
from dra.engine.migration.plan import PatchJob, PatchJobStatus
from dra.engine.migration.pod_index import NamespacedUid, PodIndex, WorkloadKey, workload_of
from dra.engine.migration.reasons import MigrationReason
from dra.engine.migration.refusals import eviction_policy, policy_refusal
from dra.engine.migration.view import MigrationPod
from dra.model.meta import OwnerReference, Struct, Uid
from dra.model.preemption import PodDisruptionBudget, PodUnavailableBudget

SCALE_CHECK_SECONDS: Final = 30.0
"""Seconds until waiting jobs are arbitrated again though nothing changed: no watch shows that a workload is scaled."""

_PASSED: Final = "true"


class ArbitrationView(Struct, frozen=True):
    """Everything that arbitration reads."""

    jobs: tuple[PodMigrationJob, ...]
    """All jobs that can be read and are not being deleted."""
    pods: PodIndex
    replicas: Mapping[WorkloadKey, int] = {}
    """Wanted replicas of workloads; an absent one could not be read, or is not what its pods say."""
    disruption_budgets: tuple[PodDisruptionBudget, ...] = ()
    unavailable_budgets: tuple[PodUnavailableBudget, ...] = ()
    unfit: Mapping[Uid, str] = {}
    """Pods that fit on no other node, with the reason; read only if ``nodeFit`` is set."""


class Outcome(StrEnum):
    """The outcome of arbitration for one job."""

    PASSED = "Passed"
    WAITING = "Waiting"
    REFUSED = "Refused"


class ArbitrationVerdict(Struct, frozen=True):
    """The verdict on one job."""

    job: str
    uid: str
    outcome: Outcome
    reason: MigrationReason | None = None
    message: str = ""
    wake_at: WallTime = NEVER
    """When a waiting job may pass without any event."""
    workload: Uid = Uid("")
    """Uid of the pod's controller; empty for a bare pod."""


def workloads_to_read(view: ArbitrationView) -> frozenset[tuple[OwnerReference, str]]:
    """Return the controllers of the pods of waiting jobs, each with its namespace: arbitration reads their replicas."""
    return frozenset(
        (owner, candidate.pod.metadata.namespace)
        for candidate in _candidates(view)
        if (owner := candidate.pod.metadata.controller) is not None
    )


def migrated_workload(job: PodMigrationJob) -> NamespacedUid | None:
    """Return the workload that a job says it migrates a pod of; None if it says nothing.

    The annotation has the uid alone, which earlier versions read. The namespace is the pod's: pods elsewhere that name
    the same uid are other workloads.
    """
    uid = job.metadata.annotations.get(ANNOTATION_WORKLOAD)
    return (job.spec.pod_ref.namespace, Uid(uid)) if uid else None


def arbitrate(view: ArbitrationView, *, args: MigrationControllerArgs, now: WallTime) -> tuple[ArbitrationVerdict, ...]:
    """Return the verdicts on all waiting jobs, in the order in which they were taken.

    A job whose pod is not known, or is another one than the job names, gets no verdict: a live read decides.
    """
    round_ = _Round(view, args=args, now=now)
    waiting = sort_candidates(_candidates(view), migrating=round_.counts.workloads)
    return tuple(round_.verdict(candidate.job, candidate.pod) for candidate in waiting)


def verdict_write(
    job: PodMigrationJob, verdict: ArbitrationVerdict, *, now: WallTime
) -> PatchJob | PatchJobStatus | None:
    """Return the write that a verdict needs; None for a job that waits as before."""
    match verdict.outcome, verdict.reason:
        case Outcome.PASSED, _:
            annotations = {ANNOTATION_PASSED_ARBITRATION: _PASSED}
            if verdict.workload:
                annotations[ANNOTATION_WORKLOAD] = verdict.workload
            metadata = {"resourceVersion": job.metadata.resource_version, "annotations": annotations}
            return PatchJob(body={"metadata": metadata})
        case Outcome.WAITING, MigrationReason() as reason:
            return report_waiting(job, reason, verdict.message, now=now)
        case Outcome.REFUSED, MigrationReason() as reason:
            return report_failure(job, reason, verdict.message, now=now)
    return None


def in_order_of_writes(verdicts: Iterable[ArbitrationVerdict]) -> list[ArbitrationVerdict]:
    """Return verdicts with jobs that pass first: many others may wait."""
    return sorted(verdicts, key=lambda verdict: verdict.outcome is not Outcome.PASSED)


def arbitrate_again_at(verdicts: Iterable[ArbitrationVerdict], *, reads_replicas: bool, now: WallTime) -> WallTime:
    """Return when a verdict may be another one without any event; `reads_replicas`: arbitration read any workload."""
    scaled_at = now + SCALE_CHECK_SECONDS if reads_replicas else NEVER
    waiting = (min(one.wake_at, scaled_at) for one in verdicts if one.outcome is Outcome.WAITING)
    return min(waiting, default=NEVER)


class _Round:
    """One arbitration: the counts, and the jobs that have passed so far."""

    def __init__(self, view: ArbitrationView, *, args: MigrationControllerArgs, now: WallTime) -> None:
        self._args = effective_args(args)
        self._now = now
        self.counts = MigrationCounts(view.pods, replicas=view.replicas)
        self._budgets = Budgets(view.disruption_budgets, view.unavailable_budgets, pods=view.pods)
        self._first_jobs = _first_jobs(view)
        self._unfit = view.unfit if self._args.node_fit else {}
        for job in view.jobs:
            self._count(job, _pod_of(view, job))

    def _count(self, job: PodMigrationJob, pod: MigrationPod | None) -> None:
        workload = migrated_workload(job) if pod is None else _in_namespace(workload_of(pod))
        if (at := eviction_time(job)) is not None:
            self.counts.add_eviction(job.spec.pod_ref.namespace, workload, at)
        if _is_migrating(job):
            self.counts.add(job, pod, workload=workload)
            if pod is not None:
                self._budgets.add(pod)

    def verdict(self, job: PodMigrationJob, pod: MigrationPod) -> ArbitrationVerdict:
        """Return the verdict on one job; a job that passes counts from then on."""
        verdict = partial(ArbitrationVerdict, job=job.metadata.name, uid=job.metadata.uid)
        if text := next(filter(None, self._final_refusals(job, pod)), ""):
            return verdict(outcome=Outcome.REFUSED, reason=MigrationReason.FORBIDDEN_MIGRATE_POD, message=text)
        if (refusal := self._waiting(job, pod)) is not None:
            return verdict(
                outcome=Outcome.WAITING, reason=refusal.reason, message=refusal.message, wake_at=refusal.wake_at
            )
        workload = workload_of(pod)
        self.counts.add(job, pod, workload=_in_namespace(workload))
        self._budgets.add(pod)
        if self._args.dry_run:
            text = "dryRun is true: otherwise the job would begin now"
            return verdict(outcome=Outcome.WAITING, reason=MigrationReason.DRY_RUN, message=text)
        return verdict(outcome=Outcome.PASSED, workload=Uid("") if workload is None else workload.uid)

    def _final_refusals(self, job: PodMigrationJob, pod: MigrationPod) -> Iterator[str]:
        first = self._first_jobs[pod.metadata.uid]
        if first.metadata.uid != job.metadata.uid:
            name = "/".join(pod.metadata.key)
            yield f"pod {name}: podmigrationjob {first.metadata.name} migrates the pod already"
        mode = effective_mode(job, args=self._args)
        yield evictability.refusal(pod, args=self._args, mode=mode)
        yield policy_refusal(job, pod, args=self._args)
        yield self._unfit.get(pod.metadata.uid, "")
        if self._policy(job, pod) is EvictionPolicy.EVICTION:
            yield self._budgets.conflict(pod)
        by_person = ANNOTATION_JOB_CREATED_BY not in job.metadata.annotations
        if not (by_person and mode is MigrationMode.RESERVATION_FIRST):
            yield self.counts.replicas_refusal(pod, args=self._args)

    def _waiting(self, job: PodMigrationJob, pod: MigrationPod) -> Refusal | None:
        refusal = next(self.counts.refusals(job, pod, args=self._args, now=self._now), None)
        policy = self._policy(job, pod)
        if refusal is None and policy is EvictionPolicy.EVICTION:
            refusal = self._budgets.disruption_refusal(pod)
        if refusal is None and policy is not EvictionPolicy.SOFT_EVICTION:
            refusal = self._budgets.unavailable_refusal(pod, policy)
        return refusal

    def _policy(self, job: PodMigrationJob, pod: MigrationPod) -> EvictionPolicy:
        if policy_refusal(job, pod, args=self._args):
            return self._args.eviction_policy
        return eviction_policy(job, pod, default=self._args.eviction_policy)


def _candidates(view: ArbitrationView) -> Iterable[Candidate]:
    return [
        Candidate(job=job, pod=pod) for job in view.jobs if is_waiting(job) and (pod := _pod_of(view, job)) is not None
    ]


def _in_namespace(workload: WorkloadKey | None) -> NamespacedUid | None:
    return None if workload is None else workload.in_namespace


def is_waiting(job: PodMigrationJob) -> bool:
    """Return whether a job waits for arbitration."""
    return job.status.phase is MigrationPhase.PENDING and not job.spec.paused and not has_passed_arbitration(job)


def _is_migrating(job: PodMigrationJob) -> bool:
    phase = job.status.phase
    return phase is MigrationPhase.RUNNING or (phase is MigrationPhase.PENDING and has_passed_arbitration(job))


def _pod_of(view: ArbitrationView, job: PodMigrationJob) -> MigrationPod | None:
    """Return the pod that a job names; None if it is gone, or another pod has its name."""
    given = job.spec.pod_ref
    pod = view.pods.by_key(given.key)
    return None if pod is None or given.uid not in ("", pod.metadata.uid) else pod


def _first_jobs(view: ArbitrationView) -> dict[Uid, PodMigrationJob]:
    """Return the unfinished job of each pod that goes first: one that has begun, or else the oldest."""
    first: dict[Uid, PodMigrationJob] = {}
    for job in view.jobs:
        if job.status.phase in ENDED_PHASES or (pod := _pod_of(view, job)) is None:
            continue
        before = first.get(pod.metadata.uid)
        if before is None or _precedence(job) < _precedence(before):
            first[pod.metadata.uid] = job
    return first


def _precedence(job: PodMigrationJob) -> tuple[bool, float, str]:
    created = job.metadata.creation_timestamp
    return (not _is_migrating(job), created.timestamp() if created is not None else 0.0, job.metadata.name)
