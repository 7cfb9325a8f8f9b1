"""Many seeds, on all cores."""

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tests.simulation.runner import run_scenario
from tests.simulation.scenario import draw_scenario

CHUNK = 8
"""Seeds that a worker takes at a time."""

MIN_SEEDS_TO_JUDGE = 500
"""Seeds from which on a campaign is judged by the decisions that had an effect."""

RARE_SHARE = 0.01
"""A kind of decision that has an effect in fewer seeds than this part of them is rare: it would find nothing."""

SAMPLED_SEEDS = 400
"""Seeds that are drawn, not played, to know all kinds of decisions."""


@dataclass(slots=True)
class CampaignResult:
    """What a campaign has come to."""

    seeds: int = 0
    steps: int = 0
    virtual_seconds: float = 0.0
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    within: Counter[str] = field(default_factory=Counter)
    """In how many seeds each kind of decision had an effect."""
    violations: dict[int, str] = field(default_factory=dict)

    @property
    def rare(self) -> tuple[str, ...]:
        """Return the kinds of decisions that hardly any seed has; none of a campaign that is too short to tell."""
        if self.seeds < MIN_SEEDS_TO_JUDGE:
            return ()
        return tuple(kind for kind in operation_kinds() if self.within[kind] < RARE_SHARE * self.seeds)

    def __str__(self) -> str:
        made = ", ".join(f"{kind} {count}" for kind, count in sorted(self.within.items()))
        faults = ", ".join(f"{name} {count}" for name, count in sorted(self.faults.items()))
        days, cores = self.virtual_seconds / 86400, os.cpu_count()
        lines = [
            f"seeds {self.seeds}, steps {self.steps}, {days:.1f} virtual days in {self.seconds:.0f} s on {cores} cores",
            f"faults: {faults or 'none'}",
            f"seeds by kind of decision: {made or 'none'}",
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
    made: Counter[str]


def operation_kinds() -> tuple[str, ...]:
    """Return the kinds of decisions that seeds draw."""
    return tuple(sorted({decision.kind for seed in range(SAMPLED_SEEDS) for decision in draw_scenario(seed).decisions}))


def run_campaign(seeds: Iterable[int], *, jobs: int = 0, until_violations: int = 0) -> CampaignResult:
    """Play the seeds; ends early after so many violations, if that is not 0."""
    began = time.monotonic()
    figures = CampaignResult()
    chunk = 1 if until_violations else CHUNK  # a worker tells nothing before the end of its chunk
    for report in _reports(seeds, jobs or os.cpu_count() or 1, chunk=chunk):
        figures.seeds += 1
        figures.steps += report.steps
        figures.virtual_seconds += report.seconds
        figures.faults += report.faults
        figures.within.update(report.made.keys())
        if report.violation:
            figures.violations[report.seed] = report.violation
            if until_violations and len(figures.violations) >= until_violations:
                break
    figures.seconds = time.monotonic() - began
    return figures


def _reports(seeds: Iterable[int], jobs: int, *, chunk: int) -> Iterator[SeedReport]:
    if jobs == 1:
        yield from map(run_seed, seeds)
        return
    # A forked worker has all modules already, and the hash seed of its parent.
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap_unordered(run_seed, seeds, chunksize=chunk)


def run_seed(seed: int) -> SeedReport:
    """Play one seed."""
    outcome = run_scenario(draw_scenario(seed))
    return SeedReport(seed, outcome.violation, outcome.steps, outcome.seconds, outcome.faults, outcome.made)
