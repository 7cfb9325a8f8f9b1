"""The addresses of the project, from pyproject.toml: ``[project.urls]`` and ``[tool.dra-reserve]``.

Each other file that names one of the addresses is compared with pyproject.toml by a test. For scripts,
``python -m release.project image`` prints one of them.
"""

import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """Name, version and addresses of the project."""

    name: str
    version: str
    source: str
    """URL of the repository."""

    image: str
    """Image repository, without a tag."""

    charts: str
    """OCI repository of charts, without ``oci://``; the chart's name follows."""

    @property
    def tag(self) -> str:
        """Tag of the release in git."""
        return f"v{self.version}"

    @property
    def downloads(self) -> str:
        """URL of the folder from which the files of the release are downloaded."""
        return f"{self.source}/releases/download/{self.tag}"


def read_project(root: Path = ROOT) -> Project:
    """Return the project that pyproject.toml of a tree describes."""
    content = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    project, addresses = content["project"], content["tool"]["dra-reserve"]
    return Project(
        name=project["name"],
        version=project["version"],
        source=project["urls"]["Source"],
        image=addresses["image"],
        charts=addresses["charts"],
    )


if __name__ == "__main__":
    sys.stdout.write(f"{getattr(read_project(), sys.argv[1])}\n")
