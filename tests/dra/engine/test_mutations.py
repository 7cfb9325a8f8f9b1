"""The machine can fail: each rule that is broken on purpose is found."""

import pytest

from dra.engine.claims import rules
from dra.engine.claims.policy import ALONGSIDE
from tests.dra.engine.simulation import histories, moves, swarm
from tests.dra.engine.simulation.mutations import (
    MUTATIONS,
    forget_the_entered_marker,
    take_every_scheduler_for_prompt,
)
from tests.dra.engine.simulation.objects import PodShape
from tests.dra.engine.simulation.setting import Setting
from tests.dra.engine.simulation.violation import Violation

RUNS = 2000
"""Histories within which each must be found; it takes a few hundred at most."""

FIRST = {
    "drop_the_guard": 11,
    "force_release_rule": 32,
    "generated_claim_rule": 107,
    "guard_entry_rule": 11,
    "inconsistency_rule": 174,
    "kept_entries_rule": 9,
    "leave_the_finalizer": 11,
    "node_deletion_rule": 177,
    "reserve_the_claims_of_single_pods": 492,
    "return_to_reservation_rule": 143,
    "skip_the_bind_horizon": 7,
    "take_suspended_workloads_for_finished": 7,
    "workload_rule": 5,
}
"""Seeds that find what few histories find: they are played first, to save time."""


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
def test_a_rule_that_is_left_out_is_found(rule, monkeypatch):
    monkeypatch.setattr(rules, "RULES", tuple(each for each in rules.RULES if each is not rule))
    with pytest.raises(Violation):
        search(FIRST.get(rule.__name__, 0))


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_a_broken_rule_is_found(mutation, monkeypatch):
    mutation(monkeypatch)
    with pytest.raises(Violation):
        search(FIRST.get(mutation.__name__, 0))


def test_the_seeds_that_are_played_first_belong_to_rules_that_exist():
    assert FIRST.keys() <= {each.__name__ for each in (*rules.RULES, *MUTATIONS)}


SLOWER_THAN_A_MINUTE = histories.History(
    setting=Setting(binding_seconds=swarm.SLOW_BINDING_SECONDS),
    moves=(
        moves.CreateClaim(name="a"),
        *swarm.SLOW_BINDING_MOVES,
        moves.CreatePods(shape=PodShape(claims=("a",), opted_in=True)),
        moves.ControllerWorks(seconds=1.0),
        moves.Schedule(),
        moves.ChangeClaim(name="a", how="forced"),
        moves.ChangePods(how="ended"),
        moves.ControllerWorks(),
        moves.TimePasses(seconds=70.0),
        moves.ControllerWorks(),
        moves.WaitForDeadline(),
        moves.FinishCycle(),
    ),
)
"""A pod is bound so late that only the bindings before it could tell; drawn histories come to that too rarely."""


def test_a_bind_horizon_that_does_not_follow_slow_bindings_is_found(monkeypatch):
    histories.play_history(SLOWER_THAN_A_MINUTE)
    take_every_scheduler_for_prompt(monkeypatch)
    with pytest.raises(Violation, match="was bound on an allocation of claim a that us had taken back"):
        histories.play_history(SLOWER_THAN_A_MINUTE)


RELEASED_BY_ITS_OWNER = histories.History(
    setting=Setting(policy=ALONGSIDE, stock=True),
    moves=(
        moves.ChangeJob(name="train", how="created"),
        moves.CreateClaim(name="a", reserved_for="train"),
        moves.CreatePods(shape=PodShape(claims=("a",))),
        moves.EverybodyWorks(seconds=1.0),
        moves.EverybodyWorks(seconds=1.0),
        moves.ChangePods(how="ended", but=11),
        moves.StockControllerWorks(),
        moves.ChangeClaim(name="a", how="released"),
    ),
)
"""The owner removes the entry of a claim that no pod uses any more; one drawn history in a thousand comes to that."""


def test_an_entry_that_is_put_back_after_its_owner_has_removed_it_is_found(monkeypatch):
    histories.play_history(RELEASED_BY_ITS_OWNER)
    forget_the_entered_marker(monkeypatch)
    with pytest.raises(Violation, match="claim a stays allocated for nobody"):
        histories.play_history(RELEASED_BY_ITS_OWNER)


def search(first):
    for seed in (*range(first, RUNS), *range(first)):
        histories.play_history(histories.generate_history(seed))
