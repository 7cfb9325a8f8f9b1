"""The machine can fail: each rule that is broken on purpose is found."""

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.dra.engine.simulation.machine import ClaimMachine
from tests.dra.engine.simulation.mutations import MUTATIONS
from tests.dra.engine.simulation.violation import Violation

SEARCH = settings(
    max_examples=3000,
    stateful_step_count=50,
    phases=(Phase.generate,),  # that there is a history is enough, the shortest one is for people
    report_multiple_bugs=False,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_a_broken_rule_is_found(mutation, monkeypatch):
    mutation(monkeypatch)
    with pytest.raises(Violation):
        run_state_machine_as_test(ClaimMachine, settings=SEARCH)
