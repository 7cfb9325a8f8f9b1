"""How long a claim waits for its decision while the other loops work on 5,000 nodes and 100,000 pods.

Pods of Jobs appear, twenty in a second, each for another claim, and have to be entered into the claim's list: from the
moment at which such a pod is there until the write of the claim is sent, 50 ms of it in which changes are collected.
First the loop of claims is alone, then the controller has all its loops and nodes report, while the extender schedules
fifty pods a second by the load of nodes, and then rounds of descheduling run one after the other besides. The processes
are those of the Deployments: controller, extender and descheduler have an event loop each, and share the cores.

    python -m bench.beside [--nodes N] [--pods N] [--runs N] [--seconds N] [--write]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench import readme
from bench.beside_cluster import write_world
from dra.kube.workqueue import BATCH_DELAY

MARK: Final = "beside"
RATIO_LIMIT: Final = 1.2
MS_LIMIT: Final = 50.0
"""Criteria of the 99th percentile, of which one has to be met: times as long as alone, or milliseconds longer than
changes are collected."""

Result = dict[str, Any]


class Row(NamedTuple):
    """What was measured beside one load: medians of the runs, in milliseconds."""

    name: str
    p50: float
    p99: float
    longest: float
    callback: float
    """The longest callback of the event loop, in time of the processor."""
    collection: float
    """The longest collection of garbage, likewise."""
    waited: float
    """Percent of the time in which the event loop waited for a core."""
    cpu: float
    """Percent of a core that the controller took."""


class Process:
    """A process of `bench.beside_processes`."""

    def __init__(self, command: list[str]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)  # noqa: S603 - ourselves

    def begin(self, *, seconds: float, load: bool) -> None:
        """Begin a phase."""
        if self._process.stdin is not None:
            self._process.stdin.write(json.dumps({"seconds": seconds, "load": load}) + "\n")
            self._process.stdin.flush()

    def answer(self) -> Result:
        """Return the result of a phase."""
        line = self._process.stdout.readline() if self._process.stdout is not None else ""
        if not line:
            raise SystemExit("a process of the bench ended; see above")
        result: Result = json.loads(line)
        return result

    def end(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


@contextmanager
def running(world: Path, *arguments: str) -> Iterator[Process]:
    """Run a process until it is not needed any more."""
    process = Process([sys.executable, "-m", "bench.beside_processes", arguments[0], str(world), *arguments[1:]])
    try:
        process.answer()  # it is ready
        yield process
    finally:
        process.end()


ALONE, LOAD, ROUNDS = "alone", "scheduling by load, and reports of nodes", "and rounds of descheduling"


def run(world: Path, *, seconds: float) -> dict[str, Result]:
    """Measure each load once."""
    results = {}
    with running(world, "controller") as alone:
        results[ALONE] = phase(alone, seconds=seconds)
    with ExitStack() as stack:
        controller = stack.enter_context(running(world, "controller", "--colocation"))
        extender = stack.enter_context(running(world, "extender"))
        results[LOAD] = phase(controller, (extender,), seconds=seconds)
        descheduler = stack.enter_context(running(world, "descheduler"))
        results[ROUNDS] = phase(controller, (extender, descheduler), seconds=seconds)
    return results


def phase(controller: Process, others: Sequence[Process] = (), *, seconds: float) -> Result:
    """Measure the decisions on claims beside other processes."""
    for process in (*others, controller):
        process.begin(seconds=seconds, load=bool(others))
    result = controller.answer()
    for process in others:
        result |= {name: amount for name, amount in process.answer().items() if name != "cpu_s"}
    shown = {name: amount for name, amount in result.items() if name != "delays"}
    print(*(f"{amount:.1f} ms" for amount in percentiles(result["delays"])), file=sys.stderr)
    print(f"{shown}; load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    return result


def percentiles(seconds: Sequence[float]) -> tuple[float, float, float]:
    """Return median, 99th percentile and maximum in milliseconds."""
    cuts = statistics.quantiles(seconds, n=100)
    return 1000 * cuts[49], 1000 * cuts[98], 1000 * max(seconds)


def row(name: str, results: Sequence[Result], *, seconds: float) -> Row:
    """Return the medians of some runs."""
    delays = [percentiles(result["delays"]) for result in results]
    median = statistics.median
    return Row(
        name,
        p50=median(amounts[0] for amounts in delays),
        p99=median(amounts[1] for amounts in delays),
        longest=median(amounts[2] for amounts in delays),
        callback=median(result["stretch_ms"] for result in results),
        collection=median(result["gc_ms"] for result in results),
        waited=median(100 * result["waited_s"] / seconds for result in results),
        cpu=median(100 * result["cpu_s"] / seconds for result in results),
    )


def table(rows: Sequence[Row]) -> str:
    """Return a table as Markdown."""
    columns = (
        *("beside the decisions on claims", "p50, ms", "p99, ms", "most, ms"),
        *("longest callback, ms", "longest collection of garbage, ms", "waits for a core, %", "CPU, %"),
    )
    lines = [f"| {' | '.join(columns)} |", "|---|" + "---:|" * (len(columns) - 1)]
    for name, *amounts in rows:
        lines.append(f"| {name} | {' | '.join(f'{amount:.1f}' for amount in amounts)} |")
    return "\n".join(lines)


def main() -> int:
    """Measure and print; exit with 1 if a limit is passed or a pod was never listed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each measurement")
    parser.add_argument("--write", action="store_true", help="put the table into bench/README.md")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        world = Path(folder)
        write_world(world, nodes=asked.nodes, pods=asked.pods)
        runs = [run(world, seconds=asked.seconds) for _ in range(asked.runs)]
    rows = [row(name, [results[name] for results in runs], seconds=asked.seconds) for name in runs[0]]
    load = ", ".join(f"{average:.0f}" for average in os.getloadavg())
    text = (
        f"{asked.nodes:,} nodes, {asked.pods:,} pods; medians of {asked.runs} runs of {asked.seconds:.0f} s; Python "
        f"{sys.version.split()[0]}, {os.cpu_count()} cores, load averages {load}.\n\n{table(rows)}"
    )
    print(text)
    if asked.write:
        readme.write(text, mark=MARK)
    unanswered = {name for results in runs for name, result in results.items() if result["unanswered"]}
    if unanswered:
        print(f"pods that were never listed: {', '.join(sorted(unanswered))}", file=sys.stderr)
    alone = rows[0].p99
    slow = [beside.name for beside in rows[1:] if beside.p99 > max(RATIO_LIMIT * alone, 1000 * BATCH_DELAY + MS_LIMIT)]
    if slow:
        print(f"slower than {RATIO_LIMIT} times, and than {MS_LIMIT:.0f} ms more: {', '.join(slow)}", file=sys.stderr)
    return 1 if slow or unanswered else 0


if __name__ == "__main__":
    sys.exit(main())
