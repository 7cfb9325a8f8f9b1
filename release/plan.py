"""The steps of a release, as data: commands, files and the reason of each, in the order in which they run.

Pure. A release is built from one commit, checked, attested and only then uploaded, so a step that fails leaves nothing
behind that users could see. Steps that upload run in the release workflow, whose credentials last as long as a job;
elsewhere they need ``--publish``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from release.project import Project

IMAGE_PLATFORMS: Final = ("linux/amd64", "linux/arm64")

KREW_PLATFORMS: Final = ("linux-amd64", "linux-arm64", "darwin-arm64")
"""Platforms for which all locked packages have wheels; the workflow starts each archive on its platform."""

PYTHON: Final = "python"
"""First word of a command that the interpreter of the plan runs."""

Command = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step: commands that run in order, and the files that exist afterwards."""

    name: str
    purpose: str
    commands: tuple[Command, ...] = ()
    writes: tuple[str, ...] = ()
    """Names of the files, relative to the folder of the release."""

    publishes: bool = False
    """Whether the step uploads anything."""

    without_commands: str = ""
    """Sentence about a step that no command does: an action of the workflow, or a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Artefacts:
    """Names of the files of a release."""

    version: str

    @property
    def package(self) -> tuple[str, str]:
        """Wheel and sdist."""
        return f"dra_reserve-{self.version}-py3-none-any.whl", f"dra_reserve-{self.version}.tar.gz"

    @property
    def image(self) -> str:
        """Archive of the image, an OCI layout with all platforms."""
        return f"dra-reserve-{self.version}-image.tar"

    @property
    def chart(self) -> str:
        """Archive of the chart, named as Helm names archives."""
        return f"dra-reserve-{self.version}.tgz"

    def krew_archive(self, platform: str) -> str:
        """Return the archive of kubectl dra for a platform."""
        return f"kubectl-dra-{self.version}-{platform}.tar.gz"

    @property
    def krew(self) -> tuple[str, ...]:
        """All archives of kubectl dra."""
        return tuple(self.krew_archive(platform) for platform in KREW_PLATFORMS)

    krew_manifest = "dra.yaml"

    @property
    def package_sbom(self) -> str:
        """Bill of materials of the package and its locked requirements."""
        return f"dra-reserve-{self.version}.cdx.json"

    @property
    def image_sbom(self) -> str:
        """Bill of materials of the image, with its digest and its base."""
        return f"dra-reserve-{self.version}-image.cdx.json"

    @property
    def provenance(self) -> str:
        """Statement of what was built, from which commit and from which materials."""
        return f"dra-reserve-{self.version}.intoto.json"

    checksums = "SHA256SUMS"

    @property
    def attested(self) -> tuple[str, ...]:
        """Files that the statement of provenance names."""
        return (*self.package, self.chart, *self.krew, self.krew_manifest, self.package_sbom, self.image_sbom)

    @property
    def uploaded(self) -> tuple[str, ...]:
        """Files of the release that users download."""
        return (*self.attested, self.provenance, self.checksums)


def steps(project: Project, *, base: str, commit: str, commit_time: str, into: str = "dist") -> tuple[Step, ...]:
    """Return the steps of a release.

    `base` is the base image, with its digest; `commit` is the full hash of the commit; `commit_time` is the time of
    the commit, in seconds since 1970; `into` is the folder of the files. ``make dist`` empties the folder.
    """
    made = Artefacts(version=project.version)
    path = Path(into)
    module = ("--into", into)
    return (
        Step(
            name="check",
            purpose="version, tag, CHANGELOG and chart agree, and the tree is clean",
            commands=((PYTHON, "-m", "release.agreement"),),
        ),
        Step(
            name="dist",
            purpose="wheel and sdist, byte-identical twice, tried in a clean environment",
            commands=(("make", "dist"),),
            writes=made.package,
        ),
        Step(
            name="image",
            purpose=f"image for {' and '.join(IMAGE_PLATFORMS)}, reproducible, with labels; not uploaded yet",
            commands=(_image_build(project, base=base, commit=commit, commit_time=commit_time, folder=path),),
            writes=(made.image,),
        ),
        Step(
            name="chart",
            purpose="chart with version, appVersion and the image by its digest",
            commands=((PYTHON, "-m", "release.chart", *module),),
            writes=(made.chart,),
        ),
        Step(
            name="krew",
            purpose="archives of kubectl dra with the locked packages, and the manifest with their checksums",
            commands=(
                *((PYTHON, "-m", "release.krew", *module, "--platform", platform) for platform in KREW_PLATFORMS),
                (PYTHON, "-m", "release.krew_manifest", *module),
            ),
            writes=(*made.krew, made.krew_manifest),
        ),
        Step(
            name="sbom",
            purpose="bills of materials (CycloneDX) of the package and of the image",
            commands=((PYTHON, "-m", "release.bills", *module, "--base", base),),
            writes=(made.package_sbom, made.image_sbom),
        ),
        Step(
            name="provenance",
            purpose="in-toto statement (SLSA provenance): these files, from this commit, with these materials",
            commands=((PYTHON, "-m", "release.provenance", *module, "--base", base, "--commit", commit),),
            writes=(made.provenance,),
        ),
        Step(
            name="checksums",
            purpose="checksums of all files of the release",
            commands=((PYTHON, "-m", "release.checksums", *module),),
            writes=(made.checksums,),
        ),
        Step(
            name="try",
            purpose="here, krew installs kubectl dra from an archive, and Helm reads the chart from a registry",
            commands=(("make", "try-release"),),
        ),
        Step(
            name="attest",
            purpose="signed attestations of the files (provenance) and of the image (provenance, bill of materials)",
            without_commands="actions/attest signs as the workflow; users verify with: gh attestation verify FILE",
            publishes=True,
        ),
        Step(
            name="publish-image",
            purpose="image of all platforms, with the digest that the chart names",
            commands=(
                _image_upload(f"oci-archive:{path / made.image}", f"docker://{project.image}:{project.version}"),
            ),
            publishes=True,
        ),
        Step(
            name="publish-chart",
            purpose="chart as an OCI artifact",
            commands=(("helm", "push", str(path / made.chart), f"oci://{project.charts}"),),
            publishes=True,
        ),
        Step(
            name="publish-package",
            purpose="wheel and sdist in the package index",
            without_commands="pypa/gh-action-pypi-publish uploads as a trusted publisher: attestations, no password",
            publishes=True,
        ),
        Step(
            name="publish-release",
            purpose="release on the repository's page, with all files",
            commands=(
                (
                    *("gh", "release", "create", project.tag, "--verify-tag", "--title", project.version),
                    *("--notes", f"Changes: {project.source}/blob/{project.tag}/CHANGELOG.md"),
                    *(str(path / name) for name in made.uploaded),
                ),
            ),
            publishes=True,
        ),
        Step(
            name="publish-krew",
            purpose="kubectl dra in the index of krew",
            without_commands=f"a maintainer opens a pull request to krew-index with {made.krew_manifest}",
            publishes=True,
        ),
    )


def _image_build(project: Project, *, base: str, commit: str, commit_time: str, folder: Path) -> Command:
    labels = {
        "org.opencontainers.image.title": project.name,
        "org.opencontainers.image.version": project.version,
        "org.opencontainers.image.revision": commit,
        "org.opencontainers.image.source": project.source,
        "org.opencontainers.image.licenses": "Apache-2.0 AND MIT",
        "org.opencontainers.image.base.name": base.partition("@")[0],
        "org.opencontainers.image.base.digest": base.partition("@")[2],
    }
    archive = folder / Artefacts(version=project.version).image
    return (
        *("docker", "buildx", "build", "--file", "deploy/Containerfile", "--platform", ",".join(IMAGE_PLATFORMS)),
        *("--build-arg", f"BASE={base}", "--build-arg", f"SOURCE_DATE_EPOCH={commit_time}"),
        *(word for name, value in labels.items() for word in ("--label", f"{name}={value}")),
        *("--provenance=mode=max", "--sbom=true"),
        *("--output", f"type=oci,dest={archive},rewrite-timestamp=true", "."),
    )


def _image_upload(source: str, destination: str) -> Command:
    return ("skopeo", "copy", "--all", "--preserve-digests", source, destination)


def describe(step: Step) -> str:
    """Return a step as lines of text: name, purpose, commands and files."""
    place = "  [uploads: in the release workflow only, or with --publish]" if step.publishes else ""
    lines = [f"{step.name}: {step.purpose}{place}"]
    lines += [f"    $ {_shown(command)}" for command in step.commands]
    lines += [f"    {step.without_commands}"] if step.without_commands else []
    lines += [f"    writes {path}" for path in step.writes]
    return "\n".join(lines) + "\n"


def _shown(command: Sequence[str]) -> str:
    return " ".join(f"'{word}'" if " " in word or not word else word for word in command)
