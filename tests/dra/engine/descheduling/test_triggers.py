"""Triggers: which changes of objects start a round at once."""

import pytest

from dra.engine.descheduling.plugin import Trigger
from dra.engine.descheduling.triggers import MalformedTriggerError, TriggerWatch, compile_triggers
from tests.dra.engine.descheduling.rounds import node, pod

SPOT = Trigger(kind="Node", when="object.metadata.labels['pool'] == 'spot'")
FAILED = Trigger(kind="Pod", when="object.status.phase == 'Failed'")


def watch(**plugins):
    return TriggerWatch({name: compile_triggers(triggers) for name, triggers in plugins.items()})


def failed(name="a"):
    return pod(name, status={"phase": "Failed"})


def test_a_change_to_true_starts_a_round_of_the_plugin_and_staying_true_starts_none():
    watched = watch(Mine=(FAILED,), Other=(SPOT,))
    answers = [watched.observe("Pod", "u", each) for each in (pod("a"), failed(), failed(), pod("a"), failed())]
    assert answers == [frozenset(), {"Mine"}, frozenset(), frozenset(), {"Mine"}]


def test_each_object_is_watched_for_itself_and_forgotten_when_it_is_gone():
    watched = watch(Mine=(FAILED,))
    assert [watched.observe("Pod", uid, failed()) for uid in ("u", "v")] == [{"Mine"}, {"Mine"}]
    watched.forget("Pod", "u")
    assert [watched.observe("Pod", uid, failed()) for uid in ("u", "v")] == [{"Mine"}, frozenset()]


def test_a_field_that_is_not_set_is_false():
    assert watch(Mine=(SPOT,)).observe("Node", "u", node("n1")) == frozenset()


def test_an_expression_that_has_no_result_is_false():
    deep = Trigger(kind="Pod", when="object.status.phase")
    assert watch(Mine=(deep,)).observe("Pod", "u", failed()) == frozenset()


def test_only_kinds_of_triggers_are_looked_at():
    watched = watch(Mine=(FAILED,))
    assert (watched.watches("Pod"), watched.watches("Node"), watched.watches("Secret")) == (True, False, False)
    assert watched.observe("Secret", "u", failed()) == frozenset()


@pytest.mark.parametrize(
    ("given", "text"),
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
    ],
)
def test_what_is_no_trigger_is_told_by_its_path(given, text):
    with pytest.raises(MalformedTriggerError) as caught:
        compile_triggers(given)
    assert str(caught.value).startswith(text)
