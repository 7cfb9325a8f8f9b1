"""Building the cluster's programs: only when needed, and with a clear word when it cannot be done."""

from __future__ import annotations

import fcntl
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cluster import binaries


@pytest.fixture(autouse=True)
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(binaries, "OUTPUT", tmp_path)
    return tmp_path


def test_the_version_is_the_one_in_go_mod() -> None:
    program = binaries.controlplane()
    assert re.fullmatch(r"v1\.\d+\.\d+", program.version)
    assert program.path.name == f"controlplane-{program.version}"
    assert f"gitVersion={program.version}" in " ".join(program.flags)


@pytest.mark.parametrize("version", ["1.35", "1.35.4", "v1.35.4"])
def test_a_version_is_chosen_by_any_of_its_names(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setenv(binaries.CHOICE, version)
    assert binaries.controlplane().version == binaries.controlplane("1.35").version == "v1.35.4"


def test_the_newest_version_is_that_of_go_mod() -> None:
    assert binaries.controlplanes()[0].modules == "go.mod"


@pytest.mark.parametrize("unset", [True, False], ids=["not-set", "empty"])
def test_without_a_choice_it_is_the_default(monkeypatch: pytest.MonkeyPatch, unset: bool) -> None:  # noqa: FBT001 - a row
    monkeypatch.setenv(binaries.CHOICE, "")
    if unset:
        monkeypatch.delenv(binaries.CHOICE)
    assert binaries.controlplane().version.startswith(f"v{binaries.DEFAULT}.")


def test_another_name_of_the_module_file_does_not_build_it_again(tmp_path: Path) -> None:
    folder = tmp_path / "controlplane"
    shutil.copytree(binaries.CONTROLPLANE, folder, ignore=shutil.ignore_patterns("kubernetes-*", "structures"))
    newest = replace(binaries.controlplanes()[0], folder=folder)
    older = replace(newest, modules="kubernetes-1.0.mod")
    for suffix in (".mod", ".sum"):
        shutil.copy(folder / f"go{suffix}", (folder / older.modules).with_suffix(suffix))
    assert older.flags != newest.flags
    assert older.digest() == newest.digest()


def test_each_version_is_digested_by_its_own_module_files() -> None:
    programs = binaries.controlplanes()
    assert len({program.digest() for program in programs}) == len(programs) > 1


@pytest.mark.parametrize("version", ["1.3", "1.99", "2"])
def test_an_unknown_version_is_answered_with_those_there_are(capsys: pytest.CaptureFixture[str], version: str) -> None:
    assert binaries.main(version) == binaries.EXIT_UNKNOWN
    assert f"Kubernetes {version}: not among the versions" in (told := capsys.readouterr().err)
    assert "1.35.4" in told


def test_without_go_it_names_the_go_it_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert binaries.main() == binaries.EXIT_NO_GO
    assert f"built with Go {binaries.controlplane().go} or newer" in capsys.readouterr().err


def test_an_old_go_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho go1.21.3\n")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert binaries.main() == binaries.EXIT_NO_GO
    assert f"{go} is go1.21.3" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("chosen", "used"), [pytest.param(None, "local", id="none"), pytest.param("go1.27.3", "go1.27.3", id="one")]
)
def test_only_the_toolchain_that_the_developer_names_is_fetched(
    monkeypatch: pytest.MonkeyPatch, chosen: str | None, used: str
) -> None:
    monkeypatch.delenv("GOTOOLCHAIN", raising=False)
    if chosen is not None:
        monkeypatch.setenv("GOTOOLCHAIN", chosen)
    assert binaries.go_environment()["GOTOOLCHAIN"] == used


def test_a_toolchain_that_cannot_be_fetched_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    go = tmp_path / "go"
    go.write_text('#!/bin/sh\necho "go: download $GOTOOLCHAIN: no such host" >&2; exit 1\n')
    go.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("GOTOOLCHAIN", "go1.99.0")
    assert binaries.main() == binaries.EXIT_NO_GO
    assert "go: download go1.99.0: no such host" in capsys.readouterr().err


def test_each_allocator_is_built_from_its_own_version() -> None:
    old, new = (binaries.allocator(version) for version in ("1.37", "1.38"))
    assert (old.path.name, new.path.name) == (f"allocator-{old.version}", f"allocator-{new.version}")
    assert [each.version.rpartition(".")[0][:5] for each in (old, new)] == ["v0.37", "v0.38"]
    with pytest.raises(binaries.UnknownVersionError, match=r"Kubernetes 1\.34"):
        binaries.allocator("1.34")


def test_what_is_current_is_not_built_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    program = binaries.kwok()
    program.path.touch()
    program.path.with_name(f"{program.path.name}.sha256").write_text(program.digest())
    assert binaries.build(program) == program.path


def test_what_is_current_is_there_while_another_process_builds_something(tmp_path: Path) -> None:
    program = binaries.kwok()
    program.path.touch()
    program.path.with_name(f"{program.path.name}.sha256").write_text(program.digest())
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert binaries.build(program) == program.path


def test_what_was_made_from_other_sources_is_built_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    program = binaries.kwok()
    program.path.touch()
    program.path.with_name(f"{program.path.name}.sha256").write_text("another digest")
    with pytest.raises(binaries.NoGoError):
        binaries.build(program)
