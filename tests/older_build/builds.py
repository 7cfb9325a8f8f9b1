"""Two builds of dra-reserve: this tree, and the tree of an older commit, which `git archive` takes from the history.

Both use the packages of this virtual environment. The build that a process runs is decided by PYTHONPATH, which comes
before the editable installation.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT: Final = Path(__file__).parents[2]
DEFAULT: Final = "1f9b98d0"
"""The last commit before the loops of the controller got one shape."""
VARIABLE: Final = "DRA_OLDER"
PROGRAMS: Final = {"dra-reserve": "dra.cli.main", "kubectl-dra": "dra.cli.kubectl.main"}
PACKAGES: Final = ("dra", "controller", "kubeletplugin")


class NoHistoryError(RuntimeError):
    """The commit is not in this clone."""


@dataclass(frozen=True)
class Build:
    """A tree of dra-reserve whose commands can be run."""

    name: str
    tree: Path

    def __str__(self) -> str:
        return self.name

    def command(self, *arguments: str, program: str = "dra-reserve") -> list[str]:
        """Return the command line that runs a program of this build."""
        return self.python("-m", PROGRAMS[program], *arguments)

    def python(self, *arguments: str) -> list[str]:
        """Return the command line of a Python that imports this build; -P: nothing from the current folder."""
        return ["env", f"PYTHONPATH={self.tree}", sys.executable, "-P", *arguments]

    def run(
        self, command: Sequence[str], *, folder: Path | None = None, within: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run a command line of this build to its end."""
        without = {key: value for key, value in os.environ.items() if not key.startswith(("DRA_", "KUBECONFIG"))}
        return subprocess.run(
            command, cwd=folder, env=without, capture_output=True, text=True, timeout=within, check=False
        )

    def imported(self) -> set[str]:
        """Return the folders that the packages of this build are imported from."""
        printing = f"import {', '.join(PACKAGES)}; print(*(p.__file__ for p in ({', '.join(PACKAGES)})))"
        answer = self.run(self.python("-c", printing))
        assert answer.returncode == 0, answer.stderr
        return {str(Path(file).parents[1]) for file in answer.stdout.split()}


THIS: Final = Build("this build", ROOT)


def wanted() -> str:
    """Return the commit that DRA_OLDER names, or the default."""
    return os.environ.get(VARIABLE) or DEFAULT


def older(folder: Path) -> Build:
    """Return the older build, unpacked into an empty folder; raise NoHistoryError if this clone lacks the commit."""
    commit, archive, tree = wanted(), folder / "archive.tar", folder / "tree"
    command = ["git", "-C", str(ROOT), "archive", f"--output={archive}", commit]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise NoHistoryError("git is not installed") from error
    if answer.returncode:
        why = f"{VARIABLE}={commit}: not in the history of this clone: {answer.stderr.strip()}"
        raise NoHistoryError(f"{why}. In a shallow clone: git fetch --unshallow")
    with tarfile.open(archive) as packed:
        packed.extractall(tree, filter="data")
    return Build(f"the build of {commit}", tree)
