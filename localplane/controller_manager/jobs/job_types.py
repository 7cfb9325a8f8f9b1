"""Jobs as their controller reads them."""

from typing import Any, Final

from dra.model.meta import ObjectMeta, Struct
from localplane.controller_manager.api_types import Condition, Pod, PodTemplateSpec

JOB_TRACKING_FINALIZER: Final = "batch.kubernetes.io/job-tracking"
"""Finalizer that keeps a pod until the pod has been counted."""

JOB_COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
JOB_CONTROLLER_NAME: Final = "kubernetes.io/job-controller"


class UncountedTerminatedPods(Struct, frozen=True):
    """``status.uncountedTerminatedPods`` of a Job."""

    succeeded: list[str] | None = None
    failed: list[str] | None = None


class JobSpec(Struct, frozen=True):
    """``spec`` of a Job; the API server has set the defaults."""

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
    """``status`` of a Job, as far as the controller reads the status."""

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
    """A Job with the fields that the controller reads."""

    metadata: ObjectMeta
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    @property
    def is_indexed(self) -> bool:
        """Report whether each of the Job's pods has a completion index."""
        return self.spec.completion_mode == "Indexed"

    @property
    def completions(self) -> int | None:
        """Return the number of pods that must succeed; None if any success completes the Job."""
        if self.spec.completions is None and self.spec.parallelism is None:
            return 1
        return self.spec.completions

    @property
    def parallelism(self) -> int:
        """Return the maximum number of pods that run at a time."""
        return 1 if self.spec.parallelism is None else self.spec.parallelism

    @property
    def backoff_limit(self) -> int:
        """Return the maximum number of pods that may fail."""
        return 6 if self.spec.backoff_limit is None else self.spec.backoff_limit

    @property
    def replaces_failed_only(self) -> bool:
        """Report whether a pod is replaced only once it has ended, and not when its deletion begins."""
        return self.spec.pod_replacement_policy == "Failed" or self.spec.pod_failure_policy is not None

    @property
    def is_managed_here(self) -> bool:
        """Report whether this controller manages the Job."""
        return self.spec.managed_by in (None, JOB_CONTROLLER_NAME)

    def condition(self, kind: str) -> Condition | None:
        """Return a condition of the Job that is True."""
        return next((c for c in self.status.conditions or () if c.type == kind and c.status == "True"), None)

    @property
    def finished_condition(self) -> Condition | None:
        """Return the condition that marks the Job as finished, if there is one."""
        return self.condition("Complete") or self.condition("Failed")


def has_tracking_finalizer(pod: Pod) -> bool:
    """Report whether a pod has not been counted for good."""
    return JOB_TRACKING_FINALIZER in (pod.metadata.finalizers or ())


def completion_index(pod: Pod) -> int | None:
    """Return the completion index of a pod."""
    text = pod.metadata.annotation(JOB_COMPLETION_INDEX) or ""
    return int(text) if text.isdecimal() else None
