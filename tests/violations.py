"""Tests of one rule over many files or words: one test for all of them, which names each that breaks the rule."""

from collections.abc import Iterable

import pytest


def assert_none(violations: Iterable[str]) -> None:
    """Fail with all violations, one a line: the comparison of a list with an empty one is cut after a few."""
    lines = sorted(violations)
    if lines:
        pytest.fail("\n".join(lines), pytrace=False)
