"""Arbitrary interleavings of events, requests and faults break none of the invariants."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dra.engine.claims.policy import ALONGSIDE
from tests.dra.engine.simulation import histories, moves, safety
from tests.dra.engine.simulation.objects import PodShape
from tests.dra.engine.simulation.setting import Setting
from tests.dra.engine.simulation.violation import Violation
from tests.seeds import FIRST, first_seed

ROOT = Path(__file__).parents[3]

DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
"""``make test-deep``."""

HISTORIES = 20_000 if DEEP else 40
"""Other ones in each run; the output of a run that fails names the first seed. `.ci/run` plays more, `make machine`
thousands.
"""


def machine(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own, with the hash seed that makes histories repeatable."""
    command = [sys.executable, "-m", "tests.dra.engine.simulation", *arguments]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}  # as the module would set it, in one start instead of two
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_nothing_is_violated_in_any_history():
    ran = machine("--seeds", str(HISTORIES))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"histories {HISTORIES}," in ran.stdout
    assert "violations: 0" in ran.stdout


UNSEEN = histories.History(
    setting=Setting(policy=ALONGSIDE, stock=True),
    moves=(
        moves.ChangeJob(name="train", how="created"),
        moves.CreateClaim(name="a", reserved_for="train", known=True),
        moves.CreatePods(shape=PodShape(claims=("a",))),
        *[moves.EverybodyWorks(seconds=10.0)] * 3,
        moves.ChangeNode(how="silent"),
        moves.ChangePods(how="killed"),
        moves.ChangeJob(name="train", how="deleted"),
        moves.Restart(what="controller"),
        moves.StockControllerWorks(),
        moves.CreateClaim(name="b"),
        moves.CreatePods(shape=PodShape(claims=("b",))),
        *[moves.EverybodyWorks(), moves.StockControllerWorks()] * 2,
    ),
)
"""A pod is deleted by force from a silent node, the only process that knew of it is no more, and the stock controller
takes the pod's entry off."""


def test_a_pod_that_no_process_could_know_of_is_no_violation(monkeypatch):
    histories.play_history(UNSEEN)
    monkeypatch.setattr(safety, "NOTED_WITHIN", -1.0)
    with pytest.raises(Violation, match="which still runs"):
        histories.play_history(UNSEEN)


def test_a_failing_history_can_be_shown():
    shown = str(histories.History(setting=Setting(binding_seconds=10.0), moves=UNSEEN.moves[:1]))
    assert "binding_seconds 10.0" in shown
    assert "ChangeJob" in shown


def test_the_first_seed_is_the_given_one(monkeypatch):
    monkeypatch.setenv(FIRST, "4711")
    assert machine("--seeds", "1", "--jobs", "1").stdout.startswith("from seed 4711; again: ")


@pytest.mark.parametrize("given", ["4711", ""])
def test_the_first_seed_is_the_given_one_or_another_in_each_run(monkeypatch, given):
    monkeypatch.setenv(FIRST, given)
    monkeypatch.delenv("PYTEST_XDIST_TESTRUNUID", raising=False)  # processes of one run draw the same seeds
    assert (first_seed() == first_seed()) is bool(given)


def test_a_seed_is_the_same_history_each_time():
    first, second = (machine("--first", "7", "--seeds", "5", "--jobs", "1").stdout for _ in range(2))
    moves = [line for line in first.splitlines() if line.startswith("moves by kind")]
    assert moves
    assert moves == [line for line in second.splitlines() if line.startswith("moves by kind")]


def test_a_first_seed_that_is_no_number_is_refused(monkeypatch):
    monkeypatch.setenv(FIRST, "x")
    with pytest.raises(SystemExit, match="DRA_SIMULATION_FROM='x' is no seed"):
        first_seed()
