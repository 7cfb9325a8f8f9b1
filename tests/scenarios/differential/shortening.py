"""A script that shows a difference, made as short as it can be while still showing one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from tests.scenarios.differential.duel import Verdict
    from tests.scenarios.differential.operations import Script

PASSES: Final = 8
"""Each takes as long as a difference needs to be one; after so many the reader is better than we are."""


async def shorten(verdict: Verdict, fight: Callable[[Script], Awaitable[Verdict]]) -> Verdict:
    """Leave out operations, one after the other; all that could be the next to go are tried at once."""
    shortest = verdict
    for _ in range(PASSES):
        played = shortest.script[: shortest.rounds + 1]
        tried = await asyncio.gather(*(fight(script) for script in _shorter(played)))
        different = [each for each in tried if each.difference]
        if not different:
            break
        shortest = min(different, key=lambda each: (each.rounds, sum(map(len, each.script))))
    return shortest


def _shorter(script: Script) -> Iterator[Script]:
    for number, operations in enumerate(script):
        for place in range(len(operations)):
            rest = operations[:place] + operations[place + 1 :]
            yield (*script[:number], *([rest] if rest else []), *script[number + 1 :])
