"""Many seeds, on all cores."""

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tests.simulation.play import play
from tests.simulation.scenario import scenario

CHUNK = 8
"""Seeds that a worker takes at a time."""


@dataclass(slots=True)
class Figures:
    """What a campaign has come to."""

    seeds: int = 0
    steps: int = 0
    virtual_seconds: float = 0.0
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    violations: dict[int, str] = field(default_factory=dict)

    def __str__(self) -> str:
        faults = ", ".join(f"{name} {count}" for name, count in sorted(self.faults.items()))
        days, cores = self.virtual_seconds / 86400, os.cpu_count()
        lines = [
            f"seeds {self.seeds}, steps {self.steps}, {days:.1f} virtual days in {self.seconds:.0f} s on {cores} cores",
            f"faults: {faults or 'none'}",
            f"violations: {len(self.violations)}",
        ]
        lines += (f"  seed {seed}: {text.splitlines()[0]}" for seed, text in sorted(self.violations.items()))
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Report:
    """What a worker tells of one seed."""

    seed: int
    violation: str
    steps: int
    seconds: float
    faults: Counter[str]


def run(seeds: Iterable[int], *, jobs: int = 0, until_violations: int = 0) -> Figures:
    """Play the seeds; ends early after so many violations, if that is not 0."""
    began = time.monotonic()
    figures = Figures()
    chunk = 1 if until_violations else CHUNK  # a worker tells nothing before the end of its chunk
    for report in _reports(seeds, jobs or os.cpu_count() or 1, chunk=chunk):
        figures.seeds += 1
        figures.steps += report.steps
        figures.virtual_seconds += report.seconds
        figures.faults += report.faults
        if report.violation:
            figures.violations[report.seed] = report.violation
            if until_violations and len(figures.violations) >= until_violations:
                break
    figures.seconds = time.monotonic() - began
    return figures


def _reports(seeds: Iterable[int], jobs: int, *, chunk: int) -> Iterator[Report]:
    if jobs == 1:
        yield from map(one, seeds)
        return
    # A forked worker has all modules already, and the hash seed of its parent.
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap_unordered(one, seeds, chunksize=chunk)


def one(seed: int) -> Report:
    """Play one seed."""
    outcome = play(scenario(seed))
    return Report(seed, outcome.violation, outcome.steps, outcome.seconds, outcome.faults)
