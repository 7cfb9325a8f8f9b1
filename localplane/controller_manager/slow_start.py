"""Batches of doubling size for the same call on many objects, so that a failure common to all happens only once."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


async def slow_start_batch(items: Sequence[T], act: Callable[[T], Awaitable[None]], *, largest: int = 500) -> None:
    """Call `act` on all items in batches; after the first batch with a failure, raise the failure and skip the rest."""
    first, size = 0, 1
    while first < len(items):
        results = await asyncio.gather(*map(act, items[first : first + size]), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        first, size = first + size, min(2 * size, largest)
