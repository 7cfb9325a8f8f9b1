"""The machine can fail: each rule that is broken on purpose is found."""

import pytest

from dra.engine.claims import rules
from dra.engine.claims.generated import generated_rule
from dra.engine.claims.held import held_rule, return_rule
from tests.dra.engine.simulation import histories, machine
from tests.dra.engine.simulation.mutations import MUTATIONS
from tests.dra.engine.simulation.violation import Violation

UNPLAYED = {held_rule, return_rule, generated_rule}
"""Rules of reservations and of claims from templates, which the machine does not play; others have histories of their
own (tests/dra/engine/reservations/test_histories.py, tests/dra/engine/generation/test_held_histories.py)."""

RUNS = 2000
"""Histories within which each must be found; it takes a few hundred at most."""


@pytest.mark.parametrize("rule", [rule for rule in rules.RULES if rule not in UNPLAYED], ids=lambda rule: rule.__name__)
def test_a_rule_that_is_left_out_is_found(rule, monkeypatch):
    monkeypatch.setattr(rules, "RULES", tuple(each for each in rules.RULES if each is not rule))
    with pytest.raises(Violation):
        search()


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_a_broken_rule_is_found(mutation, monkeypatch):
    mutation(monkeypatch)
    with pytest.raises(Violation):
        search()


def search():
    for seed in range(RUNS):
        histories.play(machine.history(seed))
