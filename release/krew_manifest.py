"""Writes dra.yaml, the manifest from which krew installs kubectl dra, with the checksums of the archives.

The command is ``python -m release.krew_manifest --into dist``.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from release import launcher
from release.checksums import sha256
from release.plan import KREW_PLATFORMS, Artefacts
from release.project import Project, read_project

Json = dict[str, Any]

DESCRIPTION: Final = """\
Explains why a ResourceClaim, a device, a pod or a node is held, by which rule, and what would release it.
Lists claims, devices and Reservations with their users, checks a cluster for leaks, simulates scheduling,
and serves a live page to a browser on your machine.

Reading needs nothing in the cluster but your own permissions. Reservations, migrations and claims that are
reserved for workloads need the controller of dra-reserve: kubectl dra install --dry-run shows what that means.
"""

CAVEATS: Final = f"""\
Needs CPython 3.{launcher.OLDEST} to 3.{launcher.NEWEST} on PATH, as python3 or as python3.N.

Completion of kubectl dra: link kubectl_complete-dra of the plugin's folder into a folder of PATH.
"""


def manifest(project: Project, *, sha256s: Mapping[str, str]) -> Json:
    """Return the manifest; `sha256s` maps a platform such as linux-amd64 to the checksum of its archive."""
    made = Artefacts(version=project.version)
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "dra"},
        "spec": {
            "version": project.tag,
            "homepage": project.source,
            "shortDescription": "Explain and manage device claims",
            "description": DESCRIPTION,
            "caveats": CAVEATS,
            "platforms": [
                {
                    "selector": {"matchLabels": dict(zip(("os", "arch"), platform.split("-"), strict=True))},
                    "uri": f"{project.downloads}/{made.krew_archive(platform)}",
                    "sha256": digest,
                    "bin": "kubectl-dra",
                }
                for platform, digest in sha256s.items()
            ],
        },
    }


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as people write them in YAML."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)


def yaml_text(content: Json) -> str:
    """Return the text of a manifest."""
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, width=120)


def main() -> int:
    """Write the manifest and print its path."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--into", type=Path, required=True, help="folder of the release, with the archives")
    folder = parser.parse_args().into
    project = read_project()
    made = Artefacts(version=project.version)
    try:
        sha256s = {platform: sha256(folder / made.krew_archive(platform)) for platform in KREW_PLATFORMS}
    except FileNotFoundError as error:
        sys.stderr.write(f"error: {error.filename}: not there; run: python -m release.krew\n")
        return 1
    path = folder / made.krew_manifest
    path.write_text(yaml_text(manifest(project, sha256s=sha256s)), encoding="utf-8")
    sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
