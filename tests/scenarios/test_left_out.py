"""The list of scenarios that are left out is made from their markers."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cluster import binaries
from tests.cluster.versions import minor
from tests.scenarios import left_out
from tests.scenarios.features import PAGE, Feature, page_with

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def told() -> str:
    """The list, from a process of its own: scenarios are collected there for a cluster."""
    command = [sys.executable, "-m", "tests.scenarios.left_out", "--print"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def rows(told: str) -> list[list[str]]:
    """The cells of the list."""
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in told.splitlines()[2:]]


def test_a_scenario_is_left_out_on_the_versions_that_lack_what_it_needs(rows: list[list[str]]) -> None:
    (row,) = (row for row in rows if row[1] == Feature.PARTLY_ALLOCATED_PODS.does)
    assert row[0] == "1.35"
    assert "`test_rule_06_gate.py::test_a_pod_of_two_claims_waits_until_both_are_ready` (1)" in row[2]


def test_no_scenario_is_left_out_on_the_version_of_ci(rows: list[list[str]]) -> None:
    assert rows
    assert not [row for row in rows if f"1.{minor(binaries.DEFAULT)}" in row[0].split(", ")]


def test_the_page_about_versions_has_the_list(told: str) -> None:
    assert PAGE.read_text(encoding="utf-8") == page_with(told, mark=left_out.MARK), "python -m tests.scenarios.left_out"
