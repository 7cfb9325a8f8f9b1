"""Many seeds, on all cores."""

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from tests.simulation import autoscaler, kueue
from tests.simulation.runner import RunResult, run_scenario
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
    kinds: tuple[str, ...] = ()
    """The kinds of operations by which a campaign is judged."""

    @property
    def rare(self) -> tuple[str, ...]:
        """Return the kinds of operations that hardly any seed has; none of a campaign that is too short to tell."""
        if self.seeds < MIN_SEEDS_TO_JUDGE:
            return ()
        return tuple(kind for kind in self.kinds if self.seeds_by_kind[kind] < RARE_SHARE * self.seeds)

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


def is_judged(seeds: int, *, until: int) -> bool:
    """Whether a campaign may be judged by its kinds of operations, for which hundreds of seeds are drawn first."""
    return seeds >= MIN_SEEDS_TO_JUDGE and not until


def operation_kinds() -> tuple[str, ...]:
    """Return the kinds of operations that seeds draw, and what autoscaler and queue do by themselves."""
    drawn = {operation.kind for seed in range(SAMPLED_SEEDS) for operation in draw_scenario(seed).operations}
    return tuple(sorted({*drawn, *autoscaler.EFFECTS, *kueue.EFFECTS}))


def run_campaign(
    seeds: Iterable[int],
    *,
    play: Callable[[int], SeedReport],
    kinds: tuple[str, ...],
    jobs: int = 0,
    until_violations: int = 0,
) -> CampaignResult:
    """Play the seeds; ends early after so many violations, if that is not 0."""
    started = time.monotonic()
    result = CampaignResult(kinds=kinds)
    chunk = 1 if until_violations else CHUNK  # a worker tells nothing before the end of its chunk
    for found in _reports(seeds, jobs or os.cpu_count() or 1, play=play, chunk=chunk):
        result.seeds += 1
        result.steps += found.steps
        result.virtual_seconds += found.seconds
        result.faults += found.faults
        result.seeds_by_kind.update(found.effects.keys())
        if found.violation:
            result.violations[found.seed] = found.violation
            if until_violations and len(result.violations) >= until_violations:
                break
    result.seconds = time.monotonic() - started
    return result


def _reports(seeds: Iterable[int], jobs: int, *, play: Callable[[int], SeedReport], chunk: int) -> Iterator[SeedReport]:
    if jobs == 1:
        yield from map(play, seeds)
        return
    # A forked worker has all modules already, and the hash seed of its parent.
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap_unordered(play, seeds, chunksize=chunk)


def run_seed(seed: int) -> SeedReport:
    """Play one seed."""
    return report(run_scenario(draw_scenario(seed)))


def report(result: RunResult) -> SeedReport:
    """Return what a worker tells of a history."""
    return SeedReport(result.seed, result.violation, result.steps, result.seconds, result.faults, result.effects)
