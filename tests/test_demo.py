"""The demo as people run it, with few pods: it tells its story, and whatever happens to it, nothing is left."""

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cluster import waiting
from tests.commands import shell_environment

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
DEMO = [sys.executable, "-m", "dra.cli.main", "demo", "--pods=40", "--seconds=1"]


@pytest.fixture
def environment(tmp_path):
    return {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path / "tmp")}


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path):
    (tmp_path / "tmp").mkdir()
    yield
    # Who was killed takes its planes with it, in a moment.
    waiting.until(lambda: processes(tmp_path) == [], within=15, saying="no process is left")


def processes(path):
    """The command lines of those that were started for a folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            line = entry.read_bytes().replace(b"\0", b" ").decode()
            if str(path) in line and "dra.cli" in line:
                found.append(line)
    return found


def run(environment, tmp_path, *arguments, code=0):
    done = subprocess.run(
        [*DEMO, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def files(path):
    return sorted(str(each.relative_to(path)) for each in path.rglob("*") if each.name != "tmp")


@pytest.mark.long
def test_the_story_is_told_and_the_audit_finds_nothing(environment, tmp_path):
    told = run({**environment, "PATH": "/nowhere"}, tmp_path)
    assert "40 pods on one device" in told
    assert '[{"apiGroup":"batch","name":"train","resource":"jobs","uid":' in told
    assert re.search(r"kubectl get resourceclaims -n demo .*\n +NAME +STATE +AGE\n +next +allocated,reserved", told)
    assert "the controller was killed" in told
    assert len(re.findall(r"no device was allocated twice, taken from a pod that used it, or leaked", told)) == 2
    assert "\033" not in told
    assert files(tmp_path) == []


@pytest.mark.long
def test_a_plane_that_is_kept_goes_on_and_the_next_demo_leaves_it_alone(environment, tmp_path):
    told = run(environment, tmp_path, "--keep")
    kubeconfig = re.search(r"KUBECONFIG=(\S+)", told).group(1)
    assert Path(kubeconfig).is_file()
    run(environment, tmp_path, "--keep", code=1)
    assert Path(kubeconfig).is_file()
    down = [sys.executable, "-m", "dra.cli.main", "local", "down"]
    subprocess.run(down, cwd=tmp_path, env=environment, check=True, timeout=60)
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    ("line", "number", "code"),
    [
        pytest.param("Two control planes", signal.SIGINT, 130, id="while-planes-start"),
        pytest.param("kill -9", signal.SIGTERM, 130, id="while-the-controller-is-away"),
        pytest.param("1  A Job", signal.SIGKILL, -9, id="killed"),
    ],
)
def test_interrupted_it_leaves_no_process(environment, tmp_path, line, number, code):
    with subprocess.Popen(
        DEMO, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as demo:
        for told in demo.stdout:
            if line in told:
                demo.send_signal(number)
                break
        rest = demo.stdout.read()
        assert demo.wait(30) == code, rest
        assert "Traceback" not in rest
    if number != signal.SIGKILL:  # who is killed cannot clean up after itself
        assert files(tmp_path) == []


def test_interrupted_it_keeps_no_plane(environment, tmp_path):
    with subprocess.Popen(
        [*DEMO, "--keep"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as demo:
        for told in demo.stdout:
            if "Two control planes" in told:
                demo.send_signal(signal.SIGINT)
                break
        assert demo.wait(60) == 130, demo.stdout.read()
    assert files(tmp_path) == []


def test_the_readme_begins_with_it():
    first = re.findall(r"^```sh\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)[0]
    assert first == "make demo\n"


@pytest.mark.parametrize(
    "inherited",
    [
        pytest.param({}, id="from-a-shell"),
        pytest.param({"MAKELEVEL": "1", "MAKEFLAGS": "w", "MFLAGS": "-w"}, id="under-make-test"),
    ],
)
def test_make_demo_runs_the_demo(inherited):
    environment = shell_environment() | inherited
    command = ["make", "--no-print-directory", "--dry-run", "demo"]
    would = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    assert would.splitlines()[-1].split() == [".venv/bin/dra-reserve", "demo"]
