"""The choice of victims on one node, in the order of kube-scheduler's DefaultPreemption.

All pods of a lower priority are removed from the node. If the preemptor fits then, pods are put back one by one while
it still fits: first those whose eviction would violate a PodDisruptionBudget, then the others; in each group the most
important first, by priority, then by age. The pods that could not be put back are the victims. A budget never forbids
an eviction: it is violated where nothing else helps, and kube-scheduler prefers nodes where that is not so.

The scheduler extender, the simulation and the local plane choose by this one function.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from dra.model.meta import Key, Struct, Uid
from dra.model.preemption import PodDisruptionBudget
from dra.model.scheduling import SchedulerPod

NOT_STARTED: Final = "~"
"""Start time of a pod that has not started: sorts after every timestamp."""


class PotentialVictim(Struct, frozen=True):
    """A pod that may be evicted, with all that decides whether it is."""

    key: Key
    uid: Uid
    priority: int = 0
    start_time: str = ""
    """Time of ``status.startTime``; empty: the pod has not started."""
    labels: Mapping[str, str] = {}

    @property
    def importance(self) -> tuple[int, str]:
        """Return the sort key of pods by importance, the most important first."""
        return (-self.priority, self.start_time or NOT_STARTED)

    @classmethod
    def from_pod(cls, pod: SchedulerPod) -> "PotentialVictim":
        """Return the PotentialVictim of a pod on a node."""
        meta = pod.metadata
        return cls(
            key=meta.key,
            uid=meta.uid,
            priority=pod.spec.priority,
            start_time=pod.status.start_time or "",
            labels=meta.labels or {},
        )


class ChosenVictims(Struct, frozen=True):
    """The pods to evict, the most important first, and those whose eviction violates a budget."""

    uids: tuple[Uid, ...]
    pdb_violations: frozenset[Uid]


def choose_victims(
    candidates: Iterable[PotentialVictim],
    budgets: Sequence[PodDisruptionBudget],
    *,
    reprieve: Callable[[Uid], bool],
    required: AbstractSet[Uid] = frozenset(),
    empty_selectors_match: bool = True,
) -> ChosenVictims:
    """Return the victims among candidates, all of which have been removed from the node.

    `reprieve` puts a pod back and returns True if the preemptor still fits; otherwise it leaves the pod removed.
    `required` are candidates that must be evicted in any case. `empty_selectors_match`: budgets with an empty selector
    cover all pods of their namespace, as for kube-scheduler since 1.38.
    """
    ordered = sorted(candidates, key=lambda candidate: candidate.importance)
    violating = _violating_pods(ordered, budgets, empty_selectors_match=empty_selectors_match)
    victims: set[Uid] = set()
    for candidate in sorted(ordered, key=lambda candidate: candidate.uid not in violating):
        if candidate.uid in required or not reprieve(candidate.uid):
            victims.add(candidate.uid)
    return ChosenVictims(
        uids=tuple(candidate.uid for candidate in ordered if candidate.uid in victims),
        pdb_violations=frozenset(violating & victims),
    )


def _violating_pods(
    candidates: Iterable[PotentialVictim], budgets: Sequence[PodDisruptionBudget], *, empty_selectors_match: bool
) -> set[Uid]:
    """Return the candidates whose eviction violates a budget, if they are evicted in the given order.

    As in kube-scheduler, the first budget of a pod that is used up ends the search: later budgets do not count the pod.
    """
    allowed = [budget.status.disruptions_allowed for budget in budgets]
    violating: set[Uid] = set()
    for candidate in candidates:
        for number, budget in enumerate(budgets):
            if budget.matches_pod(candidate.key, candidate.labels, empty_matches=empty_selectors_match):
                allowed[number] -= 1
                if allowed[number] < 0:
                    violating.add(candidate.uid)
                    break
    return violating
