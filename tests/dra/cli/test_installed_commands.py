"""Hints name commands so that they can be typed where they are read."""

import pytest

from dra.cli import installed_commands


@pytest.fixture
def bin_folder(tmp_path, monkeypatch):
    folder = tmp_path / "project" / ".venv" / "bin"
    folder.mkdir(parents=True)
    for name in ("dra-reserve", "kubectl-dra"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    monkeypatch.setattr(installed_commands, "EXECUTABLES_FOLDER", folder)
    monkeypatch.setenv("PATH", str(tmp_path))
    return folder


def test_what_is_on_the_path_is_called_by_its_name(bin_folder, monkeypatch):
    monkeypatch.setenv("PATH", str(bin_folder))
    assert (installed_commands.dra_reserve_command(), installed_commands.path_export()) == ("dra-reserve", ())


def test_what_is_not_is_called_by_where_it_is(bin_folder, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert installed_commands.dra_reserve_command() == "project/.venv/bin/dra-reserve"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert installed_commands.dra_reserve_command() == str(bin_folder / "dra-reserve")
    assert installed_commands.path_export() == (f'export PATH="{bin_folder}:$PATH"',)


def test_what_is_nowhere_is_called_by_its_name(bin_folder, monkeypatch):
    monkeypatch.setattr(installed_commands, "EXECUTABLES_FOLDER", bin_folder.parent)
    assert (installed_commands.dra_reserve_command(), installed_commands.path_export()) == ("dra-reserve", ())
