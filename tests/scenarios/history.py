"""Every version that one object ever had while a scenario ran, seen through a watch: for "never" and "at most".

Looking now and then misses what happens in between. A watch delivers every write, in order.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import aiohttp

from tests.scenarios.claims import entries, revision
from tests.scenarios.eventually import eventually

if TYPE_CHECKING:
    from types import TracebackType

    from tests.scenarios.api import Api, Json
    from tests.scenarios.resources import Resource

RETURN: Final = 60.0
"""Seconds for an API server that a scenario has stopped."""

CATCHING_UP: Final = 10.0
"""Seconds for the last write to arrive through the watch."""


class HoleError(RuntimeError):
    """The object changed while the watch was cut off: what its history says about "never" is worth nothing."""


@dataclass(frozen=True, kw_only=True)
class Version:
    """What the object was like after one write."""

    received: float
    """When we saw it, `time.monotonic()`."""
    change: str
    """ADDED, MODIFIED or DELETED."""
    object: Json


class WatchHistory:
    """Records one object, which need not exist yet, as long as the context lasts; complete when the context ends."""

    def __init__(self, api: Api, resource: Resource, name: str, *, namespace: str | None = None) -> None:
        self.versions: Final[list[Version]] = []
        self._api: Final = api
        self._resource: Final = resource
        self._name: Final = name
        self._namespace: Final = namespace
        self._recording: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        present, since = await self._look()
        if present:
            self._record("ADDED", present)
        self._recording = asyncio.create_task(self._follow(since))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._recording is not None
        try:
            if error is None:
                await self.catch_up()
        finally:
            self._recording.cancel()
            with suppress(asyncio.CancelledError):
                await self._recording

    async def catch_up(self) -> None:
        """Return when everything that has been written by now is recorded."""
        now = await self._api.find(self._resource, self._name, namespace=self._namespace)
        await eventually(
            lambda: self._has_seen(now),
            within=CATCHING_UP,
            saying=f"the watch has delivered {self._resource.plural} {self._name} as it is now",
        )

    def longest_list(self) -> int:
        """Return the largest number of entries that the recorded claim ever had in its list."""
        return max((len(entries(version.object)) for version in self.versions), default=0)

    def writes_since(self, moment: float) -> int:
        """Return how many changes were received after `moment` (`time.monotonic()`)."""
        return sum(version.received > moment for version in self.versions)

    def _has_seen(self, now: Json | None) -> bool:
        assert self._recording is not None
        if self._recording.done():
            self._recording.result()  # raises what ended it
        if now is None:
            return not self.versions or self.versions[-1].change == "DELETED"
        return any(revision(version.object) == revision(now) for version in self.versions)

    async def _follow(self, since: str) -> None:
        while True:  # the server ends every watch after a while; the next one goes on where it ended
            events = self._api.watch(
                self._resource,
                namespace=self._namespace,
                fieldSelector=f"metadata.name={self._name}",
                resourceVersion=since,
                allowWatchBookmarks="true",
            )
            try:
                async with aclosing(events):
                    async for change, obj in events:
                        if change == "ERROR":
                            since = await self._bridge()
                            break
                        since = revision(obj)
                        if change != "BOOKMARK":
                            self._record(change, obj)
            except aiohttp.ClientError:
                await eventually(self._api.is_ready, within=RETURN, saying="the API server is back")

    async def _bridge(self) -> str:
        """Go on after "too old resource version", which a restarted API server says even if nothing was missed."""
        present, since = await self._look()
        known = self.versions[-1] if self.versions and self.versions[-1].change != "DELETED" else None
        if (present and revision(present)) != (known and revision(known.object)):
            raise HoleError(f"the history of {self._name} has a hole before {since}: the watch was cut off too long")
        return since

    async def _look(self) -> tuple[Json | None, str]:
        """Return the object as it is now, if there is one, and the revision from which a watch goes on."""
        path = self._resource.path(namespace=self._namespace)
        found = await self._api.request("GET", path, query={"fieldSelector": f"metadata.name={self._name}"})
        return (found["items"] or [None])[0], revision(found)

    def _record(self, change: str, obj: Json) -> None:
        self.versions.append(Version(received=time.monotonic(), change=change, object=obj))
