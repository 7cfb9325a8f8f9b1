"""Pods whose containers make more cgroups than anybody reads, or deeper ones."""

import itertools
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

GREEDY = ["wide", "deep", "deep-with-long-names"]
_CHILDREN = 1100
_LEVELS = {"deep": ("a", 1100), "deep-with-long-names": ("n" * 200, 30)}
"""A name, and the number of levels; Python recurses a thousand times, and a path has 4096 bytes at most."""


@contextmanager
def greedy_pod(folder: Path, shape: str, files: Mapping[str, str] = {}) -> Iterator[None]:
    """Make directories with files below a container's cgroup, and remove them with all else that is in it."""
    folder.mkdir(parents=True, exist_ok=True)
    here = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.chdir(folder)
        for name in map(str, range(_CHILDREN)) if shape == "wide" else itertools.repeat(*_LEVELS[shape]):
            Path(name).mkdir()
            for file, content in files.items():
                Path(name, file).write_text(content)
            if shape != "wide":
                os.chdir(name)
        os.chdir(here)
        yield
    finally:
        os.chdir(here)
        os.close(here)
        subprocess.run(["/bin/rm", "-rf", str(folder)], check=True, timeout=60)  # shutil recurses
