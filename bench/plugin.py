"""The kubelet plugin: how quick and how dear it is, beside a handler of the same protocol that does nothing.

Everything over real sockets, each part in a process of its own: a kubelet (here), the plugin or the empty handler, an
API server. Several rounds, the subjects one after the other in each; medians of the rounds, p50 and p99 of all calls.

    python -m bench.plugin [--rounds N] [--only calls|publishing|idle] [--idle SECONDS] [--write] [--profile] [--peer]

``--peer`` adds a driver on the official Go helper (tests/cluster/plugin_peer; needs Go), with the same durability.
"""

import argparse
import asyncio
import itertools
import os
import platform
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench import readme
from bench.kubelet import Caller, Process, Times, calling, p50, p99, registered, started, watched
from bench.node import COUNT, NAMESPACE, PAUSE, folders, inventory, name, until
from dra.wire.plugin import Claim
from tests.cluster import binaries

MARK: Final = "plugin"
ROOT: Final = Path(__file__).parents[1]

AT_A_TIME: Final = {1: 64, 8: COUNT, 64: COUNT}
"""Calls under way → claims of a round."""

TOGETHER: Final = 128
GPUS: Final = 8 * 128
IDLE_GPUS: Final = 8

CPU_LIMIT: Final = 0.2
MEMORY_LIMIT: Final = 80.0
"""Percent of a CPU while nothing happens, and MiB with simulated GPUs, whose file needs pydantic."""


class Subject(NamedTuple):
    """What is called."""

    name: str
    arguments: tuple[str, ...]


EMPTY: Final = Subject("empty handler", ("empty",))
READING: Final = Subject("… that reads the claim", ("reading",))
SYNCING: Final = Subject("… that reads and syncs", ("syncing",))
PLUGIN: Final = Subject("plugin", ("plugin",))
NO_SYNC: Final = Subject("plugin, no fsync", ("plugin", "--no-sync"))
PEER: Final = Subject("Go driver", ())
SUBJECTS: Final = (EMPTY, READING, SYNCING, PLUGIN, NO_SYNC)


class Calls(NamedTuple):
    """What came of some calls: of all of them, and the CPU seconds of the subject."""

    times: Times
    cpu: float
    resident: float
    """Memory of the subject in MiB."""


Found = dict[tuple[Subject, int], list[Calls]]
"""By how many were under way; 0: `TOGETHER` in one call."""


@contextmanager
def program(module: str, *arguments: str) -> Iterator[Process]:
    """Run one of our programs."""
    with started([sys.executable, "-m", module, *arguments], cwd=ROOT) as process:
        yield process


async def measure(process: Process, caller: Caller, claims: list[Claim]) -> dict[int, Calls]:
    """Return one round of one subject."""
    calls_by_concurrency = {}
    await caller.separately(claims[:8], at_a_time=2)  # the first ones pay for imports and connections
    for at_a_time, count in AT_A_TIME.items():
        await asyncio.sleep(PAUSE)
        before = process.cpu()
        times = await caller.separately(claims[:count], at_a_time=at_a_time)
        calls_by_concurrency[at_a_time] = Calls(times, process.cpu() - before, process.resident())
    await asyncio.sleep(PAUSE)
    before = process.cpu()
    times = await caller.together(claims[:TOGETHER])
    calls_by_concurrency[0] = Calls(times, process.cpu() - before, process.resident())
    return calls_by_concurrency


def command_of(subject: Subject, root: Path, *, profile: bool) -> list[str]:
    """Return the command that runs a subject; the peer is built when it is needed first."""
    if subject is PEER:
        return [str(binaries.build(binaries.plugin_peer())), str(root)]
    name_of, *flags = subject.arguments
    return [sys.executable, "-m", "bench.node", name_of, str(root), *flags, *(["--profile"] if profile else [])]


async def calls(root: Path, claims: list[Claim], subjects: Sequence[Subject], *, rounds: int, profile: bool) -> Found:
    """Return all rounds of all subjects."""
    rounds_of: Found = {}
    for number, subject in itertools.product(range(rounds), subjects):
        with started(command_of(subject, root, profile=profile), cwd=ROOT) as process:
            async with calling(process.read_facts()["socket"]) as caller:
                for at_a_time, measured in (await measure(process, caller, claims)).items():
                    rounds_of.setdefault((subject, at_a_time), []).append(measured)
        print(f"round {number + 1}: {subject.name}", file=sys.stderr)
    return rounds_of


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
        figures = {
            "cpu": 100 * (process.cpu() - cpu) / seconds,
            "wakeups": (process.switches() - switches) / seconds,
            "resident": process.resident(),
        }
        for watch in watching:
            watch.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
    return figures


def publishing() -> dict[str, Any]:
    """Publish once, to a server that has no slices yet."""
    with tempfile.TemporaryDirectory(prefix="dra-bench-") as folder, program("bench.node", "api", folder) as api:
        api.read_facts()
        with program("bench.publishing", folder, f"--gpus={GPUS}") as process:
            return process.read_facts()


def table_of_calls(rounds_of: Found, subjects: Sequence[Subject], base_subject: Subject) -> str:
    """Return pairs of prepare and unprepare as a table; each rate also as a share of one subject in the same round."""
    head = f"| at a time | | pairs/s | of {base_subject.name} | prepare p50, ms | p99 | unprepare p50, ms | p99 |"
    lines = [f"{head} CPU per pair, ms |", "|---:|---|---:|---:|---:|---:|---:|---:|---:|"]
    for at_a_time, subject in itertools.product(AT_A_TIME, subjects):
        runs = rounds_of[subject, at_a_time]
        prepare = [seconds for run in runs for seconds in run.times.prepare]
        unprepare = [seconds for run in runs for seconds in run.times.unprepare]
        rate = p50([run.times.rate for run in runs])
        bases = rounds_of[base_subject, at_a_time]
        share = p50([run.times.rate / base.times.rate for run, base in zip(runs, bases, strict=True)])
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


def table_together(rounds_of: Found, subjects: Sequence[Subject]) -> str:
    """Return `TOGETHER` claims in one call as a table."""
    head = f"| {TOGETHER} claims in one call | prepare, ms | unprepare, ms | times empty | CPU per claim, ms |"
    lines = [head, "|---|---:|---:|---:|---:|"]
    for subject in subjects:
        runs = rounds_of[subject, 0]
        times = p50([r.times.seconds / b.times.seconds for r, b in zip(runs, rounds_of[EMPTY, 0], strict=True)])
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


def table_of_idling(figures_by_drivers: dict[str, dict[str, float]]) -> str:
    """Return what doing nothing costs as a table."""
    lines = ["| drivers | CPU, % | waits/s | RSS, MiB |", "|---|---:|---:|---:|"]
    for drivers, figures in figures_by_drivers.items():
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
    parser.add_argument("--peer", action="store_true", help="beside a driver on the official Go helper")
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
            subjects = (PLUGIN,) if chosen.profile else (*SUBJECTS, *([PEER] if chosen.peer else []))
            rounds_of = asyncio.run(calls(root, claims, subjects, rounds=rounds, profile=chosen.profile))
            if not chosen.profile:
                base = PEER if chosen.peer else EMPTY
                tables += [table_of_calls(rounds_of, subjects, base), table_together(rounds_of, subjects)]
            if chosen.peer:
                tables.append(f"The Go driver has {p50([run.resident for run in rounds_of[PEER, 0]]):.0f} MiB.")
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
