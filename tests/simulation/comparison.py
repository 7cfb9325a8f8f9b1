"""``python -m tests.simulation.comparison``: play seeds on two trees, and compare final states and writes by kind.

A change of structure changes neither. Times are not compared: not when a write happened, nor times in objects. The
first difference of the histories tells the cause. A fault that hits another request than before is no other decision:
faults hit a request by its number; nor is another order of what happens at one instant of virtual time.
A later difference may have a cause of its own: play the seed ``--without-faults``, too.

    python -m tests.simulation.comparison --older COMMIT --seeds 0-499                   # COMMIT and this tree
    python -m tests.simulation.comparison --older COMMIT --seeds 0-499 --simulation migrations
    python -m tests.simulation.comparison --older COMMIT --seeds 12 --history            # what it writes, as a diff
    python -m tests.simulation.comparison --older COMMIT --seeds 0-499 --without-faults
"""

import argparse
import difflib
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from tests.simulation.recording import FAULT, SIMULATIONS

ROOT: Final = Path(__file__).parents[2]
RECORDER: Final = Path(__file__).with_name("recording.py")
CHUNK: Final = 20
"""Seeds that a process plays: starting one takes a second."""

NEVER: Final = -1.0
"""The time of what did not happen."""

Record = dict[str, Any]
"""What `tests.simulation.recording` prints of a seed."""


class Cause(StrEnum):
    """Why a seed differs, as the first difference of its histories tells."""

    FAULT = "a fault hits another request"
    ORDER = "what happens at one instant has another order"
    DECISION = "another write, or another time"


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """The lines by which two histories first differ."""

    older: str
    newer: str
    cause: Cause

    def __str__(self) -> str:
        return f"first, {self.cause}: {_cut(self.older)} → {_cut(self.newer)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """How seeds are played in one tree."""

    tree: Path
    simulation: str = "claims"
    without_faults: bool = False
    mutation: str = ""

    def records(self, seeds: range) -> list[Record]:
        """Play seeds in a process of their own; raises CalledProcessError."""
        command = [sys.executable, "-P", str(RECORDER), self.simulation, str(seeds.start), str(len(seeds))]
        command += [f"--mutation={self.mutation}", *(("--without-faults",) if self.without_faults else ())]
        environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(self.tree)}
        played = subprocess.run(command, cwd=self.tree, env=environment, stdout=subprocess.PIPE, check=True)
        return [json.loads(line) for line in played.stdout.splitlines()]


@dataclass(slots=True)
class Comparison:
    """What two trees have come to on many seeds."""

    seeds: int = 0
    differing: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Seeds that differ, with the differences."""
    causes: Counter[str] = field(default_factory=Counter)
    """Numbers of these seeds by cause."""
    older_writes: Counter[str] = field(default_factory=Counter)
    newer_writes: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        written = [
            f"  {name}: {self.older_writes[name]} → {self.newer_writes[name]}"
            for name in sorted(self.older_writes | self.newer_writes)
            if self.older_writes[name] != self.newer_writes[name]
        ]
        totals = f"{self.older_writes.total()} → {self.newer_writes.total()} writes"
        equal = self.seeds - len(self.differing)
        causes = (f"  {cause}: {count}" for cause, count in sorted(self.causes.items()))
        head = f"{self.seeds} seeds: {equal} are equal, {len(self.differing)} differ; {totals}"
        return "\n".join((head, *causes, *written))


def differences(older: Record, newer: Record) -> Iterator[str]:
    """Yield what differs between two plays of a seed, a line each."""
    if older["scenario"] != newer["scenario"]:
        yield "scenario: the trees draw other operations from this seed"
    if older["violation"] != newer["violation"]:
        yield f"violation: {_first_line(older['violation'])} → {_first_line(newer['violation'])}"
    for name in sorted(older["writes"].keys() | newer["writes"].keys()):
        before, after = older["writes"].get(name, 0), newer["writes"].get(name, 0)
        if before != after:
            yield f"writes: {name}: {before} → {after}"
    if len(older["rests"]) != len(newer["rests"]):
        yield f"rests: {len(older['rests'])} → {len(newer['rests'])}"
    for number, (was, now) in enumerate(zip(older["rests"], newer["rests"], strict=False), start=1):
        where = "in the end" if number == len(newer["rests"]) else f"at rest {number}"
        for key in sorted(was.keys() | now.keys()):
            if key not in now or key not in was:
                yield f"state {where}: {key}: only in the {'older' if key in was else 'newer'} tree"
            elif was[key] != now[key]:
                yield from (f"state {where}: {key}: {change}" for change in changes(was[key], now[key]))


def changes(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Yield the fields that differ between two objects; lists are equal only in the same order."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before.keys() | after.keys()):
            yield from changes(before.get(name), after.get(name), f"{path}.{name}".lstrip("."))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from changes(old, new, f"{path}[{number}]")
    elif before != after:
        yield f"{path}: {_short(before)} → {_short(after)}"


def first_difference(older: Record, newer: Record) -> FirstDifference | None:
    """Return by what the histories of two plays first differ; None if by nothing."""
    lines = zip_longest(older["history"], newer["history"], fillvalue=(NEVER, "the end"))
    for (at, was), (later, now) in lines:
        if was != now:
            faulted = any(line.startswith(f"{FAULT} ") for line in (was, now))
            moved = at == later and ([at, was] in newer["history"] or [later, now] in older["history"])
            return FirstDifference(was, now, Cause.FAULT if faulted else Cause.ORDER if moved else Cause.DECISION)
    return None


def compare(older: Play, newer: Play, seeds: range, *, jobs: int = 0) -> Iterator[tuple[Record, Record]]:
    """Yield what came of each seed in both trees, in order."""
    chunks = [seeds[start : start + CHUNK] for start in range(0, len(seeds), CHUNK)]
    with ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
        plays = [(pool.submit(older.records, chunk), pool.submit(newer.records, chunk)) for chunk in chunks]
        for before, after in plays:
            yield from zip(before.result(), after.result(), strict=True)


def extract(commit: str, folder: Path) -> Path:
    """Write the files of a commit into a folder; return the folder."""
    packed = subprocess.run(["git", "archive", commit], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout  # noqa: S607
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def run(arguments: Sequence[str] | None = None) -> bool:
    """Do what the command line asks for; return whether anything differs."""
    options = _parser().parse_args(arguments)
    total = Comparison()
    with ExitStack() as stack:
        older, newer = (
            Play(
                tree=_tree(tree, stack),
                simulation=options.simulation,
                without_faults=options.without_faults,
                mutation=mutation,
            )
            for tree, mutation in ((options.older, ""), (options.newer, options.mutation))
        )
        for before, after in compare(older, newer, range_of(options.seeds), jobs=options.jobs):
            total.seeds += 1
            total.older_writes.update(before["writes"])
            total.newer_writes.update(after["writes"])
            if found := tuple(differences(before, after)):
                total.differing[before["seed"]] = found
                first = first_difference(before, after)
                total.causes[first.cause if first is not None else "equal histories"] += 1
                print("\n  ".join((f"seed {before['seed']}:", str(first or ""), *found)), flush=True)
                if options.history:
                    print(*difflib.unified_diff(_lines(before), _lines(after), lineterm="", n=2), sep="\n")
    print(total)
    return bool(total.differing)


def range_of(seeds: str) -> range:
    """Return the seeds of a text such as ``0-499`` or ``12``."""
    first, _, last = seeds.partition("-")
    return range(int(first), int(last or first) + 1)


def _lines(record: Record) -> list[str]:
    return [line for _, line in record["history"]]


def _tree(commit: str, stack: ExitStack) -> Path:
    if Path(commit).is_dir():
        return Path(commit).resolve()
    return extract(commit, Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="seeds-"))))


def _short(value: Any) -> str:
    return _cut(json.dumps(value, ensure_ascii=False))


def _cut(text: str) -> str:
    return textwrap.shorten(text, width=200, placeholder=" …")


def _first_line(text: str) -> str:
    return text.partition("\n")[0] or "none"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.comparison",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--older", default="HEAD", metavar="TREE", help="commit or folder (default: %(default)s)")
    parser.add_argument("--newer", default=str(ROOT), metavar="TREE", help="commit or folder (default: this tree)")
    parser.add_argument("--seeds", default="0-499", metavar="FIRST-LAST", help="default: %(default)s")
    parser.add_argument("--simulation", default="claims", choices=SIMULATIONS)
    parser.add_argument("--without-faults", action="store_true", help="leave out what makes faults and ends processes")
    parser.add_argument("--mutation", default="", help="break this rule in the newer tree: something must differ")
    parser.add_argument("--history", action="store_true", help="show what seeds that differ write, as a diff")
    parser.add_argument("--jobs", type=int, default=0, help="processes (default: as many as cores)")
    return parser


if __name__ == "__main__":
    sys.exit(run())
