"""CPU seconds of a test run, in all of its processes: unlike minutes, they hardly depend on what else the machine does.

``make test`` fails if the run took more than ``DRA_CPU_BUDGET`` of the Makefile. The seconds are those of a quiet
machine: where others use caches and cores too, the same work takes longer, so a fixed piece of work is timed along the
way.
"""

import json
import os
import resource
import time
from pathlib import Path
from typing import Final

import pytest

from tests import remarks

BUDGET: Final = "DRA_CPU_BUDGET"
"""Environment variable with the seconds that a run may take."""

BEFORE: Final = "DRA_CPU_BEFORE"
"""Environment variable with the file of what the parts of the run before this one have used (tests/parts.py)."""

FILE_OF_PARTS = os.environ.pop(BEFORE, "")
"""Taken out of the environment: sessions of pytest that tests start are no parts."""

UNIT_SECONDS: Final = 0.010
"""CPU seconds of `work` on a quiet core of CI's machine."""

EVERY: Final = 200
"""Tests after which `work` is timed once more: 50 to 100 µs a test."""

_SENT: Final = "cpu"
_TESTS: Final = pytest.StashKey[int]()
_UNITS: Final = pytest.StashKey[list[float]]()
"""Seconds of `work` along the way."""

_USED: Final = pytest.StashKey[list[tuple[float, float, int]]]()
"""Seconds, seconds of a quiet machine, and the largest memory in MiB, of each process."""


def work() -> float:
    """Do a fixed piece of work and return the CPU seconds that it took."""
    began = time.process_time()
    texts = {str(number): [number] for number in range(40_000)}
    sum(len(text) for text in texts)
    return time.process_time() - began


def quiet_seconds(seconds: float, units: list[float]) -> float:
    """Return the seconds that a quiet machine would have taken; `units` are the seconds of `work` along the way."""
    busy = sum(units) / len(units) / UNIT_SECONDS if units else 1.0
    return seconds / max(busy, 1.0)


def sample(config: pytest.Config) -> None:
    """Time `work` before the first test ends, and after each `EVERY` tests."""
    tests = config.stash.get(_TESTS, 0)
    config.stash[_TESTS] = tests + 1
    if tests % EVERY == 0:
        config.stash.setdefault(_UNITS, []).append(work())


def send(config: pytest.Config) -> None:
    """Hand the use of this process and its children to the main process, if there is another one.

    The children of a main process that has heard of others are these.
    """
    used = os.times()
    seconds = used.user + used.system
    if _USED not in config.stash:
        seconds += used.children_user + used.children_system
    mine = seconds, quiet_seconds(seconds, config.stash.get(_UNITS, [])), _peak()
    output = getattr(config, "workeroutput", None)
    if output is None:
        config.stash.setdefault(_USED, []).append(mine)
    else:
        output[_SENT] = mine


def receive(config: pytest.Config, output: dict[str, tuple[float, float, int]]) -> None:
    """Take over the use of a process of pytest-xdist that has ended."""
    if _SENT in output:
        config.stash.setdefault(_USED, []).append(output[_SENT])


def judge(config: pytest.Config) -> bool:
    """Print what the run has used, with its parts so far; return whether that is within the budget, if there is one."""
    budget = float(os.environ.get(BUDGET) or 0)
    used = _with_parts_before(config.stash.get(_USED, []))
    seconds, quiet = (sum(each[part] for each in used) for part in (0, 1))
    line = f"CPU: {seconds:.0f} s, {quiet:.0f} s on a quiet machine; {max(each[2] for each in used)} MiB a process"
    within = not budget or quiet <= budget
    remarks.remark(config, line if within else f"error: {line}; the budget is {budget:.0f} s: see --durations=30")
    return within


def _with_parts_before(used: list[tuple[float, float, int]]) -> list[tuple[float, float, int]]:
    """Add what the parts before this one have used, and leave the sum to the next one."""
    if not FILE_OF_PARTS:
        return used
    file = Path(FILE_OF_PARTS)
    together = [*(json.loads(file.read_text("utf-8")) if file.exists() else []), *used]
    file.write_text(json.dumps(together), "utf-8")
    return together


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def memory() -> int:
    """Return the MiB of this process that are in memory now; 0 where no system says it."""
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123 - tests replace methods of Path
            return int(statm.read().split()[1]) * resource.getpagesize() >> 20
    except OSError:
        return 0
