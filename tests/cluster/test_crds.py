"""CRDs of other projects: pinned by version and sum, and said to be missing where they cannot be had."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cluster import crds
from tests.cluster.crds import ChangedError, ModuleRelease, NotAvailableError, Release

MODULES = [release for release in crds.RELEASES if isinstance(release, ModuleRelease)]


def names(releases: list[ModuleRelease]) -> list[str]:
    return [release.name for release in releases]


@pytest.mark.parametrize("release", MODULES, ids=names(MODULES))
def test_the_sum_of_each_module_is_pinned(release: ModuleRelease) -> None:
    sums = (crds.MODULES / "go.sum").read_text()
    assert re.search(rf"^{re.escape(release.module)} {re.escape(release.version)} h1:\S+=$", sums, re.MULTILINE)


def test_each_required_module_has_a_release() -> None:
    required = re.findall(r"^\s+(\S+) v\S+$", (crds.MODULES / "go.mod").read_text(), re.MULTILINE)
    assert sorted(required) == sorted(release.module for release in MODULES)


def test_each_release_has_a_name_of_its_own() -> None:
    assert len({release.name for release in crds.RELEASES}) == len(crds.RELEASES)


def test_without_go_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotAvailableError, match="no go on PATH"):
        crds.JOBSET.manifests()


@pytest.fixture
def without_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty module cache, and nothing to download from."""
    if shutil.which("go") is None:
        pytest.skip("there is no go on PATH")
    monkeypatch.setenv("GOMODCACHE", str(tmp_path))
    monkeypatch.setenv("GOPROXY", "off")


@pytest.mark.usefixtures("without_network")
def test_a_module_that_cannot_be_downloaded_is_not_available() -> None:
    with pytest.raises(NotAvailableError, match=re.escape(crds.JOBSET.module)):
        crds.JOBSET.manifests()


@pytest.mark.parametrize(
    ("script", "error", "says"),
    [
        ("echo 'go: checksum mismatch' >&2; exit 1", ChangedError, "checksum mismatch"),
        ("""echo '{"Error": "403 Forbidden"}'; exit 1""", NotAvailableError, "403 Forbidden"),
        ("echo 'go.mod requires go >= 1.26.0' >&2; exit 1", NotAvailableError, "requires go >= 1.26.0"),
    ],
    ids=["other-content", "refused", "old-go"],
)
def test_only_a_module_with_other_content_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, error: type[Exception], says: str
) -> None:
    _fake_go(tmp_path, script)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(error, match=says):
        crds.JOBSET.manifests()


def test_the_files_of_a_module_are_read_where_go_has_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _fake_go(tmp_path, f"""echo '{{"Dir": "{tmp_path}"}}'""")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert crds.JOBSET.manifests() == [tmp_path / "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"]


def test_without_a_folder_it_names_the_files_to_put_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(crds.FOLDER, raising=False)
    with pytest.raises(NotAvailableError, match=r"DRA_CRDS names no folder with batch.volcano.sh_jobs.yaml"):
        crds.VOLCANO.manifests()


@pytest.mark.parametrize("content", [None, "kind: CustomResourceDefinition"], ids=["missing", "another-version"])
def test_a_file_of_another_version_is_not_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str | None
) -> None:
    monkeypatch.setenv(crds.FOLDER, str(tmp_path))
    if content is not None:
        (tmp_path / "batch.volcano.sh_jobs.yaml").write_text(content)
    with pytest.raises(NotAvailableError if content is None else ChangedError, match=r"batch\.volcano\.sh_jobs\.yaml"):
        crds.VOLCANO.manifests()


def test_the_files_of_a_folder_are_known_by_their_digests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(crds.FOLDER, str(tmp_path))
    file = tmp_path / "batch.volcano.sh_jobs.yaml"
    file.write_text("")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    release: Release = replace(crds.VOLCANO, digests={file.name: empty})
    assert release.manifests() == [file]


def _fake_go(folder: Path, script: str) -> None:
    go = folder / "go"
    go.write_text(f"#!/bin/sh\n{script}\n")
    go.chmod(0o755)
