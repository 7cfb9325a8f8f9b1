"""CI tells a scenario that failed by chance from one that fails."""

import subprocess
import sys
from typing import Final

import pytest

from tests.rerun import MOST, judge

pytestmark = pytest.mark.slow  # forty sessions of pytest are started

SOUND = "def test_sound(): pass\n"
BY_CHANCE = """
from pathlib import Path

def test_chance():
    here = Path(__file__).with_name("seen")
    seen, _ = here.exists(), here.touch()
    assert seen
"""
BROKEN = "def test_broken(): assert False\n"
NEVER_COLLECTED = "import no_such_module\n"
ENDS_PYTEST = "import os\n\ndef test_end(): os._exit(1)\n"
SKIPPED_AGAIN = """
from pathlib import Path
import pytest

def test_once():
    here = Path(__file__).with_name("seen")
    if here.exists():
        pytest.skip("not twice")
    here.touch()
    raise AssertionError
"""


def files(folder, **texts):
    for name, text in texts.items():
        (folder / f"test_{name}.py").write_text(text)
    return [sys.executable, "-m", "pytest", "-q", str(folder), f"--rootdir={folder}"]


@pytest.fixture(autouse=True)
def _without_plugins(monkeypatch):
    """None of the sessions needs Hypothesis, asyncio or xdist."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


@pytest.mark.parametrize(
    ("texts", "succeeds", "said"),
    [
        pytest.param({"a": SOUND}, True, "1 passed", id="all-pass"),
        pytest.param({"a": SOUND, "b": BY_CHANCE}, True, "flaky: test_b.py::test_chance passed alone", id="by-chance"),
        pytest.param({"a": SOUND, "b": BROKEN}, False, "failed: test_b.py::test_broken failed twice", id="a-fault"),
        pytest.param({"b": BY_CHANCE, "c": BROKEN}, False, "flaky: test_b.py::test_chance", id="chance-beside-a-fault"),
        pytest.param({"a": SOUND, "b": NEVER_COLLECTED}, False, "none was repeated", id="never-collected"),
        pytest.param({"a": SOUND, "b": ENDS_PYTEST}, False, "none was repeated", id="pytest-ended"),
        pytest.param({"a": SKIPPED_AGAIN}, False, "failed: test_a.py::test_once failed twice", id="skipped-alone"),
        pytest.param({f"c{n}": BROKEN for n in range(MOST + 1)}, False, "none was repeated", id="too-many"),
    ],
)
def test_the_exit_code_tells_chance_from_fault(texts, succeeds, said, tmp_path, capfd):
    code = judge(files(tmp_path, **texts), keep=tmp_path / "kept")
    assert said in capfd.readouterr().out
    assert (code == 0) is succeeds


def test_both_outputs_of_a_flaky_test_are_kept(tmp_path):
    assert judge(files(tmp_path, a=BY_CHANCE), keep=tmp_path / "kept") == 0
    assert "1 failed" in (tmp_path / "kept" / "whole.log").read_text()
    assert "1 passed" in (tmp_path / "kept" / "alone-1.log").read_text()
    assert (
        (tmp_path / "kept" / "verdicts").read_text().startswith("flaky: test_a.py::test_chance passed alone; outputs: ")
    )


def test_only_the_failed_test_runs_again(tmp_path):
    judge(files(tmp_path, a=SOUND, b=BY_CHANCE), keep=tmp_path / "kept")
    assert "1 passed" in (tmp_path / "kept" / "alone-1.log").read_text()


def test_a_command_that_is_no_pytest_keeps_its_exit_code(tmp_path):
    assert judge(["false"], keep=tmp_path / "kept") == 1
    subprocess.run([sys.executable, "-m", "tests.rerun", "--help"], check=True, capture_output=True)


WAITS_FOR_THE_OTHER_RUN: Final = """
import fcntl
from pathlib import Path
import pytest

def test_once():
    here = Path(__file__).with_name("seen")
    if not here.exists():
        here.touch()
        raise AssertionError
    with Path(__file__).with_name("running").open("a") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
"""


def test_a_test_is_repeated_while_no_other_run_plays(tmp_path, capfd):
    assert judge(files(tmp_path, a=WAITS_FOR_THE_OTHER_RUN), keep=tmp_path / "kept") == 0
    assert "flaky: test_a.py::test_once passed alone" in capfd.readouterr().out
