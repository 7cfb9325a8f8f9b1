"""Writes the provenance of a release: an in-toto statement that names files, commit, materials and builder.

The command is ``python -m release.provenance --into dist --base IMAGE@sha256:… --commit HASH``. The form is SLSA
provenance v1 (https://slsa.dev/spec/v1.0/provenance). The statement itself is not signed: it is one of the files that
the release workflow attests, and it says what that attestation leaves out: the base of the image, the locks, and how
to build the same files again.
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from release.chart import NoImageError, image_digest
from release.checksums import sha256
from release.plan import Artefacts
from release.project import ROOT, Project, read_project

Json = dict[str, Any]

LOCKS: Final = ("requirements/runtime.txt", "requirements/build.txt", "requirements/dev.txt")
"""Files that pin what a build downloads, by hash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """Inputs of a release that was built."""

    commit: str
    base: str
    """Base image with its digest."""

    locks: Mapping[str, str]
    """File → SHA-256."""

    builder: str
    """URI of the platform that ran the build."""


def statement(project: Project, build: Build, *, files: Mapping[str, str], digest: str) -> Json:
    """Return the statement; `files` maps names to SHA-256, `digest` is the one of the image."""
    base, _, base_digest = build.base.partition("@")
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            *({"name": name, "digest": {"sha256": checksum}} for name, checksum in sorted(files.items())),
            {"name": project.image, "digest": _digest_set(digest)},
        ],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": f"{project.source}/blob/{project.tag}/docs/design/releasing.md",
                "externalParameters": {"repository": project.source, "ref": f"refs/tags/{project.tag}"},
                "internalParameters": {"command": "make release", "BASE": build.base},
                "resolvedDependencies": [
                    {"uri": f"git+{project.source}@refs/tags/{project.tag}", "digest": {"gitCommit": build.commit}},
                    {"uri": f"pkg:docker/{base.replace(':', '@')}", "digest": _digest_set(base_digest)},
                    *({"name": name, "digest": {"sha256": checksum}} for name, checksum in build.locks.items()),
                ],
            },
            "runDetails": {"builder": {"id": build.builder}},
        },
    }


def _digest_set(digest: str) -> Json:
    algorithm, _, content = digest.partition(":")
    return {algorithm: content}


def builder(environment: Mapping[str, str], project: Project) -> str:
    """Return the URI of the builder: the run's workflow in GitHub Actions, else a person's machine."""
    if workflow := environment.get("GITHUB_WORKFLOW_REF"):
        return f"{environment['GITHUB_SERVER_URL']}/{workflow}"
    return f"{project.source}/blob/{project.tag}/docs/design/releasing.md#on-your-machine"


def main() -> int:
    """Write the statement and print its path."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--into", type=Path, required=True, help="folder of the release")
    parser.add_argument("--base", required=True, help="base image with its digest")
    parser.add_argument("--commit", required=True, help="full hash of the commit")
    given = parser.parse_args()
    project = read_project()
    made = Artefacts(version=project.version)
    build = Build(
        commit=given.commit,
        base=given.base,
        locks={name: sha256(ROOT / name) for name in LOCKS},
        builder=builder(os.environ, project),
    )
    try:
        files = {name: sha256(given.into / name) for name in made.attested}
        content = statement(project, build, files=files, digest=image_digest(given.into / made.image))
    except (FileNotFoundError, NoImageError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    path = given.into / made.provenance
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
