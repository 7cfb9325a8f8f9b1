"""The kubelet plugin: how quick and how dear it is, beside a handler of the same protocol that does nothing.

Everything over real sockets, each part in a process of its own: a kubelet (here), the plugin or the empty handler, an
API server. Several rounds, the subjects one after the other in each; medians of the rounds, p50 and p99 of all calls.

    python -m bench.plugin [--rounds N] [--only calls|publishing|idle] [--idle SECONDS] [--write] [--profile]
"""

import argparse
import asyncio
import itertools
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench import readme
from bench.kubelet import Caller, Process, Times, calling, p50, p99, registered, started, watched
from bench.node import COUNT, NAMESPACE, PAUSE, folders, inventory, name, until
from dra.wire.plugin import Claim

MARK: Final = "plugin"
ROOT: Final = Path(__file__).parents[1]

AT_A_TIME: Final = {1: 64, 8: COUNT, 64: COUNT}
"""Calls under way → claims of a round."""

TOGETHER: Final = 128
GPUS: Final = 8 * 128
IDLE_GPUS: Final = 8

CPU_LIMIT: Final = 0.2
MEMORY_LIMIT: Final = 100.0
"""What issue 6 asks for: percent of a CPU while nothing happens, MiB."""


class Subject(NamedTuple):
    """What is called."""

    name: str
    arguments: tuple[str, ...]


EMPTY: Final = Subject("empty handler", ("empty",))
READING: Final = Subject("… that reads the claim", ("reading",))
PLUGIN: Final = Subject("plugin", ("plugin",))
NO_SYNC: Final = Subject("plugin, no fsync", ("plugin", "--no-sync"))
SUBJECTS: Final = (EMPTY, READING, PLUGIN, NO_SYNC)


class Calls(NamedTuple):
    """What came of some calls: of all of them, and the CPU seconds of the subject."""

    times: Times
    cpu: float


Runs = dict[tuple[Subject, int], list[Calls]]
"""By how many were under way; 0: `TOGETHER` in one call."""


@contextmanager
def program(module: str, *arguments: str) -> Iterator[Process]:
    """Run one of our programs."""
    with started([sys.executable, "-m", module, *arguments], cwd=ROOT) as process:
        yield process


async def measure(process: Process, caller: Caller, claims: list[Claim]) -> dict[int, Calls]:
    """Return one round of one subject."""
    calls_by_width = {}
    await caller.each(claims[:8], at_a_time=2)  # the first ones pay for imports and connections
    for at_a_time, count in AT_A_TIME.items():
        await asyncio.sleep(PAUSE)
        before = process.cpu()
        times = await caller.each(claims[:count], at_a_time=at_a_time)
        calls_by_width[at_a_time] = Calls(times, process.cpu() - before)
    await asyncio.sleep(PAUSE)
    before = process.cpu()
    calls_by_width[0] = Calls(await caller.together(claims[:TOGETHER]), process.cpu() - before)
    return calls_by_width


async def calls(root: Path, claims: list[Claim], *, rounds: int, profile: bool) -> Runs:
    """Return all rounds of all subjects."""
    runs: Runs = {}
    for number, subject in itertools.product(range(rounds), (PLUGIN,) if profile else SUBJECTS):
        flags = ["--profile"] if profile else []
        with program("bench.node", *subject.arguments[:1], str(root), *subject.arguments[1:], *flags) as process:
            async with calling(process.read_facts()["socket"]) as caller:
                for at_a_time, measured_calls in (await measure(process, caller, claims)).items():
                    runs.setdefault((subject, at_a_time), []).append(measured_calls)
        print(f"round {number + 1}: {subject.name}", file=sys.stderr)
    return runs


async def idle(root: Path, drivers: str, claims: list[Claim], *, seconds: float) -> dict[str, float]:
    """Run the command as on a node, registered, its health watched, with claims prepared; return what it costs."""
    there = folders(root)
    command = [sys.executable, "-m", "dra.cli.main", "kubelet-plugin", f"--drivers={drivers}", "--node-name=n1"]
    command += [f"--plugins={there.plugins}", f"--registry={there.registry}", f"--cdi={there.cdi}"]
    command += [f"--inventory=simulated:{root}/inventory.yaml", f"--kubelet={root}", "--log-format=text"]
    command += ["--metrics=127.0.0.1:0", "--probes=127.0.0.1:0"]
    with started(command, cwd=ROOT, env={**os.environ, "KUBECONFIG": str(root / "kubeconfig")}) as process:
        watching = []
        for driver in drivers.split(","):
            socket = there.registry / f"{driver}.reserve.dra-reg.sock"
            await until(socket.exists)
            endpoint = await registered(socket)
            watching.append(asyncio.create_task(watched(endpoint)))
            if driver == "gpu":
                async with calling(endpoint) as caller:
                    await caller.prepare(claims)
        await asyncio.sleep(5.0)
        cpu, switches = process.cpu(), process.switches()
        await asyncio.sleep(seconds)
        idling = {
            "cpu": 100 * (process.cpu() - cpu) / seconds,
            "wakeups": (process.switches() - switches) / seconds,
            "resident": process.resident(),
        }
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
    return idling


def publishing() -> dict[str, Any]:
    """Publish once, to a server that has no slices yet."""
    with tempfile.TemporaryDirectory(prefix="dra-bench-") as folder, program("bench.node", "api", folder) as api:
        api.read_facts()
        with program("bench.publishing", folder, f"--gpus={GPUS}") as process:
            return process.read_facts()


def table_of_calls(all_runs: Runs) -> str:
    """Return pairs of prepare and unprepare as a table."""
    head = "| at a time | | pairs/s | of empty | prepare p50, ms | p99 | unprepare p50, ms | p99 | CPU per pair, ms |"
    lines = [head, "|---:|---|---:|---:|---:|---:|---:|---:|---:|"]
    for at_a_time, subject in itertools.product(AT_A_TIME, SUBJECTS):
        runs = all_runs[subject, at_a_time]
        prepare = [seconds for run in runs for seconds in run.times.prepare]
        unprepare = [seconds for run in runs for seconds in run.times.unprepare]
        rate = p50([run.times.rate for run in runs])
        share = p50(
            [run.times.rate / base.times.rate for run, base in zip(runs, all_runs[EMPTY, at_a_time], strict=True)]
        )
        cost = p50([run.cpu / len(run.times.prepare) for run in runs])
        cells = [
            f"{at_a_time}",
            subject.name,
            f"{rate:,.0f}",
            f"{share:.2f}",
            *(f"{1000 * seconds:.1f}" for seconds in (p50(prepare), p99(prepare), p50(unprepare), p99(unprepare))),
            f"{1000 * cost:.1f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def table_together(all_runs: Runs) -> str:
    """Return `TOGETHER` claims in one call as a table."""
    head = f"| {TOGETHER} claims in one call | prepare, ms | unprepare, ms | times empty | CPU per claim, ms |"
    lines = [head, "|---|---:|---:|---:|---:|"]
    for subject in SUBJECTS:
        runs = all_runs[subject, 0]
        times = p50([r.times.seconds / b.times.seconds for r, b in zip(runs, all_runs[EMPTY, 0], strict=True)])
        cells = [
            subject.name,
            *(f"{1000 * p50([getattr(run.times, part)[0] for run in runs]):.0f}" for part in ("prepare", "unprepare")),
            f"{times:.0f}×",
            f"{1000 * p50([run.cpu for run in runs]) / TOGETHER:.1f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def table_of_publishing(runs: list[dict[str, Any]]) -> str:
    """Return how slices get to the API server as a table."""
    lines = [
        f"| {GPUS:,} devices | slices | requests | seconds | times the writes by hand |",
        "|---|---:|---|---:|---:|",
    ]
    for part in runs[0]:
        seconds = p50([run[part]["seconds"] for run in runs])
        times = p50([run[part]["seconds"] / run["by hand"]["seconds"] for run in runs])
        requests = ", ".join(f"{count} {method}" for method, count in runs[0][part]["requests"].items())
        lines.append(f"| {part} | {runs[0][part]['slices']} | {requests} | {seconds:.2f} | {times:.1f}× |")
    return "\n".join(lines)


def table_of_idling(idling: dict[str, dict[str, float]]) -> str:
    """Return what doing nothing costs as a table."""
    lines = ["| drivers | CPU, % | waits/s | RSS, MiB |", "|---|---:|---:|---:|"]
    for drivers, figures in idling.items():
        lines.append(f"| {drivers} | {figures['cpu']:.2f} | {figures['wakeups']:.0f} | {figures['resident']:.0f} |")
    return "\n".join(lines)


def misses(idling: dict[str, dict[str, float]]) -> list[str]:
    """Return the limits that were not kept."""
    return [
        f"{drivers}: {figures[what]:.2f} {unit}, more than {limit:g}"
        for drivers, figures in idling.items()
        for what, unit, limit in (("cpu", "% of a CPU", CPU_LIMIT), ("resident", "MiB", MEMORY_LIMIT))
        if figures[what] > limit
    ]


def main() -> None:
    """Measure, print, and fail when a limit is not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("calls", "publishing", "idle"))
    parser.add_argument("--idle", type=float, default=30.0, help="seconds in which nothing happens")
    parser.add_argument("--write", action="store_true", help=f"put the tables into {readme.README.name}")
    parser.add_argument(
        "--profile", action="store_true", help="one round of the plugin with cProfile on standard error"
    )
    chosen = parser.parse_args()
    parts = (chosen.only,) if chosen.only else ("calls", "publishing", "idle")
    if chosen.profile:
        parts = ("calls",)
    rounds = 1 if chosen.profile else chosen.rounds
    tables, idling = [], {}
    with tempfile.TemporaryDirectory(prefix="dra-bench-") as folder, program("bench.node", "api", folder) as api:
        root = Path(folder)
        uids = api.read_facts()["uids"]
        claims = [Claim(namespace=NAMESPACE, name=name(index), uid=uid) for index, uid in enumerate(uids)]
        if "calls" in parts:
            all_runs = asyncio.run(calls(root, claims, rounds=rounds, profile=chosen.profile))
            tables += [] if chosen.profile else [table_of_calls(all_runs), table_together(all_runs)]
        if "publishing" in parts:
            tables.append(table_of_publishing([publishing() for _ in range(rounds)]))
        if "idle" in parts:
            inventory(root / "inventory.yaml", IDLE_GPUS)
            for drivers in ("gpu", "cpu", "cpu,gpu"):
                idling[drivers] = asyncio.run(idle(root, drivers, claims[:IDLE_GPUS], seconds=chosen.idle))
            tables.append(table_of_idling(idling))
    head = (
        f"Medians of {rounds} rounds, {chosen.idle:.0f} s of idling; Python {platform.python_version()}, "
        f"{os.cpu_count()} cores."
    )
    text = "\n\n".join((head, *tables))
    print(text)
    if chosen.write:
        readme.write(text, mark=MARK)
    if failed := misses(idling):
        raise SystemExit("limits not kept: " + "; ".join(failed))


if __name__ == "__main__":
    main()
