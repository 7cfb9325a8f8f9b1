"""Nothing that a tenant writes commands a terminal."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.model.terminal_escapes import escape_line, escape_terminal
from tests.violations import for_each_case

CLEAR, TITLE, CSI = "\x1b[2J", "\x1b]0;owned\x07", "\x9b2J"


@for_each_case(
    [
        pytest.param("claim ml/train: “é” 語", "claim ml/train: “é” 語", id="ordinary"),
        pytest.param("a\tb\nc", "a\tb\nc", id="lines-and-tabs"),
        pytest.param("\x1b[33mtrain\x1b[0m", "\x1b[33mtrain\x1b[0m", id="our-own-colours"),
        pytest.param(f"x{CLEAR}y", "x\\u001b[2Jy", id="clears-the-screen"),
        pytest.param(TITLE, "\\u001b]0;owned\\u0007", id="sets-the-title"),
        pytest.param(CSI, "\\u009b2J", id="in-one-byte"),
        pytest.param("\x1b[8mhidden", "\\u001b[8mhidden", id="hides-what-follows"),
        pytest.param("ok\rbad", "ok\\u000dbad", id="writes-over-its-line"),
        pytest.param("a\u2028b", "a\\u2028b", id="another-end-of-a-line"),
        pytest.param("\u202egpj.exe", "\\u202egpj.exe", id="right-to-left"),
    ]
)
def test_what_reaches_a_terminal(text, left):
    assert escape_terminal(text, on_a_terminal=True) == left


def test_a_pipe_gets_the_marks_of_direction_that_languages_need():
    assert escape_terminal("\u200fabc", on_a_terminal=False) == "\u200fabc"
    assert escape_terminal(CLEAR, on_a_terminal=False) == "\\u001b[2J"


def test_a_line_of_a_log_is_one_line():
    assert escape_line("claim x\n12:00 error forged") == "claim x\\n12:00 error forged"


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=20), max_size=3))
def test_json_means_the_same_as_before(content):
    text = json.dumps(content, ensure_ascii=False)
    assert json.loads(escape_terminal(text, on_a_terminal=True)) == content


@given(st.text())
def test_what_is_shown_is_shown_as_it_is(text):
    found = escape_terminal(text, on_a_terminal=True)
    assert escape_terminal(found, on_a_terminal=True) == found
    assert "\x9b" not in found
    assert "\r" not in found
