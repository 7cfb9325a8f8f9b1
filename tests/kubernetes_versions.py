"""Lists what is left to do until a version of Kubernetes is the one that CI runs.

    make kubernetes VERSION=1.38

The exit code is 0 if nothing is left, 1 if something is, and 2 if VERSION is no version of Kubernetes 1. Whether all
scenarios pass is for `make test-cluster` to say: the steps that follow from that state it by being done.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dra.cli.kubectl.preflight import command
from tests.cluster import binaries
from tests.cluster.binaries import Program
from tests.cluster.versions import minor
from tests.scenarios import features

ROOT: Final = Path(__file__).parents[1]
README: Final = ROOT / "README.md"

EXIT_LEFT: Final = 1
EXIT_UNKNOWN: Final = 2


@dataclass(frozen=True, kw_only=True)
class Step:
    """One thing that must be so, and how to bring it about."""

    is_so: bool
    what: str
    how: str

    def __str__(self) -> str:
        """Return the line of the list; the way is told only while the step is left."""
        return f"done  {self.what}" if self.is_so else f"left  {self.what}\n        {self.how}"


def steps(version: str) -> list[Step]:
    """Return what makes a version such as 1.38 the one of CI, in this order; raises ValueError if it is no version."""
    release = f"1.{minor(version)}"
    program = _program(release)
    newest = binaries.controlplanes()[0]
    before = f"kubernetes-1.{minor(newest.version)}"
    return [
        Step(
            is_so=program is not None,
            what=f"{_shown(binaries.CONTROLPLANE)}: a module file for Kubernetes {release}",
            how=f"copy go.mod and go.sum to {before}.mod and {before}.sum, then raise the versions in go.mod",
        ),
        Step(
            is_so=program is not None and program.path.exists(),
            what="its executable is built",
            how=f"make binaries VERSION={release}",
        ),
        Step(
            is_so=program is not None and features.PAGE.read_text(encoding="utf-8") == features.page(),
            what=f"{_shown(features.PAGE)}: its column says what test_features has found",
            how=f"make test-cluster VERSION={release} ARGS='-k test_features', mend tests/scenarios/features.py, "
            "then: python -m tests.scenarios.features",
        ),
        Step(
            is_so=(1, minor(release)) <= command.NEWEST_VERSION,
            what="`kubectl dra preflight` knows that all scenarios pass on it",
            how=f"make test-cluster VERSION={release}, then raise NEWEST_VERSION in {_shown(Path(command.__file__))}",
        ),
        Step(
            is_so=release in _tested_on(README.read_text(encoding="utf-8")),
            what="README.md names it among the versions that dra-reserve is tested on",
            how="raise the last version of the sentence about the versions that dra-reserve is tested on",
        ),
        Step(
            is_so=minor(binaries.DEFAULT) >= minor(release),
            what="CI and `make test-cluster` run it",
            how=f"raise DEFAULT in {_shown(Path(binaries.__file__))}",
        ),
    ]


def _program(release: str) -> Program | None:
    return next((each for each in binaries.controlplanes() if minor(each.version) == minor(release)), None)


def _tested_on(readme: str) -> list[str]:
    """Return the versions of the sentence of README.md: `is tested on Kubernetes 1.34 to 1.37`, both included."""
    found = re.search(r"is tested on\s+Kubernetes\s+1\.(\d+) to 1\.(\d+)", readme)
    return [f"1.{each}" for each in range(int(found[1]), int(found[2]) + 1)] if found else []


def _shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def main(*arguments: str) -> int:
    """Print the list."""
    try:
        found = steps(arguments[0] if arguments else "")
    except ValueError as error:
        sys.stderr.write(f"error: {error}; say which one: make kubernetes VERSION=1.38\n")
        return EXIT_UNKNOWN
    sys.stdout.write("".join(f"{step}\n" for step in found))
    return 0 if all(step.is_so for step in found) else EXIT_LEFT


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
