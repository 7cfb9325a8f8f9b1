"""Descheduling under faults: nothing is violated, the same seed is the same history, and broken rules are found."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.descheduling import mutations

ROOT = Path(__file__).parents[3]

SEEDS = int(os.environ.get("DRA_DESCHEDULING_SEEDS", "6"))
"""Seeds for a plain ``make test``, other ones in each run; ``make simulate-descheduling`` plays 1,000."""

FINDS = {
    "ask_no_budget": 5,
    "forget_jobs_in_flight": 3,
    "ignore_limits_of_workloads": 4,
    "leave_moved_pods_where_they_are": 34,
    "move_pods_of_jobs_again": 6,
    "never_cool_down": 3,
}
"""Broken rules, and from which seed on they are found at once, to save time."""

WITHIN = 120
"""Seeds among which a broken rule must be found."""


def simulation(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own, with the hash seed that makes runs repeatable."""
    command = [sys.executable, "-m", "tests.simulation.descheduling", *arguments]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_no_seed_violates_anything():
    ran = simulation("--seeds", str(SEEDS), "--jobs", "1")
    print(ran.stdout)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "violations: 0" in ran.stdout


def test_the_same_seed_is_the_same_history_to_the_byte():
    one, other = (simulation("5", "--whole").stdout for _ in range(2))
    assert "digest " in one
    assert one == other


@pytest.mark.parametrize("mutation", FINDS)
def test_a_broken_rule_is_found(mutation):
    assert mutation in mutations.BY_NAME
    first = FINDS[mutation]
    seeds = ("--first", str(first), "--seeds", str(WITHIN - first), "--jobs", "1")
    ran = simulation(*seeds, "--until", "1", "--shown", "0", "--mutation", mutation)
    assert ran.returncode == 1, f"{mutation} was not found:\n{ran.stdout}{ran.stderr}"
    assert "violations: 0" not in ran.stdout
