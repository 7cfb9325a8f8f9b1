"""PodDisruptionBudgets as their controller reads them."""

from typing import Any

from dra.model.meta import ObjectMeta, Struct


class PodDisruptionBudgetSpec(Struct, frozen=True):
    """``spec`` of a PodDisruptionBudget; a budget without a selector selects no pod."""

    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: dict[str, Any] | None = None


class PodDisruptionBudgetStatus(Struct, frozen=True):
    """``status`` of a PodDisruptionBudget; conditions are plain data, because foreign conditions are kept."""

    observed_generation: int = 0
    disrupted_pods: dict[str, str] | None = None
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    conditions: list[dict[str, Any]] | None = None


class PodDisruptionBudget(Struct, frozen=True):
    """A PodDisruptionBudget with the fields that the controller reads."""

    metadata: ObjectMeta
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
