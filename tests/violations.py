"""Tests of one rule over many files or words: one test for all of them, which names each that breaks the rule.

A test for each word costs its collection in every process of pytest-xdist, and more to run than its one assertion.
"""

import inspect
import itertools
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
            assert_each(members, check, name=name)

        test.__doc__ = check.__doc__
        return test

    return merged


def for_each_case(cases: Iterable[Any]) -> Callable[..., Callable[[], None]]:
    """Return a decorator that makes one test of a table; a case is what `pytest.mark.parametrize` takes, without marks.

    For tables of many cases that take less time than a test of pytest: 2 ms, and 4 KiB in each process.
    """
    cases = tuple(cases)

    def merged(check: Callable[..., None]) -> Callable[[], None]:
        single = len(inspect.signature(check).parameters) == 1
        rows = [_row(case, single=single) for case in cases]

        def test() -> None:
            assert_each(rows, lambda row: check(*row[1]), name=lambda row: row[0])

        test.__doc__ = check.__doc__
        vars(test)["cases"] = cases  # for tests of other files that play the same cases
        return test

    return merged


def combinations(*tables: Iterable[Any]) -> list[Any]:
    """Return a case for each combination of the cases of several tables, as several `pytest.mark.parametrize` give."""
    rows = [[_row(case, single=not isinstance(case, tuple)) for case in table] for table in tables]
    return [
        pytest.param(
            *itertools.chain.from_iterable(values for _, values in chosen), id="-".join(name for name, _ in chosen)
        )
        for chosen in itertools.product(*rows)
    ]


def named(values: Iterable[Any], names: Iterable[str]) -> list[Any]:
    """Return a table of one column whose cases have these names."""
    return [pytest.param(value, id=name) for value, name in zip(values, names, strict=True)]


def assert_each(members: Iterable[Any], check: Callable[[Any], None], *, name: Callable[[Any], object] = str) -> None:
    """Call a check with each member, and fail with all members for which it fails."""
    members = tuple(members)
    assert members, "a rule without members checks nothing"
    assert_none(f"{name(member)}: {failure}" for member in members if (failure := _failure(check, member)))


def _row(case: Any, *, single: bool) -> tuple[str, tuple[Any, ...]]:
    """Return the name and the values of a case."""
    if isinstance(case, pytest.ParameterSet):
        assert not case.marks, f"{case.id}: a case of a merged test has no marks"
        values, name = tuple(case.values), case.id
    else:
        values, name = ((case,) if single else tuple(case)), None
    return str(name or ", ".join(map(repr, values))), values


def _failure(check: Callable[[Any], None], member: Any) -> str:
    """Return why a check fails for a member; empty if it passes."""
    try:
        check(member)
    except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - whatever a check raises is a failure
        return f"{type(error).__name__}: {error}"
    return ""
