"""The budget of a test run is in CPU seconds of a quiet machine: a busy machine fails no run."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import cpu_time, remarks

MAKEFILE = Path(__file__).parents[1] / "Makefile"


def main_process(*used):
    """Return the configuration of a main process whose processes have used this."""
    config = SimpleNamespace(stash=pytest.Stash())
    for each in used:
        cpu_time.receive(config, {"cpu": each})
    return config


@pytest.mark.parametrize(
    ("units", "seconds"),
    [
        pytest.param([0.010, 0.010], 300, id="a-quiet-machine"),
        pytest.param([0.020, 0.030], 120, id="work-takes-longer-on-a-busy-machine"),
        pytest.param([0.005], 300, id="a-faster-machine-has-the-same-budget"),
        pytest.param([], 300, id="no-test-was-run"),
    ],
)
def test_seconds_are_those_of_a_quiet_machine(units, seconds):
    assert cpu_time.quiet_seconds(300, units) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("budget", "within", "told"),
    [
        ("", True, "CPU: 700 s, 350 s on a quiet machine; 280 MiB a process"),
        ("350", True, "CPU: 700 s, 350 s on a quiet machine; 280 MiB a process"),
        (
            "330",
            False,
            "error: CPU: 700 s, 350 s on a quiet machine; 280 MiB a process; the budget is 330 s: see --durations=30",
        ),
    ],
)
def test_a_run_is_judged_by_the_sum_of_its_processes(monkeypatch, budget, within, told):
    monkeypatch.setenv(cpu_time.BUDGET, budget)
    config = main_process((400, 200, 280), (300, 150, 270))
    assert cpu_time.judge(config) is within
    assert remarks.lines(config) == [told]


def test_parts_of_a_run_are_judged_by_their_sum(monkeypatch, tmp_path):
    monkeypatch.setenv(cpu_time.BUDGET, "330")
    monkeypatch.setattr(cpu_time, "FILE_OF_PARTS", str(tmp_path / "used"))
    first, last = main_process((400, 200, 280)), main_process((300, 150, 270))
    assert cpu_time.judge(first)
    assert not cpu_time.judge(last)
    assert remarks.lines(last)[0].startswith("error: CPU: 700 s, 350 s on a quiet machine; 280 MiB a process")


def test_a_process_hands_over_what_it_and_its_children_have_used(monkeypatch):
    monkeypatch.delenv(cpu_time.BUDGET, raising=False)
    worker = SimpleNamespace(stash=pytest.Stash(), workeroutput={})
    cpu_time.sample(worker)
    cpu_time.send(worker)
    config = main_process(worker.workeroutput["cpu"])
    assert cpu_time.judge(config)
    assert remarks.lines(config)[0].startswith("CPU: ")


def test_processes_that_tell_their_use_are_not_counted_as_children_too(monkeypatch):
    monkeypatch.delenv(cpu_time.BUDGET, raising=False)
    used = SimpleNamespace(user=1.0, system=1.0, children_user=500.0, children_system=50.0)
    monkeypatch.setattr(cpu_time.os, "times", lambda: used)
    alone, beside = main_process(), main_process((300, 200, 280), (250, 150, 270))
    for config in (alone, beside):
        cpu_time.send(config)
        cpu_time.judge(config)
    assert [remarks.lines(config)[0].split(",")[0] for config in (alone, beside)] == ["CPU: 552 s", "CPU: 552 s"]


def test_the_budget_of_make_test_is_no_larger_than_a_person_waits_for():
    line = next(line for line in MAKEFILE.read_text().splitlines() if line.startswith(cpu_time.BUDGET))
    in_memory, on_a_disk = map(int, re.findall(r"\d+", line))
    assert in_memory <= on_a_disk <= 330  # three minutes on two cores


def test_work_is_timed_once_in_many_tests(monkeypatch):
    timed = []
    monkeypatch.setattr(cpu_time, "work", lambda: timed.append(1) or 0.01)
    config = SimpleNamespace(stash=pytest.Stash())
    for _ in range(2 * cpu_time.EVERY + 1):
        cpu_time.sample(config)
    assert len(timed) == 3
