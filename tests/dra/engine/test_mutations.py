"""The machine can fail: each rule that is broken on purpose is found."""

import pytest

from tests.dra.engine.simulation import histories, machine
from tests.dra.engine.simulation.mutations import MUTATIONS
from tests.dra.engine.simulation.violation import Violation

RUNS = 1000
"""Histories within which each must be found; it takes a few hundred at most."""


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_a_broken_rule_is_found(mutation, monkeypatch):
    mutation(monkeypatch)
    with pytest.raises(Violation):
        search()


def search():
    for seed in range(RUNS):
        histories.play(machine.history(seed))
