"""Locates the manifests, the chart and the examples, in an installed wheel and in a checkout.

``hatch_build.py`` puts the folders into the wheel; in a checkout they are at the top of the tree.
"""

from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Final

WHEEL_FOLDER: Final = "package_data"
"""Folder of the data in the package ``dra``, in a wheel only."""

_GENERATORS: Final = (".py", ".pyc")
"""Suffixes of files below deploy/ that write manifests; only a checkout has them."""


def data_root() -> Path:
    """Return the folder that contains ``crds``, ``deploy`` and ``examples``."""
    package = Path(str(resources.files("dra")))
    installed = package / WHEEL_FOLDER
    return installed if installed.is_dir() else package.parent


def files_below(folder: str) -> Iterator[str]:
    """Yield the paths of all files of a folder, relative to `data_root` and in order; links count as what they name."""
    for entry in sorted((data_root() / folder).iterdir(), key=lambda path: path.name):
        path = f"{folder}/{entry.name}"
        if entry.is_dir():
            if entry.name != "__pycache__":
                yield from files_below(path)
        elif folder.startswith("examples") or entry.suffix not in _GENERATORS:
            yield path


def read_text(path: str) -> str:
    """Return the text of a file, whose path is relative to `data_root`."""
    return (data_root() / path).read_text(encoding="utf-8")
