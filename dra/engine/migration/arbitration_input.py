"""The input of arbitration beside jobs and pods, and whether the result may be another one by now."""

from typing import Any

from dra.model.meta import Key, Uid
from dra.model.preemption import PodDisruptionBudget, PodUnavailableBudget


class ArbitrationInput:
    """The budgets of pods, and the jobs that wait; without a waiting job, events cost no arbitration."""

    def __init__(self) -> None:
        self.is_due = False
        """Whether something changed that arbitration reads."""
        self.disruption_budgets: dict[Key, PodDisruptionBudget] = {}
        self.unavailable_budgets: dict[Key, PodUnavailableBudget] = {}
        self._waiting: set[Uid] = set()

    def job_changed(self, uid: Uid, *, is_waiting: bool) -> None:
        """Record whether a job waits that is new, has changed or is gone; what it uses counts for all other jobs."""
        (self._waiting.add if is_waiting else self._waiting.discard)(uid)
        self.is_due = True

    def input_changed(self) -> None:
        """Record that a pod or a budget has changed."""
        if self._waiting:
            self.is_due = True

    def observe_budget(self, budget: PodDisruptionBudget | PodUnavailableBudget) -> None:
        """Record a budget from the watch."""
        self._budgets_like(budget)[budget.metadata.key] = budget
        self.input_changed()

    def forget_budget(self, budget: PodDisruptionBudget | PodUnavailableBudget) -> None:
        """Remove a budget that is deleted."""
        self._budgets_like(budget).pop(budget.metadata.key, None)
        self.input_changed()

    def _budgets_like(self, budget: PodDisruptionBudget | PodUnavailableBudget) -> dict[Key, Any]:
        return self.disruption_budgets if isinstance(budget, PodDisruptionBudget) else self.unavailable_budgets
