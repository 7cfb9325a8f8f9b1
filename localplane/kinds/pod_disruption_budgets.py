"""Defines PodDisruptionBudgets, which limit the evictions of the pods that they select."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from dra.kube.clock import rfc3339
from localplane.kinds import columns, field_errors, int_or_percent, label_selectors
from localplane.kinds.kind import Kind, Strategy
from localplane.objects import Object
from localplane.status_errors import FieldError

COLLECTION: Final = "poddisruptionbudgets.policy"
DISRUPTION_ALLOWED: Final = "DisruptionAllowed"
"""Type of the condition that says whether a pod may be evicted."""

SUFFICIENT_PODS: Final = "SufficientPods"
INSUFFICIENT_PODS: Final = "InsufficientPods"
SYNC_FAILED: Final = "SyncFailed"

ALWAYS_ALLOW: Final = "AlwaysAllow"
_UNHEALTHY_POD_EVICTION_POLICIES: Final = (ALWAYS_ALLOW, "IfHealthyBudget")

_COUNTS: Final = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def selects(budget: Object, labels: Mapping[str, str]) -> bool:
    """Return whether a budget selects a pod of its namespace: an empty selector every pod, a missing selector none."""
    selector = (budget.get("spec") or {}).get("selector")
    return selector is not None and label_selectors.matches(selector, labels)


def with_condition(status: Object, *, reason: str, message: str = "", now: datetime) -> list[Object]:
    """Return the conditions of a status with a new DisruptionAllowed, which is True for the reason SufficientPods."""
    conditions = [dict(entry) for entry in status.get("conditions") or ()]
    condition = next((entry for entry in conditions if entry.get("type") == DISRUPTION_ALLOWED), None)
    if condition is None:
        condition = {"type": DISRUPTION_ALLOWED}
        conditions.append(condition)
    value = "True" if reason == SUFFICIENT_PODS else "False"
    if condition.get("status") != value:
        condition["lastTransitionTime"] = rfc3339(now)
    condition.update(status=value, reason=reason, message=message)
    condition.pop("observedGeneration", None)
    if status.get("observedGeneration"):
        condition["observedGeneration"] = status["observedGeneration"]
    return conditions


class PodDisruptionBudgetStrategy(Strategy):
    """The strategy of PodDisruptionBudgets, whose status the disruption controller and evictions write."""

    def default(self, obj: Object) -> None:
        """Set the counts of the status, which Go writes even if they are zero."""
        obj.setdefault("spec", {})
        status = obj.setdefault("status", {})
        for name in _COUNTS:
            status.setdefault(name, 0)

    def prepare_for_create(self, obj: Object) -> None:
        """Set a status that allows no disruption until the disruption controller has counted the pods."""
        obj["status"] = dict.fromkeys(_COUNTS, 0)

    def validate(self, obj: Object) -> list[FieldError]:
        """Return the errors of the limits, the selector and the policy for unhealthy pods."""
        spec, causes = obj["spec"], []
        if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
            go = {name[0].upper() + name[1:]: spec.get(name) for name in _SPEC_FIELDS}
            causes.append(field_errors.invalid("spec", go, "minAvailable and maxUnavailable cannot be both set"))
        for name in ("minAvailable", "maxUnavailable"):
            if (value := spec.get(name)) is not None:
                causes += int_or_percent.validate(f"spec.{name}", value)
                causes += int_or_percent.validate_at_most_100_percent(f"spec.{name}", value)
        causes += label_selectors.validate("spec.selector", spec.get("selector") or {})
        policy = spec.get("unhealthyPodEvictionPolicy")
        if policy is not None and policy not in _UNHEALTHY_POD_EVICTION_POLICIES:
            path = "spec.unhealthyPodEvictionPolicy"
            causes.append(field_errors.not_supported(path, policy, _UNHEALTHY_POD_EVICTION_POLICIES))
        return causes

    def validate_update(self, new: Object, old: Object) -> list[FieldError]:
        """Return the errors of a changed spec, and of a status with negative counts."""
        causes = self.validate(new) if new["spec"] != old["spec"] else []
        for name in _COUNTS:
            causes += field_errors.validate_non_negative("status", new["status"], name)
        return causes

    def table_cells(self, obj: Object, *, now: datetime) -> Mapping[str, Any]:
        """Return the cells of ``kubectl get poddisruptionbudgets``."""
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        return {
            "Min Available": str(spec.get("minAvailable", "N/A")),
            "Max Unavailable": str(spec.get("maxUnavailable", "N/A")),
            "Allowed Disruptions": status.get("disruptionsAllowed", 0),
            "Age": columns.age(obj, now),
        }


_SPEC_FIELDS: Final = ("minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy")
"""Fields of the spec in the order of the Go type, which the error of a spec with both limits shows."""

KINDS: Final = (
    Kind(
        group="policy",
        plural="poddisruptionbudgets",
        name="PodDisruptionBudget",
        short_names=("pdb",),
        strategy=PodDisruptionBudgetStrategy(),
        allow_unconditional_update=False,
        columns=(
            columns.NAME,
            *columns.strings("Min Available", "Max Unavailable"),
            *columns.integers("Allowed Disruptions"),
            columns.AGE,
        ),
    ),
)
