"""Triggers of plugins: which changes of objects start a round at once, and what is no trigger."""

import pytest

from dra.engine.descheduling.plugin import Trigger
from dra.engine.descheduling.plugin_triggers import MalformedTriggerError, checked_triggers
from dra.engine.descheduling.triggers import CompiledTriggers, TriggerKind
from tests.dra.engine.descheduling.rounds import node, pod
from tests.violations import for_each_case

SPOT = Trigger(kind="Node", when="object.metadata.labels['pool'] == 'spot'")
FAILED = Trigger(kind="Pod", when="object.status.phase == 'Failed'")
NAMED_A = Trigger(kind="Pod", when="object.metadata.name == 'a'")
NO_BOOL = Trigger(kind="Pod", when="object.status.phase")


def failed(name="a"):
    return pod(name, status={"phase": "Failed"})


def fired(triggers, *objects, kind=TriggerKind.POD):
    watched = CompiledTriggers(checked_triggers(triggers))
    return [watched.fires(kind, each) for each in objects]


def test_a_change_to_true_starts_a_round_and_staying_true_starts_none():
    assert fired((FAILED, SPOT), pod("a"), failed(), failed(), pod("a"), failed()) == [False, True, False, False, True]


def test_a_second_trigger_that_becomes_true_starts_a_round_as_well():
    assert fired((NAMED_A, FAILED), pod("a"), failed(), failed()) == [True, True, False]


def test_each_object_is_watched_for_itself_and_forgotten_when_it_is_gone():
    watched = CompiledTriggers([FAILED])
    assert [watched.fires(TriggerKind.POD, failed(name)) for name in ("a", "b", "a")] == [True, True, False]
    watched.forget(TriggerKind.POD, failed("a").metadata.uid)
    assert [watched.fires(TriggerKind.POD, failed(name)) for name in ("a", "b")] == [True, False]


def test_a_field_that_is_not_set_is_false():
    assert fired((SPOT,), node("n1"), kind=TriggerKind.NODE) == [False]


def test_a_result_that_is_no_bool_is_false_and_hides_no_other_trigger():
    assert fired((NO_BOOL, FAILED), failed()) == [True]


@for_each_case(
    [
        pytest.param(7, "triggers: is no tuple of Trigger", id="a-number"),
        pytest.param((FAILED,) * 9, "triggers: has 9 entries, the limit is 8", id="too-many"),
        pytest.param(("Pod",), "triggers[0]: is a str, not a Trigger", id="a-text"),
        pytest.param((Trigger(kind="Secret", when="true"),), "triggers[0].kind: 'Secret' is none of", id="kind"),
        pytest.param(
            (FAILED, Trigger(kind="Pod", when="object.")), "triggers[1].when: 'object.' is not a valid", id="syntax"
        ),
        pytest.param((Trigger(kind="Pod", when="1 + 1"),), "triggers[0].when: '1 + 1' evaluates to", id="no-bool"),
        pytest.param(
            (Trigger(kind="Pod", when="true || " * 200 + "true"),), "triggers[0].when: is longer than 1024", id="long"
        ),
    ]
)
def test_what_is_no_trigger_is_told_by_its_path(given, text):
    with pytest.raises(MalformedTriggerError) as caught:
        checked_triggers(given)
    assert str(caught.value).startswith(text)
