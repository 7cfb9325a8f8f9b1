"""Computations in steps, between which an event loop runs other tasks.

A step takes milliseconds at most. The caller that drives the steps chooses what happens in between; objects may change
there.
"""

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]
"""A computation whose result follows the last step."""


def finish(steps: Steps[T]) -> T:
    """Return the result after all steps, one directly after the other."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
