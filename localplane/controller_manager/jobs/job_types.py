"""Jobs, as their controller reads them."""

from typing import Any, Final

from dra.model.meta import ObjectMeta, Struct
from localplane.controller_manager.api_types import Condition, Pod, PodTemplateSpec

JOB_TRACKING_FINALIZER: Final = "batch.kubernetes.io/job-tracking"
"""The finalizer that keeps a pod until it has been counted."""

JOB_COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
JOB_CONTROLLER_NAME: Final = "kubernetes.io/job-controller"


class UncountedTerminatedPods(Struct, frozen=True):
    """``status.uncountedTerminatedPods``."""

    succeeded: list[str] | None = None
    failed: list[str] | None = None


class JobSpec(Struct, frozen=True):
    """``spec``; the server has filled in the defaults."""

    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    backoff_limit: int | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool = False
    pod_failure_policy: dict[str, Any] | None = None
    success_policy: dict[str, Any] | None = None
    pod_replacement_policy: str = ""
    managed_by: str | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class JobStatus(Struct, frozen=True):
    """``status``."""

    conditions: list[Condition] | None = None
    start_time: str | None = None
    completion_time: str | None = None
    active: int = 0
    ready: int | None = None
    terminating: int | None = None
    succeeded: int = 0
    failed: int = 0
    completed_indexes: str = ""
    uncounted_terminated_pods: UncountedTerminatedPods = UncountedTerminatedPods()


class Job(Struct, frozen=True):
    """A Job."""

    metadata: ObjectMeta
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    @property
    def indexed(self) -> bool:
        """Whether each of its pods has an index."""
        return self.spec.completion_mode == "Indexed"

    @property
    def completions(self) -> int | None:
        """How many pods are to succeed; None: any success ends the Job."""
        if self.spec.completions is None and self.spec.parallelism is None:
            return 1
        return self.spec.completions

    @property
    def parallelism(self) -> int:
        """How many pods may work at a time."""
        return 1 if self.spec.parallelism is None else self.spec.parallelism

    @property
    def backoff_limit(self) -> int:
        """How many pods may fail."""
        return 6 if self.spec.backoff_limit is None else self.spec.backoff_limit

    @property
    def replaces_failed_only(self) -> bool:
        """Whether a pod is replaced only once it has ended, not already when it is deleted."""
        return self.spec.pod_replacement_policy == "Failed" or self.spec.pod_failure_policy is not None

    @property
    def ours(self) -> bool:
        """Whether no other controller manages it."""
        return self.spec.managed_by in (None, JOB_CONTROLLER_NAME)

    def condition(self, kind: str) -> Condition | None:
        """Return a condition that is True."""
        return next((c for c in self.status.conditions or () if c.type == kind and c.status == "True"), None)

    @property
    def finished(self) -> Condition | None:
        """The condition by which it is over, if it is."""
        return self.condition("Complete") or self.condition("Failed")


def has_tracking_finalizer(pod: Pod) -> bool:
    """Whether a pod has not been counted for good."""
    return JOB_TRACKING_FINALIZER in (pod.metadata.finalizers or ())


def completion_index(pod: Pod) -> int | None:
    """Return the completion index of a pod."""
    text = pod.metadata.annotation(JOB_COMPLETION_INDEX) or ""
    return int(text) if text.isdecimal() else None
