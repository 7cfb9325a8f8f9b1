"""One trial: a copy of the tree with one changed file, and the tests that ought to see the change, nearest first."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]

LIMIT: Final = 600.0
"""Seconds for one step of a trial; a mutant that never ends has been found."""

MACHINE: Final = ("-m", "tests.dra.engine.simulation", "--first", "0", "--until", "1", "--shown", "0", "--jobs", "1")
SIMULATION: Final = ("-m", "tests.simulation", "--first", "0", "--until", "1", "--shown", "0", "--jobs", "1")
PYTEST: Final = ("-m", "pytest", "-q", "-x", "--no-header", "-p", "no:cacheprovider", "-W", "ignore")


USERS: Final = (
    ("dra/engine/reservations", ("tests/controller/reservations", "tests/controller/extender")),
    ("dra/engine/scheduling", ("tests/controller/reservations", "tests/controller/extender")),
    ("controller/reservations", ("tests/controller/extender",)),
    ("controller/extender", ("tests/controller/reservations",)),
    ("dra/engine/explain", ("tests/dra/cli/kubectl/why", "tests/dra/cli/kubectl/reservations")),
    ("dra/engine/cpus", ("tests/kubeletplugin/drivers",)),
    ("dra/engine/allocate", ("tests/localplane/scheduler",)),
)
"""Files and the tests of their users elsewhere in the tree."""

REFERENCE: Final = "tests/dra/cli/reference"
"""The tests of the reference pages, which tell the constants: limits, reasons, metrics."""


SLOW: Final = frozenset({"test_machine.py", "test_mutations.py"})
"""Tests that a trial leaves out: it plays histories of its own."""


class Verdict(NamedTuple):
    """What a trial has come to."""

    found: bool
    by: str
    seconds: float


class Tree:
    """A copy of the tracked files, in which one file at a time is changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S607
        for name in filter(None, listed.stdout.split("\0")):
            with suppress(FileNotFoundError, IsADirectoryError):  # a link to a folder is copied as a link
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)

    def tried(self, file: str, text: str) -> Verdict:
        """Return whether a test finds the changed file."""
        whole = (self.folder / file).read_text()
        began = time.monotonic()
        (self.folder / file).write_text(text)
        try:
            for step in steps(file, root=self.folder):
                verdict = self._run(step)
                if verdict:
                    return Verdict(found=True, by=verdict, seconds=time.monotonic() - began)
            return Verdict(found=False, by="", seconds=time.monotonic() - began)
        finally:
            (self.folder / file).write_text(whole)

    def _run(self, step: tuple[str, ...]) -> str:
        """Run one step; return what it found, or nothing. Raises InterruptedError: somebody has ended the step."""
        environment = {**os.environ, "PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        environment |= {"PYTHONHASHSEED": "0", "DRA_SIMULATION_FROM": "0", "HYPOTHESIS_PROFILE": "mutants"}
        try:
            ran = subprocess.run(
                ["nice", "-n", "10", sys.executable, *step],  # noqa: S607
                cwd=self.folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=LIMIT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"no end within {LIMIT:.0f} s"
        if ran.returncode in {0, 5}:  # 5: pytest has collected no test
            return ""
        if ran.returncode < 0:
            raise InterruptedError(f"a signal ended {' '.join(step)}: {-ran.returncode}")
        lines = (ran.stdout + ran.stderr).splitlines()
        told = [line for line in lines if line.startswith(("FAILED", "ERROR", "  seed"))] or lines[-1:]
        return told[0][:200] if told else f"exit status {ran.returncode}"


def steps(file: str, *, root: Path) -> Iterator[tuple[str, ...]]:
    """Yield the commands of a trial: the test of that name, its folder, the machine, and the shell's tests."""
    path = Path(file)
    folder = Path("tests") / path.parent
    near = _tests(root, folder, "test_*.py") + _tests(root, Path(REFERENCE), "test_*.py")
    by_machine = file.startswith("dra/engine/claims") or path.parent == Path("dra/engine")
    if by_machine:
        near += [
            *_tests(root, Path("tests/dra/engine/claims"), "test_*.py"),
            "tests/dra/engine/claims/test_claim_cache.py",
        ]
    elif file.startswith("dra/engine"):
        near += _tests(root, folder, "**/test_*.py")
    if file.startswith("dra/engine"):
        near.append("tests/dra/engine/test_values.py")
    users = [test for prefix, tests in USERS if file.startswith(prefix) for test in tests]
    far = [name for user in users for name in _tests(root, Path(user), "**/test_*.py")]
    if not users or file.startswith("controller"):
        far += _tests(root, Path("tests/controller"), "test_*.py")

    own = str(folder / f"test_{path.name}")
    if own in near:
        yield *PYTEST, own
    yield *PYTEST, *(name for name in dict.fromkeys(near) if name != own)
    if by_machine:
        yield *MACHINE, "--seeds", "400"
    if left := [name for name in dict.fromkeys(far) if name not in near]:
        yield *PYTEST, *left
    if file.startswith(("controller/extender", "controller/reservations")):
        return  # the simulation plays neither
    if file.startswith(("dra/engine/claims", "controller")) or path.parent == Path("dra/engine"):
        yield *SIMULATION, "--seeds", "60"


def _tests(root: Path, folder: Path, pattern: str) -> list[str]:
    """Return the files of tests in a folder, without those that look at many histories or at mutants of their own."""
    found = (root / folder).glob(pattern)
    return sorted(str(each.relative_to(root)) for each in found if each.name not in SLOW)
