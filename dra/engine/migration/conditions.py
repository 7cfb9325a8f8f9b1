"""The status of a PodMigrationJob after each step, as merge patches.

``status.status`` is the type of the newest condition, ``reason`` and ``message`` are those of the condition, as in
Koordinator. A patch has only the fields that change, and the resourceVersion of the job that was decided on. Conditions
that other components wrote are kept. An unchanged condition is not written again; only a change of its status is a
transition.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from dra.api.migration.model import (
    ENDED_PHASES,
    MigrationCondition,
    MigrationPhase,
    PodMigrationJob,
    PodMigrationJobStatus,
)
from dra.api.object_fields import ObjectReference
from dra.engine.instants import WallTime
from dra.engine.migration.plan import MigrationEvent, PatchJob, PatchJobStatus
from dra.engine.migration.reasons import STATUS_COMPLETE, MigrationConditionType, MigrationReason
from dra.model.event_type import EventType
from dra.model.meta import Struct

TRUE: Final = "True"
FALSE: Final = "False"

_OWN_TYPES: Final = frozenset(kind.value for kind in MigrationConditionType)


class Step(Struct, frozen=True):
    """A step of a migration, as its condition and its Event report it."""

    type: MigrationConditionType
    done: bool = True
    reason: MigrationReason | None = None
    """Reason of a step that waits, and of the eviction in any case; None otherwise."""
    message: str = ""
    also_done: tuple[MigrationConditionType, ...] = ()
    """Further conditions that become True with the step."""
    node_name: str = ""
    """New ``status.nodeName``, if given."""
    pod: ObjectReference | None = None
    """New ``status.podRef``, if given."""
    event: MigrationReason | None = None
    """Reason of the Event; None if the step has no Event."""
    event_type: EventType = EventType.NORMAL
    note: str = ""
    """Message of the Event of a condition without a message."""


class Ending(Struct, frozen=True):
    """The end of a migration, as metrics count it."""

    phase: MigrationPhase
    reason: str = ""
    """Reason of a failure."""
    seconds: float | None = None
    """Seconds from the creation of the job to its success."""


def is_true(job: PodMigrationJob, kind: MigrationConditionType) -> bool:
    """Return whether a condition of a job is True."""
    condition = job.status.condition(kind)
    return condition is not None and condition.status == TRUE


def has_evicted_pod(job: PodMigrationJob) -> bool:
    """Return whether a job reports that its pod is gone, or that a pod uses its Reservation."""
    return is_true(job, MigrationConditionType.EVICTION) or is_true(job, MigrationConditionType.POD_BOUND_RESERVATION)


def eviction_time(job: PodMigrationJob) -> WallTime | None:
    """Return when a job's pod was evicted; None if it was not."""
    condition = job.status.condition(MigrationConditionType.EVICTION)
    if condition is None or condition.status != TRUE or condition.last_transition_time is None:
        return None
    return condition.last_transition_time.timestamp()


def report_step(job: PodMigrationJob, step: Step, *, now: WallTime) -> PatchJobStatus | None:
    """Return the write that reports a step; None if the status reports the step already."""
    status = with_step(job.status, step, now=now)
    for kind in step.also_done:
        status = with_step(status, Step(type=kind, message=step.message), now=now)
    changes: dict[str, Any] = {
        "status": step.type.value,
        "reason": step.reason.value if step.reason else "",
        "message": step.message,
    }
    if step.node_name:
        changes["node_name"] = step.node_name
    if step.pod is not None:
        changes["pod_ref"] = step.pod
    after = status.model_copy(update=changes)
    if step.event is None:
        return status_write(job, after)
    event = MigrationEvent(reason=step.event, message=step.message or step.note, type=step.event_type)
    return status_write(job, after, event=event)


def report_waiting(
    job: PodMigrationJob, reason: MigrationReason, message: str, *, now: WallTime, is_event: bool = False
) -> PatchJobStatus | None:
    """Return the write that says for what a job waits that may not begin yet; None if the status says so already.

    ``is_event``: whether an Event says so as well.
    """
    step = Step(type=MigrationConditionType.PASSED_ARBITRATION, done=False, reason=reason, message=message)
    status = with_step(job.status, step, now=now)
    event = MigrationEvent(reason=reason, message=message) if is_event else None
    return status_write(job, status.model_copy(update={"reason": reason.value, "message": message}), event=event)


def report_running(job: PodMigrationJob, *, now: WallTime) -> PatchJobStatus | None:
    """Return the write with which a job begins; its condition of arbitration becomes True if there is one."""
    status = job.status
    if status.condition(MigrationConditionType.PASSED_ARBITRATION) is not None:
        status = with_step(status, Step(type=MigrationConditionType.PASSED_ARBITRATION), now=now)
    changes = {"phase": MigrationPhase.RUNNING, "reason": "", "message": ""}
    return status_write(job, status.model_copy(update=changes))


def report_failure(
    job: PodMigrationJob, reason: MigrationReason, message: str, *, now: WallTime
) -> PatchJobStatus | None:
    """Return the write that ends a job in phase Failed, with a Warning.

    A condition that is still False says from then on why its step was not done.
    """
    status = job.status
    waiting = next((condition for condition in reversed(status.conditions) if condition.status == FALSE), None)
    if waiting is not None and waiting.type in _OWN_TYPES:
        step = Step(type=MigrationConditionType(waiting.type), done=False, reason=reason, message=message)
        status = with_step(status, step, now=now)
    changes = {"phase": MigrationPhase.FAILED, "reason": reason.value, "message": message}
    event = MigrationEvent(reason=reason, message=message, type=EventType.WARNING)
    return status_write(job, status.model_copy(update=changes), event=event)


def report_success(
    job: PodMigrationJob, reason: MigrationReason, message: str, *, now: WallTime, step: Step | None = None
) -> PatchJobStatus | None:
    """Return the write that ends a job in phase Succeeded; `step` is its last step, if not reported yet."""
    status = job.status if step is None else with_step(job.status, step, now=now)
    changes = {"phase": MigrationPhase.SUCCEEDED, "status": STATUS_COMPLETE, "reason": "", "message": message}
    event = MigrationEvent(reason=reason, message=message)
    return status_write(job, status.model_copy(update=changes), event=event)


def ending(before: PodMigrationJob, after: PodMigrationJob | None, *, now: WallTime) -> Ending | None:
    """Return how a job has ended by a write; None if the job goes on, is gone or had ended before the write."""
    if after is None or after.status.phase not in ENDED_PHASES or before.status.phase in ENDED_PHASES:
        return None
    if after.status.phase is not MigrationPhase.SUCCEEDED:
        return Ending(phase=after.status.phase, reason=after.status.reason)
    created = after.metadata.creation_timestamp
    return Ending(phase=after.status.phase, seconds=None if created is None else now - created.timestamp())


def with_step(status: PodMigrationJobStatus, step: Step, *, now: WallTime) -> PodMigrationJobStatus:
    """Return a status with the condition of a step added or replaced."""
    before = status.condition(step.type)
    value, reason = TRUE if step.done else FALSE, step.reason.value if step.reason else ""
    if before is not None and (before.status, before.reason, before.message) == (value, reason, step.message):
        return status
    moment = datetime.fromtimestamp(int(now), UTC)
    moved = before is None or before.status != value
    new = MigrationCondition(
        type=step.type.value,
        status=value,
        reason=reason,
        message=step.message,
        last_probe_time=moment,
        last_transition_time=moment if before is None or moved else before.last_transition_time,
    )
    rest = status.conditions
    conditions = (
        (*rest, new) if before is None else tuple(new if condition is before else condition for condition in rest)
    )
    return status.model_copy(update={"conditions": conditions})


def status_write(
    job: PodMigrationJob, after: PodMigrationJobStatus, *, event: MigrationEvent | None = None
) -> PatchJobStatus | None:
    """Return the write that changes the status of a job; None if nothing changes."""
    old, new = (status.model_dump(mode="json", by_alias=True, exclude_none=True) for status in (job.status, after))
    changed = {name: _compact(value) for name, value in new.items() if old.get(name) != value}
    if not changed:
        return None
    changed.setdefault("phase", new["phase"])  # Pending is what an absent phase means; users shall see the word
    body = {"metadata": _precondition(job), "status": changed}
    return PatchJobStatus(body=body, events=() if event is None else (event,))


def spec_write(job: PodMigrationJob, changes: Mapping[str, Any]) -> PatchJob:
    """Return the write that changes fields of a job's spec."""
    return PatchJob(body={"metadata": _precondition(job), "spec": dict(changes)})


def _precondition(job: PodMigrationJob) -> dict[str, str]:
    return {"resourceVersion": job.metadata.resource_version}


def _compact(value: Any) -> Any:  # noqa: ANN401 - plain data
    """Return a value without empty texts; in a merge patch an emptied field is null, which removes the field."""
    if isinstance(value, list):
        return [_compact(item) for item in value]
    if isinstance(value, dict):
        return {name: item for name, item in value.items() if item != ""}
    return None if value == "" else value
