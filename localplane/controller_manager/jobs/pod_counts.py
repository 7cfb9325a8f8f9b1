"""Counts of a Job's pods: counted for good, ended but not yet counted, and active.

A pod that ends is counted in three steps, so that no failure in between loses a pod or counts it twice:
1. its uid is added to ``uncountedTerminatedPods`` (for an Indexed success: its index to ``completedIndexes``),
2. its finalizer is removed,
3. its uid leaves the list and the counter is increased, in one write.
"""

from dataclasses import dataclass, field

from localplane.controller_manager.api_types import Pod
from localplane.controller_manager.jobs import indexes
from localplane.controller_manager.jobs.job_pods import JobPods
from localplane.controller_manager.jobs.job_types import Job, completion_index
from localplane.controller_manager.jobs.pod_failures import match_pod_failure_policy


@dataclass(slots=True)
class PodCounts:
    """The counts of a Job's pods; the uid lists are those of ``uncountedTerminatedPods`` without released pods."""

    pods: JobPods
    succeeded_uids: list[str]
    failed_uids: list[str]
    counted_succeeded: int
    counted_failed: int
    completed: set[int]
    """Completion indexes that the status contains."""
    new_succeeded: list[Pod] = field(default_factory=list)
    new_failed: list[Pod] = field(default_factory=list)
    failed: int = 0
    """Number of all failures that count."""
    succeeded: int = 0
    """Number of all successes."""
    done: set[int] = field(default_factory=set)
    """Completion indexes of all successes."""


def is_pod_failed(job: Job, pod: Pod) -> bool:
    """Report whether a pod is treated as failed."""
    if pod.status.phase == "Failed":
        return True
    return not job.replaces_failed_only and pod.metadata.deleting and pod.status.phase != "Succeeded"


def has_valid_index(job: Job, pod: Pod) -> bool:
    """Report whether the index of a pod is valid for an Indexed Job; pods of other Jobs need no index."""
    index = completion_index(pod)
    return not job.is_indexed or (index is not None and index < (job.completions or 0))


def count_pods(job: Job, pods: JobPods) -> PodCounts:
    """Return the counts of a Job's pods."""
    uncounted = job.status.uncounted_terminated_pods
    succeeded = [uid for uid in uncounted.succeeded or () if uid in pods.held]
    failed = [uid for uid in uncounted.failed or () if uid in pods.held]
    counts = PodCounts(
        pods=pods,
        succeeded_uids=succeeded,
        failed_uids=failed,
        counted_succeeded=job.status.succeeded + len(uncounted.succeeded or ()) - len(succeeded),
        counted_failed=job.status.failed + len(uncounted.failed or ()) - len(failed),
        completed=indexes.parse_indexes(job.status.completed_indexes, limit=job.completions or 0)
        if job.is_indexed
        else set(),
    )
    known = {*succeeded, *failed}
    for uid, pod in pods.held_inactive.items():
        if uid in known or not has_valid_index(job, pod):
            continue
        if pod.status.phase == "Succeeded":
            counts.new_succeeded.append(pod)
        elif is_pod_failed(job, pod):
            counts.new_failed.append(pod)
    policy = job.spec.pod_failure_policy
    counting = [pod for pod in counts.new_failed if policy is None or match_pod_failure_policy(policy, pod).counts]
    counts.failed = counts.counted_failed + len(failed) + len(counting)
    if job.is_indexed:
        new = {completion_index(pod) for pod in counts.new_succeeded}
        counts.done = counts.completed | {index for index in new if index is not None}
        counts.succeeded = len(counts.done)
    else:
        counts.succeeded = counts.counted_succeeded + len(succeeded) + len(counts.new_succeeded)
    return counts
