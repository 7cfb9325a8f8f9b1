"""Whether a Job is over, and how: the criteria in upstream's order and words."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from dra.local.workloads.jobs import indexes
from dra.local.workloads.jobs.failures import judge
from dra.local.workloads.jobs.manifests import Job
from dra.local.workloads.jobs.tally import Tally, has_failed
from dra.local.workloads.manifests import time_of

FAILURE_TARGET: Final = "FailureTarget"
SUCCESS_CRITERIA_MET: Final = "SuccessCriteriaMet"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ends; told at once by the interim condition, and by the final one when no pod is left at work."""

    reason: str
    message: str
    success: bool = False

    @property
    def interim(self) -> str:
        """The condition that comes first."""
        return SUCCESS_CRITERIA_MET if self.success else FAILURE_TARGET

    @property
    def final(self) -> str:
        """The condition that comes last."""
        return "Complete" if self.success else "Failed"


def ended_early(job: Job, found: Tally, *, now: datetime) -> Outcome | None:
    """Return the outcome of a Job whose pods that still work are to be ended."""
    told = job.condition(SUCCESS_CRITERIA_MET)
    if told is not None:
        return Outcome(told.reason, told.message, success=True)
    told = job.condition(FAILURE_TARGET)
    if told is not None:
        return Outcome(told.reason, told.message)
    failure = _failed_by_policy(job, found)
    if failure is not None:
        return failure
    if found.failed > job.backoff_limit or _restarted_too_often(job, found):
        return Outcome("BackoffLimitExceeded", "Job has reached the specified backoff limit")
    deadline = seconds_left(job, now=now)
    if deadline is not None and deadline <= 0.0:
        return Outcome("DeadlineExceeded", "Job was active longer than specified deadline")
    return _succeeded_by_policy(job, found)


def completed(job: Job, found: Tally) -> Outcome | None:
    """Return the outcome of a Job that has done what it should."""
    if found.active:
        return None
    enough = found.succeeded > 0 if job.completions is None else found.succeeded >= job.completions
    if not enough:
        return None
    return Outcome("CompletionsReached", "Reached expected number of succeeded pods", success=True)


def seconds_left(job: Job, *, now: datetime) -> float | None:
    """Return how long it may still work; None: for ever."""
    limit, began = job.spec.active_deadline_seconds, time_of(job.status.start_time)
    if limit is None or began is None or job.spec.suspend:
        return None
    return limit - (now - began).total_seconds()


def _failed_by_policy(job: Job, found: Tally) -> Outcome | None:
    policy = job.spec.pod_failure_policy
    if policy is None:
        return None
    verdicts = (judge(policy, pod) for pod in found.pods if has_failed(job, pod))
    message = next((verdict.fails_job for verdict in verdicts if verdict.fails_job), "")
    return Outcome("PodFailurePolicy", message) if message else None


def _restarted_too_often(job: Job, found: Tally) -> bool:
    """Whether the containers of its pods, which are restarted in place, have been restarted too often."""
    if job.spec.template.spec.get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(pod.restarts for pod in found.pods if not pod.terminal)
    return restarts > 0 and restarts >= job.backoff_limit


def _succeeded_by_policy(job: Job, found: Tally) -> Outcome | None:
    for number, rule in enumerate((job.spec.success_policy or {}).get("rules") or ()):
        count, wanted = rule.get("succeededCount"), found.done
        if "succeededIndexes" in rule:
            required = indexes.parsed(rule["succeededIndexes"], limit=job.completions or 0)
            wanted = found.done & required
            if required and wanted == required:
                count = len(wanted)
        if wanted and count is not None and len(wanted) >= count:
            return Outcome("SuccessPolicy", f"Matched rules at index {number}", success=True)
    return None
