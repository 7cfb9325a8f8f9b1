"""``dra-reserve local`` as people run it: processes, signals, folders."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cluster import waiting

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[4]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def command(*arguments):
    return [sys.executable, "-m", "dra.cli.main", "local", *arguments]


@pytest.fixture
def local(tmp_path):
    def run(*arguments, code=0):
        done = subprocess.run(
            command(*arguments), cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    yield run
    run("down")
    until(lambda: processes(tmp_path) == [])  # a controller that was just being started finds out by itself


@pytest.fixture
def folder(tmp_path):
    return tmp_path / ".dra"


def processes(path):
    """The pids of those that were started for a folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if str(path).encode() in entry.read_bytes():
                found.append(int(entry.parent.name))
    return found


def record(folder):
    return json.loads((folder / "plane.json").read_text())


def until(holds):
    waiting.until(holds, within=20, saying="it is so")


def answers(url):
    host, port = url.removeprefix("https://").split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def started(process):
    """Wait until a plane in the foreground has said all that it says."""
    said = []
    for line in process.stdout:
        said.append(line)
        if "Press Ctrl-C" in line:
            break
    return "".join(said)


def foreground(tmp_path, *arguments):
    return subprocess.Popen(
        command("up", "--no-controller", *arguments),
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_up_status_and_down(local, folder):
    told = local("up", "--detach", "--nodes=2", "--devices=1", "--api=stock", "--kubernetes=1.36")
    assert "Kubernetes 1.36, api stock, 2 nodes with 1 device each" in told
    assert f"KUBECONFIG={folder}/kubeconfig" in told
    assert "Claims request devices by DeviceClass gpu.example.com.\n" in told
    here = record(folder)
    assert answers(here["url"])
    shown = local("status")
    assert here["url"] in shown
    assert "Kubernetes 1.36, api stock" in shown
    done = subprocess.run(
        [shutil.which("sh"), "-c", 'eval "$1"; echo "$KUBECONFIG"', "sh", local("env")],
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    assert done.stdout == f"{folder}/kubeconfig\n"
    assert local("env", "--shell=fish").startswith(f"set -gx KUBECONFIG {folder}/kubeconfig\n")
    assert re.search(r"^pods +\d+", shown, re.MULTILINE)
    assert f"KUBECONFIG={folder}/kubeconfig" in shown
    refused = local("up", code=1)
    assert f"a plane runs here already (pid {here['pid']}, {here['url']}). Show the plane" in refused
    assert "dra-reserve local status" in refused
    assert f"pid {here['pid']}" in local("down")
    assert not folder.exists()
    assert not answers(here["url"])


def test_a_plane_plays_the_mode_of_a_managed_cluster(local, folder):
    """A plane played mode replace and did not say so: 400 pods of a claim ran there, and 253 on a cluster."""
    said = local("up", "--detach", "--nodes=1", "--mode=alongside", "--no-reservations", "--no-colocation")
    assert "with a controller in mode alongside." in said
    assert "about 250 pods use a claim at a time" in said
    assert json.loads((folder / "controller.json").read_text())["mode"] == "alongside"
    assert "in mode alongside" in local("status")


def test_a_reader_that_has_seen_enough_does_not_stop_the_plane(local, tmp_path):
    """`local up --detach | head -1` said that no plane was started, because of a broken pipe: it ran."""
    reading, writing = os.pipe()
    os.close(reading)
    arguments = command("up", "--detach", "--nodes=1", "--no-controller", "--no-reservations")
    done = subprocess.run(
        arguments, cwd=tmp_path, env=ENVIRONMENT, stdout=writing, stderr=subprocess.PIPE, check=False, timeout=60
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "nodes   1" in local("status")


def test_status_in_another_folder_names_the_plane_of_kubeconfig(local, folder, tmp_path):
    local("up", "--detach", "--no-controller")
    done = subprocess.run(
        command("status", "--folder=other"),
        cwd=tmp_path,
        env={**ENVIRONMENT, "KUBECONFIG": f"{folder}/kubeconfig"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert f"no plane runs in {tmp_path}/other, but KUBECONFIG names the plane in {folder}: " in done.stderr
    assert done.stderr.endswith(" local status\n"), "the default folder needs no flag"


def test_where_none_runs_that_is_told(local):
    assert "no plane runs in" in local("status", code=1)
    assert "no plane runs in" in local("env", code=1)
    assert "No plane runs in" in local("down")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_ends_a_plane_and_removes_what_it_has_made(tmp_path, folder, number):
    with foreground(tmp_path) as process:
        started(process)
        url = record(folder)["url"]
        process.send_signal(number)
        assert process.wait(20) == 0
    assert not folder.exists()
    assert not answers(url)


def test_a_killed_plane_takes_the_controller_with_it_and_the_next_one_starts(local, tmp_path, folder):
    local("up", "--detach")
    until(lambda: record(folder)["controller_pid"])
    here = record(folder)
    os.kill(here["pid"], signal.SIGKILL)
    until(lambda: not processes(tmp_path))
    assert "no plane runs" in local("status", code=1)
    assert "api stock" in local("up", "--detach", "--no-controller"), "the default is the API of Kubernetes"
    assert record(folder)["pid"] != here["pid"]


def test_a_controller_that_dies_is_started_again(local, folder):
    local("up", "--detach")
    until(lambda: record(folder)["controller_pid"])
    first = record(folder)["controller_pid"]
    os.kill(first, signal.SIGKILL)
    until(lambda: record(folder)["controller_pid"] not in (first, None))


def test_a_pid_that_belongs_to_somebody_else_now_is_left_alone(local, folder):
    local("up", "--detach", "--no-controller")
    here = record(folder)
    os.kill(here["pid"], signal.SIGKILL)
    until(lambda: not answers(here["url"]))
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as innocent:
        (folder / "plane.json").write_text(json.dumps({**here, "pid": innocent.pid}))
        assert "No plane runs" in local("down")
        assert innocent.poll() is None
        innocent.communicate(b"\n")
        assert innocent.returncode == 0
    assert not folder.exists()


def test_a_saved_state_goes_on(local, tmp_path, folder):
    local("up", "--detach", "--no-controller")
    assert "snapshot" in local("down", "--save")
    assert [each.name for each in folder.iterdir()] == ["snapshot"]
    with foreground(tmp_path) as process:
        assert "Restored " in started(process)
        process.terminate()
        assert process.wait(20) == 0
    assert "Remove the file to start a new plane" in local("up", "--detach", "--no-controller")
    local("down")
    (folder / "snapshot").write_bytes((folder / "snapshot").read_bytes()[:-20])
    refused = local("up", code=1)
    assert "no plane was started" in refused
    (folder / "snapshot").unlink()


def test_a_port_that_is_taken_is_told_and_nothing_is_left(local, folder):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        for how in ([], ["--detach"]):
            refused = local("up", *how, f"--port={taken.getsockname()[1]}", code=1)
            assert "address already in use" in refused
    assert not folder.exists() or [each.name for each in folder.iterdir()] == ["plane.log"]


@pytest.mark.parametrize("arguments", [["--api=both"], ["--kubernetes=1.9"], ["--nodes=-1"], ["--fast"]], ids=" ".join)
def test_a_wrong_command_line_is_a_usage_error(local, arguments):
    assert "Usage: " in local("up", *arguments, code=2)
