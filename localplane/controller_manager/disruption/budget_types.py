"""PodDisruptionBudgets as their controller reads them."""

from typing import Any

from dra.model import preemption
from dra.model.meta import ObjectMeta, Struct


class PodDisruptionBudgetSpec(preemption.PodDisruptionBudgetSpec, frozen=True):
    """``spec`` of a PodDisruptionBudget; a budget without a selector selects no pod."""

    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class PodDisruptionBudgetStatus(preemption.PodDisruptionBudgetStatus, frozen=True):
    """``status`` of a PodDisruptionBudget; conditions are plain data, because foreign conditions are kept."""

    conditions: list[dict[str, Any]] | None = None


class PodDisruptionBudget(Struct, frozen=True):
    """A PodDisruptionBudget with the fields that the controller reads."""

    metadata: ObjectMeta
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
