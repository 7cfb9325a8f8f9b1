"""Many seeds, on all cores."""

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tests.simulation import autoscaler, kueue
from tests.simulation.runner import run_scenario
from tests.simulation.scenario import draw_scenario

CHUNK = 8
"""Seeds that a worker takes at a time."""

MIN_SEEDS_TO_JUDGE = 500
"""Seeds from which on a campaign is judged by the operations that had an effect."""

RARE_SHARE = 0.01
"""A kind of operation that has an effect in fewer seeds than this part of them is rare: it would find nothing."""

SAMPLED_SEEDS = 400
"""Seeds that are drawn, not played, to know all kinds of operations."""


@dataclass(slots=True)
class CampaignResult:
    """What a campaign has come to."""

    seeds: int = 0
    steps: int = 0
    virtual_seconds: float = 0.0
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    seeds_by_kind: Counter[str] = field(default_factory=Counter)
    """In how many seeds each kind of operation had an effect."""
    violations: dict[int, str] = field(default_factory=dict)

    @property
    def rare(self) -> tuple[str, ...]:
        """Return the kinds of operations that hardly any seed has; none of a campaign that is too short to tell."""
        if self.seeds < MIN_SEEDS_TO_JUDGE:
            return ()
        return tuple(kind for kind in operation_kinds() if self.seeds_by_kind[kind] < RARE_SHARE * self.seeds)

    def __str__(self) -> str:
        effects = ", ".join(f"{kind} {count}" for kind, count in sorted(self.seeds_by_kind.items()))
        faults = ", ".join(f"{name} {count}" for name, count in sorted(self.faults.items()))
        days, cores = self.virtual_seconds / 86400, os.cpu_count()
        lines = [
            f"seeds {self.seeds}, steps {self.steps}, {days:.1f} virtual days in {self.seconds:.0f} s on {cores} cores",
            f"faults: {faults or 'none'}",
            f"seeds by kind of operation: {effects or 'none'}",
            f"rare kinds: {', '.join(self.rare) or 'none'}",
            f"violations: {len(self.violations)}",
        ]
        lines += (f"  seed {seed}: {text.splitlines()[0]}" for seed, text in sorted(self.violations.items()))
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class SeedReport:
    """What a worker tells of one seed."""

    seed: int
    violation: str
    steps: int
    seconds: float
    faults: Counter[str]
    effects: Counter[str]


def operation_kinds() -> tuple[str, ...]:
    """Return the kinds of operations that seeds draw, and what autoscaler and queue do by themselves."""
    drawn = {operation.kind for seed in range(SAMPLED_SEEDS) for operation in draw_scenario(seed).operations}
    return tuple(sorted({*drawn, *autoscaler.EFFECTS, *kueue.EFFECTS}))


def run_campaign(seeds: Iterable[int], *, jobs: int = 0, until_violations: int = 0) -> CampaignResult:
    """Play the seeds; ends early after so many violations, if that is not 0."""
    started = time.monotonic()
    result = CampaignResult()
    chunk = 1 if until_violations else CHUNK  # a worker tells nothing before the end of its chunk
    for report in _reports(seeds, jobs or os.cpu_count() or 1, chunk=chunk):
        result.seeds += 1
        result.steps += report.steps
        result.virtual_seconds += report.seconds
        result.faults += report.faults
        result.seeds_by_kind.update(report.effects.keys())
        if report.violation:
            result.violations[report.seed] = report.violation
            if until_violations and len(result.violations) >= until_violations:
                break
    result.seconds = time.monotonic() - started
    return result


def _reports(seeds: Iterable[int], jobs: int, *, chunk: int) -> Iterator[SeedReport]:
    if jobs == 1:
        yield from map(run_seed, seeds)
        return
    # A forked worker has all modules already, and the hash seed of its parent.
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap_unordered(run_seed, seeds, chunksize=chunk)


def run_seed(seed: int) -> SeedReport:
    """Play one seed."""
    run_result = run_scenario(draw_scenario(seed))
    return SeedReport(
        seed, run_result.violation, run_result.steps, run_result.seconds, run_result.faults, run_result.effects
    )
