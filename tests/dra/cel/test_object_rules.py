import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.cel.expressions import NESTING_MAX
from dra.cel.object_rules import CompiledRule, MalformedRuleError, RuleError, WorkloadRules
from tests.violations import for_each_case

JOB_DONE = "object.status.conditions.exists(c, c.type in ['Complete', 'Failed'] && c.status == 'True')"


@for_each_case(
    [
        pytest.param("object.status.phase == 'Done'", {"status": {"phase": "Done"}}, True, id="yes"),
        pytest.param("object.status.phase == 'Done'", {"status": {"phase": "Running"}}, False, id="no"),
        pytest.param("object.status.phase == 'Done'", {"status": {}}, False, id="a-field-that-is-not-there-yet"),
        pytest.param("object.status.phase == 'Done'", {}, False, id="no-status-at-all"),
        pytest.param("object.status.phase == 'Done'", {"status": {"phase": 3}}, False, id="another-type"),
        pytest.param("has(object.spec.done) && object.spec.done", {"spec": {"done": True}}, True, id="has"),
        pytest.param("object.done", {"done": True}, True, id="the-field-is-the-answer"),
        pytest.param("object.done", {"done": "yes"}, False, id="an-answer-that-is-neither-yes-nor-no"),
        pytest.param("object.n >= 3", {"n": 3}, True, id="numbers"),
        pytest.param("object.n == null", {"n": None}, True, id="null"),
        pytest.param(JOB_DONE, {"status": {"conditions": None}}, False, id="a-list-that-is-null"),
        pytest.param(
            JOB_DONE,
            {"status": {"conditions": [{"type": "Complete", "status": "True"}]}},
            True,
            id="a-job-that-is-done",
        ),
        pytest.param(
            JOB_DONE, {"status": {"conditions": [{"type": "Suspended", "status": "True"}]}}, False, id="suspended"
        ),
    ]
)
def test_answers(expression, content, holds):
    assert CompiledRule(expression).holds(content) is holds


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("", id="nothing"),
        pytest.param("object.status ==", id="half-a-comparison"),
        pytest.param("status.phase == 'Done'", id="a-name-that-does-not-exist"),
        pytest.param("'yes'", id="a-text"),
        pytest.param("1 + 1", id="a-number"),
        pytest.param("object.exists(", id="a-bracket"),
    ],
)
def test_what_is_no_question_is_refused_when_it_is_read(expression):
    with pytest.raises(MalformedRuleError) as refused:
        CompiledRule(expression)
    assert str(refused.value).startswith(repr(expression))


def nested(levels, *, within=list):
    found = 1
    for _ in range(levels):
        found = [found] if within is list else {"a": found}
    return found


@pytest.mark.parametrize("within", [list, dict])
@pytest.mark.parametrize("levels", [NESTING_MAX, 6_500, 9_999])
def test_an_object_nested_deeper_than_the_evaluator_survives_is_told_and_not_evaluated(levels, within):
    """6,500 levels in a field that no rule looks at ended the process: SIGSEGV, in a loop."""
    with pytest.raises(RuleError, match=f"nested more than {NESTING_MAX} levels deep"):
        CompiledRule("object.done").holds({"done": True, "free": nested(levels, within=within)})


@pytest.mark.parametrize("within", [list, dict])
def test_an_object_as_deep_as_people_write_is_evaluated(within):
    assert CompiledRule("object.done").holds({"done": True, "free": nested(NESTING_MAX - 2, within=within)})


def test_an_object_with_more_items_than_a_rule_may_look_at_is_told():
    with pytest.raises(RuleError, match="more than 10,000 iterations"):
        CompiledRule("object.items.all(each, each == 1)").holds({"items": [1] * 20_000})


ENDS = CompiledRule("object.done")
PAUSES = CompiledRule("object.spec.suspend")


@pytest.mark.parametrize(
    ("rules", "content", "lifecycle"),
    [
        pytest.param(WorkloadRules(ENDS, PAUSES), {"done": True, "spec": {"suspend": True}}, (True, False), id="ended"),
        pytest.param(WorkloadRules(ENDS, PAUSES), {"spec": {"suspend": True}}, (False, True), id="suspended"),
        pytest.param(WorkloadRules(ENDS, PAUSES), {"done": False, "spec": {}}, (False, False), id="neither"),
        pytest.param(WorkloadRules(None, PAUSES), {"spec": {"suspend": True}}, (False, True), id="without-an-end"),
        pytest.param(WorkloadRules(ENDS), {"done": True}, (True, False), id="cannot-be-suspended"),
        pytest.param(WorkloadRules(), {"done": True}, (False, False), id="without-rules"),
    ],
)
def test_both_rules_of_a_kind_are_evaluated_on_one_object(rules, content, lifecycle):
    assert rules.evaluate(content) == lifecycle


def test_a_workload_counts_as_not_suspended_where_that_rule_has_no_result():
    endless = CompiledRule("object.items.all(each, each == 1)")
    assert WorkloadRules(ENDS, endless).evaluate({"items": [1] * 20_000}) == (False, False)


def test_a_workload_of_unknown_end_is_an_error():
    with pytest.raises(RuleError, match="levels deep"):
        WorkloadRules(ENDS, PAUSES).evaluate({"free": nested(NESTING_MAX, within=dict)})


def test_a_rule_shows_its_expression():
    assert repr(CompiledRule("object.done")) == "CompiledRule('object.done')"


TOKENS = st.sampled_from(
    ["object", ".status", ".phase", "==", "&&", "!", "(", ")", "[", "]", "'Done'",
     "1", "in", "?", ":", "has", ".exists(c,c)", "size(", "é", "\n", "\x00"]
)  # fmt: skip


@given(st.one_of(st.text(max_size=40), st.lists(TOKENS, max_size=8).map("".join)))
def test_any_text_is_a_rule_or_is_refused_and_a_rule_answers_for_any_object(text):
    try:
        rule = CompiledRule(text)
    except MalformedRuleError:
        return
    for content in ({}, {"status": {"phase": "Done"}}, {"status": None}, {"metadata": {"name": "\u2028"}}):
        assert rule.holds(content) in {True, False}
