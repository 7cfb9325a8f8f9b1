"""Several kinds that are watched together: they begin and end together, and only all of them make a picture."""

import asyncio
from typing import Any, Final

from dra.kube.reflector import Reflector

STALE_AFTER: Final = 180.0
"""Seconds without a sign of life from a watch after which we are not ready; bookmarks come every minute."""


class Informers:
    """A group of reflectors; what is listed first is told first wherever they are asked one by one."""

    def __init__(self, *members: Reflector[Any]) -> None:
        self._members = members

    async def run(self) -> None:
        """Watch until cancelled; raises what a sink raises."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._members:
                group.create_task(reflector.run(), name=f"reflect {reflector.resource.label}")

    async def synced(self) -> None:
        """Wait for the first complete list of all."""
        for reflector in self._members:
            await reflector.synced.wait()

    def troubles(self) -> list[str]:
        """Return what keeps us from knowing the cluster; empty when ready."""
        return [text for text in map(staleness, self._members) if text]


def staleness(reflector: Reflector[Any]) -> str:
    """Return what keeps a reflector from knowing its kind; empty when it does."""
    name, lag = reflector.resource.label, reflector.lag()
    if lag is None:
        return f"{name}: not listed yet" + (f" ({reflector.failure})" if reflector.failure else "")
    if lag > STALE_AFTER:
        return f"{name}: no news for {lag:.0f} s ({reflector.failure or 'silent'})"
    return ""
