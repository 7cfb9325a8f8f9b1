"""`make test` runs all tests once, in parts, and ends as one run of pytest would."""

import os
import signal
import subprocess
import sys

import pytest

from tests import parts
from tests.parts import PARTS, ROOT, goes_on, selections, total

ExitCode = pytest.ExitCode


def test_each_part_leaves_out_what_the_parts_before_it_have_run():
    every = list(selections(["-x", "-k", "window"]))
    assert every[:3] == [
        ["tests/dra/engine"],
        ["tests/dra/cli", "--ignore=tests/dra/engine"],
        ["tests/dra", "--ignore=tests/dra/engine", "--ignore=tests/dra/cli"],
    ]
    assert every[-1] == ["tests", *(f"--ignore={folder}" for folders in PARTS[:-1] for folder in folders)]


def test_the_last_part_has_whatever_no_other_part_names():
    assert PARTS[-1] == ("tests",)
    assert [folder for folders in PARTS for folder in folders if not (ROOT / folder).is_dir()] == []


@pytest.mark.parametrize("named", ["tests/test_parts.py", "tests/dra", "tests/test_parts.py::test_that"])
def test_arguments_that_name_tests_are_one_run(named):
    assert list(selections(["-x", named])) == [[]]


@pytest.mark.parametrize("chosen", ["--lf", "--last-failed", "--sw"])
def test_what_is_chosen_by_the_last_run_is_one_run(chosen):
    assert list(selections(["-x", chosen])) == [[]]


@pytest.mark.parametrize("arguments", [["-k", "controller"], ["-m", "tests"], ["--collect-only", "-q"]])
def test_an_expression_names_no_folder(arguments):
    assert len(list(selections(arguments))) == len(PARTS)


@pytest.mark.parametrize(
    ("code", "arguments", "on"),
    [
        pytest.param(ExitCode.OK, (), True, id="passed"),
        pytest.param(ExitCode.NO_TESTS_COLLECTED, ("-k", "window"), True, id="no-test-of-this-part-is-selected"),
        pytest.param(ExitCode.TESTS_FAILED, (), True, id="a-failure-hides-no-other"),
        pytest.param(ExitCode.TESTS_FAILED, ("-x",), False, id="the-first-failure-ends-all"),
        pytest.param(ExitCode.TESTS_FAILED, ("-vx",), False, id="also-in-one-word-with-others"),
        pytest.param(ExitCode.TESTS_FAILED, ("-v", "-n", "2"), True, id="other-options"),
        pytest.param(ExitCode.TESTS_FAILED, ("--maxfail=1",), False, id="so-do-a-few"),
        pytest.param(ExitCode.INTERRUPTED, (), False, id="interrupted"),
        pytest.param(ExitCode.USAGE_ERROR, (), False, id="an-unknown-argument"),
        pytest.param(-9, (), False, id="killed"),
    ],
)
def test_a_part_follows_unless_the_run_is_over(code, arguments, on):
    assert goes_on(code, arguments) is on


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        pytest.param([0, 0], 0, id="all-passed"),
        pytest.param([5, 0, 5], 0, id="selected-in-one-part"),
        pytest.param([5, 5], 5, id="selected-in-none"),
        pytest.param([0, 1, 5], 1, id="one-failed"),
        pytest.param([1, -9], 1, id="the-first-failure-counts"),
        pytest.param([0, -9], -9, id="killed"),
    ],
)
def test_the_exit_code_is_that_of_the_first_failure(codes, code):
    assert total(codes) == code


def test_a_run_tells_how_its_parts_have_ended(monkeypatch, capsys):
    commands = []

    def run(command, **_options):
        commands.append(command)
        return parts.subprocess.CompletedProcess(command, ExitCode.TESTS_FAILED)

    monkeypatch.setattr(parts.subprocess, "run", run)
    monkeypatch.setattr(parts.signal, "signal", lambda *_: None)
    assert parts.main(["-x"]) == ExitCode.TESTS_FAILED
    assert len(commands) == 1
    assert capsys.readouterr().out.startswith(f"1 of {len(PARTS)} parts: failed after ")


def test_who_ends_a_run_ends_pytest_with_it(tmp_path):
    """As `timeout` and `kill` do: they know this process only."""
    (tmp_path / "test_slow.py").write_text(
        "import os, time\n\n\ndef test_slow():\n    os.kill(os.getppid(), 15)\n    time.sleep(60)\n"
    )
    command = [sys.executable, "-m", "tests.parts", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL) as run:
        pass
    assert run.returncode == 128 + signal.SIGTERM
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("tmp")] == []
