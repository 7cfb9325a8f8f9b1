"""A run folder ends with its run, also when nobody gets to close it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster import keeper, prerequisites
from tests.cluster.binaries import HERE
from tests.cluster.processes import ProcessDiedError
from tests.cluster.run_folder import RunFolder
from tests.cluster.waiting import until

SLEEPER = ["sleep", "600"]

RUN = """
import sys
from tests.cluster.run_folder import RunFolder
folder = RunFolder()
folder.process("sleeper", ["sleep", "600"]).start()
print(folder.path, flush=True)
sys.stdin.read()
"""


def test_closing_ends_processes_and_their_children_and_removes_the_folder() -> None:
    with RunFolder() as folder:
        folder.process("parent", ["sh", "-c", "sleep 600 & exec sleep 600"]).start()
        until(lambda: len(keeper.processes_of(folder.path)) == 2, within=60, saying="the child runs")
    assert keeper.processes_of(folder.path) == frozenset()
    assert not folder.path.exists()


def test_a_killed_run_is_cleaned_up_after() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", RUN], cwd=HERE.parents[1], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        folder = Path(run.stdout.readline().strip())
        until(lambda: len(keeper.processes_of(folder)) == 1, within=60, saying="its process shows its environment")
        run.kill()
    until(lambda: not folder.exists(), within=60, saying="the keeper has removed the folder")
    assert keeper.processes_of(folder) == frozenset()


def test_a_process_that_ends_instead_of_getting_ready_is_quoted() -> None:
    with RunFolder() as folder:
        process = folder.process("broken", ["sh", "-c", "echo out of luck; exit 7"], ready=lambda: False)
        with pytest.raises(ProcessDiedError, match=r"broken ended with exit code 7; .*:\nout of luck"):
            process.start()


def test_a_process_imports_the_tree_under_test_and_knows_no_other_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/worktree")
    monkeypatch.setenv("KUBECONFIG", "/of/another/cluster")
    with RunFolder() as folder:
        process = folder.process("env", ["sh", "-c", "env; echo done; exec sleep 600"])
        process.start()
        until(lambda: process.log.read_text().endswith("done\n"), within=60, saying="it has told its environment")
        told = process.log.read_text().splitlines()
    assert "PYTHONPATH=/worktree" in told
    assert not [line for line in told if line.startswith("KUBECONFIG=")]


def test_a_frozen_process_can_be_stopped() -> None:
    with RunFolder() as folder:
        process = folder.process("sleeper", SLEEPER)
        process.start()
        process.freeze()
        assert process.stop() == -15


def test_a_process_that_does_not_listen_is_killed_after_its_grace() -> None:
    with RunFolder() as folder:
        process = folder.process("deaf", ["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 1; done"], grace=0.1)
        process.start()
        until(lambda: "deaf" in process.tail(), within=60, saying="it no longer listens")
        assert process.stop() == -9


@pytest.mark.skipif(bool(prerequisites.missing()), reason="cgroups are root's")
def test_what_runs_in_the_folders_cgroup_ends_with_it() -> None:
    with subprocess.Popen(SLEEPER) as stranger:  # without the folder's mark, as a container is
        with RunFolder() as folder:
            keeper.make_cgroup(folder.path)
            tops = [hierarchy / keeper.cgroup_of(folder.path) for hierarchy in keeper.hierarchies()]
            below = next(top for top in tops if "cpuset" not in top.parts) / "pod" / "container"
            below.mkdir(parents=True)
            (below / "cgroup.procs").write_text(str(stranger.pid))
        assert stranger.wait(timeout=5) == -9
    assert not any(top.exists() for top in tops)
