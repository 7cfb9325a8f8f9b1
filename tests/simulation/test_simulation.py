"""Systems under faults: nothing is violated, the same seed is the same history, and broken rules are found."""

import importlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pytest

from tests.simulation.forks import Ran, run_lines
from tests.violations import assert_none


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """A simulation, and what is expected of it."""

    package: str
    seeds: int
    """As many as a plain ``make test`` can afford; `.ci/run` plays more, ``make simulate`` thousands."""
    replayed: tuple[int, ...] = (5,)
    """Seeds that are played twice."""
    within: int
    """Seeds among which a broken rule must be found."""
    finds: Mapping[str, int]
    """Broken rules, and from which seed on they are found at once, to save time: any other below `within` would do."""

    def play(self, *lines: str) -> list[Ran]:
        """Run command lines of the simulation in a process of their own."""
        return run_lines(self.package, lines)

    def broken(self, mutation: str) -> str:
        """Return the command line that plays seeds with a broken rule until one of them finds it."""
        first = self.finds[mutation]
        return f"--first {first} --seeds {self.within - first} --jobs 1 --until 1 --shown 0 --mutation {mutation}"


SIMULATIONS = {
    "claims": Simulation(
        package="tests.simulation",
        seeds=int(os.environ.get("DRA_SIMULATION_SEEDS", "25")),
        replayed=(1, 2, 3),
        within=2000,
        finds={
            "forget_the_entered_marker": 8,
            "release_while_pods_use_it": 0,
            "prune_unstarted_pods": 45,
            "compare_names_instead_of_uids": 90,
            "leave_the_finalizer": 657,
            "free_under_vanished_pods": 1010,
            "keep_claims_on_deleted_nodes": 31,
            "wait_for_gates_that_go_last": 101,
        },
    ),
    "colocation": Simulation(
        package="tests.simulation.colocation",
        seeds=int(os.environ.get("DRA_COLOCATION_SEEDS", "5")),
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
            "leave_moved_pods_where_they_are": 75,
            "move_pods_of_jobs_again": 6,
            "never_cool_down": 3,
        },
    ),
    "migrations": Simulation(
        package="tests.simulation.migrations",
        seeds=int(os.environ.get("DRA_MIGRATION_SEEDS", "15")),
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
def test_no_seed_violates_anything_each_is_the_same_to_the_byte_and_each_broken_rule_is_found(name):
    """One test of three, which would start two processes each: that takes as long as a dozen seeds."""
    simulation = SIMULATIONS[name]
    known = importlib.import_module(f"{simulation.package}.mutations").BY_NAME
    assert_none(f"{mutation} is no mutation" for mutation in simulation.finds.keys() - known.keys())
    replays = [f"{seed} --whole" for seed in simulation.replayed]
    every, *one = simulation.play(f"--seeds {simulation.seeds} --jobs 1", *replays)
    ran = simulation.play(*replays, *map(simulation.broken, simulation.finds))
    again, broken = ran[: len(replays)], dict(zip(simulation.finds, ran[len(replays) :], strict=True))
    print(every.output)
    assert_none([*violations(every, seeds=simulation.seeds), *differences(one, again), *unfound(broken)])


def violations(ran: Ran, *, seeds: int) -> Iterator[str]:
    """Yield what was printed if a seed violates anything, or not all were played."""
    if ran.code != 0 or f"seeds {seeds}," not in ran.output or "violations: 0" not in ran.output:
        yield f"{seeds} seeds, exit code {ran.code}:\n{ran.output}"


def differences(one: Sequence[Ran], again: Sequence[Ran]) -> Iterator[str]:
    """Yield what was printed of each seed that is another history in another process, or none."""
    for ran, other in zip(one, again, strict=True):
        if ran.output.count("digest ") != 1 or ran != other:
            yield f"not the same history, exit codes {ran.code} and {other.code}:\n{ran.output}\n{other.output}"


def unfound(runs: Mapping[str, Ran]) -> Iterator[str]:
    """Yield the broken rules that no seed has found, with what was printed."""
    for mutation, ran in runs.items():
        if ran.code != 1 or "violations: 0" in ran.output:
            yield f"{mutation} was not found, exit code {ran.code}:\n{ran.output}"


def test_a_rule_that_is_not_broken_is_named_as_not_found():
    simulation = SIMULATIONS["migrations"]
    sound, wrong, broken = simulation.play(
        "--first 0 --seeds 1 --jobs 1", "--no-such-option", simulation.broken("delete_used_reservations")
    )
    told = list(unfound({"sound": sound, "wrong": wrong, "broken": broken}))
    assert [text.partition(" was not found")[0] for text in told] == ["sound", "wrong"]
    assert "unrecognized arguments: --no-such-option" in told[1]


def test_violations_and_different_histories_are_told():
    sound = Ran(0, "seeds 3, violations: 0")
    assert list(violations(sound, seeds=3)) == []
    for ran in (Ran(1, "seeds 3, violations: 1"), Ran(0, "violations: 0"), Ran(2, sound.output)):
        assert list(violations(ran, seeds=3)), ran
    same, other = Ran(0, "digest 1"), Ran(0, "digest 2")
    assert list(differences([same], [same])) == []
    for ran, again in ((same, other), (same, Ran(1, "digest 1")), (Ran(0, ""), Ran(0, ""))):
        assert list(differences([ran], [again])), (ran, again)
