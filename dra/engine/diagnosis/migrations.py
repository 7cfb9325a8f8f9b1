"""The diagnosis of a migration: its step, since when, what it waits for, and the problems of jobs.

All answers come from the PodMigrationJob, the Lease of the descheduler and the disruption budgets, so they hold without
a running descheduler and from a bundle.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final

from dra.api.migration.model import (
    MalformedPodMigrationJobError,
    MigrationCondition,
    MigrationPhase,
    PodMigrationJob,
    parse_pod_migration_job,
)
from dra.api.migration.well_known import (
    ANNOTATION_EVICT_REASON,
    ANNOTATION_EVICT_TRIGGER,
    ANNOTATION_PASSED_ARBITRATION,
    ANNOTATION_PROFILE,
    ANNOTATION_ROUND,
)
from dra.engine.diagnosis.problem_codes import ProblemCode
from dra.engine.diagnosis.problems import Problem, migration_problem
from dra.engine.diagnosis.snapshot import ControllerLease, ControllerPresence
from dra.engine.messages.remedies import without_commands
from dra.engine.migration.approval import needs_approval
from dra.engine.migration.reasons import MigrationConditionType
from dra.model.meta import Key, Struct, Uid, UnstructuredObject
from dra.model.preemption import PodDisruptionBudget
from dra.model.scheduling import SchedulerPod

TERMINAL_PHASES: Final = frozenset({MigrationPhase.SUCCEEDED, MigrationPhase.FAILED, MigrationPhase.ABORTED})

ANNOTATION_LENGTH_MAX: Final = 512
"""Maximum number of characters shown of an annotation, which whoever creates a job may write."""


class MigrationStep(StrEnum):
    """The step that a migration is at."""

    WAITING = "waiting"  # for arbitration: a limit or a budget
    PAUSED = "paused"
    UNAPPROVED = "unapproved"  # paused until a person approves it
    STARTING = "starting"  # arbitration is passed, and no Reservation exists yet
    SCHEDULING = "scheduling"  # the Reservation waits for a node
    RESERVED = "reserved"  # the Reservation has a node, and the eviction comes next
    EVICTING = "evicting"
    BINDING = "binding"  # the replacement is to bind to the Reservation
    READYING = "readying"  # the replacement is to become Ready
    ENDED = "ended"


class MigrationDiagnosis(Struct, frozen=True):
    """The diagnosis of one PodMigrationJob, for the command line."""

    name: str
    uid: Uid
    pod: Key
    phase: str
    step: MigrationStep
    from_node: str = ""
    to_node: str = ""
    new_pod: Key | None = None
    reservation: str = ""
    reason: str = ""
    """Reason of the condition, or of the failure, that the step is about."""

    message: str = ""
    since: str = ""
    """Time of the last transition that led to the step, in RFC 3339."""

    deleting: bool = False
    evicted: bool = False
    """Whether the pod was evicted, or ended by itself after its Reservation had a node."""

    plugin: str = ""
    """The plugin of the descheduler that wants the pod to move; empty for a job of a person."""

    profile: str = ""
    cause: str = ""
    """Why the pod is to move, as the plugin or the author of the job says."""

    round: str = ""
    """When the round of descheduling began that made the job, in RFC 3339."""


def has_ended(job: PodMigrationJob) -> bool:
    """Report whether a job has succeeded or failed."""
    return job.status.phase in TERMINAL_PHASES


def pod_key(job: PodMigrationJob) -> Key:
    """Return the key of the pod that a job migrates."""
    return (job.spec.pod_ref.namespace, job.spec.pod_ref.name)


def parse_jobs(objects: Iterable[UnstructuredObject]) -> Iterator[PodMigrationJob]:
    """Yield the readable jobs."""
    for obj in objects:
        try:
            yield parse_pod_migration_job(obj.content)
        except MalformedPodMigrationJobError:
            continue


def job_of_pod(jobs: Iterable[PodMigrationJob], key: Key, uid: str) -> PodMigrationJob | None:
    """Return the oldest unfinished job of a pod; None if there is none."""
    unfinished = [
        job for job in jobs if not has_ended(job) and pod_key(job) == key and job.spec.pod_ref.uid in {"", uid}
    ]
    return min(unfinished, key=_age_order, default=None)


def job_that_made(jobs: Iterable[PodMigrationJob], key: Key) -> PodMigrationJob | None:
    """Return the newest job whose migration a pod replaced its predecessor in; None if there is none."""
    made = (job for job in jobs if job.status.pod_ref is not None)
    migrated = [job for job in made if (ref := job.status.pod_ref) and (ref.namespace, ref.name) == key]
    return max(migrated, key=_age_order, default=None)


def explain(job: PodMigrationJob, *, from_node: str = "") -> MigrationDiagnosis:
    """Return the diagnosis of a job; `from_node` is the present node of its pod, if the pod exists."""
    step, condition = _current_step(job)
    reservation = job.spec.reservation_options.reservation_ref if job.spec.reservation_options else None
    created = job.metadata.creation_timestamp
    changed = condition.last_transition_time if condition is not None else None
    ref = job.status.pod_ref
    failed = job.status.phase in {MigrationPhase.FAILED, MigrationPhase.ABORTED}
    evicted = _is_true(job, MigrationConditionType.EVICTION)
    return MigrationDiagnosis(
        name=job.metadata.name,
        uid=Uid(job.metadata.uid),
        pod=pod_key(job),
        phase=job.status.phase.value,
        step=step,
        from_node="" if evicted else from_node,
        to_node=job.status.node_name,
        new_pod=None if ref is None else (ref.namespace, ref.name),
        reservation=reservation.name if reservation is not None else "",
        reason=job.status.reason if failed or condition is None else condition.reason,
        message=job.status.message if failed or condition is None else condition.message,
        since=_format(changed or created),
        deleting=job.metadata.deletion_timestamp is not None,
        evicted=evicted,
        plugin=_text(job, ANNOTATION_EVICT_TRIGGER),
        profile=_text(job, ANNOTATION_PROFILE),
        cause=_text(job, ANNOTATION_EVICT_REASON),
        round=_text(job, ANNOTATION_ROUND),
    )


def _current_step(job: PodMigrationJob) -> tuple[MigrationStep, MigrationCondition | None]:
    """Return the step of a job, and the condition that tells the step."""
    if has_ended(job):
        return MigrationStep.ENDED, max(job.status.conditions, key=_transition_order, default=None)
    step = next(_told_steps(job, _LATE_STEPS), None)
    if step is not None:
        return step
    waits = job.status.condition(MigrationConditionType.PASSED_ARBITRATION)
    if needs_approval(job):
        return MigrationStep.UNAPPROVED, waits
    if job.spec.paused:
        return MigrationStep.PAUSED, waits
    if job.metadata.annotations.get(ANNOTATION_PASSED_ARBITRATION) != "true":
        return MigrationStep.WAITING, waits
    return next(_told_steps(job, _EARLY_STEPS), (MigrationStep.STARTING, None))


_LATE_STEPS: Final = (
    (MigrationConditionType.BOUND_POD_READY, "", MigrationStep.READYING),
    (MigrationConditionType.POD_BOUND_RESERVATION, "True", MigrationStep.READYING),
    (MigrationConditionType.POD_BOUND_RESERVATION, "", MigrationStep.BINDING),
    (MigrationConditionType.POD_SCHEDULED, "", MigrationStep.BINDING),
    (MigrationConditionType.EVICTION, "True", MigrationStep.BINDING),
)
"""Condition, its status (empty: any) and the step that the condition tells; the last step first."""

_EARLY_STEPS: Final = (
    (MigrationConditionType.EVICTION, "", MigrationStep.EVICTING),
    (MigrationConditionType.RESERVATION_SCHEDULED, "True", MigrationStep.RESERVED),
    (MigrationConditionType.RESERVATION_SCHEDULED, "", MigrationStep.SCHEDULING),
    (MigrationConditionType.RESERVATION_CREATED, "", MigrationStep.SCHEDULING),
)
"""As `_LATE_STEPS`, for the steps that a paused job does not begin."""


def _told_steps(
    job: PodMigrationJob, steps: Iterable[tuple[MigrationConditionType, str, MigrationStep]]
) -> Iterator[tuple[MigrationStep, MigrationCondition]]:
    for kind, status, step in steps:
        condition = job.status.condition(kind)
        if condition is not None and status in {"", condition.status}:
            yield step, condition


def problems(
    jobs: Iterable[PodMigrationJob],
    *,
    descheduler: ControllerLease,
    pods: Mapping[Key, SchedulerPod],
    budgets: Iterable[PodDisruptionBudget],
) -> Iterator[Problem]:
    """Yield the problems of unfinished jobs."""
    known_budgets = tuple(budgets)
    idle = descheduler.presence in {ControllerPresence.ABSENT, ControllerPresence.STALE}
    for job in jobs:
        if has_ended(job) or job.metadata.deletion_timestamp is not None:
            continue
        name, uid = job.metadata.name, Uid(job.metadata.uid)
        pod = "/".join(pod_key(job))
        if idle:
            yield migration_problem(
                ProblemCode.NO_DESCHEDULER,
                name=name,
                uid=uid,
                pod=pod,
                lease=descheduler.name,
                space=descheduler.name.partition("/")[0],
            )
            continue
        if needs_approval(job):
            facts = explain(job)
            yield migration_problem(
                ProblemCode.MIGRATION_UNAPPROVED, name=name, uid=uid, pod=pod, plugin=facts.plugin, why=facts.cause
            )
        elif job.spec.paused:
            yield migration_problem(ProblemCode.MIGRATION_PAUSED, name=name, uid=uid, pod=pod)
        migrated = pods.get(pod_key(job))
        if migrated is None or explain(job).evicted:
            continue
        for budget in known_budgets:
            if budget.covers(migrated.metadata) and _never_allows(budget):
                yield migration_problem(
                    ProblemCode.BUDGET_FORBIDS_MIGRATION,
                    name=name,
                    uid=uid,
                    pod=pod,
                    budget="/".join(budget.metadata.key),
                    healthy=budget.status.current_healthy,
                    desired=budget.status.desired_healthy,
                )


def _text(job: PodMigrationJob, annotation: str) -> str:
    return without_commands(job.metadata.annotations.get(annotation, "")[:ANNOTATION_LENGTH_MAX])


def _never_allows(budget: PodDisruptionBudget) -> bool:
    """Report whether a budget allows no disruption although all pods that it expects are healthy.

    Such a budget does not change by waiting: only its owner can.
    """
    status = budget.status
    return status.disruptions_allowed == 0 and 0 < status.expected_pods <= status.current_healthy


def _is_true(job: PodMigrationJob, kind: MigrationConditionType) -> bool:
    condition = job.status.condition(kind)
    return condition is not None and condition.status == "True"


def _format(moment: datetime | None) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ") if moment is not None else ""


def _transition_order(condition: MigrationCondition) -> float:
    moment = condition.last_transition_time
    return moment.timestamp() if moment is not None else 0.0


def _age_order(job: PodMigrationJob) -> tuple[float, str]:
    created = job.metadata.creation_timestamp
    return (created.timestamp() if created is not None else 0.0, job.metadata.name)
