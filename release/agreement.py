"""Checks that a tree is ready for a release: version, tag, CHANGELOG and manifests agree, and nothing is uncommitted.

``python -m release.agreement`` prints the problems, one on each line, and ends with exit code 1 if there is one.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from release.project import ROOT, Project, read_project

_DATED: Final = r"^## {version} \(\d{{4}}-\d{{2}}-\d{{2}}\)$"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The state of a checkout, as far as a release depends on it."""

    tags: frozenset[str]
    """Tags of the commit that is checked out."""

    uncommitted: tuple[str, ...]
    changelog: str
    chart: tuple[str, str]
    """Version and appVersion."""

    image_tags: frozenset[str]
    """Tags of the image in all kustomizations."""


def problems(project: Project, tree: Tree) -> Iterator[str]:
    """Yield each reason for which the tree must not be released, with its remedy."""
    version = project.version
    for path in tree.uncommitted:
        yield f"{path}: not committed; commit or remove the file"
    if not re.search(_DATED.format(version=re.escape(version)), tree.changelog, re.MULTILINE):
        yield f"CHANGELOG.md: has no heading of the form '## {version} (2026-01-31)'; set the date of the release"
    if tree.chart != (version, version):
        yield f"Chart.yaml: version and appVersion are {tree.chart[0]} and {tree.chart[1]}, not {version}"
    for tag in sorted(tree.image_tags - {version}):
        yield f"kustomizations: name the image {project.name}:{tag}, not {version}"
    if project.tag not in tree.tags:
        yield f"tag {project.tag}: is not at the commit that is checked out; run: git tag -s {project.tag}"


def read_tree(root: Path) -> Tree:
    """Return the state of a checkout; raises subprocess.CalledProcessError if the folder is no checkout."""
    chart = yaml.safe_load((root / "deploy/helm/dra-reserve/Chart.yaml").read_text(encoding="utf-8"))
    kustomizations = [
        yaml.safe_load(path.read_text(encoding="utf-8")) for path in (root / "deploy").glob("**/kustomization.yaml")
    ]
    return Tree(
        tags=frozenset(_git(root, "tag", "--points-at", "HEAD")),
        uncommitted=tuple(line[3:] for line in _git(root, "status", "--porcelain")),
        changelog=(root / "CHANGELOG.md").read_text(encoding="utf-8"),
        chart=(str(chart["version"]), str(chart["appVersion"])),
        image_tags=frozenset(
            str(image["newTag"])
            for kustomization in kustomizations
            for image in kustomization.get("images", ())
            if "newTag" in image
        ),
    )


def _git(root: Path, *arguments: str) -> list[str]:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()  # noqa: S603 - our own arguments


def main() -> int:
    """Print the problems of this checkout."""
    disagreements = list(problems(read_project(), read_tree(ROOT)))
    sys.stderr.writelines(f"error: {problem}\n" for problem in disagreements)
    return 1 if disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
