import json

import click
import pytest
import yaml

from dra.cli.kubectl import output
from dra.cli.kubectl.findings import Finding, Verdict, ready, written
from dra.cli.kubectl.options import Style
from dra.cli.kubectl.output import Format, coloured, structured, table


def test_a_table_is_written_as_kubectl_does():
    assert table(("NAME", "STATE", "DETAIL"), [("train", "ok", "all is well"), ("a", "left", "")]).splitlines() == [
        "NAME    STATE   DETAIL",
        "train   ok      all is well",
        "a       left    ",
    ]


def test_a_table_may_go_without_its_header():
    assert table(("NAME", "STATE"), [("train", "ok")], headers=False) == "train   ok"
    assert table(("NAME", "STATE"), [], headers=False) == ""


def test_colours_take_no_room():
    lines = table(("A", "B"), [(click.style("x", fg="red"), "1"), ("xyz", "2")]).splitlines()
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
    monkeypatch.setattr(output.sys, "stdout", type("Terminal", (), {"isatty": lambda _: terminal})())
    assert (coloured("ok", "green") == "ok") == plain


def test_data_is_json_or_yaml():
    content = {"ready": True, "checks": [{"detail": "4 × containerd"}]}
    assert json.loads(structured(content, Format.JSON)) == content
    assert yaml.safe_load(structured(content, Format.YAML)) == content


LEFT = Finding(check="rights", verdict=Verdict.LEFT, detail="may not", sure="by asking", command="kubectl get pods")
FINE = Finding(check="api", verdict=Verdict.OK, detail="served")


def test_a_checklist_is_a_table_and_what_to_do():
    assert written([FINE, LEFT], Style()).splitlines() == [
        "CHECK    STATE     DETAIL",
        "api      ok        served",
        "rights   missing   may not (by asking)",
        "",
        "To do:",
        "  rights: kubectl get pods",
    ]


def test_a_checklist_as_data_says_the_same():
    told = json.loads(written([FINE, LEFT], Style(output=Format.JSON)))
    assert told["ready"] is False
    assert told["checks"][1] == {
        "check": "rights",
        "verdict": "missing",
        "detail": "may not",
        "sure": "by asking",
        "command": "kubectl get pods",
    }


def test_only_what_is_missing_stands_in_the_way():
    others = [Finding(check="x", verdict=each, detail="") for each in Verdict if each is not Verdict.LEFT]
    assert ready(others)
    assert not ready([*others, LEFT])
