"""Many histories on all cores, and what they have come to."""

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from tests.dra.engine.simulation import histories, swarm
from tests.dra.engine.simulation.violation import Violation

CHUNK: Final = 16
"""Histories that a worker takes at a time."""

MIN_HISTORIES_TO_JUDGE: Final = 1000
"""Histories from which on a campaign is judged by the moves that it has made."""

RARE_SHARE: Final = 0.01
"""A kind of move that is made in fewer histories than this part of them is rare: it would find nothing."""


@dataclass(frozen=True, slots=True)
class HistoryReport:
    """What a worker tells of one history."""

    seed: int
    violation: str
    moves: Counter[str]
    """How often each kind of move was made; a move that was impossible does not count."""
    reasons: Counter[str]
    """How often the controller gave each reason."""


@dataclass(slots=True)
class HistoriesResult:
    """What a campaign has come to."""

    histories: int = 0
    seconds: float = 0.0
    moves: Counter[str] = field(default_factory=Counter)
    histories_by_kind: Counter[str] = field(default_factory=Counter)
    """In how many histories each kind of move was made at least once."""
    reasons: Counter[str] = field(default_factory=Counter)
    """In how many histories the controller gave each reason."""
    violations: dict[int, str] = field(default_factory=dict)

    @property
    def rare(self) -> tuple[str, ...]:
        """Return the kinds of moves that hardly any history makes; none of a campaign that is too short to tell."""
        if self.histories < MIN_HISTORIES_TO_JUDGE:
            return ()
        return tuple(kind for kind in swarm.move_kinds() if self.histories_by_kind[kind] < RARE_SHARE * self.histories)

    def __str__(self) -> str:
        made = ", ".join(f"{kind} {self.moves[kind]}" for kind in sorted({*swarm.move_kinds(), *self.moves}))
        lines = [
            f"histories {self.histories}, moves {self.moves.total()} in {self.seconds:.0f} s on {os.cpu_count()} cores",
            f"moves by kind: {made}",
            f"histories by reason: {', '.join(f'{code} {count}' for code, count in sorted(self.reasons.items()))}",
            f"rare kinds: {', '.join(self.rare) or 'none'}",
            f"violations: {len(self.violations)}",
        ]
        lines += (f"  seed {seed}: {text.splitlines()[0]}" for seed, text in sorted(self.violations.items()))
        return "\n".join(lines)


def run_campaign(seeds: Iterable[int], *, jobs: int = 0, until: int = 0) -> HistoriesResult:
    """Play the histories of the seeds; ends early after so many violations, if that is not 0."""
    started = time.monotonic()
    result = HistoriesResult()
    for report in _reports(seeds, jobs or os.cpu_count() or 1):
        result.histories += 1
        result.moves += report.moves
        result.histories_by_kind.update(report.moves.keys())
        result.reasons.update(report.reasons.keys())
        if report.violation:
            result.violations[report.seed] = report.violation
            if until and len(result.violations) >= until:
                break
    result.seconds = time.monotonic() - started
    return result


def _reports(seeds: Iterable[int], jobs: int) -> Iterator[HistoryReport]:
    if jobs == 1:
        yield from map(run_seed, seeds)
        return
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap_unordered(run_seed, seeds, chunksize=CHUNK)


def run_seed(seed: int) -> HistoryReport:
    """Play the history of a seed."""
    made: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    try:
        histories.play_history(histories.generate_history(seed), made=made, reasons=reasons)
    except Violation as violation:
        return HistoryReport(seed, str(violation), made, reasons)
    return HistoryReport(seed, "", made, reasons)
