"""Writes sbom.cdx.json, what the image holds besides its base, as CycloneDX 1.6: ``make sbom``; --check only compares.

The packages come from requirements/runtime.txt, which pins them and says who needs whom, and their licences from the
installed packages. The scripts of the page, which the wheel contains, come from the lock beside them, with the hashes
of the files. Nothing in it depends on when or where it is made. The hashes of packages stay in the requirements: they
are of the files for all platforms, and which of them is in an image only the image knows.
"""

import json
import re
import sys
import tomllib
import uuid
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parents[1] / "deploy"
ROOT: Final = HERE.parent
SBOM: Final = HERE / "sbom.cdx.json"
LOCKED: Final = ROOT / "requirements" / "runtime.txt"
VENDORED: Final = ROOT / "dra" / "cli" / "page" / "static" / "vendor" / "lock.json"

_PINNED: Final = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>\S+) \\\n(?P<rest>(?:^ +.*\n?)+)", re.MULTILINE)
_OURS: Final = "dra-reserve (pyproject.toml)"

Json = dict[str, Any]


class StaleEnvironmentError(RuntimeError):
    """The environment does not have what is locked."""


@dataclass(frozen=True, kw_only=True)
class Pinned:
    """One package as it is locked."""

    name: str
    version: str
    needed_by: tuple[str, ...]

    @property
    def purl(self) -> str:
        """Its package URL."""
        return f"pkg:pypi/{self.name}@{self.version}"


def pinned(text: str) -> tuple[Pinned, ...]:
    """Return the packages of a file that pip-compile has written."""
    packages = []
    for match in _PINNED.finditer(text):
        _, _, via = match["rest"].partition("# via")
        packages.append(
            Pinned(
                name=match["name"].lower(),
                version=match["version"],
                needed_by=tuple(filter(None, (line.strip(" #") for line in via.splitlines()))),
            )
        )
    return tuple(packages)


def sbom(packages: tuple[Pinned, ...], *, project: Json, vendored: tuple[Json, ...] = ()) -> Json:
    """Return the bill of materials of the project with these packages and vendored components."""
    purls = {package.name: package.purl for package in packages}
    ours = f"pkg:pypi/{project['name']}@{project['version']}"
    needs: dict[str, list[str]] = {ours: [], **{purl: [] for purl in purls.values()}}
    for package in packages:
        for name in package.needed_by:
            needs[ours if name == _OURS else purls[name]].append(package.purl)
    for component in vendored:
        needs[ours].append(component["purl"])
        needs[component["purl"]] = []
    content: Json = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": ours,
                "name": project["name"],
                "version": project["version"],
                "purl": ours,
                "licenses": [{"expression": project["license"]}],
            }
        },
        "components": [*(_component(package) for package in packages), *vendored],
        "dependencies": [{"ref": ref, "dependsOn": sorted(others)} for ref, others in needs.items()],
    }
    name = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content, sort_keys=True))
    return {**content, "serialNumber": f"urn:uuid:{name}"}


def vendored_components(lock: Json) -> tuple[Json, ...]:
    """Return the components of a lock of vendored files: each package with its licence and the hashes of its files."""
    return tuple(_vendored(package) for package in lock["packages"])


def _vendored(package: Json) -> Json:
    purl = f"pkg:npm/{package['package']}@{package['version']}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": package["package"],
        "version": package["version"],
        "purl": purl,
        "licenses": [{"expression": package["license"]}],
        "components": [
            {"type": "file", "name": name, "hashes": [{"alg": "SHA-256", "content": digest}]}
            for name, digest in sorted(package["files"].items())
        ],
    }


def _component(package: Pinned) -> Json:
    described = metadata.distribution(package.name)
    if described.version != package.version:
        raise StaleEnvironmentError(
            f"{package.name}: {described.version} is installed, {package.version} is locked; run: make venv"
        )
    return {
        "type": "library",
        "bom-ref": package.purl,
        "name": package.name,
        "version": package.version,
        "purl": package.purl,
        "licenses": _licenses(described.metadata),
    }


def _licenses(described: metadata.PackageMetadata) -> list[Json]:
    """Return the licence as the package names it: an expression, its classifiers, or the first line of its text."""
    if expression := described.get("License-Expression"):
        return [{"expression": expression}]
    classifiers = [
        classifier for classifier in described.get_all("Classifier", []) if classifier.startswith("License ::")
    ]
    names = [classifier.rpartition(" :: ")[2] for classifier in classifiers]
    if not names and (text := described.get("License", "").strip()):
        names = [text.splitlines()[0]]
    return [{"license": {"name": name}} for name in names]


def text() -> str:
    """Return the file's content."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    vendored = vendored_components(json.loads(VENDORED.read_text(encoding="utf-8")))
    return json.dumps(sbom(locked(), project=project, vendored=vendored), indent=2) + "\n"


def locked() -> tuple[Pinned, ...]:
    """Return the locked packages of the tree."""
    return pinned(LOCKED.read_text(encoding="utf-8"))


def main(arguments: list[str]) -> int:
    """Write the file, or say that it is not what the locked requirements make."""
    try:
        made = text()
    except (StaleEnvironmentError, metadata.PackageNotFoundError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    if arguments == ["--check"]:
        if SBOM.exists() and SBOM.read_text(encoding="utf-8") == made:
            return 0
        sys.stderr.write(f"error: {SBOM}: not what {LOCKED} makes; run: make sbom\n")
        return 1
    SBOM.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
