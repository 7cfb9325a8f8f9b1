"""How a Job's pods stand: counted for good, ended and not counted yet, at work.

A pod that ends is counted in three steps, so that none is forgotten or counted twice whatever fails in between:
1. its uid is written into ``uncountedTerminatedPods`` (of an Indexed success: its index into ``completedIndexes``),
2. its finalizer is taken off,
3. its uid leaves the list and the counter grows, in one write.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from localplane.controller_manager.api_types import Pod
from localplane.controller_manager.jobs import indexes
from localplane.controller_manager.jobs.job_types import Job, completion_index, has_tracking_finalizer
from localplane.controller_manager.jobs.pod_failures import match_pod_failure_policy


@dataclass(slots=True)
class PodCounts:
    """What is known; the first two lists are those of ``uncountedTerminatedPods``, cleaned."""

    pods: Sequence[Pod]
    succeeded_uids: list[str]
    failed_uids: list[str]
    counted_succeeded: int
    counted_failed: int
    completed: set[int]
    """Indexes that are in the status."""
    active: list[Pod] = field(default_factory=list)
    terminating: list[Pod] = field(default_factory=list)
    new_succeeded: list[Pod] = field(default_factory=list)
    new_failed: list[Pod] = field(default_factory=list)
    failed: int = 0
    """All failures that count."""
    succeeded: int = 0
    """All successes."""
    done: set[int] = field(default_factory=set)
    """All indexes that have succeeded."""

    @property
    def ready(self) -> int:
        """How many are ready."""
        return sum(pod.ready for pod in self.active)


def is_pod_failed(job: Job, pod: Pod) -> bool:
    """Whether a pod is taken for failed."""
    if pod.status.phase == "Failed":
        return True
    return not job.replaces_failed_only and pod.metadata.deleting and pod.status.phase != "Succeeded"


def has_valid_index(job: Job, pod: Pod) -> bool:
    """Whether a pod of an Indexed Job has an index that the Job wants; pods of others need none."""
    index = completion_index(pod)
    return not job.indexed or (index is not None and index < (job.completions or 0))


def count_pods(job: Job, pods: Sequence[Pod]) -> PodCounts:
    """Count."""
    held = {pod.metadata.uid for pod in pods if has_tracking_finalizer(pod)}
    uncounted = job.status.uncounted_terminated_pods
    succeeded = [uid for uid in uncounted.succeeded or () if uid in held]
    failed = [uid for uid in uncounted.failed or () if uid in held]
    found = PodCounts(
        pods=pods,
        succeeded_uids=succeeded,
        failed_uids=failed,
        counted_succeeded=job.status.succeeded + len(uncounted.succeeded or ()) - len(succeeded),
        counted_failed=job.status.failed + len(uncounted.failed or ()) - len(failed),
        completed=indexes.parse_indexes(job.status.completed_indexes, limit=job.completions or 0)
        if job.indexed
        else set(),
    )
    known = {*succeeded, *failed}
    for pod in pods:
        if pod.active:
            found.active.append(pod)
        elif not pod.terminal:
            found.terminating.append(pod)
        if pod.metadata.uid in known or not has_tracking_finalizer(pod) or not has_valid_index(job, pod):
            continue
        if pod.status.phase == "Succeeded":
            found.new_succeeded.append(pod)
        elif is_pod_failed(job, pod):
            found.new_failed.append(pod)
    policy = job.spec.pod_failure_policy
    counting = [pod for pod in found.new_failed if policy is None or match_pod_failure_policy(policy, pod).counts]
    found.failed = found.counted_failed + len(failed) + len(counting)
    if job.indexed:
        new = {completion_index(pod) for pod in found.new_succeeded}
        found.done = found.completed | {index for index in new if index is not None}
        found.succeeded = len(found.done)
    else:
        found.succeeded = found.counted_succeeded + len(succeeded) + len(found.new_succeeded)
    return found
