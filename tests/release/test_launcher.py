"""The launcher of kubectl dra finds its packages beside itself, and a suitable Python if it was started by another."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from release import launcher

SOURCE = Path(launcher.__file__)


@pytest.fixture
def unpacked(tmp_path):
    """An archive as krew unpacks it, whose command prints what it was called with and where its packages are."""
    folder = tmp_path / "store"
    package = folder / "lib/any/dra/cli/kubectl"
    package.mkdir(parents=True)
    for each in (package, *package.parents[:2]):
        (each / "__init__.py").touch()
    (package / "main.py").write_text(
        "import sys, compiled\ndef main(): print(sys.argv[1:], compiled.__file__.split('/')[-2])\n"
    )
    (package / "completion.py").write_text("def main(): print('completed')\n")
    own = folder / f"lib/cp3{sys.version_info[1]}"
    own.mkdir()
    (own / "compiled.py").write_text("")
    for name in launcher.MODULES:
        shutil.copy(SOURCE, folder / name)
    return folder


def run(*command, path=""):
    environment = {"PATH": f"{path}:{os.defpath}"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_an_old_python_can_read_the_launcher():
    ast.parse(SOURCE.read_text(), feature_version=(3, 6))


def test_the_command_runs_with_the_packages_of_its_python_through_a_link(unpacked, tmp_path):
    link = tmp_path / "kubectl-dra"
    link.symlink_to(unpacked / "kubectl-dra")
    done = run(sys.executable, str(link), "get", "claims")
    assert done.stdout == f"['get', 'claims'] cp3{sys.version_info[1]}\n", done.stderr


def test_the_completion_is_a_command_of_its_own(unpacked):
    assert run(sys.executable, str(unpacked / "kubectl_complete-dra")).stdout == "completed\n"


@pytest.fixture
def unsuitable(unpacked):
    """The launcher of a release that has no packages for the Python of the tests, but for the next one."""
    name = f"python3.{sys.version_info[1] + 1}"
    file = unpacked / "kubectl-dra"
    text = file.read_text().replace(
        f"OLDEST, NEWEST = {launcher.OLDEST}, {launcher.NEWEST}",
        f"OLDEST, NEWEST = {sys.version_info[1] + 1}, {sys.version_info[1] + 1}",
    )
    file.write_text(text)
    return file, name


def test_without_a_suitable_python_the_error_says_which_are(unsuitable):
    file, _ = unsuitable
    done = run(sys.executable, str(file), path="/nonexistent")
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: kubectl dra: needs CPython 3.{sys.version_info[1] + 1} to")


def test_a_suitable_python_on_path_runs_the_command(unsuitable, tmp_path):
    file, name = unsuitable
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / name).write_text('#!/bin/sh\necho "$0" "$@"\n')
    (folder / name).chmod(0o755)
    done = run(sys.executable, str(file), "get", "claims", path=str(folder))
    assert done.stdout == f"{folder / name} {file} get claims\n"


def test_the_newest_suitable_python_of_path_is_taken(tmp_path):
    for minor in (launcher.OLDEST, launcher.NEWEST, launcher.NEWEST + 1):
        (tmp_path / f"python3.{minor}").touch(0o755)
    assert launcher.suitable_python(f"/nonexistent:{tmp_path}") == str(tmp_path / f"python3.{launcher.NEWEST}")
    assert launcher.suitable_python("/nonexistent") == ""
