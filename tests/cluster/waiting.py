"""The one place below tests/cluster that waits: for a condition, against a deadline."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

INTERVAL: Final = 0.05
"""Seconds between two looks: short beside what is waited for (a component's start), long beside one look."""


def until(condition: Callable[[], bool], *, within: float, saying: str) -> None:
    """Return as soon as `condition` holds; raise `TimeoutError`, naming what was waited for, when it does not."""
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() >= deadline:
            raise TimeoutError(f"{saying}: still not so after {within:g} s")
        time.sleep(INTERVAL)  # noqa: TID251 the polling primitive itself
