import re
from string import Formatter

import pytest

from dra.engine.claims.codes import Code
from dra.engine.claims.reasons import LISTED_NAMES, LONGEST_ARGUMENT, claim_reason, list_names, pod_reason
from dra.model.event_type import EventType
from tests.commands import unknown_commands
from tests.dra.engine.examples import KEY, NAMESPACE, uid
from tests.violations import for_each

ABOUT_PODS = {
    Code.ALLOCATION_LOST,
    Code.BOUND_WITHOUT_ALLOCATION,
    Code.POD_OFF_ALLOCATION,
    Code.SANDBOX_NOT_READY,
    Code.EVICTED,
    Code.WAITS_FOR_SLOT,
    Code.WAITS_FOR_HELD,
    Code.WAITS_FOR_GROUP,
    Code.TEMPLATE_FAILED,
    Code.FOREIGN_TEMPLATE,
    Code.WAITS_FOR_CARDS,
    Code.CARD_SIZES_EXCEEDED,
    Code.CLAIM_LACKS_CARD_SIZES,
    Code.CLAIM_RENEWED,
    Code.PREPARE_REFUSED,
    Code.EVICTED_UNPREPARED,
    Code.NO_BOUND_CPUS,
    Code.UNKNOWN_QOS_CLASS,
}


def placeholders(code):
    return {name for _, name, _, _ in Formatter().parse(code.text) if name}


def example(code):
    if code in ABOUT_PODS:
        numbers = {name: f"<{name}>" for name in placeholders(code) - {"namespace", "name"}}
        return pod_reason(code, key=(NAMESPACE, "a"), uid=uid("a"), **numbers)
    numbers = {name: f"<{name}>" for name in placeholders(code) - {"namespace", "claim", "uid"}}
    return claim_reason(code, key=KEY, uid=uid("claim-train"), **numbers)


@for_each(Code)
def test_every_reason_can_be_told_object_first(code):
    text = example(code).text
    assert re.match(r"pod ml/a: " if code in ABOUT_PODS else r"claim ml/train: ", text)
    assert "{" not in text


@for_each(Code)
def test_every_reason_fits_an_event(code):
    assert re.fullmatch(r"[A-Z][A-Za-z]{1,127}", code.value)
    assert len(example(code).note) < 512
    assert not example(code).note.endswith(".")


@for_each(Code)
def test_every_text_names_only_commands_that_exist(code):
    assert unknown_commands(example(code).note) == []


@for_each(c for c in Code if c.severity is EventType.WARNING)
def test_a_warning_says_what_it_is_about(code):
    assert placeholders(code) or code is Code.STOCK_CONTROLLER_ACTIVE


def test_equal_reasons_are_one_occurrence():
    assert example(Code.DEALLOCATED) == example(Code.DEALLOCATED)
    assert len({example(Code.DEALLOCATED), example(Code.DEALLOCATED)}) == 1


def test_a_reason_about_a_pod_can_name_it_in_a_command():
    note = pod_reason(Code.POD_OFF_ALLOCATION, key=("ml", "a"), uid=uid("a"), node="n1", claim="train").note
    assert note.endswith("See: kubectl dra explain pod a -n ml")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param("train", "train", id="as-it-is"),
        pytest.param("Zug-\u00fc\U0001f682", "Zug-\u00fc\U0001f682", id="in-any-script"),
        pytest.param("a\n\x1b[31mb\x00", "a\\n\\x1b[31mb\\x00", id="without-control-characters"),
        pytest.param("x" * 200_000, "x" * LONGEST_ARGUMENT + "\u2026", id="not-at-any-length"),
    ],
)
def test_what_others_have_written_is_made_readable(value, shown):
    reason = claim_reason(Code.MALFORMED_REFERENCE, key=KEY, uid=uid("claim-train"), error=value)
    assert reason.note == f"the workload reference is ignored: {shown}"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        pytest.param(0, "", id="nobody"),
        pytest.param(LISTED_NAMES, "0, 1, 2, 3, 4", id="all"),
        pytest.param(LISTED_NAMES + 2, "0, 1, 2, 3, 4 and 2 more", id="some"),
    ],
)
def test_names_are_listed_up_to_a_few(count, text):
    assert list_names(map(str, range(count))) == text
