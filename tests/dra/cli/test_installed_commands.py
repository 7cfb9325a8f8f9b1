"""Hints name commands so that they can be typed where they are read."""

import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from dra.cli import installed_commands
from dra.cli.main import main


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


@pytest.mark.parametrize(
    "command", [["kubelet-plugin"], ["local", "up", "--plugins=gpu", "--folder=nowhere"]], ids=" ".join
)
def test_a_command_whose_packages_are_missing_names_the_extra(command, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(installed_commands.importlib.util, "find_spec", lambda _name: None)
    refused = CliRunner().invoke(main, command)
    assert refused.exit_code == 1
    assert (
        "package grpcio of extra node is not installed; install it with: pip install grpcio nvidia-ml-py"
        in refused.stderr
    )
    assert list(tmp_path.iterdir()) == []


def test_what_a_laptop_runs_imports_no_package_of_the_extra():
    code = textwrap.dedent("""
        import sys
        import dra.cli.controller, dra.cli.demo.demonstration, dra.cli.local.foreground_plane, dra.cli.kubelet_plugin
        import dra.cli.kubectl.install.command, dra.cli.kubectl.downgrade.command, dra.cli.kubectl.simulate.command
        print([name for name in ("grpc", "pynvml") if name in sys.modules])
    """)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout == "[]\n"


def test_the_packages_that_are_named_are_those_of_the_extra():
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    extra = project["optional-dependencies"][installed_commands.NODE_EXTRA]
    assert tuple(re.match(r"[\w-]+", each)[0] for each in extra) == installed_commands.NODE_PACKAGES
