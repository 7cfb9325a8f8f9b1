"""Decided differences between koord-scheduler and dra-reserve: each has a row of KEP-notes.md with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from tests.scenarios.koordinator.placement.comparison import (
    BYTES,
    CARD_NUMBER,
    CARDS,
    CORES,
    CPU_IDS,
    CPU_NUMBER,
    ONLY_OURS,
    ONLY_THEIRS,
)
from tests.scenarios.koordinator.placement.sets import CORE, GPU, MEMORY, SHARED, VENDOR, Kind, Pod

if TYPE_CHECKING:
    from tests.scenarios.koordinator.placement.comparison import Difference
    from tests.scenarios.koordinator.placement.sets import PlacementSet

Condition: TypeAlias = "Callable[[PlacementSet, Pod], bool]"


@dataclass(frozen=True, kw_only=True)
class Decided:
    """A decided difference."""

    row: str
    """The first words of the row in KEP-notes.md, after ``Placement: ``."""
    whats: tuple[str, ...]
    condition: Condition
    """The sets and pods that differ so."""

    def covers(self, made: PlacementSet, difference: Difference) -> bool:
        """Report whether the difference is this one."""
        pod = made.steps[difference.step]
        assert isinstance(pod, Pod)
        return difference.what in self.whats and self.condition(made, pod)


def _is_bound_by_the_node_alone(made: PlacementSet, pod: Pod) -> bool:
    asks = pod.qos in ("LSR", "LSE") and "ConstrainedBurst" not in pod.words.values()
    return bool(made.machines[0].bind_policy) and not asks


def _is_refused_by_the_webhook(_: PlacementSet, pod: Pod) -> bool:
    return (pod.qos == "LSR" and pod.priority_class != "koord-prod") or (pod.qos == "LSR" and not pod.cpus[0])


def _asks_for_one_card(made: PlacementSet, pod: Pod) -> bool:
    return made.kind is Kind.WHOLE and pod.gpus[0].get(GPU) in ("50", "100")


DECIDED: Final = (
    Decided(
        row="pods that koord-manager's webhook refuses",
        whats=(ONLY_THEIRS,),
        condition=_is_refused_by_the_webhook,
    ),
    Decided(
        row="an LSE pod of another priority class than koord-prod",
        whats=(ONLY_THEIRS,),
        condition=lambda _, pod: pod.qos == "LSE" and pod.priority_class != "koord-prod",
    ),
    Decided(
        row="containers with parts of a CPU",
        whats=(ONLY_THEIRS,),
        condition=lambda _, pod: pod.cpus == ("500m", "500m"),
    ),
    Decided(
        row="the label `cpu-bind-policy` of a node binds LS pods",
        whats=(CPU_NUMBER, ONLY_OURS),
        condition=_is_bound_by_the_node_alone,
    ),
    Decided(
        row="a node without the label `numa-allocate-strategy`",
        whats=(CPU_IDS,),
        condition=lambda made, _: not made.machines[0].strategy,
    ),
    Decided(
        row="bytes of a card's memory",
        whats=(BYTES,),
        condition=lambda _, pod: bool(pod.gpus),
    ),
    Decided(
        row="which of the cards that fit",
        whats=(CARDS,),
        condition=lambda made, pod: made.kind in (Kind.CARDS, Kind.BOTH) or _asks_for_one_card(made, pod),
    ),
    Decided(
        row="cards are filled one after the other",
        whats=(ONLY_OURS, ONLY_THEIRS),
        condition=lambda made, _: made.kind is Kind.SPREAD,
    ),
    Decided(
        row="whole cards by a vendor's name",
        whats=(CORES,),
        condition=lambda _, pod: any(VENDOR in each for each in pod.gpus),
    ),
    Decided(
        row="several containers with shares",
        whats=(CARD_NUMBER, ONLY_OURS, ONLY_THEIRS),
        condition=lambda _, pod: len(pod.gpus) > 1,
    ),
    Decided(
        row="compute of several cards with bytes and without `gpu.shared`",
        whats=(ONLY_OURS,),
        condition=lambda _, pod: any(
            each.get(CORE) == "200" and MEMORY in each and SHARED not in each for each in pod.gpus
        ),
    ),
)


def undecided(made: PlacementSet, differences: Iterable[Difference]) -> list[Difference]:
    """Return the differences that nobody has decided."""
    return [each for each in differences if not any(decided.covers(made, each) for decided in DECIDED)]
