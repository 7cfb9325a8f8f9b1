import json

import click
import pytest
import yaml

from dra.cli.kubectl import printers
from dra.cli.kubectl.checklist import CheckResult, CheckState, format_checklist, is_ready
from dra.cli.kubectl.print_flags import PrintOptions
from dra.cli.kubectl.printers import (
    OutputFormat,
    coloured,
    format_structured,
    format_table,
    terminal_width,
    wrap_lines,
    wrap_text,
)
from dra.engine.messages.remedies import SafeCommand, WeighedChoice


def test_a_table_is_written_as_kubectl_does():
    assert format_table(
        ("NAME", "STATE", "DETAIL"), [("train", "ok", "all is well"), ("a", "left", "")]
    ).splitlines() == [
        "NAME    STATE   DETAIL",
        "train   ok      all is well",
        "a       left    ",
    ]


def test_a_table_may_go_without_its_header():
    assert format_table(("NAME", "STATE"), [("train", "ok")], headers=False) == "train   ok"
    assert format_table(("NAME", "STATE"), [], headers=False) == ""


def test_colours_take_no_room():
    lines = format_table(("A", "B"), [(click.style("x", fg="red"), "1"), ("xyz", "2")]).splitlines()
    assert [click.unstyle(line) for line in lines] == ["A     B", "x     1", "xyz   2"]


@pytest.mark.parametrize(
    ("environment", "terminal", "plain"),
    [
        pytest.param({}, True, False, id="terminal"),
        pytest.param({}, False, True, id="pipe"),
        pytest.param({"NO_COLOR": ""}, True, True, id="no-color"),
        pytest.param({"TERM": "dumb"}, True, True, id="dumb"),
    ],
)
def test_colours_are_for_terminals_that_want_them(monkeypatch, environment, terminal, plain):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(printers.sys, "stdout", type("Terminal", (), {"isatty": lambda _: terminal})())
    assert (coloured("ok", "green") == "ok") == plain


def test_data_is_json_or_yaml():
    content = {"ready": True, "checks": [{"detail": "4 × containerd"}]}
    assert json.loads(format_structured(content, OutputFormat.JSON)) == content
    assert yaml.safe_load(format_structured(content, OutputFormat.YAML)) == content


LEFT = CheckResult(
    check="rights",
    state=CheckState.MISSING,
    detail="may not",
    certainty="by asking",
    remedy=SafeCommand("kubectl get pods"),
)
WAITS = CheckResult(
    check="gates", state=CheckState.MISSING, detail="shut", remedy=WeighedChoice("open them: pods start")
)
FINE = CheckResult(check="api", state=CheckState.OK, detail="served")


def test_a_checklist_is_a_table_and_what_to_do():
    assert format_checklist([FINE, LEFT, WAITS], PrintOptions()).splitlines() == [
        "CHECK    STATE     DETAIL",
        "api      ok        served",
        "rights   missing   may not (by asking)",
        "gates    missing   shut",
        "",
        "To do:",
        "  rights: kubectl get pods",
        "",
        "To decide:",
        "  gates: open them: pods start",
    ]


def test_a_checklist_as_data_says_the_same():
    told = json.loads(format_checklist([FINE, LEFT, WAITS], PrintOptions(format=OutputFormat.JSON)))
    assert told["checks"][2]["decision"] == "open them: pods start"
    assert told["ready"] is False
    assert told["checks"][1] == {
        "check": "rights",
        "verdict": "missing",
        "detail": "may not",
        "sure": "by asking",
        "command": "kubectl get pods",
    }


def test_only_what_is_missing_stands_in_the_way():
    others = [CheckResult(check="x", state=each, detail="") for each in CheckState if each is not CheckState.MISSING]
    assert is_ready(others)
    assert not is_ready([*others, LEFT])


@pytest.fixture
def terminal(monkeypatch):
    """A terminal of a width; none at all without one."""

    def terminal(width, **environment):
        for name in ("NO_COLOR", "COLUMNS"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr(printers.sys, "stdout", type("Terminal", (), {"isatty": lambda _: width is not None})())
        monkeypatch.setenv("COLUMNS", str(width or 0))
        for name, value in environment.items():
            monkeypatch.setenv(name, value)

    return terminal


def test_only_a_terminal_has_a_width(terminal):
    widths = []
    for width, environment in ((80, {}), (200, {}), (None, {}), (80, {"TERM": "dumb"})):
        terminal(width, **environment)
        widths.append(terminal_width())
    assert widths == [80, 200, None, None]


LINES = [
    "claim ml/train: has 8 devices",
    "  kept      " + "word " * 30 + "end",
    "  next      kubectl " + "long " * 40,
    "  " + click.style("error    ", fg="red") + " Unguarded: " + "word " * 30 + "end",
]


@pytest.mark.parametrize("width", [80, 200])
def test_long_lines_are_folded_below_their_text_and_commands_are_not(terminal, width):
    terminal(width)
    shown = "\n".join(wrap_lines(LINES)).splitlines()
    commands = [line for line in shown if line.startswith("  next")]
    assert commands == [LINES[2]]
    others = [click.unstyle(line) for line in shown if line not in commands]
    assert max(map(len, others)) <= width
    assert all(line[:12].strip() == "" for line in others if line.split()[0] == "word")
    assert " ".join(" ".join(others).split()) == " ".join(
        " ".join(click.unstyle(line) for line in LINES if line not in commands).split()
    )


@pytest.mark.parametrize(("width", "environment"), [(None, {}), (80, {"TERM": "dumb"})], ids=["pipe", "dumb"])
def test_elsewhere_every_line_stays_whole(terminal, width, environment):
    terminal(width, **environment)
    assert list(wrap_lines(LINES)) == LINES


def test_a_table_goes_on_below_its_last_column():
    rows = [("a", "x " * 30 + "end"), ("bb", "short")]
    shown = format_table(("NAME", "WHAT"), rows, wrapped=50).splitlines()
    assert max(map(len, shown)) <= 50
    assert [line[:7] for line in shown] == ["NAME   ", "a      ", "       ", "bb     "]


def test_text_for_which_a_narrow_terminal_has_no_room_stands_below_its_row():
    rows = [("x" * 30, "one two three four five six seven eight nine ten"), ("y", "Gone")]
    shown = format_table(("NAME", "WHAT"), rows, wrapped=40).splitlines()
    assert [line.rstrip() for line in shown] == [
        "NAME                             WHAT",
        "x" * 30,
        "    one two three four five six seven",
        "    eight nine ten",
        "y                                Gone",
    ]


def test_where_there_is_no_room_nothing_is_folded():
    assert wrap_text("a " * 40, first=60, width=80) == "a " * 40
