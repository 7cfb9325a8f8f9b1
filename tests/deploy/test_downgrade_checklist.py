"""The plain script around `kubectl dra downgrade`."""

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "deploy" / "downgrade-checklist.sh"


def run(*arguments, path=None, script=SCRIPT):
    environment = {"PATH": path or os.environ["PATH"], "HOME": "/nowhere"}
    return subprocess.run(["/bin/sh", script, *arguments], capture_output=True, text=True, env=environment, timeout=60)  # noqa: PLW1510 - the exit code is what is asked for


@pytest.fixture
def plugin(tmp_path):
    """A folder with a kubectl-dra that says how it was called."""
    file = tmp_path / "kubectl-dra"
    file.write_text('#!/bin/sh\necho "$@"\nexit 1\n')
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return f"{tmp_path}:/usr/bin:/bin"


def test_it_hands_everything_to_the_plugin_and_its_exit_code_back(plugin):
    done = run("--apply", "--give-up", "ml/idle", path=plugin)
    assert (done.returncode, done.stdout) == (1, "downgrade --apply --give-up ml/idle\n")


def test_without_the_plugin_the_checkout_will_do():
    done = run("--help", path="/usr/bin:/bin")
    assert done.returncode == 0, done.stderr
    assert "--apply" in done.stdout


def test_without_either_it_says_so(tmp_path):
    alone = tmp_path / "deploy" / SCRIPT.name
    alone.parent.mkdir()
    shutil.copy(SCRIPT, alone)
    done = run(path="/usr/bin:/bin", script=alone)
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install PATH/dra_reserve-VERSION-py3-none-any.whl" in done.stderr


def test_it_is_executable_and_plain_sh():
    assert os.access(SCRIPT, os.X_OK)
    assert SCRIPT.read_text().startswith("#!/bin/sh\n")
