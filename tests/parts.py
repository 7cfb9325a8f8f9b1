"""Runs the tests in parts, each in processes of its own: `make test`.

    python -m tests.parts ARGUMENTS_OF_PYTEST

A process that imports and collects all twelve thousand tests takes 300 MiB before its first test. In parts, none takes
as much at its end, on any number of cores. Arguments that name files or folders are run as pytest runs them, at once,
and so are those that choose by the last run: where none of a part has failed, `--lf` runs all of it.
"""

import itertools
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

import pytest

from tests import cpu_time

ROOT: Final = Path(__file__).parents[1]

PARTS: Final[tuple[tuple[str, ...], ...]] = (
    ("tests/dra/engine",),
    ("tests/dra/cli",),
    ("tests/dra",),
    ("tests/controller", "tests/kubeletplugin"),
    ("tests",),
)
"""Folders of each part, without the tests of the parts before it: a test that nobody has named is in the last one."""

BY_LAST_RUN: Final = frozenset({"--lf", "--last-failed", "--sw", "--stepwise", "--sw-skip", "--stepwise-skip"})
"""Options of pytest that choose tests by the last run."""

EXPRESSIONS: Final = frozenset({"-k", "-m"})
"""Options of pytest whose values are expressions, which may look like the name of a folder."""


def selections(arguments: Sequence[str]) -> Iterator[list[str]]:
    """Yield the paths and options of each part; nothing but an empty list if the arguments are to be run at once."""
    named = any(
        _names_tests(argument) for option, argument in itertools.pairwise(["", *arguments]) if option not in EXPRESSIONS
    )
    if named or not BY_LAST_RUN.isdisjoint(arguments):
        yield []
        return
    before: list[str] = []
    for folders in PARTS:
        yield [*folders, *(f"--ignore={folder}" for folder in before)]
        before += folders


def _names_tests(argument: str) -> bool:
    return not argument.startswith("-") and (ROOT / argument.partition("::")[0]).exists()


def goes_on(code: int, arguments: Sequence[str]) -> bool:
    """Return whether the next part is run after one that ended with this exit code."""
    if code == pytest.ExitCode.TESTS_FAILED:
        return not any(re.match(r"-[lqsv]*x[lqsv]*$|--exitfirst|--maxfail", argument) for argument in arguments)
    return code in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}


def total(codes: Sequence[int]) -> int:
    """Return the exit code of all parts: the first one that tells of a failure, else whether tests were run at all."""
    failures = [code for code in codes if code not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}]
    return failures[0] if failures else min(codes)


def _terminate(number: int, _frame: FrameType | None) -> NoReturn:
    """End as the signal would have this process end, and pytest with it, which does not get the signal."""
    sys.exit(128 + number)


def main(arguments: Sequence[str]) -> int:
    """Run the parts one after the other and return the exit code."""
    signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C reaches pytest too, which tells what it has seen
    signal.signal(signal.SIGTERM, _terminate)
    began = time.monotonic()
    codes: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {cpu_time.BEFORE: str(Path(folder) / "used")}
        for selection in selections(arguments):
            command = [sys.executable, "-m", "pytest", *arguments, *selection]
            codes.append(subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode)
            if not goes_on(codes[-1], arguments):
                break
    code = total(codes)
    word = {pytest.ExitCode.OK: "passed", pytest.ExitCode.NO_TESTS_COLLECTED: "no test is selected"}.get(code, "failed")
    print(f"{len(codes)} of {len(list(selections(arguments)))} parts: {word} after {time.monotonic() - began:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
