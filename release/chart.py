"""Packages the chart of a release: its image is named by the project's repository and by the digest.

The command is ``python -m release.chart --into dist``; ``--image REPOSITORY@sha256:…`` names another image than
the one that was built into the folder. ``helm package`` would stamp the time of packaging on each file; this archive is
the same each time.
"""

import argparse
import io
import json
import re
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from release.archives import Entry, write_archive
from release.plan import Artefacts
from release.project import ROOT, Project, read_project

CHART: Final = ROOT / "deploy" / "helm" / "dra-reserve"

_IMAGE: Final = '  repository: dra-reserve\n  tag: "" # empty: the chart\'s appVersion\n  digest: "" #'
"""Lines of values.yaml that a release replaces."""


class NoImageError(RuntimeError):
    """The digest of the image is not known."""


def image_digest(archive: Path) -> str:
    """Return the digest of the one image in an OCI archive: the digest that a registry shows once it has the image.

    Raises NoImageError if there is no archive, or if the archive has several images.
    """
    if not archive.exists():
        raise NoImageError(f"{archive}: not there; run the step `image` first")
    with tarfile.open(archive) as opened, opened.extractfile("index.json") or io.BytesIO() as index:
        manifests = json.load(index)["manifests"]
    if len(manifests) != 1:
        raise NoImageError(f"{archive}: has {len(manifests)} images; a release has one, for all platforms")
    return str(manifests[0]["digest"])


def pinned_values(text: str, *, repository: str, digest: str) -> str:
    """Return values.yaml with the image of the release; raises NoImageError for an invalid digest."""
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        raise NoImageError(f"image {repository}: {digest!r} is no digest")
    if text.count(_IMAGE) != 1:
        raise NoImageError(f"values.yaml: the lines of the image are not those expected: {_IMAGE!r}")
    return text.replace(_IMAGE, f'  repository: {repository}\n  tag: "" # as digest\n  digest: "{digest}" #')


def chart_entries(project: Project, *, repository: str, digest: str, chart: Path = CHART) -> Mapping[str, Entry]:
    """Return the files of the chart's archive; links become the files that they name."""
    files = {f"{project.name}/{name}": Entry(path.read_bytes()) for name, path in _files_below(chart)}
    values = f"{project.name}/values.yaml"
    text = files[values].content.decode("utf-8")
    return files | {values: Entry(pinned_values(text, repository=repository, digest=digest).encode())}


def _files_below(folder: Path, prefix: str = "") -> list[tuple[str, Path]]:
    files: list[tuple[str, Path]] = []
    for path in sorted(folder.iterdir()):
        name = f"{prefix}{path.name}"
        files += _files_below(path, f"{name}/") if path.is_dir() else [(name, path)]
    return files


def main() -> int:
    """Write the archive and print its path."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--into", type=Path, required=True, help="folder of the release")
    parser.add_argument("--image", help="image with its digest; by default the one built into the folder")
    given = parser.parse_args()
    project = read_project()
    made = Artefacts(version=project.version)
    try:
        built = given.image or f"{project.image}@{image_digest(given.into / made.image)}"
        repository, _, digest = built.partition("@")
        entries = chart_entries(project, repository=repository, digest=digest)
    except NoImageError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    path = given.into / made.chart
    write_archive(path, entries)
    sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
