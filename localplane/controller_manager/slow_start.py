"""Doing the same thing to many objects: in batches that double, so that what fails for all fails only once."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


async def slow_start_batch(items: Sequence[T], act: Callable[[T], Awaitable[None]], *, largest: int = 500) -> None:
    """Act on all items; after the first batch with a failure raises that and leaves the rest."""
    first, size = 0, 1
    while first < len(items):
        results = await asyncio.gather(*map(act, items[first : first + size]), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        first, size = first + size, min(2 * size, largest)
