"""Informers of several kinds that start and stop together and only together give a complete cache."""

import asyncio
from typing import Any, Final

from dra.kube.reflector import Reflector

STALE_AFTER: Final = 180.0
"""Seconds without an event or bookmark after which a watch is not ready; bookmarks come every minute."""


class Informers:
    """A group of reflectors, waited for and reported in the order of their arguments."""

    def __init__(self, *members: Reflector[Any]) -> None:
        self._members = members

    async def run(self) -> None:
        """Watch until cancelled; raises what an event handler raises."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._members:
                group.create_task(reflector.run(), name=f"reflect {reflector.resource.label}")

    async def wait_for_sync(self) -> None:
        """Wait until every reflector has completed its first list."""
        for reflector in self._members:
            await reflector.synced.wait()

    def not_ready_reasons(self) -> list[str]:
        """Return the staleness of each reflector that is not up to date; empty when ready."""
        return [text for text in map(staleness, self._members) if text]


def staleness(reflector: Reflector[Any]) -> str:
    """Return why a reflector is not up to date; empty when it is."""
    name, lag = reflector.resource.label, reflector.lag()
    if lag is None:
        return f"{name}: not listed yet" + (f" ({reflector.failure})" if reflector.failure else "")
    if lag > STALE_AFTER:
        return f"{name}: no event for {lag:.0f} s ({reflector.failure or 'silent'})"
    return ""
