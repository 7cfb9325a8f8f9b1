"""The whole system under faults: nothing is violated, and the same seed is the same history."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation import mutations

ROOT = Path(__file__).parents[2]

SEEDS = int(os.environ.get("DRA_SIMULATION_SEEDS", "120"))
"""As many as a plain ``make test`` can afford, other ones in each run; ``make simulate`` plays 20,000, CI 500 more."""

FINDS = {
    "forget_the_entered_marker": 8,
    "release_while_pods_use_it": 0,
    "prune_unstarted_pods": 31,
    "compare_names_instead_of_uids": 90,
    "leave_the_finalizer": 650,
    "free_under_vanished_pods": 1010,
    "keep_claims_on_deleted_nodes": 31,
    "wait_for_gates_that_go_last": 101,
}
"""Broken rules, and from which seed on they are found at once, to save time: any other below `WITHIN` would do."""

WITHIN = 2000
"""Seeds among which a broken rule must be found."""


def simulation(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own, with the hash seed that makes runs repeatable."""
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_nothing_is_violated_by_any_seed():
    ran = simulation("--seeds", str(SEEDS))
    print(ran.stdout)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"seeds {SEEDS}," in ran.stdout
    assert "violations: 0" in ran.stdout


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_same_seed_is_the_same_history_to_the_byte(seed):
    one, other = (simulation(str(seed), "--whole").stdout for _ in range(2))
    assert "digest " in one
    assert one == other


@pytest.mark.parametrize("mutation", FINDS)
def test_a_broken_rule_is_found(mutation):
    assert mutation in mutations.BY_NAME
    first = FINDS[mutation]
    seeds = ("--first", str(first), "--seeds", str(WITHIN - first))
    ran = simulation(*seeds, "--until", "1", "--shown", "0", "--mutation", mutation)
    assert ran.returncode == 1, f"{mutation} was not found:\n{ran.stdout}{ran.stderr}"
    assert "violations: 0" not in ran.stdout
