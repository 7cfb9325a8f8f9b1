"""A round of the descheduler over 5,000 nodes and 100,000 pods, with all plugins.

Nodes, pods and NodeMetrics are decoded from JSON, trimmed as the descheduler's informers do, and kept; then a snapshot
is made and two rounds are run: one decides on what is wrong, and one on the cluster as the first left it, where all of
its migrations are in flight. Times are those of the processor. No API server takes part. ``--peer`` runs the
community's plugins on the same objects (`bench.descheduling_peer`).

    python -m bench.descheduling [--nodes N] [--pods N] [--profile] [--write]
                                [--peer [--times N]]
"""

import argparse
import cProfile
import gc
import os
import pstats
import resource
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from time import thread_time
from types import MappingProxyType
from typing import Any, Final

from bench import descheduling_peer, readme
from bench.descheduling_cluster import PROFILES, Cluster
from dra.api.descheduler.configuration import DeschedulerProcessConfiguration
from dra.engine.descheduling.cluster_objects import ClusterObjects
from dra.engine.descheduling.profiles import Descheduling, compile_descheduling
from dra.engine.descheduling.round import RoundResult, run_round
from dra.engine.descheduling.snapshot import Snapshot
from tests.dra.engine.migration.examples import NOW

MARK: Final = "descheduling"
SECONDS_LIMIT: Final = 10.0
MIB_LIMIT: Final = 600.0

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def process_configuration(
    more: Mapping[str, Any] = MappingProxyType({}), *, without: frozenset[str] = frozenset()
) -> DeschedulerProcessConfiguration:
    """Return a configuration with all plugins but some."""
    profiles = [
        {
            "name": name,
            "plugins": {
                point: {"enabled": [{"name": plugin} for plugin in plugins if plugin not in without]}
                for point, plugins in points.items()
            },
            "pluginConfig": [
                {"name": plugin, "args": args}
                for plugins in points.values()
                for plugin, args in plugins.items()
                if plugin not in without
            ],
        }
        for name, points in PROFILES.items()
    ]
    given = {"profiles": profiles, "migration": {"maxMigratingPerNode": 10}}
    return DeschedulerProcessConfiguration.model_validate({**given, **more})


def configuration(*, without: frozenset[str] = frozenset()) -> Descheduling:
    """Return the rounds of the configuration."""
    compiled = compile_descheduling(process_configuration(without=without))
    if compiled is None:
        raise SystemExit("no profiles")
    return compiled


def resident_mib() -> float:
    """Return the memory of this process."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE / (1 << 20)


def main() -> int:
    """Measure and print; exit with 1 if a limit is passed."""
    asked = _arguments()
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="ascii") if asked.peer else nullcontext() as file:
        question = None if file is None else descheduling_peer.Question(file, times=asked.times)
        cluster = Cluster(nodes=asked.nodes, pods=asked.pods, **({} if question is None else {"show": question.show}))
        text, is_within_limits = _measured(cluster, asked)
        _tell(text, asked, mark=MARK)
        if file is not None and question is not None:
            question.end()
            table = descheduling_peer.table(cluster, Path(file.name), times=asked.times)
            _tell(table, asked, mark=descheduling_peer.MARK)
    return 0 if is_within_limits else 1


def _tell(text: str, asked: argparse.Namespace, *, mark: str) -> None:
    """Print a result with what it was measured on, and write it if asked to."""
    load = ", ".join(f"{average:.0f}" for average in os.getloadavg())
    size = f"{asked.nodes:,} nodes, {asked.pods:,} pods; Python {sys.version.split()[0]}, load averages {load}."
    print(f"{size}\n\n{text}\n")
    if asked.write:
        readme.write(f"{size}\n\n{text}", mark=mark)


def _measured(cluster: Cluster, asked: argparse.Namespace) -> tuple[str, bool]:
    """Return a table of two rounds, and whether both were within the limits."""
    rounds = configuration(without=frozenset(asked.without))
    before, memory = resident_mib(), {}  # type: float, dict[str, Any]
    with cProfile.Profile(thread_time) if asked.profile else nullcontext() as profiler:
        first, first_seconds = _round(cluster.objects(), rounds, memory, now=NOW)
        second, second_seconds = _round(cluster.objects(in_flight=first), rounds, memory, now=NOW + 120)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if profiler is not None:
        pstats.Stats(profiler, stream=sys.stderr).sort_stats(asked.sort).print_stats(45)
    for fault in (*first.faults, *second.faults):
        print(fault.message, file=sys.stderr)
    slowest = max(sum(first_seconds), sum(second_seconds))
    is_within_limits = not (slowest > SECONDS_LIMIT or peak > MIB_LIMIT or first.faults or second.faults)
    if not is_within_limits:
        print(f"more than {SECONDS_LIMIT} s or {MIB_LIMIT} MiB, or a plugin failed", file=sys.stderr)
    text = "\n".join(
        [
            *("| | first round | next round |", "|---|---:|---:|"),
            f"| snapshot, s | {first_seconds[0]:.1f} | {second_seconds[0]:.1f} |",
            f"| round, s | {first_seconds[1]:.1f} | {second_seconds[1]:.1f} |",
            f"| candidates | {len(first.decisions):,} | {len(second.decisions):,} |",
            f"| accepted | {_accepted(first):,} | {_accepted(second):,} |",
            f"| memory of the objects, MiB | {before:,.0f} | |",
            f"| peak of the process, MiB | | {peak:,.0f} |\n",
            f"Candidates of the first round by plugin: {_by_plugin(first)}.",
        ]
    )
    return text, is_within_limits


def _round(
    objects: ClusterObjects, rounds: Descheduling, memory: dict[str, Any], *, now: float
) -> tuple[RoundResult, tuple[float, float]]:
    """Run a round; return its result, and the seconds of the processor for the snapshot and for the round."""
    begun = thread_time()
    snapshot = Snapshot(objects, now=now, memory=memory)
    made = thread_time()
    result = run_round(snapshot, rounds.profiles_on(objects.nodes), limits=rounds.limits)
    ended = thread_time()
    snapshot.forget_parts()
    return result, (made - begun, ended - made)


def _accepted(result: RoundResult) -> int:
    return sum(decision.verdict.accepted for decision in result.decisions)


def _by_plugin(result: RoundResult) -> str:
    counts = Counter(decision.plugin for decision in result.decisions)
    return ", ".join(f"{plugin} {count:,}" for plugin, count in counts.most_common())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--without", action="append", default=[], help="leave a plugin out")
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    parser.add_argument("--sort", default="tottime", help="order of the profile")
    parser.add_argument("--peer", action="store_true", help="run the community's plugins on the same objects, too (Go)")
    parser.add_argument("--times", type=int, default=3, help="rounds of ours and of the community's, for medians")
    parser.add_argument("--write", action="store_true", help="put the table into bench/README.md")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
