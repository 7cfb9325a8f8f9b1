"""Advice on a waiting pod names what would help, and undoes nothing that somebody did to a node."""

import pytest

from dra.cli.kubectl.diagnosis import advice_texts
from dra.cli.kubectl.diagnosis.advice_texts import ADVICE_REMEDIES
from dra.engine.diagnosis.pods import AdvisedAction, SchedulingAdvice
from dra.engine.messages.remedies import WeighedChoice
from tests.violations import for_each_case


@for_each_case([action for action in AdvisedAction if action is not AdvisedAction.NONE])
def test_each_way_has_a_remedy(way):
    assert way in ADVICE_REMEDIES


@pytest.mark.parametrize("way", [AdvisedAction.UNCORDON, AdvisedAction.UNTAINT, AdvisedAction.LABEL])
def test_what_somebody_did_to_a_node_is_told_and_not_undone(way):
    found = advice_texts.advice_remedy(SchedulingAdvice(way=way, node="n1", detail="team=red"))
    assert isinstance(found, WeighedChoice)
    assert "n1" in found.text


def test_a_claim_on_a_full_node_is_named_with_the_node():
    advice = SchedulingAdvice(way=AdvisedAction.ROOM, node="n1", detail="cpu: 4 requested, 0 of 8 free", claim="c")
    found = advice_texts.advice_remedy(advice)
    assert isinstance(found, WeighedChoice)
    assert found.text.startswith("claim c is allocated on node n1, which lacks room (cpu: 4 requested, 0 of 8 free)")


def test_no_advice_is_nothing():
    assert advice_texts.advice_remedy(SchedulingAdvice()) is None
