"""Filter and bind at 5,000 nodes and 5,000 reservations: our books against looking at every node, in the same run.

The naive scan asks the same arithmetic of each node in turn, as an extender without books would. Pods are owners of
some reservations and others, of sizes that differ, so that no answer can be remembered. Times are those of the
processor: what else runs on the machine does not count.

    python -m bench.reservations [--nodes N] [--reservations N] [--pods N] [--write]
"""

import argparse
import random
import statistics
import sys
import tracemalloc
from collections.abc import Callable
from time import thread_time
from typing import Final, NamedTuple

from bench import readme
from dra.api.reservations.model import Owner
from dra.engine.reservations import filter as filtering
from dra.engine.reservations.amounts import ONE, PODS
from dra.engine.reservations.books import Admission, Books
from dra.engine.reservations.claimants import Claimant
from dra.engine.reservations.holdings import Holding
from dra.model.meta import Uid

MARK: Final = "reservations"
P50_LIMIT: Final = 1.0
P99_LIMIT: Final = 5.0
"""What issue 8 asks for, in milliseconds."""

_CPUS, _GI = 64, 2**30
_PER_WORKLOAD: Final = 10
"""Reservations with the same owners."""


class Row(NamedTuple):
    """Milliseconds."""

    name: str
    p50: float
    p99: float


def filled(nodes: int, reservations: int, *, workloads: int, chance: random.Random) -> Books:
    """Return books with nodes that are half full."""
    books = Books()
    for number in range(nodes):
        books.observe_node(f"n{number}", {"cpu": _CPUS * ONE, "memory": 256 * _GI * ONE, PODS: 110 * ONE}, labels={})
        for each in range(3):
            taken = {"cpu": chance.randrange(2, 12) * ONE, "memory": chance.randrange(8, 40) * _GI * ONE, PODS: ONE}
            uid = Uid(f"p{number}-{each}")
            books.observe_pod(Claimant(key=("other", uid), uid=uid, amounts=taken), node=f"n{number}")
    for number in range(reservations):
        held = {"cpu": chance.randrange(4, 17) * ONE, "memory": chance.randrange(8, 65) * _GI * ONE, PODS: ONE}
        owner = Owner.model_validate({"labelSelector": {"matchLabels": {"job": f"w{number % workloads}"}}})
        uid = Uid(f"r{number}")
        holding = Holding(
            name=uid, uid=uid, node=f"n{number % nodes}", amounts=held, owners=(owner,), allocate_once=False
        )
        books.observe_reservation(holding)
    return books


def pods(count: int, *, workloads: int, chance: random.Random) -> list[Claimant]:
    """Return pods, half of them owners."""
    found = []
    for number in range(count):
        job = f"w{chance.randrange(workloads)}" if number % 2 else "none"
        taken = {"cpu": chance.randrange(1, 48000) * ONE // 1000, "memory": chance.randrange(1, 200) * _GI * ONE}
        uid = Uid(f"new{number}")
        found.append(Claimant(key=("ml", uid), uid=uid, amounts={**taken, PODS: ONE}, labels={"app": "x", "job": job}))
    return found


def with_books(books: Books, pod: Claimant) -> bool:
    """Filter and bind."""
    fits = books.filter(pod)
    return bool(fits) and isinstance(books.admit(pod, fits[len(fits) // 2]), Admission)


def naively(books: Books, pod: Claimant, names: list[str]) -> bool:
    """Ask every node."""
    rooms = (books.room(name) for name in names)
    fits = [room.name for room in rooms if room is not None and filtering.check(room, pod).fits]
    return bool(fits) and isinstance(books.admit(pod, fits[len(fits) // 2]), Admission)


def measured(name: str, step: Callable[[Claimant], bool], given: list[Claimant]) -> Row:
    """Return how long a step takes."""
    times = []
    for pod in given:
        begin = thread_time()
        step(pod)
        times.append((thread_time() - begin) * 1000)
    percentiles = statistics.quantiles(times, n=100)
    return Row(name, statistics.median(times), percentiles[98])


def main() -> int:
    """Measure and print; 1 if it is slower than it has to be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--reservations", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--write", action="store_true", help="put the table into bench/README.md")
    asked = parser.parse_args()
    workloads = max(1, asked.reservations // _PER_WORKLOAD)
    chance = random.Random(8)  # noqa: S311 - chance that repeats itself is the point
    tracemalloc.start()
    books = filled(asked.nodes, asked.reservations, workloads=workloads, chance=chance)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    names = [f"n{number}" for number in range(asked.nodes)]
    given = pods(asked.pods, workloads=workloads, chance=chance)
    few = max(20, asked.pods // 20)
    for pod in given[:50]:
        with_books(books, pod)
        books.forget_pod(pod.uid)
    ours = measured("books", lambda pod: with_books(books, pod), given[few:])
    naive = measured("every node in turn", lambda pod: naively(books, pod, names), given[:few])
    holdings = 4 * asked.nodes  # three pods and a reservation each
    print(_table(ours, naive, asked, held / holdings * 10_000))
    if asked.write:
        readme.write(_table(ours, naive, asked, held / holdings * 10_000), mark=MARK)
    if ours.p50 > P50_LIMIT or ours.p99 > P99_LIMIT:
        print(f"slower than {P50_LIMIT} ms (p50), {P99_LIMIT} ms (p99)", file=sys.stderr)
        return 1
    return 0


def _table(ours: Row, naive: Row, asked: argparse.Namespace, size: float) -> str:
    head = (
        f"{asked.nodes:,} nodes, {asked.reservations:,} reservations for a tenth as many workloads, three other pods a "
        f"node; Python {sys.version.split()[0]}. {size / 2**20:.1f} MiB of memory per 10,000 pods and reservations.\n"
    )
    rows = [f"| {row.name} | {row.p50:.3f} | {row.p99:.3f} |" for row in (ours, naive)]
    ratio = f"| **every node : books** | {naive.p50 / ours.p50:.0f}× | {naive.p99 / ours.p99:.0f}× |"
    return "\n".join([head, "| filter and bind, ms | p50 | p99 |", "|---|---:|---:|", *rows, ratio])


if __name__ == "__main__":
    sys.exit(main())
