"""Runs `go build` and says how far it is: with an empty Go cache a control plane takes half an hour on two cores.

Go compiles as many packages at once as there are cores.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

INTERVAL: Final = 60.0
"""Seconds between two lines that say how far it is: some forty in all, so that a log of CI stays readable."""

_PACKAGE: Final = re.compile(r"[^\s:#]+")
"""What `go build -v` prints of each package that it compiles, on a line of its own; complaints have spaces."""

_DOWNLOAD: Final = "go: downloading "


def run(go: str, *arguments: str, folder: Path, environment: dict[str, str], output: Path) -> bool:
    """Build the package that the last argument names, and return whether that worked; Go's complaints are shown."""
    packages = subprocess.run(
        [go, "list", "-deps", *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # what it complains about, the build complains about
        text=True,
        check=False,
    ).stdout.count("\n")
    command = [go, "build", "-v", "-o", str(output), *arguments]
    with subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True) as build:
        assert build.stderr is not None
        for line in shown(build.stderr, packages=packages, now=time.monotonic):
            sys.stderr.write(line)
            sys.stderr.flush()
    return build.returncode == 0


def shown(lines: Iterable[str], *, packages: int, now: Callable[[], float]) -> Iterator[str]:
    """Yield what a reader is shown of the output of `go build -v`: complaints at once, and how far it is by the minute.

    The packages are those of the program; what is in Go's cache is not compiled, and never counted.
    """
    began = told = now()
    compiled = 0
    for line in lines:
        if _PACKAGE.fullmatch(line.strip()):
            compiled += 1
        elif not line.startswith(_DOWNLOAD):
            yield line
        if now() - told >= INTERVAL:
            told = now()
            yield f"  {(told - began) / 60:.0f} min: {compiled:,} of at most {packages:,} packages compiled\n"
