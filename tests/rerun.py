"""Runs a command that ends in pytest, and each failed test once more alone, so that CI tells chance from fault.

    python -m tests.rerun --keep FOLDER -- make test-cluster

Scenarios on a real cluster share two cores with a whole Kubernetes. A test that passes alone is *flaky*: the run goes
on and ends with the list of the flaky tests, and both outputs are kept. Everything else is a fault: a test that fails
again, more than `MOST` failures, an error while tests are collected, a run that ended early. A test is repeated once
the other runs that keep their outputs beside this one have played all of theirs.

The module is also the pytest plugin (``-p tests.rerun``) that records how a session ended: behind ``make``, each
failure has the same exit code.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]

MOST: Final = 5
"""Failures of one run that may be chance."""

VERDICTS: Final = "verdicts"
"""The file beside the outputs that lists the tests that ran twice."""

LOCK: Final = "running"
"""The file beside the folders of the outputs that each run locks while it plays tests."""

OUTCOME: Final = "rerun/outcome"
FAILED: Final = "cache/lastfailed"  # pytest's own; `--last-failed` reads it


@dataclass(frozen=True)
class Outcome:
    """The end of one pytest session."""

    code: int
    """Exit code of the command."""
    status: int | None
    """Exit status of pytest, None if the session did not finish."""
    passed: int
    failed: tuple[str, ...]
    """Node ids."""
    output: Path

    @property
    def only_tests_failed(self) -> bool:
        """Whether the session ran to its end, and nothing but tests went wrong."""
        return self.status == pytest.ExitCode.TESTS_FAILED and bool(self.failed)

    @property
    def success(self) -> bool:
        """Whether the command succeeded, and at least one test passed."""
        return self.code == 0 and self.passed > 0


@pytest.hookimpl(trylast=True)  # pytest writes its own list of failures before
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Record the exit status and the number of passed tests."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    passed = len(reporter.stats.get("passed", ())) if reporter else 0
    assert session.config.cache is not None
    session.config.cache.set(OUTCOME, {"status": int(exitstatus), "passed": passed})


def run(command: Sequence[str], *, output: Path, only: str | None = None) -> Outcome:
    """Run a command whose last step is pytest, all of its tests or only one; print what it prints and keep it."""
    with _cache() as cache:
        options = ["-p", "tests.rerun", "-o", f"cache_dir={cache}"]
        if only is not None:
            _write(cache, FAILED, {only: True})
            options += ["--last-failed", "--last-failed-no-failures=none"]
        given = os.environ.get("PYTEST_ADDOPTS", "")
        environment = os.environ | {
            "PYTEST_ADDOPTS": f"{given} {shlex.join(options)}".strip(),
            "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
        }
        with (
            output.open("w", encoding="utf-8") as kept,
            subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
            ) as process,
        ):
            assert process.stdout is not None
            for line in process.stdout:
                print(line, end="", flush=True)
                kept.write(line)
        ended = _read(cache, OUTCOME)
        failed = tuple(_read(cache, FAILED))
        return Outcome(process.returncode, ended.get("status"), ended.get("passed", 0), failed, output)


def judge(command: Sequence[str], *, keep: Path) -> int:
    """Run a command, and its failed tests alone; print the verdict and return the exit code."""
    keep.mkdir(parents=True, exist_ok=True)
    (keep / VERDICTS).write_text("", encoding="utf-8")
    with _among_runs(keep.parent, fcntl.LOCK_SH):
        whole = run(command, output=keep / "whole.log")
    if whole.code == 0:
        return 0
    if not whole.only_tests_failed or len(whole.failed) > MOST:
        print(f"error: {shlex.join(command)}: exit code {whole.code}; {len(whole.failed)} failures, none was repeated")
        return whole.code
    alone: dict[str, Outcome] = {}
    for number, test in enumerate(whole.failed, 1):
        print(f"\n== {test} failed: once more, alone", flush=True)
        with _among_runs(keep.parent, fcntl.LOCK_EX):
            alone[test] = run(command, output=keep / f"alone-{number}.log", only=test)
    verdicts = []
    for test, again in alone.items():
        said = f"flaky: {test} passed alone" if again.success else f"failed: {test} failed twice"
        verdicts.append(f"{said}; outputs: {whole.output} {again.output}\n")
    (keep / VERDICTS).write_text("".join(verdicts), encoding="utf-8")
    print("\n" + "".join(verdicts), end="", flush=True)
    return 0 if all(again.success for again in alone.values()) else whole.code


@contextmanager
def _among_runs(folder: Path, how: int) -> Iterator[None]:
    """Run beside the others of a folder (LOCK_SH), or when none of them runs (LOCK_EX)."""
    with (folder / LOCK).open("a") as lock:
        fcntl.flock(lock, how)
        yield


@contextmanager
def _cache() -> Iterator[Path]:
    """Yield a folder that pytest takes for its cache."""
    with tempfile.TemporaryDirectory(prefix="rerun-") as folder:
        yield Path(folder)


def _write(cache: Path, key: str, value: object) -> None:
    path = cache / "v" / key
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def _read(cache: Path, key: str) -> dict[str, int]:
    path = cache / "v" / key
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def main() -> None:
    """Parse the command line, run, exit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, required=True, help="the folder for the outputs")
    parser.add_argument("command", nargs="+", help="what to run, behind --")
    arguments = parser.parse_args()
    sys.exit(judge(arguments.command, keep=arguments.keep))


if __name__ == "__main__":
    main()
