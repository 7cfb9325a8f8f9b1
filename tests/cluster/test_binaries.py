"""Building the cluster's programs: only when needed, and with a clear word when it cannot be done."""

from __future__ import annotations

import re
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


def test_what_is_current_is_not_built_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    program = binaries.kwok()
    program.path.touch()
    program.path.with_name(f"{program.path.name}.sha256").write_text(program.digest())
    assert binaries.build(program) == program.path


def test_what_was_made_from_other_sources_is_built_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    program = binaries.kwok()
    program.path.touch()
    program.path.with_name(f"{program.path.name}.sha256").write_text("another digest")
    with pytest.raises(binaries.NoGoError):
        binaries.build(program)
