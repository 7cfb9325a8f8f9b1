#!/usr/bin/env python3
"""Runs kubectl dra, or its completion, from the archive that contains this file.

The archive has the packages for some versions of Python; another Python looks on PATH for one of them. So that an older
Python can do that, this file keeps to the syntax and the library of Python 3.6.
"""

import os
import sys
from importlib import import_module
from pathlib import Path

OLDEST, NEWEST = 11, 14
"""Minor versions of Python 3 for which the archive has packages."""

MODULES = {"kubectl-dra": "dra.cli.kubectl.main", "kubectl_complete-dra": "dra.cli.kubectl.completion"}
"""Name of the file → module with the command."""


def is_suitable() -> bool:
    """Return whether the archive has the packages for the Python that runs this file."""
    ordinary = sys.implementation.name == "cpython" and "t" not in sys.abiflags
    return ordinary and (3, OLDEST) <= sys.version_info[:2] <= (3, NEWEST)


def suitable_python(path: str) -> str:
    """Return the newest suitable Python of the folders of PATH; empty if none has one."""
    for minor in range(NEWEST, OLDEST - 1, -1):
        for folder in path.split(os.pathsep):
            file = Path(folder, f"python3.{minor}")
            if os.access(str(file), os.X_OK):
                return str(file)
    return ""


def main() -> None:
    """Run the command that this file is named after."""
    file = Path(__file__).resolve()
    if not is_suitable():
        python = suitable_python(os.environ.get("PATH", ""))
        if not python:
            sys.exit(
                f"error: kubectl dra: needs CPython 3.{OLDEST} to 3.{NEWEST}; python3 is {sys.version.split()[0]}, "
                "and PATH has no suitable one"
            )
        os.execv(python, [python, str(file), *sys.argv[1:]])  # noqa: S606 - a Python of the user's PATH
    packages = file.parent / "lib"
    sys.path[:0] = [str(packages / f"cp3{sys.version_info[1]}"), str(packages / "any")]
    import_module(MODULES[file.name]).main()


if __name__ == "__main__":
    main()
