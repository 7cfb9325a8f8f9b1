"""Decided differences between koord-manager and dra-reserve: each has a row of KEP-notes.md with the reason.

Rows begin with ``Batch resources: ``. In none of them dra-reserve offers more, but for what batch pods hold already,
and for the percent of the capacity that koord-manager loses where a ratio has no exact binary form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from dra.model.meta import Struct
from tests.scenarios.koordinator.batch_resources.cases import Kind

if TYPE_CHECKING:
    from tests.scenarios.koordinator.batch_resources.cases import Case
    from tests.scenarios.koordinator.batch_resources.outcomes import Outcome

Amounts: TypeAlias = tuple[int, int]
Condition: TypeAlias = "Callable[[Case, Difference], bool]"

ROUNDING: Final = 1
"""Units, a milli-CPU or a byte, by which equal outcomes may differ: a half is rounded up there, and down here."""


class Difference(Struct, frozen=True, kw_only=True):
    """The outcomes of a case, if they differ."""

    case: int
    kind: Kind
    theirs: Amounts
    ours: Amounts
    """Milli-CPUs and bytes."""
    held: Amounts
    """What batch pods on the node request."""

    @property
    def more(self) -> bool:
        """Whether dra-reserve offers more than koord-manager, and more than is held and than ratios explain."""
        if self.kind is Kind.RATIO:
            return False
        pairs = zip(self.theirs, self.ours, self.held, strict=True)
        return any(ours > max(theirs + ROUNDING, held) for theirs, ours, held in pairs)

    @property
    def is_floor(self) -> bool:
        """Whether all of the difference is that dra-reserve offers at least what is held."""
        pairs = zip(self.theirs, self.ours, self.held, strict=True)
        return all(abs(ours - max(theirs, held)) <= ROUNDING for theirs, ours, held in pairs)


@dataclass(frozen=True, kw_only=True)
class Decided:
    """A decided difference."""

    row: str
    """The first words of the row in KEP-notes.md, after ``Batch resources: ``."""
    condition: Condition


DECIDED: Final = (
    Decided(row="batch pods on the node hold more than is left", condition=lambda _, found: found.is_floor),
    Decided(
        row="a NodeMetric without `systemUsage`",
        condition=lambda case, found: case.kind is Kind.INCOMPLETE and not found.more,
    ),
    Decided(
        row="negative and impossible amounts",
        condition=lambda case, found: case.kind is Kind.LYING and not found.more,
    ),
    Decided(
        row="ratios by label are decimal",
        condition=lambda case, _: case.kind is Kind.RATIO,
    ),
    Decided(
        row="a pod that is measured without its memory",
        condition=lambda case, found: case.kind is Kind.PARTIAL and not found.more,
    ),
    Decided(
        row="an application of the host without a priority class",
        condition=lambda case, found: case.kind is Kind.UNCLASSED and not found.more,
    ),
    Decided(
        row="sidecars",
        condition=lambda case, found: case.kind is Kind.SIDECARS and not found.more,
    ),
    Decided(
        row="pods without a metric under `maxUsageRequest`",
        condition=lambda case, found: case.kind is Kind.GREATER and not found.more,
    ),
)


def compare(
    cases: Iterable[Case], theirs: Mapping[int, Outcome], ours: Mapping[int, tuple[Outcome, Outcome]]
) -> list[Difference]:
    """Return the cases whose outcomes differ by more than the rounding; `ours` has what is offered and what is held."""
    found = []
    for case in cases:
        offered, held = (each.offered for each in ours[case.number])
        difference = Difference(
            case=case.number, kind=case.kind, theirs=theirs[case.number].offered, ours=offered, held=held
        )
        if any(abs(one - other) > ROUNDING for one, other in zip(difference.theirs, offered, strict=True)):
            found.append(difference)
    return found


def undecided(cases: Mapping[int, Case], differences: Iterable[Difference]) -> list[Difference]:
    """Return the differences that nobody has decided."""
    return [each for each in differences if not any(decided.condition(cases[each.case], each) for decided in DECIDED)]
