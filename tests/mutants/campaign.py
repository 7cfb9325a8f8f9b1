"""Many mutants, drawn at random, and those that survive."""

import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from random import Random
from typing import Final, NamedTuple

from tests.mutants.equivalent import EQUIVALENT
from tests.mutants.operators import Mutant, mutants
from tests.mutants.trial import ROOT, Tree, Verdict

FOLDERS: Final = ("dra/engine", "controller")
"""Where lines are drawn: what decides, and what carries out the decisions."""


class Drawn(NamedTuple):
    """A mutant of a file."""

    file: str
    mutant: Mutant

    @property
    def where(self) -> str:
        return f"{self.file}:{self.mutant.line}"

    def __str__(self) -> str:
        before, after = (" ".join(text.split()) for text in (self.mutant.before, self.mutant.after))
        return f"{self.where}: {before}  →  {after}"


@dataclass(slots=True)
class Figures:
    """What a campaign has come to."""

    seed: int
    asked: int
    tried: int = 0
    survivors: list[Drawn] = field(default_factory=list)
    seconds: float = 0.0

    def __str__(self) -> str:
        known = {drawn: EQUIVALENT.get(key(drawn), "") for drawn in self.survivors}
        lines = [
            f"mutants {self.tried} of {self.asked} (seed {self.seed}) in {self.seconds:.0f} s",
            f"found {self.tried - len(self.survivors)}, survived {len(self.survivors)}, "  # noqa: ISC004
            f"of which {sum(map(bool, known.values()))} are known to be equivalent",
        ]
        lines += (f"  {drawn}" + (f"   [equivalent: {why}]" if why else "") for drawn, why in known.items())
        return "\n".join(lines)


def key(drawn: Drawn) -> tuple[str, str, str]:
    """Return how a mutant is known from one version of a file to the next: lines move, code stays."""
    before, after = (" ".join(text.split()) for text in (drawn.mutant.before, drawn.mutant.after))
    return drawn.file, before, after


def drawn(seed: int, count: int, *, folders: tuple[str, ...] = FOLDERS) -> list[Drawn]:
    """Draw so many mutants, each of another line."""
    by_line: dict[tuple[str, int], list[Mutant]] = {}
    for path in files(folders):
        for mutant in mutants((ROOT / path).read_text()):
            by_line.setdefault((path, mutant.line), []).append(mutant)
    chance = Random(seed)
    lines = chance.sample(sorted(by_line), min(count, len(by_line)))
    return [Drawn(line[0], chance.choice(by_line[line])) for line in lines]


def of_line(place: str) -> list[Drawn]:
    """Return all mutants of one line, ``dra/engine/claims/claim_cache.py:175``."""
    file, _, line = place.rpartition(":")
    return [Drawn(file, mutant) for mutant in mutants((ROOT / file).read_text()) if mutant.line == int(line)]


def files(folders: tuple[str, ...]) -> list[str]:
    """Return the files from which lines are drawn."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return sorted(str(path.relative_to(ROOT)) for path in found if path.name != "__init__.py")


def run(chosen: list[Drawn], *, seed: int, seconds: float, jobs: int) -> Iterator[tuple[Drawn, Verdict] | Figures]:
    """Try the mutants until time is up; yields each with its verdict, and the figures at the end."""
    began = time.monotonic()
    until = began + seconds
    figures = Figures(seed=seed, asked=len(chosen))
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(jobs) as pool:
        trees: SimpleQueue[Tree] = SimpleQueue()
        for number in range(jobs):
            trees.put(Tree(Path(folder) / str(number)))

        def one(each: Drawn) -> Verdict | None:
            if time.monotonic() >= until:
                return None
            tree = trees.get()
            try:
                verdict = tree.tried(each.file, each.mutant.text)
            finally:
                trees.put(tree)
            return verdict

        for each, verdict in zip(chosen, pool.map(one, chosen), strict=True):
            if verdict is None:
                continue
            figures.tried += 1
            if not verdict.found:
                figures.survivors.append(each)
            yield each, verdict
    figures.seconds = time.monotonic() - began
    yield figures
