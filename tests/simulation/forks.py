"""Command lines of one simulation, each in a fork of one process: the modules are imported once, not for each line.

``python -m tests.simulation.forks PACKAGE`` reads the lines from the standard input, and prints what each has printed
and its exit code as a JSON array. The hash seed must be that of the simulations.
"""

import importlib
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Ran:
    """What became of one command line."""

    code: int
    output: str


def run_lines(package: str, lines: Sequence[str]) -> list[Ran]:
    """Run command lines of a simulation in one new process, with the hash seed that makes runs repeatable."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.simulation.forks", package],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return [Ran(code, output) for code, output in json.loads(ran.stdout)]


def _fork(package: str, arguments: list[str]) -> tuple[int, str]:
    """Run one command line in a fork of this process."""
    with tempfile.TemporaryFile("w+") as output:
        child = os.fork()
        if not child:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            os._exit(_run(package, arguments))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        output.seek(0)
        return code, output.read()


def _run(package: str, arguments: list[str]) -> int:
    """Return the exit code of a command line; 2 for an error of its own, since 1 says that a rule was violated."""
    sys.argv = [package, *arguments]
    try:
        importlib.import_module(f"{package}.command").run()
    except SystemExit as end:
        return int(end.code or 0)
    except BaseException:  # noqa: BLE001 - the parent's frames are not this process's to unwind
        traceback.print_exc()
        return 2
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def main() -> None:
    """Import the simulation and run each line of the standard input."""
    package = sys.argv[1]
    importlib.import_module(f"{package}.command")
    print(json.dumps([_fork(package, line.split()) for line in sys.stdin.read().splitlines()]))


if __name__ == "__main__":
    main()
