"""Waiting for a cluster to do something, and watching that it does not. The only waiting there is in scenarios."""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

INTERVAL: Final = 0.05
"""Least seconds between two looks."""

LONGEST_INTERVAL: Final = 0.25
"""Most seconds between two looks: a look is a request, and dozens of waits share a cluster and its cores."""

SHORT: Final = 2.0
"""Seconds for which the interval is the least: promises of a second or two are measured with it."""

PART: Final = 0.1
"""Interval of a longer wait, as a part of the time beyond `SHORT`."""

WITHIN: Final = 60.0
"""Seconds after which a scenario says that something does not happen, unless it names a promise of its own."""

QUOTED: Final = 8_000
"""Characters of the last sight that a failure quotes: a list of all pods would fill the screen a hundred times."""


@overload
async def eventually(
    look: Callable[[], Awaitable[T]],
    *,
    saying: str,
    until: Callable[[T], object] = ...,
    within: float = ...,
    longest: float = ...,
) -> T: ...
@overload
async def eventually(
    look: Callable[[], T],
    *,
    saying: str,
    until: Callable[[T], object] = ...,
    within: float = ...,
    longest: float = ...,
) -> T: ...
async def eventually(
    look: Callable[[], Any],
    *,
    saying: str,
    until: Callable[[Any], object] = bool,
    within: float = WITHIN,
    longest: float = LONGEST_INTERVAL,
) -> Any:
    """Return what `look` sees as soon as it satisfies `until`; fail, quoting the last sight, when it never does.

    `longest`: most seconds between two looks; a test that measures a time from then on passes `INTERVAL`.
    `look` may be a coroutine function. An `AssertionError` out of either means "not yet", so that several things can be
    asserted at once; any other error is an error.
    """
    began = time.monotonic()
    deadline = began + within
    while True:
        try:
            seen = await _look(look)
            if until(seen):
                return seen
        except AssertionError as not_yet:
            seen = not_yet
        if time.monotonic() >= deadline:
            raise AssertionError(f"{saying}: still not so after {within:g} s; last seen: {_shown(seen)}")
        await asyncio.sleep(min(max(INTERVAL, PART * (time.monotonic() - began - SHORT)), longest))


async def steadily(look: Callable[[], Any], *, saying: str, lasting: float) -> None:
    """Fail as soon as `look` sees something false within the next `lasting` seconds; for "and it stays so"."""
    deadline = time.monotonic() + lasting
    while time.monotonic() < deadline:
        seen = await _look(look)
        assert seen, (
            f"{saying}: no longer so {lasting - (deadline - time.monotonic()):.2f} s later; seen: {_shown(seen)}"
        )
        await asyncio.sleep(INTERVAL)


async def _look(look: Callable[[], Any]) -> Any:
    seen = look()
    return await seen if inspect.isawaitable(seen) else seen


def _shown(seen: object) -> str:
    text = repr(seen)
    return text if len(text) <= QUOTED else f"{text[:QUOTED]}… ({len(text):,} characters)"
