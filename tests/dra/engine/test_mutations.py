"""The machine can fail: each rule that is broken on purpose is found."""

from random import Random

import pytest

from tests.dra.engine.simulation.machine import SEED_BITS, STEPS, ClaimMachine
from tests.dra.engine.simulation.mutations import MUTATIONS
from tests.dra.engine.simulation.violation import Violation

RUNS = 1000
"""Runs within which each must be found; it takes a few hundred at most."""


def search():
    for number in range(RUNS):
        run(number)


def run(number):
    """Play one run, the same for ever: what Hypothesis draws depends on all constants of the code that is imported."""
    chance = Random(number)  # noqa: S311 - to be repeatable
    machine = ClaimMachine()
    try:
        machine.begin(seed=chance.getrandbits(SEED_BITS))
        for _ in range(STEPS):
            machine.go_on(seed=chance.getrandbits(SEED_BITS))
    finally:
        machine.teardown()


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_a_broken_rule_is_found(mutation, monkeypatch):
    mutation(monkeypatch)
    with pytest.raises(Violation):
        search()
