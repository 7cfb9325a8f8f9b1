"""What happens in a node's CDI folder while a scenario runs: each file of ours that appears, and each that goes."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tests.scenarios.real_node.plugin import cdi_files

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.cluster.node import RealNode

INTERVAL: Final = 0.01
"""Seconds between two looks; from an unprepare to the next prepare of the same claim it takes a pod's whole start."""


@dataclass
class CdiFolder:
    """How often each file has appeared and gone."""

    appeared: Counter[str] = field(default_factory=Counter)
    gone: Counter[str] = field(default_factory=Counter)
    present: set[str] = field(default_factory=set)

    def look(self, now: set[str]) -> None:
        """Take note of the files that are there now."""
        self.appeared.update(now - self.present)
        self.gone.update(self.present - now)
        self.present = now


@asynccontextmanager
async def watched(node: RealNode) -> AsyncIterator[CdiFolder]:
    """Follow the folder as long as the context lasts."""
    folder = CdiFolder(present=cdi_files(node))

    async def follow() -> None:
        while True:
            folder.look(cdi_files(node))
            await asyncio.sleep(INTERVAL)

    async with asyncio.TaskGroup() as group:
        following = group.create_task(follow())
        yield folder
        folder.look(cdi_files(node))
        following.cancel()
