"""What is to be done for a Job now: pure, and made again after each step until nothing is left.

Order: pods first (end those of a Job that is over, take away surplus ones, create missing ones), then the status, then
the finalizers of the pods that the status has taken note of. Not done: ``backoffLimitPerIndex``, ``maxFailedIndexes``,
adoption of orphans.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any, Final

from dra.kube.clock import second_time
from dra.local.workloads.jobs import indexes, outcome
from dra.local.workloads.jobs.failures import Failures, judge
from dra.local.workloads.jobs.manifests import Job, index_of, tracked
from dra.local.workloads.jobs.outcome import Outcome
from dra.local.workloads.jobs.tally import Tally, has_failed, tally, valid_index
from dra.local.workloads.manifests import Pod

AT_ONCE: Final = 500
"""Pods that are created, deleted or counted between two looks at the Job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do, in this order; `status` is a merge patch."""

    end: tuple[Pod, ...] = ()
    """Pods to delete that will be counted."""
    drop: tuple[Pod, ...] = ()
    """Pods to delete that will not: their finalizers go first."""
    create: tuple[int | None, ...] = ()
    """Indexes of pods to create."""
    status: dict[str, Any] | None = None
    release: tuple[Pod, ...] = ()
    failures: Failures = field(default_factory=Failures)
    """To be remembered once the status has been written."""
    events: tuple[tuple[str, str, str], ...] = ()
    """Type, reason and note of what is to be told then."""
    wake: float | None = None
    """Seconds after which to look again."""

    @property
    def moves_pods(self) -> bool:
        """Whether pods come or go, after which all is to be decided anew."""
        return bool(self.end or self.drop or self.create)


def decide(job: Job, pods: Sequence[Pod], *, failures: Failures, now: datetime) -> Plan:
    """Return what to do."""
    if job.finished is not None or job.metadata.deleting:
        return Plan(release=tuple(pod for pod in pods if tracked(pod))[:AT_ONCE])
    found = tally(job, pods)
    failures = failures.after(found.new_succeeded, found.new_failed)
    over = outcome.ended_early(job, found, now=now)
    wake = outcome.seconds_left(job, now=now)
    if over is not None and found.active:
        return Plan(end=tuple(found.active))
    if over is None:
        if job.spec.suspend:
            if found.active:
                return Plan(drop=tuple(found.active)[:AT_ONCE])
        else:
            plan = _staffed(job, found, delay=failures.delay(now))
            if plan.moves_pods:
                return plan
            wake = min((each for each in (wake, plan.wake) if each is not None), default=None)
        over = outcome.completed(job, found)
    return _account(job, found, over=over, failures=failures, now=now, wake=wake)


def _staffed(job: Job, found: Tally, *, delay: float) -> Plan:
    """Bring the number of pods at work to what it should be."""
    active = len(found.active)
    if job.completions is None:
        wanted = active if found.succeeded else job.parallelism
    else:
        wanted = max(min(job.completions - found.succeeded, job.parallelism), 0)
    surplus = _surplus(job, found.active, at_least=active - wanted)
    if surplus:
        return Plan(drop=surplus[:AT_ONCE])
    missing = wanted - active - (len(found.terminating) if job.replaces_failed_only else 0)
    if missing <= 0:
        return Plan()
    if delay > 0.0:
        return Plan(wake=delay)
    missing = min(missing, AT_ONCE)
    if not job.indexed:
        return Plan(create=(None,) * missing)
    taken = found.done | {index_of(pod) for pod in found.active}
    if job.replaces_failed_only:
        taken |= {index_of(pod) for pod in found.terminating}
    free = (index for index in range(job.completions or 0) if index not in taken)
    return Plan(create=tuple(index for index, _ in zip(free, range(missing), strict=False)))


def _surplus(job: Job, active: list[Pod], *, at_least: int) -> tuple[Pod, ...]:
    """Return pods to take away: those whose index is wrong or double, then those that have come least far."""
    rest, found, seen = active, list[Pod](), set[int | None]()
    if job.indexed:
        rest = []
        for pod in active:
            good = valid_index(job, pod) and index_of(pod) not in seen
            (rest if good else found).append(pod)
            seen.add(index_of(pod))
    if len(found) < at_least:
        least = sorted(rest, key=lambda pod: (bool(pod.spec.node_name), pod.status.phase == "Running", pod.ready))
        found += least[: at_least - len(found)]
    return tuple(found)


def _account(
    job: Job, found: Tally, *, over: Outcome | None, failures: Failures, now: datetime, wake: float | None
) -> Plan:
    """Count the pods that have ended, and tell how the Job stands."""
    release = _countable(job, found, over=over)
    succeeded, failed = dict.fromkeys(found.succeeded_uids), dict.fromkeys(found.failed_uids)
    completed, policy = set(found.completed), job.spec.pod_failure_policy
    for pod in release:
        uid, index = pod.metadata.uid, index_of(pod)
        if not valid_index(job, pod):
            continue
        if pod.status.phase == "Succeeded" and uid not in failed:
            if index is not None and job.indexed:
                completed.add(index)
            else:
                succeeded[uid] = None
        elif _counts(pod, policy) and (over is None or not over.success or pod.status.phase == "Failed"):
            failed[uid] = None
    status: dict[str, Any] = {
        "active": len(found.active) or None,
        "ready": found.ready,
        "terminating": len(found.terminating),
        "failed": found.counted_failed or None,
        "uncountedTerminatedPods": {"succeeded": list(succeeded) or None, "failed": list(failed) or None},
    }
    if job.indexed:
        status |= {"succeeded": len(completed) or None, "completedIndexes": indexes.written(completed) or None}
    else:
        status |= {"succeeded": found.counted_succeeded or None}
    events = _stages(job, status, over=over, busy=bool(release or found.terminating), now=now)
    changed = status != _told(job, status)
    return Plan(
        status={"status": status} if changed else None,
        release=tuple(release),
        failures=failures,
        events=events,
        wake=wake,
    )


def _counts(pod: Pod, policy: dict[str, Any] | None) -> bool:
    return policy is None or judge(policy, pod).counts


def _countable(job: Job, found: Tally, *, over: Outcome | None) -> list[Pod]:
    """Return pods that can be counted and let go: those that have ended, all when the Job is over."""
    candidates = (pod for pod in found.pods if tracked(pod))
    ended = (p for p in candidates if over is not None or p.status.phase == "Succeeded" or has_failed(job, p))
    return list(islice(ended, AT_ONCE))


def _stages(
    job: Job, status: dict[str, Any], *, over: Outcome | None, busy: bool, now: datetime
) -> tuple[tuple[str, str, str], ...]:
    """Add conditions and times to a status; return what is to be told."""
    wall = second_time(now)
    known = {c.type: c for c in job.status.conditions or ()}
    conditions = [_condition(c.type, c.status, c.reason, c.message, c.last_transition_time) for c in known.values()]
    status |= {"conditions": conditions, "startTime": job.status.start_time}
    suspended = known.get("Suspended")
    events: list[tuple[str, str, str]] = []
    if over is not None:
        if over.interim not in known:
            conditions.append(_condition(over.interim, "True", over.reason, over.message, wall))
        if not busy:
            conditions.append(_condition(over.final, "True", over.reason, over.message, wall))
            if over.success:
                status["completionTime"] = wall
                events.append(("Normal", "Completed", "Job completed"))
            else:
                events.append(("Warning", over.reason, over.message))
    elif job.spec.suspend and (suspended is None or suspended.status != "True"):
        conditions[:] = [c for c in conditions if c["type"] != "Suspended"]
        conditions.append(_condition("Suspended", "True", "JobSuspended", "Job suspended", wall))
        status["startTime"] = None
        events.append(("Normal", "Suspended", "Job suspended"))
    elif not job.spec.suspend and suspended is not None and suspended.status == "True":
        conditions[:] = [c for c in conditions if c["type"] != "Suspended"]
        conditions.append(_condition("Suspended", "False", "JobResumed", "Job resumed", wall))
        status["startTime"] = wall
        events.append(("Normal", "Resumed", "Job resumed"))
    if not job.spec.suspend and status["startTime"] is None:
        status["startTime"] = wall
    return tuple(events)


def _condition(kind: str, status: str, reason: str, message: str, since: str | None) -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "lastProbeTime": since,
        "lastTransitionTime": since,
        "reason": reason,
        "message": message,
    }


def _told(job: Job, status: dict[str, Any]) -> dict[str, Any]:
    """Return what the present status says of the fields of a new one."""
    now = job.status
    conditions = [
        _condition(c.type, c.status, c.reason, c.message, c.last_transition_time) for c in now.conditions or ()
    ]
    uncounted = now.uncounted_terminated_pods
    told = {
        "active": now.active or None,
        "ready": now.ready,
        "terminating": now.terminating,
        "failed": now.failed or None,
        "succeeded": now.succeeded or None,
        "uncountedTerminatedPods": {"succeeded": uncounted.succeeded or None, "failed": uncounted.failed or None},
        "completedIndexes": now.completed_indexes or None,
        "conditions": conditions,
        "startTime": now.start_time,
        "completionTime": now.completion_time,
    }
    return {name: told[name] for name in status}
