"""Comparison of the outcomes of a set, pod by pod, as far as the states before are equal.

After a difference that leaves other devices or CPUs free, later pods of the set are compared no more in what depends on
it: after a pod that one scheduler alone places and after other cards, in nothing; after other CPUs, in CPU ids. Cards
may be permuted, since equal cards are equal: a permutation has to be the same for the whole set, and to keep cards of
one PCIe root or NUMA node together.
"""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Final

from dra.engine.cpus.cpusets import parse
from dra.model.meta import Struct
from tests.scenarios.koordinator.placement.manifests import MEBI, numa_node, pcie_root
from tests.scenarios.koordinator.placement.sets import Kind, Pod

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.scenarios.koordinator.placement.outcomes import Outcome, Record, Share
    from tests.scenarios.koordinator.placement.sets import PlacementSet

ONLY_THEIRS: Final = "koord-scheduler alone places the pod"
ONLY_OURS: Final = "dra-reserve alone places the pod"
CPU_NUMBER: Final = "another number of CPUs"
CPU_IDS: Final = "other CPUs"
CARD_NUMBER: Final = "another number of cards"
CORES: Final = "other percent of compute"
BYTES: Final = "other bytes, less than 1 MiB a card"
MEMORY: Final = "other memory"
CARDS: Final = "other cards"
TOTAL: Final = "another number of pods fits"


class Difference(Struct, frozen=True, kw_only=True):
    """A difference between two outcomes."""

    set: int
    step: int
    what: str
    theirs: str
    ours: str


class Comparison(Struct, frozen=True, kw_only=True):
    """The differences of a set, and the number of pods that were compared."""

    compared: int
    differences: tuple[Difference, ...]


def compare(made: PlacementSet, theirs: Record, ours: Record) -> Comparison:
    """Compare what became of a set."""
    if made.kind is Kind.NODES:
        return _compare_totals(made, theirs, ours)
    found: list[Difference] = []
    compared = 0
    cards = _Cards(made)
    same_cpus = True
    for step, wanted in enumerate(made.steps):
        if not isinstance(wanted, Pod):
            continue
        their, our = theirs.outcomes[step], ours.outcomes[step]
        compared += 1
        passing = made.is_deleted_at_once(step)
        whats = _differences(their, our, None if passing else cards, ids=same_cpus)
        found += [
            Difference(set=made.number, step=step, what=what, theirs=_text(their), ours=_text(our)) for what in whats
        ]
        if passing:
            continue
        same_cpus &= not {CPU_IDS, CPU_NUMBER} & set(whats)
        if {ONLY_THEIRS, ONLY_OURS, CARD_NUMBER, MEMORY, CARDS} & set(whats):
            break
    return Comparison(compared=compared, differences=tuple(found))


def _compare_totals(made: PlacementSet, theirs: Record, ours: Record) -> Comparison:
    """Compare how many equal pods fit on the machines altogether."""
    totals = [sum(each.placed for each in record.outcomes.values()) for record in (theirs, ours)]
    last = len(made.steps) - 1
    found = []
    if totals[0] != totals[1]:
        texts = [f"{total} pods" for total in totals]
        found.append(Difference(set=made.number, step=last, what=TOTAL, theirs=texts[0], ours=texts[1]))
    for step, their in theirs.outcomes.items():
        our = ours.outcomes[step]
        if their.placed and our.placed:
            whats = _differences(their, our, None, ids=False)
            found += [
                Difference(set=made.number, step=step, what=what, theirs=_text(their), ours=_text(our))
                for what in whats
            ]
    return Comparison(compared=len(made.steps), differences=tuple(found))


def _differences(their: Outcome, our: Outcome, cards: _Cards | None, *, ids: bool) -> list[str]:
    if their.placed != our.placed:
        return [ONLY_THEIRS if their.placed else ONLY_OURS]
    found = []
    if len(parse(their.cpus)) != len(parse(our.cpus)):
        found.append(CPU_NUMBER)
    elif ids and parse(their.cpus) != parse(our.cpus):
        found.append(CPU_IDS)
    if len(their.cards) != len(our.cards):
        return [*found, CARD_NUMBER]
    amounts = [sorted((each.core, each.memory) for each in outcome.cards) for outcome in (their, our)]
    pairs = list(zip(*amounts, strict=True))
    if any(one[0] != other[0] for one, other in pairs):
        found.append(CORES)
    apart = max((abs(one[1] - other[1]) for one, other in pairs), default=0)
    if apart:
        found.append(BYTES if apart < MEBI else MEMORY)
    if cards is not None and not cards.agree(their.cards, our.cards):
        found.append(CARDS)
    return found


class _Cards:
    """The permutations of a machine's cards under which all outcomes so far are equal."""

    def __init__(self, made: PlacementSet) -> None:
        machine = made.machines[0]
        minors = range(len(machine.cards))
        self._compared = made.kind is not Kind.SPREAD
        roots, nodes = [pcie_root(each) for each in minors], [numa_node(machine, each) for each in minors]
        self._possible = [each for each in permutations(minors) if _keeps(each, roots) and _keeps(each, nodes)]

    def agree(self, theirs: tuple[Share, ...], ours: tuple[Share, ...]) -> bool:
        if not self._compared:
            return True
        minors = sorted(each.minor for each in ours)
        self._possible = [each for each in self._possible if sorted(each[s.minor] for s in theirs) == minors]
        self._compared = bool(self._possible)
        return self._compared


def _keeps(permutation: tuple[int, ...], groups: Sequence[object]) -> bool:
    """Report whether cards of one group are together in a group after the permutation, too."""
    pairs = {(groups[minor], groups[other]) for minor, other in enumerate(permutation)}
    return len(pairs) == len({group for group, _ in pairs})


def _text(outcome: Outcome) -> str:
    if not outcome.placed:
        return outcome.why
    parts = [f"CPUs {outcome.cpus}"] if outcome.cpus else []
    parts += [f"card {each.minor}: {each.core} %, {each.memory / MEBI:g} MiB" for each in outcome.cards]
    parts += [outcome.why] if outcome.why else []
    return "; ".join(parts) or "placed"
