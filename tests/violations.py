"""Tests of one rule over many files or words: one test for all of them, which names each that breaks the rule.

A test for each word costs its collection in every process of pytest-xdist, and more to run than its one assertion.
"""

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def assert_none(violations: Iterable[str]) -> None:
    """Fail with all violations, one a line: the comparison of a list with an empty one is cut after a few."""
    lines = sorted(violations)
    if lines:
        pytest.fail("\n".join(lines), pytrace=False)


def for_each(members: Iterable[Any], *, name: Callable[[Any], object] = str) -> Callable[..., Callable[[], None]]:
    """Return a decorator that makes one test of a check: it is called with each member, and all failures are listed."""
    members = tuple(members)

    def merged(check: Callable[[Any], None]) -> Callable[[], None]:
        def test() -> None:
            assert members, "a rule without members checks nothing"
            assert_none(f"{name(member)}: {failure}" for member in members if (failure := _failure(check, member)))

        test.__doc__ = check.__doc__
        return test

    return merged


def _failure(check: Callable[[Any], None], member: Any) -> str:
    """Return why a check fails for a member; empty if it passes."""
    try:
        check(member)
    except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - whatever a check raises is a failure
        return f"{type(error).__name__}: {error}"
    return ""
