"""How many examples property tests look at: quick and always the same ones, or with HYPOTHESIS_PROFILE=deep many.

And how often garbage is looked for, which is a tenth of all work if one does not say: all tests stay until the end, and
programs in Go that run for a moment (kubectl, Helm) need hardly look.
"""

import ctypes
import gc
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from tests import cpu_time, remarks

LONG = 3600
"""Seconds for a test marked ``long`` and its fixtures; ``timeout`` in pyproject.toml is for all others."""

OFTEN = 10_000, 20, 20
"""After how many new objects, as `gc.set_threshold` takes it."""

WHILE_COLLECTING = 50_000, 10, 1_000
"""The same while tests are collected: most of what is made stays, but pytest leaves cycles of 30 MiB behind."""

LARGE = 4
"""MiB by which tests may grow the process before their garbage is collected and free memory given back."""

os.environ.setdefault("GOGC", "400")  # servers get another environment: tests/cluster/run_folder.py

MEMORY = pytest.StashKey[int]()
"""MiB of the process when its garbage was collected last."""

settings.register_profile("quick", max_examples=40, derandomize=True, deadline=None, database=None)
settings.register_profile("deep", max_examples=20_000, deadline=None)
settings.register_profile(  # tests.mutants: that a test fails is enough, by the smallest example or not
    "mutants", settings.get_profile("quick"), phases=[Phase.explicit, Phase.generate], report_multiple_bugs=False
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


def pytest_sessionstart(session):
    """Have a process of its own write Hypothesis's tables of characters: in a new clone that takes 200 MiB, once."""
    root = session.config.rootpath
    if not hasattr(session.config, "workerinput") and not any(root.glob(".hypothesis/unicode_data/*/codec-*")):
        draw = "from hypothesis import given, strategies; given(strategies.text())(lambda text: None)()"
        subprocess.run([sys.executable, "-c", draw], cwd=root, check=False)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """Start one process more than there are cores for ``-n auto``: tests wait for a sixth of their time."""
    return len(os.sched_getaffinity(0)) + 1


def pytest_collection_modifyitems(items):
    """Give each test its time limit; a deep profile looks at examples for hours, and has none."""
    deep = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
    for item in items:
        if deep:
            item.add_marker(pytest.mark.timeout(0))
        elif item.get_closest_marker("long") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(LONG))


@pytest.hookimpl(trylast=True)  # others remark at the end of the session
def pytest_sessionfinish(session):
    """Hand what is to be printed at the end to the main process, which fails if the run took too long."""
    config = session.config
    cpu_time.send(config)
    if not hasattr(config, "workeroutput") and not cpu_time.judge(config):
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
    remarks.send(config)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Take over what a process of pytest-xdist wants to have printed."""
    remarks.receive(node.config, getattr(node, "workeroutput", {}))
    cpu_time.receive(node.config, getattr(node, "workeroutput", {}))


def pytest_runtest_teardown(item):
    """Learn now and then how fast the machine is for this process, and free the memory of tests that took much."""
    cpu_time.sample(item.config)
    memory = cpu_time.memory()
    if memory > item.config.stash.setdefault(MEMORY, memory) + LARGE:
        gc.collect()
        give_back_free_memory()
        item.config.stash[MEMORY] = cpu_time.memory()


def give_back_free_memory():
    """Have the C library give pages without objects back to the system, if it is one that keeps them."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)


def pytest_terminal_summary(terminalreporter, config):
    """Print the remarks of all processes."""
    for line in remarks.lines(config):
        terminalreporter.write_line(line)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Look for little garbage while tests are collected, and never again among them."""
    del session
    gc.set_threshold(*WHILE_COLLECTING)
    try:
        return (yield)
    finally:
        gc.collect()  # tests that are left out
        give_back_free_memory()
        gc.freeze()
        gc.set_threshold(*OFTEN)


@pytest.fixture
def short_path():
    """Return a directory for unix sockets, whose paths have 107 bytes at most: 40 bytes shorter than ``tmp_path``."""
    with tempfile.TemporaryDirectory(prefix="s") as path:
        yield Path(path)
