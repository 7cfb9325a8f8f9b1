"""Ten thousand pods on one claim: how long until they are known, how fast news of them are taken in, in what memory.

Three subjects one after the other, each in a fresh process, several times:
the whole controller with the API server inside (what is left when the bytes are there), the whole controller over
HTTP, and for comparison a kopf handler over the same HTTP that only notes what it sees.

    python -m bench.world [--runs N] [--ours-only] [--write] [--profile]
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from bench import readme

MARK: Final = "world"

SYNC_LIMIT: Final = 1.0
RATE_LIMIT: Final = 20_000
MEMORY_LIMIT: Final = 200.0
"""What issue 3 asks for: seconds and events a second when the bytes are there, MiB."""


class Subject(NamedTuple):
    """One row of the table."""

    name: str
    program: str
    over_http: bool


INSIDE: Final = Subject("ours, bytes there", "ours", over_http=False)
OURS: Final = Subject("ours, HTTP", "ours", over_http=True)
KOPF: Final = Subject("kopf handler, HTTP", "kopf", over_http=True)

Run = dict[str, float]


@contextmanager
def served(size: list[str]) -> Iterator[str]:
    """Run a server, yield its URL."""
    command = [sys.executable, "-m", "bench.cluster", *size]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603 - ourselves
        try:
            port = server.stdout.readline().strip() if server.stdout is not None else ""
            if not port:
                raise SystemExit("bench.cluster did not start; see above")
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def measure(subject: Subject, size: list[str], *, profile: bool = False) -> Run:
    """Measure a subject once."""
    command = [sys.executable, "-m", "bench.subject", subject.program, *size, *(["--profile"] if profile else [])]
    if not subject.over_http:
        return _ask(command)
    with served(size) as url:
        return _ask([*command, "--url", url])


def _ask(command: list[str]) -> Run:
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603 - ourselves
    run: Run = json.loads(done.stdout.splitlines()[-1])
    return run


class Figures(NamedTuple):
    """What counts, of one subject: medians."""

    sync: float
    rate: float
    cost: float
    """Microseconds of CPU per event."""

    decisions: float | None
    before: float
    memory: float
    peak: float


def figures(runs: list[Run], *, events: int) -> Figures:
    """Return the medians of some runs."""

    def median(*names: str) -> float:
        return statistics.median(sum(run.get(name, 0.0) for name in names) for run in runs)

    return Figures(
        sync=median("list_s", "decision_s"),
        rate=statistics.median(events / run["events_s"] for run in runs),
        cost=1e6 * median("events_cpu_s") / events,
        decisions=median("decisions") if "decisions" in runs[0] else None,
        before=median("rss_before_mib"),
        memory=median("rss_mib"),
        peak=median("peak_mib"),
    )


def table(figures_of: dict[Subject, Figures]) -> str:
    """Return a table as Markdown; memory is left out where the server is in the same process."""
    lines = [
        "| | sync, s | events/s | CPU per event, µs | decisions meanwhile | RSS before, MiB | RSS synced | RSS peak |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for subject, measured in figures_of.items():
        memory = (measured.before, measured.memory, measured.peak) if subject.over_http else ()
        cells = [
            f"{measured.sync:.2f}",
            f"{measured.rate:,.0f}",
            f"{measured.cost:.0f}",
            "–" if measured.decisions is None else f"{measured.decisions:.0f}",
            *(f"{mebibytes:.0f}" for mebibytes in memory),
            *["–"] * (3 - len(memory)),
        ]
        lines.append(f"| {subject.name} | {' | '.join(cells)} |")
    if KOPF in figures_of:
        ours, kopf = figures_of[OURS], figures_of[KOPF]
        cells = [
            f"{kopf.sync / ours.sync:.0f}×",
            f"{ours.rate / kopf.rate:.0f}×",
            f"{kopf.cost / ours.cost:.0f}×",
            "",
            "",
            f"{(kopf.memory - kopf.before) / (ours.memory - ours.before):.1f}× (growth)",
            "",
        ]
        lines.append(f"| **kopf : ours** | {' | '.join(cells)} |")
    return "\n".join(lines)


def misses(figures_of: dict[Subject, Figures]) -> list[str]:
    """Return the limits that were not kept."""
    checks = [
        (figures_of[INSIDE].sync <= SYNC_LIMIT, f"sync took {figures_of[INSIDE].sync:.2f} s, more than {SYNC_LIMIT} s"),
        (figures_of[INSIDE].rate >= RATE_LIMIT, f"{figures_of[INSIDE].rate:,.0f} events/s, fewer than {RATE_LIMIT:,}"),
        (figures_of[OURS].peak <= MEMORY_LIMIT, f"{figures_of[OURS].peak:.0f} MiB, more than {MEMORY_LIMIT:.0f} MiB"),
    ]
    return [text for kept, text in checks if not kept]


def main() -> None:
    """Measure, print, and fail when a limit is not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--events", type=int, default=30_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--ours-only", action="store_true", help="leave out kopf, which takes a minute a run")
    parser.add_argument("--write", action="store_true", help=f"put the table into {readme.README.name}")
    parser.add_argument("--profile", action="store_true", help="one run with cProfile on standard error, no table")
    chosen = parser.parse_args()
    size = ["--pods", str(chosen.pods), "--events", str(chosen.events)]
    if chosen.profile:
        measure(INSIDE, size, profile=True)
        return
    subjects = [INSIDE, OURS] if chosen.ours_only else [INSIDE, OURS, KOPF]
    figures_of = {}
    for subject in subjects:
        figures_of[subject] = figures([measure(subject, size) for _ in range(chosen.runs)], events=chosen.events)
        print(f"{subject.name}: {figures_of[subject]}", file=sys.stderr)
    text = (
        f"{chosen.pods:,} pods, {chosen.events:,} events, medians of {chosen.runs} runs; Python "
        f"{platform.python_version()}, {os.cpu_count()} cores.\n\n{table(figures_of)}"
    )
    print(text)
    if chosen.write:
        readme.write(text, mark=MARK)
    failed = misses(figures_of)
    if failed:
        raise SystemExit("limits not kept: " + "; ".join(failed))


if __name__ == "__main__":
    main()
