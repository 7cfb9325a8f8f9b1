"""Decides whether PodDisruptionBudgets allow an eviction, with kube-apiserver's answers."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from dra.kube.clock import rfc3339
from localplane import status_errors
from localplane.kinds import pod_disruption_budgets as budgets
from localplane.objects import Object, ObjectLister, metadata
from localplane.status_errors import StatusError

MAX_DISRUPTED_PODS: Final = 2000
"""Maximum number of granted evictions that the disruption controller has not observed yet."""

RETRY_SECONDS: Final = 10
"""Seconds after which a client may ask again while a changed budget is processed."""

_CAUSE: Final = "DisruptionBudget"
_VIOLATION: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_SEVERAL_BUDGETS: Final = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
)
_WITHOUT_BUDGET: Final = ("Succeeded", "Failed", "Pending")
"""Phases of pods that may be evicted without a budget: such a pod serves nobody."""


def take_disruption(pod: Object, objects: ObjectLister, *, now: datetime) -> tuple[tuple[str, Object], ...]:
    """Return the budget with one disruption less, no object if the eviction needs none; raises `StatusError`."""
    meta, status = metadata(pod), pod.get("status") or {}
    if status.get("phase") in _WITHOUT_BUDGET or "deletionTimestamp" in meta:
        return ()
    matching = [
        candidate
        for candidate in objects.list_objects(budgets.COLLECTION)
        if metadata(candidate)["namespace"] == meta["namespace"]
        and budgets.selects(candidate, meta.get("labels") or {})
    ]
    if not matching:
        return ()
    if len(matching) > 1:
        raise StatusError(500, "", _SEVERAL_BUDGETS)
    budget = matching[0]
    if not _is_ready(status) and _unhealthy_pod_may_go(budget):
        return ()
    _check(budget)
    counts = budget["status"]
    counts["disruptionsAllowed"] -= 1
    counts["disruptedPods"] = {**(counts.get("disruptedPods") or {}), meta["name"]: rfc3339(now)}
    if counts["disruptionsAllowed"] == 0:
        counts["conditions"] = budgets.with_condition(counts, reason=budgets.INSUFFICIENT_PODS, now=now)
    return ((budgets.COLLECTION, budget),)


def check_preconditions(meta: Object, wanted: Mapping[str, Any]) -> None:
    """Raise 409 Conflict for a pod of another uid or resourceVersion than the eviction asks for."""
    for what, name, why in (
        ("UID", "uid", "deleted and then recreated"),
        ("ResourceVersion", "resourceVersion", "modified"),
    ):
        if wanted.get(name) and wanted[name] != meta[name]:
            text = (
                f"the {what} in the precondition ({wanted[name]}) does not match the {what} in record ({meta[name]}). "
                f"The object might have been {why}"
            )
            raise status_errors.conflict("Pod", "", meta["name"], text)


def _is_ready(status: Object) -> bool:
    return any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )


def _unhealthy_pod_may_go(budget: Object) -> bool:
    """Return whether a pod that is not ready, which the budget does not count as healthy, may be evicted."""
    if budget["spec"].get("unhealthyPodEvictionPolicy") == budgets.ALWAYS_ALLOW:
        return True
    desired: int = budget["status"]["desiredHealthy"]
    return bool(budget["status"]["currentHealthy"] >= desired > 0)


def _check(budget: Object) -> None:
    """Raise the answer to an eviction that a budget does not allow."""
    meta, status = metadata(budget), budget["status"]
    name = meta["name"]
    if status.get("observedGeneration", 0) < meta["generation"]:
        cause = f"The disruption budget {name} is still being processed by the server."
        raise _too_many_requests(cause, retry_seconds=RETRY_SECONDS)
    if len(status.get("disruptedPods") or ()) > MAX_DISRUPTED_PODS:
        error = status_errors.forbidden(
            "poddisruptionbudget",
            "policy",
            name,
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        )
        why = "too many pending evictions not confirmed by PDB controller"
        cause = f"The disruption budget {name} does not allow evicting pods currently: {why}"
        error.details = {**(error.details or {}), "causes": [{"reason": _CAUSE, "message": cause}]}
        raise error
    if status["disruptionsAllowed"] == 0:
        raise _too_many_requests(_why_none_is_allowed(name, status))


def _why_none_is_allowed(name: str, status: Object) -> str:
    conditions = status.get("conditions") or ()
    condition: Object = next((entry for entry in conditions if entry.get("type") == budgets.DISRUPTION_ALLOWED), {})
    reason, message = condition.get("reason", ""), condition.get("message", "")
    has_message = condition.get("status") == "False" and bool(message)
    if has_message and reason == budgets.SYNC_FAILED:  # first, because the counts are old then
        return f"The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
    desired, healthy = status["desiredHealthy"], status["currentHealthy"]
    if healthy <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
    if has_message:
        return f"The disruption budget {name} does not allow evicting pods currently ({reason}): {message}"
    return f"The disruption budget {name} does not allow evicting pods currently"


def _too_many_requests(cause: str, *, retry_seconds: int = 0) -> StatusError:
    details: Object = {"causes": [{"reason": _CAUSE, "message": cause}]}
    if retry_seconds:
        details["retryAfterSeconds"] = retry_seconds
    return StatusError(429, "TooManyRequests", _VIOLATION, details)
