import pytest

from localplane.nodes.pod_types import Container
from localplane.nodes.programs import (
    DEFAULT_RUN_SECONDS,
    EXIT_CODE,
    RUN_SECONDS,
    STOP_SECONDS,
    Program,
    program,
    stop_seconds,
)
from tests.violations import for_each_case


@for_each_case(
    [
        pytest.param(["sleep", "5"], Program(5.0), id="sleep"),
        pytest.param(["/bin/sleep", "1.5"], Program(1.5), id="path"),
        pytest.param(["sleep", "2m"], Program(120.0), id="minutes"),
        pytest.param(["sleep", "infinity"], Program(None), id="for-ever"),
        pytest.param(["sh", "-c", "sleep 5"], Program(5.0), id="shell"),
        pytest.param(["sh", "-ec", "echo hi; sleep 2; exit 3"], Program(2.0, 3), id="sequence"),
        pytest.param(["sh", "-c", "sleep 1 && exit 1"], Program(1.0, 1), id="and"),
        pytest.param(["sh", "-c", "false && sleep 100"], Program(0.0, 1), id="and-after-a-failure"),
        pytest.param(["sh", "-c", "exit 300"], Program(0.0, 44), id="codes-are-bytes"),
        pytest.param(["sh", "-c", "sleep 1\nsleep 2\n"], Program(3.0), id="lines"),
        pytest.param(["sh", "-c", "exit 1; sleep 100"], Program(0.0, 1), id="exit-ends"),
        pytest.param(["sh", "-c", "env | grep GPU; sleep 3600"], Program(3600.0), id="pipe"),
        pytest.param(["sh", "-c", "sleep 5 | tee log"], Program(DEFAULT_RUN_SECONDS), id="a-pipe-that-takes-time"),
        pytest.param(["sh", "-c", "echo hi |"], Program(DEFAULT_RUN_SECONDS), id="broken-pipe"),
        pytest.param(["true"], Program(0.0), id="true"),
        pytest.param(["false"], Program(0.0, 1), id="false"),
        pytest.param(["train.py"], Program(DEFAULT_RUN_SECONDS), id="unknown"),
        pytest.param(["sh", "-c", "while true; do :; done"], Program(DEFAULT_RUN_SECONDS), id="unknown-script"),
        pytest.param(["sh", "-c", "echo 'open"], Program(DEFAULT_RUN_SECONDS), id="broken-script"),
        pytest.param(["sh"], Program(DEFAULT_RUN_SECONDS), id="shell-without-a-script"),
        pytest.param([], Program(DEFAULT_RUN_SECONDS), id="image's-own"),
    ],
)
def test_how_a_command_is_read(command, expected):
    assert program(Container(command=command), None, restart_policy="Never") == expected


def test_a_command_and_its_arguments_are_one():
    assert program(Container(command=["sleep"], args=["3"]), None, restart_policy="Never") == Program(3.0)


def test_what_is_always_restarted_and_cannot_be_read_is_a_server():
    assert program(Container(command=["nginx"]), None, restart_policy="Always") == Program(None)


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({RUN_SECONDS: "7"}, Program(7.0)),
        ({RUN_SECONDS: "for-ever"}, Program(None)),
        ({EXIT_CODE: "3"}, Program(5.0, 3)),
        ({EXIT_CODE: "x"}, Program(5.0, 0)),
    ],
)
def test_annotations_decide_first(annotations, expected):
    assert program(Container(command=["sleep", "5"]), annotations, restart_policy="Never") == expected


@pytest.mark.parametrize(("text", "seconds"), [(None, 0.0), ("20", 20.0), ("-1", 0.0), ("nan", 0.0), ("x", 0.0)])
def test_how_long_stopping_takes(text, seconds):
    assert stop_seconds(None if text is None else {STOP_SECONDS: text}) == seconds
