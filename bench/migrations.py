"""Arbitration of 5,000 jobs that wait, over 100,000 pods: the engine against a naive reading of the rules.

One pod in ten belongs to one great workload, all others to workloads of twenty pods with a PodDisruptionBudget each.
For each ten jobs that wait, another one has begun. All are in one namespace, so that no namespace narrows the search.
The naive arbitration is the oracle of the tests, which counts everything anew for each job. It is measured with fewer
jobs and pods, since its time grows with their product, and both must give the same verdicts. Times are those of the
processor: what else runs on the machine does not count.

    python -m bench.migrations [--jobs N] [--pods N] [--small-jobs N] [--small-pods N] [--rounds N] [--write]
"""

import argparse
import random
import statistics
import sys
from collections import Counter
from collections.abc import Callable
from time import thread_time
from typing import Final, NamedTuple

from bench import readme
from dra.api.descheduler.migration_controller_args import MigrationControllerArgs
from dra.engine.migration.arbitration import ArbitrationVerdict, ArbitrationView, Outcome, arbitrate
from dra.engine.migration.pod_index import PodIndex, workload_of
from dra.engine.migration.view import MigrationPod
from tests.dra.engine.migration import naive_arbitration
from tests.dra.engine.migration.examples import NOW, budget, job, pod

MARK: Final = "migrations"
LIMIT: Final = 1000.0
"""Milliseconds for 5,000 jobs and 100,000 pods: arbitration runs every 500 ms, and must not hold back other work."""

_PER_WORKLOAD: Final = 20
_PER_NODE: Final = 20
_GREAT: Final = 10
"""Every tenth pod belongs to the great workload."""


class Cluster(NamedTuple):
    """Everything that arbitration reads, for both ways."""

    view: ArbitrationView
    pods: list[MigrationPod]


def cluster(*, jobs: int, pods: int, chance: random.Random) -> Cluster:
    """Return a cluster; the given number of jobs wait, and a tenth as many have begun."""
    made = []
    for number in range(pods):
        workload = "great" if number % _GREAT == 0 else f"w{number // _PER_WORKLOAD}"
        status = {"qosClass": chance.choice(["BestEffort", "Burstable", "Guaranteed"])}
        made.append(
            pod(
                f"p{number}",
                node=f"n{chance.randrange(max(1, pods // _PER_NODE))}",
                owner=workload,
                ready=chance.randrange(50) > 0,
                created=chance.randrange(100_000),
                labels={"app": workload, "release": "r1"},
                spec={"priority": chance.choice([0, 5500, 7500, 9500])},
                status=status,
            )
        )
    chosen = chance.sample(range(pods), jobs + jobs // 10)
    asking = [
        job(f"j{number}", of=f"p{number}", created=chance.randrange(3600), passed=rank >= jobs)
        for rank, number in enumerate(chosen)
    ]
    workloads = {f"w{number // _PER_WORKLOAD}" for number in range(pods)}
    budgets = tuple(budget(workload, app=workload, allowed=chance.randrange(3)) for workload in sorted(workloads))
    replicas = Counter(key for made_pod in made if (key := workload_of(made_pod)) is not None)
    view = ArbitrationView(jobs=tuple(asking), pods=PodIndex(made), replicas=replicas, disruption_budgets=budgets)
    return Cluster(view=view, pods=made)


def milliseconds(ask: Callable[[], object], *, rounds: int) -> float:
    """Return the median time of the processor for a call."""
    taken = []
    for _ in range(rounds):
        begun = thread_time()
        ask()
        taken.append((thread_time() - begun) * 1000)
    return statistics.median(taken)


def main() -> int:
    """Measure and print; exit with 1 if the great cluster takes too long, or the verdicts differ."""
    asked = _arguments()
    args = MigrationControllerArgs.model_validate({"maxMigratingGlobally": asked.jobs // 2})
    chance = random.Random(19)  # noqa: S311 - a cluster that each run makes anew
    small = cluster(jobs=asked.small_jobs, pods=asked.small_pods, chance=chance)
    great = cluster(jobs=asked.jobs, pods=asked.pods, chance=chance)
    verdicts = arbitrate(small.view, args=args, now=NOW)
    if [(verdict.job, verdict.reason) for verdict in verdicts] != naive_arbitration.arbitrate(
        *small, args=args, now=NOW
    ):
        print("the verdicts differ from those of the naive arbitration", file=sys.stderr)
        return 1
    ours = milliseconds(lambda: arbitrate(small.view, args=args, now=NOW), rounds=asked.rounds)
    naive = milliseconds(lambda: naive_arbitration.arbitrate(*small, args=args, now=NOW), rounds=3)
    all_of_it = milliseconds(lambda: arbitrate(great.view, args=args, now=NOW), rounds=asked.rounds)
    events = milliseconds(lambda: _observe_all(great), rounds=3)
    verdicts = arbitrate(great.view, args=args, now=NOW)
    text = "\n".join(
        [
            f"Medians of {asked.rounds} runs; Python {sys.version.split()[0]}. Of all jobs: {_outcomes(verdicts)}.\n",
            *("| arbitrate, ms | jobs that wait | pods | ms | µs a job |", "|---|---:|---:|---:|---:|"),
            _line("engine", asked.jobs, asked.pods, all_of_it),
            _line("engine", asked.small_jobs, asked.small_pods, ours),
            _line("naive", asked.small_jobs, asked.small_pods, naive),
            f"| **naive : engine** | | | {naive / ours:.0f}× | |\n",
            f"An event of a pod takes {events / asked.pods * 1000:.1f} µs in the index.",
        ]
    )
    print(text)
    if asked.write:
        readme.write(text, mark=MARK)
    if all_of_it > LIMIT:
        print(f"slower than {LIMIT} ms", file=sys.stderr)
        return 1
    return 0


def _observe_all(great: Cluster) -> None:
    for made_pod in great.pods:
        great.view.pods.observe(made_pod)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--small-jobs", type=int, default=100)
    parser.add_argument("--small-pods", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--write", action="store_true", help="put the tables into bench/README.md")
    return parser.parse_args()


def _outcomes(verdicts: tuple[ArbitrationVerdict, ...]) -> str:
    counts = Counter("pass" if verdict.outcome is Outcome.PASSED else str(verdict.reason) for verdict in verdicts)
    return ", ".join(f"{count:,} {reason}" for reason, count in counts.most_common())


def _line(name: str, jobs: int, pods: int, taken: float) -> str:
    return f"| {name} | {jobs:,} | {pods:,} | {taken:,.1f} | {taken / jobs * 1000:,.0f} |"


if __name__ == "__main__":
    sys.exit(main())
