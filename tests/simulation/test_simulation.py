"""Systems under faults: nothing is violated, the same seed is the same history, and broken rules are found."""

import importlib
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """A simulation, and what is expected of it."""

    package: str
    seeds: int
    """As many as a plain ``make test`` can afford; ``make simulate`` and its siblings play thousands."""
    replayed: tuple[int, ...] = (5,)
    """Seeds that are played twice."""
    within: int
    """Seeds among which a broken rule must be found."""
    finds: Mapping[str, int]
    """Broken rules, and from which seed on they are found at once, to save time: any other below `within` would do."""
    options: tuple[str, ...] = ("--jobs", "1")

    def play(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command line in a process of its own, with the hash seed that makes runs repeatable."""
        command = [sys.executable, "-m", self.package, *arguments]
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


SIMULATIONS = {
    "claims": Simulation(
        package="tests.simulation",
        seeds=int(os.environ.get("DRA_SIMULATION_SEEDS", "120")),
        replayed=(1, 2, 3),
        within=2000,
        finds={
            "forget_the_entered_marker": 8,
            "release_while_pods_use_it": 0,
            "prune_unstarted_pods": 31,
            "compare_names_instead_of_uids": 90,
            "leave_the_finalizer": 650,
            "free_under_vanished_pods": 1010,
            "keep_claims_on_deleted_nodes": 31,
            "wait_for_gates_that_go_last": 101,
        },
        options=(),
    ),
    "colocation": Simulation(
        package="tests.simulation.colocation",
        seeds=int(os.environ.get("DRA_COLOCATION_SEEDS", "8")),
        within=400,
        finds={
            "believe_clocks_of_nodes": 0,
            "believe_old_reports": 0,
            "follow_pods_that_nobody_admitted": 8,
            "leave_limits_when_off": 0,
            "never_give_back": 2,
            "offer_less_than_is_held": 0,
            "stay_suppressed_without_samples": 3,
            "take_what_is_absent_for_nothing": 38,
            "write_allocatable_alone": 0,
        },
    ),
    "descheduling": Simulation(
        package="tests.simulation.descheduling",
        seeds=int(os.environ.get("DRA_DESCHEDULING_SEEDS", "6")),
        within=120,
        finds={
            "ask_no_budget": 5,
            "forget_jobs_in_flight": 3,
            "ignore_limits_of_workloads": 4,
            "leave_moved_pods_where_they_are": 34,
            "move_pods_of_jobs_again": 6,
            "never_cool_down": 3,
        },
    ),
    "migrations": Simulation(
        package="tests.simulation.migrations",
        seeds=int(os.environ.get("DRA_MIGRATION_SEEDS", "40")),
        within=400,
        finds={
            "delete_used_reservations": 0,
            "evict_before_the_reservation_has_a_node": 0,
            "evict_into_used_reservations": 7,
            "hold_no_devices": 4,
            "ignore_limits": 72,
            "leave_the_reservations_of_failed_jobs": 1,
        },
    ),
}


@pytest.mark.parametrize("name", SIMULATIONS)
def test_no_seed_violates_anything(name):
    simulation = SIMULATIONS[name]
    ran = simulation.play("--seeds", str(simulation.seeds), *simulation.options)
    print(ran.stdout)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"seeds {simulation.seeds}," in ran.stdout
    assert "violations: 0" in ran.stdout


@pytest.mark.parametrize(
    ("name", "seed"), [(name, seed) for name, simulation in SIMULATIONS.items() for seed in simulation.replayed]
)
def test_the_same_seed_is_the_same_history_to_the_byte(name, seed):
    one, other = (SIMULATIONS[name].play(str(seed), "--whole").stdout for _ in range(2))
    assert "digest " in one
    assert one == other


@pytest.mark.parametrize(
    ("name", "mutation"),
    [(name, mutation) for name, simulation in SIMULATIONS.items() for mutation in simulation.finds],
)
def test_a_broken_rule_is_found(name, mutation):
    simulation = SIMULATIONS[name]
    assert mutation in importlib.import_module(f"{simulation.package}.mutations").BY_NAME
    first = simulation.finds[mutation]
    seeds = ("--first", str(first), "--seeds", str(simulation.within - first), *simulation.options)
    ran = simulation.play(*seeds, "--until", "1", "--shown", "0", "--mutation", mutation)
    assert ran.returncode == 1, f"{mutation} was not found:\n{ran.stdout}{ran.stderr}"
    assert "violations: 0" not in ran.stdout
