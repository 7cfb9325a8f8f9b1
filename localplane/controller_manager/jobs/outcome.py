"""Decides whether a Job is over, and with which outcome: the criteria in upstream's order and words."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from localplane.controller_manager.api_types import parse_time
from localplane.controller_manager.jobs import indexes
from localplane.controller_manager.jobs.job_types import Job
from localplane.controller_manager.jobs.pod_counts import PodCounts
from localplane.controller_manager.jobs.pod_failures import match_pod_failure_policy

FAILURE_TARGET: Final = "FailureTarget"
SUCCESS_CRITERIA_MET: Final = "SuccessCriteriaMet"


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """The outcome of a Job: reported at once by the interim condition, and by the final one when no pod is left."""

    reason: str
    message: str
    success: bool = False

    @property
    def interim_condition(self) -> str:
        """Return the type of the condition that is added first."""
        return SUCCESS_CRITERIA_MET if self.success else FAILURE_TARGET

    @property
    def final_condition(self) -> str:
        """Return the type of the condition that is added last."""
        return "Complete" if self.success else "Failed"


def early_outcome(job: Job, counts: PodCounts, *, now: datetime) -> JobOutcome | None:
    """Return the outcome of a Job whose active pods have to be ended."""
    condition = job.condition(SUCCESS_CRITERIA_MET)
    if condition is not None:
        return JobOutcome(condition.reason, condition.message, success=True)
    condition = job.condition(FAILURE_TARGET)
    if condition is not None:
        return JobOutcome(condition.reason, condition.message)
    failure = _failure_policy_outcome(job, counts)
    if failure is not None:
        return failure
    if counts.failed > job.backoff_limit or _past_backoff_limit_on_failure(job, counts):
        return JobOutcome("BackoffLimitExceeded", "Job has reached the specified backoff limit")
    deadline = seconds_to_deadline(job, now=now)
    if deadline is not None and deadline <= 0.0:
        return JobOutcome("DeadlineExceeded", "Job was active longer than specified deadline")
    return _success_policy_outcome(job, counts)


def completion_outcome(job: Job, counts: PodCounts) -> JobOutcome | None:
    """Return the outcome of a Job that has completed."""
    if counts.pods.active:
        return None
    enough = counts.succeeded > 0 if job.completions is None else counts.succeeded >= job.completions
    if not enough:
        return None
    return JobOutcome("CompletionsReached", "Reached expected number of succeeded pods", success=True)


def seconds_to_deadline(job: Job, *, now: datetime) -> float | None:
    """Return the seconds until the Job's active deadline; None without a deadline."""
    limit, started = job.spec.active_deadline_seconds, parse_time(job.status.start_time)
    if limit is None or started is None or job.spec.suspend:
        return None
    return limit - (now - started).total_seconds()


def _failure_policy_outcome(job: Job, counts: PodCounts) -> JobOutcome | None:
    policy = job.spec.pod_failure_policy
    if policy is None:
        return None
    results = (match_pod_failure_policy(policy, pod) for pod in counts.pods.failed.values())
    message = next((result.job_failure_message for result in results if result.job_failure_message), "")
    return JobOutcome("PodFailurePolicy", message) if message else None


def _past_backoff_limit_on_failure(job: Job, counts: PodCounts) -> bool:
    """Report whether the containers of the Job's pods, which restart in place, have reached the backoff limit."""
    if job.spec.template.spec.get("restartPolicy") != "OnFailure":
        return False
    return counts.pods.restarts > 0 and counts.pods.restarts >= job.backoff_limit


def _success_policy_outcome(job: Job, counts: PodCounts) -> JobOutcome | None:
    for number, rule in enumerate((job.spec.success_policy or {}).get("rules") or ()):
        count, wanted = rule.get("succeededCount"), counts.done
        if "succeededIndexes" in rule:
            required = indexes.parse_indexes(rule["succeededIndexes"], limit=job.completions or 0)
            wanted = counts.done & required
            if required and wanted == required:
                count = len(wanted)
        if wanted and count is not None and len(wanted) >= count:
            return JobOutcome("SuccessPolicy", f"Matched rules at index {number}", success=True)
    return None
