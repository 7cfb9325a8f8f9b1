"""Consequences of a failed pod for its Job: the pod failure policy, and the backoff before new pods."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from localplane.controller_manager.api_types import Pod, parse_time

POD_FAILURE_BACKOFF: Final = 10.0
MAX_POD_FAILURE_BACKOFF: Final = 600.0
"""Seconds before pods are created again after failures: doubles from the initial to the maximum delay."""


@dataclass(frozen=True, slots=True)
class FailurePolicyResult:
    """The result of a pod failure policy: whether a failed pod counts, and why it fails the whole Job, if so."""

    counts: bool = True
    job_failure_message: str = ""


def match_pod_failure_policy(policy: Mapping[str, Any] | None, pod: Pod) -> FailurePolicyResult:
    """Return the result of the first rule that matches."""
    for number, rule in enumerate((policy or {}).get("rules") or ()):
        action = rule.get("action")
        reason = _match_exit_codes(rule.get("onExitCodes"), pod) or _match_pod_conditions(
            rule.get("onPodConditions"), pod
        )
        if not reason:
            continue
        if action == "FailJob":
            return FailurePolicyResult(job_failure_message=f"{reason} matching FailJob rule at index {number}")
        return FailurePolicyResult(counts=action != "Ignore")
    return FailurePolicyResult()


def _match_exit_codes(wanted: Mapping[str, Any] | None, pod: Pod) -> str:
    if wanted is None:
        return ""
    meta = pod.metadata
    for container in pod.status.container_statuses or ():
        ended = (container.state or {}).get("terminated")
        if ended is None or wanted.get("containerName") not in (None, container.name):
            continue
        code = int(ended.get("exitCode") or 0)
        if code and (code in wanted.get("values", ())) == (wanted.get("operator") == "In"):
            return f"Container {container.name} for pod {meta.namespace}/{meta.name} failed with exit code {code}"
    return ""


def _match_pod_conditions(patterns: Iterable[Mapping[str, Any]] | None, pod: Pod) -> str:
    wanted = {(pattern.get("type"), pattern.get("status", "True")) for pattern in patterns or ()}
    for condition in pod.status.conditions or ():
        if (condition.type, condition.status) in wanted:
            return f"Pod {pod.metadata.namespace}/{pod.metadata.name} has condition {condition.type}"
    return ""


@dataclass(frozen=True, slots=True)
class BackoffRecord:
    """A Job's pod failures since its last success."""

    count: int = 0
    last: datetime | None = None

    def with_finished(self, succeeded: Iterable[Pod], failed: Iterable[Pod]) -> "BackoffRecord":
        """Return the record updated with pods that have ended since."""
        successes, times = [finished_at(pod) for pod in succeeded], sorted(finished_at(pod) for pod in failed)
        if successes:
            since = [time for time in times if time > max(successes)]
            return BackoffRecord(len(since), since[-1] if since else None)
        return BackoffRecord(self.count + len(times), times[-1]) if times else self

    def remaining_time(self, now: datetime) -> float:
        """Return the seconds during which no pod may be created."""
        if self.last is None or not self.count:
            return 0.0
        pause = min(POD_FAILURE_BACKOFF * 2.0 ** min(self.count - 1, 16), MAX_POD_FAILURE_BACKOFF)
        return max((self.last + timedelta(seconds=pause) - now).total_seconds(), 0.0)


def finished_at(pod: Pod) -> datetime:
    """Return the time when a pod ended, or the best estimate of it."""
    ends = [((c.state or {}).get("terminated") or {}).get("finishedAt") for c in pod.status.container_statuses or ()]
    if ends and all(ends):
        return max(datetime.fromisoformat(end) for end in ends if end)
    for condition in pod.status.conditions or ():
        if condition.type == "Ready" and condition.status == "False" and condition.last_transition_time:
            return datetime.fromisoformat(condition.last_transition_time)
    instant = parse_time(pod.metadata.deletion_timestamp) or parse_time(pod.metadata.creation_timestamp)
    return instant or datetime.fromisoformat("1970-01-01T00:00:00Z")
