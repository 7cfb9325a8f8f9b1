"""Decides the next step for a Job: pure, and repeated after each step until nothing is left.

Order: pods first (delete those of a finished Job, delete surplus pods, create missing ones), then the status, then the
finalizers of the pods that the status has recorded. Not implemented: ``backoffLimitPerIndex``, ``maxFailedIndexes``,
adoption of orphans.
"""

from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any, Final

from dra.kube.clock import rfc3339
from localplane.controller_manager.api_types import Pod
from localplane.controller_manager.jobs import indexes, outcome
from localplane.controller_manager.jobs.job_pods import JobPods
from localplane.controller_manager.jobs.job_types import Job, completion_index
from localplane.controller_manager.jobs.outcome import JobOutcome
from localplane.controller_manager.jobs.pod_counts import PodCounts, count_pods, has_valid_index, is_pod_failed
from localplane.controller_manager.jobs.pod_failures import BackoffRecord, match_pod_failure_policy

MAX_PODS_PER_SYNC: Final = 500
"""Maximum number of pods that are created, deleted or counted between two syncs of a Job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """The next steps for a Job, in order; `status` is a merge patch."""

    delete_counted: tuple[Pod, ...] = ()
    """Pods to delete that will be counted."""
    delete_uncounted: tuple[Pod, ...] = ()
    """Pods to delete that will not be counted: their finalizers are removed first."""
    create: tuple[int | None, ...] = ()
    """Completion indexes of the pods to create; None for pods without an index."""
    status: dict[str, Any] | None = None
    remove_finalizers: tuple[Pod, ...] = ()
    failures: BackoffRecord = field(default_factory=BackoffRecord)
    """Backoff record to remember once the status is written."""
    events: tuple[tuple[str, str, str], ...] = ()
    """Type, reason and note of events to record once the status is written."""
    requeue_after: float | None = None
    """Seconds until the next sync, if no event comes before."""

    @property
    def changes_pods(self) -> bool:
        """Report whether pods are created or deleted, after which the decision is made again."""
        return bool(self.delete_counted or self.delete_uncounted or self.create)


def decide(job: Job, pods: JobPods, *, failures: BackoffRecord, now: datetime) -> JobPlan:
    """Return the next steps for a Job."""
    if job.finished_condition is not None or job.metadata.deleting:
        return JobPlan(remove_finalizers=tuple(islice(pods.held.values(), MAX_PODS_PER_SYNC)))
    counts = count_pods(job, pods)
    failures = failures.with_finished(counts.new_succeeded, counts.new_failed)
    over = outcome.early_outcome(job, counts, now=now)
    requeue_after = outcome.seconds_to_deadline(job, now=now)
    if over is not None and pods.active:
        return JobPlan(delete_counted=tuple(pods.active.values()))
    if over is None:
        if job.spec.suspend:
            if pods.active:
                return JobPlan(delete_uncounted=tuple(islice(pods.active.values(), MAX_PODS_PER_SYNC)))
        else:
            plan = _manage_pods(job, counts, delay=failures.remaining_time(now))
            if plan.changes_pods:
                return plan
            requeue_after = min(
                (seconds for seconds in (requeue_after, plan.requeue_after) if seconds is not None), default=None
            )
        over = outcome.completion_outcome(job, counts)
    return _track_status(job, counts, over=over, failures=failures, now=now, requeue_after=requeue_after)


def _manage_pods(job: Job, counts: PodCounts, *, delay: float) -> JobPlan:
    """Return a plan that brings the number of active pods to the desired one."""
    active, terminating = len(counts.pods.active), counts.pods.terminating.values()
    if job.completions is None:
        wanted = active if counts.succeeded else job.parallelism
    else:
        wanted = max(min(job.completions - counts.succeeded, job.parallelism), 0)
    surplus = _surplus_pods(job, counts.pods, at_least=active - wanted)
    if surplus:
        return JobPlan(delete_uncounted=surplus[:MAX_PODS_PER_SYNC])
    missing = wanted - active - (len(terminating) if job.replaces_failed_only else 0)
    if missing <= 0:
        return JobPlan()
    if delay > 0.0:
        return JobPlan(requeue_after=delay)
    missing = min(missing, MAX_PODS_PER_SYNC)
    if not job.is_indexed:
        return JobPlan(create=(None,) * missing)
    taken = counts.done | {completion_index(pod) for pod in counts.pods.active.values()}
    if job.replaces_failed_only:
        taken |= {completion_index(pod) for pod in terminating}
    free = (index for index in range(job.completions or 0) if index not in taken)
    return JobPlan(create=tuple(index for index, _ in zip(free, range(missing), strict=False)))


def _surplus_pods(job: Job, pods: JobPods, *, at_least: int) -> tuple[Pod, ...]:
    """Return pods to delete: first those with a wrong or duplicate index, then the least progressed ones."""
    if at_least <= 0 and not job.is_indexed:
        return ()
    rest, chosen, seen = list(pods.active.values()), list[Pod](), set[int | None]()
    if job.is_indexed:
        rest = []
        for pod in pods.active.values():
            good = has_valid_index(job, pod) and completion_index(pod) not in seen
            (rest if good else chosen).append(pod)
            seen.add(completion_index(pod))
    if len(chosen) < at_least:
        least = sorted(rest, key=lambda pod: (bool(pod.spec.node_name), pod.status.phase == "Running", pod.ready))
        chosen += least[: at_least - len(chosen)]
    return tuple(chosen)


def _track_status(
    job: Job,
    counts: PodCounts,
    *,
    over: JobOutcome | None,
    failures: BackoffRecord,
    now: datetime,
    requeue_after: float | None,
) -> JobPlan:
    """Return a plan that counts ended pods and updates the status of the Job."""
    to_count = _pods_to_count(job, counts, over=over)
    succeeded, failed = dict.fromkeys(counts.succeeded_uids), dict.fromkeys(counts.failed_uids)
    completed, policy = set(counts.completed), job.spec.pod_failure_policy
    for pod in to_count:
        uid, index = pod.metadata.uid, completion_index(pod)
        if not has_valid_index(job, pod):
            continue
        if pod.status.phase == "Succeeded" and uid not in failed:
            if index is not None and job.is_indexed:
                completed.add(index)
            else:
                succeeded[uid] = None
        elif _counts_as_failure(pod, policy) and (over is None or not over.success or pod.status.phase == "Failed"):
            failed[uid] = None
    status: dict[str, Any] = {
        "active": len(counts.pods.active) or None,
        "ready": counts.pods.ready,
        "terminating": len(counts.pods.terminating),
        "failed": counts.counted_failed or None,
        "uncountedTerminatedPods": {"succeeded": list(succeeded) or None, "failed": list(failed) or None},
    }
    if job.is_indexed:
        status |= {"succeeded": len(completed) or None, "completedIndexes": indexes.format_indexes(completed) or None}
    else:
        status |= {"succeeded": counts.counted_succeeded or None}
    events = _add_conditions(job, status, over=over, pods_left=bool(to_count or counts.pods.terminating), now=now)
    changed = status != _present_status(job, status)
    return JobPlan(
        status={"status": status} if changed else None,
        remove_finalizers=tuple(to_count),
        failures=failures,
        events=events,
        requeue_after=requeue_after,
    )


def _counts_as_failure(pod: Pod, policy: dict[str, Any] | None) -> bool:
    return policy is None or match_pod_failure_policy(policy, pod).counts


def _pods_to_count(job: Job, counts: PodCounts, *, over: JobOutcome | None) -> list[Pod]:
    """Return pods to count and release: those that have ended, or all if the Job is over."""
    if over is not None:
        return list(islice(counts.pods.held.values(), MAX_PODS_PER_SYNC))
    inactive = counts.pods.held_inactive.values()
    ended = (pod for pod in inactive if pod.status.phase == "Succeeded" or is_pod_failed(job, pod))
    return list(islice(ended, MAX_PODS_PER_SYNC))


def _add_conditions(
    job: Job, status: dict[str, Any], *, over: JobOutcome | None, pods_left: bool, now: datetime
) -> tuple[tuple[str, str, str], ...]:
    """Add conditions and times to a status; return the events to record."""
    wall = rfc3339(now)
    known = {c.type: c for c in job.status.conditions or ()}
    conditions = [_condition(c.type, c.status, c.reason, c.message, c.last_transition_time) for c in known.values()]
    status |= {"conditions": conditions, "startTime": job.status.start_time}
    suspended = known.get("Suspended")
    events: list[tuple[str, str, str]] = []
    if over is not None:
        if over.interim_condition not in known:
            conditions.append(_condition(over.interim_condition, "True", over.reason, over.message, wall))
        if not pods_left:
            conditions.append(_condition(over.final_condition, "True", over.reason, over.message, wall))
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


def _present_status(job: Job, status: dict[str, Any]) -> dict[str, Any]:
    """Return the current values of the fields of a new status."""
    now = job.status
    conditions = [
        _condition(c.type, c.status, c.reason, c.message, c.last_transition_time) for c in now.conditions or ()
    ]
    uncounted = now.uncounted_terminated_pods
    present = {
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
    return {name: present[name] for name in status}
