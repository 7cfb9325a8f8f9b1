"""Runs computations in steps in the event loop, which decides on claims between two steps."""

import asyncio
from typing import TypeVar

from dra.engine.steps import Steps

T = TypeVar("T")


async def run_steps(steps: Steps[T]) -> T:
    """Return the result after all steps, with a turn for other tasks after each."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        await asyncio.sleep(0)
