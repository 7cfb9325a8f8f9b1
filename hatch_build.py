"""Adds manifests, the chart and examples to the wheel and to the sdist; `dra.cli.manifests` finds them at run time.

The folders stay at the top of the tree, where kubectl and Helm take them, and become package data when the wheel is
built. Each file is named on its own: the chart reaches its manifests through links, which neither archive keeps.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

DATA_FOLDERS: Final = ("crds", "deploy", "examples")

DATA_PACKAGE: Final = "dra/package_data"
"""Folder of the wheel that has `DATA_FOLDERS`."""

DEVELOPMENT_ONLY: Final = ("deploy/Containerfile", "deploy/kind", "deploy/kustomize/kind")
"""Files and folders that need a checkout: the image is built from one."""


def data_files(root: Path) -> Iterator[str]:
    """Yield the paths of all data files, relative to the root, in order."""
    for folder in DATA_FOLDERS:
        yield from sorted(path for path in _files_below(root, folder) if not _is_development_only(path))


def _files_below(root: Path, folder: str) -> Iterator[str]:
    for entry in (root / folder).iterdir():
        path = f"{folder}/{entry.name}"
        if entry.is_dir():
            yield from _files_below(root, path)
        else:
            yield path


def _is_development_only(path: str) -> bool:
    if path.endswith((".pyc", "~", ".swp")):
        return True
    return any(path == folder or path.startswith(f"{folder}/") for folder in DEVELOPMENT_ONLY)


class PackageDataHook(BuildHookInterface):  # type: ignore[type-arg] # generic in a class that is imported for types only
    """Adds the data files to what is built; an editable install reads them from the tree."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files; hatchling calls this before each build."""
        if version == "editable":
            return
        root = Path(self.root)
        prefix = f"{DATA_PACKAGE}/" if self.target_name == "wheel" else ""
        build_data["force_include"] |= {str(root / path): f"{prefix}{path}" for path in data_files(root)}


_RELATIVE_LINK: Final = re.compile(r"\]\((?!https?:|#)([^)]+)\)")


class ReadmeHook(MetadataHookInterface):
    """Shows the README with absolute links, since a package index has no other file of the tree."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the description of the package; hatchling calls this before each build."""
        tree = f"{metadata['urls']['Source']}/blob/main"
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": _RELATIVE_LINK.sub(rf"]({tree}/\1)", text),
        }
