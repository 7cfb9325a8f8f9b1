"""The shortest way to fail: operations are left out as long as the others still fail (delta debugging, Zeller 1999)."""

from collections.abc import Callable
from typing import Any

from tests.simulation.runner import RunResult, run_scenario

RUNS = 400
"""Plays that are spent on it at most."""


def shrink_scenario(
    scenario: Any, *, run: Callable[[Any], RunResult] = run_scenario
) -> tuple[tuple[int, ...], RunResult]:
    """Return the numbers of the operations that are needed to fail, and what comes of them alone."""
    numbers = tuple(range(len(scenario.operations)))
    result = run(scenario)
    runs, size = 0, max(len(numbers) // 2, 1)
    while size and runs < RUNS:
        start, before = 0, numbers
        while start < len(numbers) and runs < RUNS:
            candidate = numbers[:start] + numbers[start + size :]
            tried = run(scenario.only(candidate))
            runs += 1
            if tried.violation:
                numbers, result = candidate, tried
            else:
                start += size
        if size > 1 or numbers == before:
            size //= 2
    return numbers, result
