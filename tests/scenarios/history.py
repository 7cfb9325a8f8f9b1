"""Every version that objects ever had while a scenario ran, seen through a watch: for "never" and "at most".

Looking now and then misses what happens in between. A watch delivers every write, in order. Where it is cut off for too
long, the states in between are asked for one by one: etcd has them for some minutes.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import aiohttp

from tests.scenarios.api import ApiError
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

State = dict[str, "Json"]
"""Objects by name."""


@dataclass(frozen=True, kw_only=True)
class Version:
    """What the object was like after one write."""

    received: float
    """When we saw it, `time.monotonic()`."""
    change: str
    """ADDED, MODIFIED or DELETED."""
    object: Json


class WatchHistory:
    """Records one object, which need not exist yet, as long as the context lasts; complete when the context ends.

    Without a name, all objects of that kind in the namespace.
    """

    def __init__(self, api: Api, resource: Resource, name: str = "", *, namespace: str | None = None) -> None:
        self.versions: Final[list[Version]] = []
        self._api: Final = api
        self._resource: Final = resource
        self._name: Final = name
        self._namespace: Final = namespace
        self._present: Final[State] = {}
        self._recording: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        present, since = await self._look()
        for obj in present.values():
            self._record("ADDED", obj)
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
        before = set(self._present)  # what is created after the look is not gone, though the look does not show it
        now, _ = await self._look()
        gone = before - now.keys()
        await eventually(
            lambda: self._has_seen(now, gone=gone),
            within=CATCHING_UP,
            saying=f"the watch has delivered {self._resource.plural} {self._name} as it is now",
        )

    def by_object(self) -> dict[str, list[Version]]:
        """Return the versions of each object, by its uid."""
        found: dict[str, list[Version]] = {}
        for version in self.versions:
            found.setdefault(version.object["metadata"]["uid"], []).append(version)
        return found

    def names(self) -> set[str]:
        """Return the names of all objects that were there."""
        return {version.object["metadata"]["name"] for version in self.versions}

    def only(self, name: str) -> WatchHistory:
        """Return what is recorded of one object."""
        found = WatchHistory(self._api, self._resource, name, namespace=self._namespace)
        found.versions.extend(each for each in self.versions if each.object["metadata"]["name"] == name)
        return found

    def longest_list(self) -> int:
        """Return the largest number of entries that the recorded claim ever had in its list."""
        return max((len(entries(version.object)) for version in self.versions), default=0)

    def writes_since(self, moment: float) -> int:
        """Return how many changes were received after `moment` (`time.monotonic()`)."""
        return sum(version.received > moment for version in self.versions)

    def _has_seen(self, now: State, *, gone: set[str]) -> bool:
        assert self._recording is not None
        if self._recording.done():
            self._recording.result()  # raises what ended it
        seen = {revision(version.object) for version in self.versions}
        return all(revision(obj) in seen for obj in now.values()) and not gone & self._present.keys()

    async def _follow(self, since: str) -> None:
        while True:  # the server ends every watch after a while; the next one goes on where it ended
            events = self._api.watch(
                self._resource,
                namespace=self._namespace,
                resourceVersion=since,
                allowWatchBookmarks="true",
                **self._selection,
            )
            try:
                async with aclosing(events):
                    async for change, obj in events:
                        if change == "ERROR":
                            since = await self._bridge(since)
                            break
                        since = revision(obj)
                        if change != "BOOKMARK":
                            self._record(change, obj)
            except (aiohttp.ClientError, ApiError):
                await eventually(self._answers, within=RETURN, saying="the API server is back")

    async def _answers(self) -> bool:
        """Tell whether the API server answers; it does so some seconds before it says that it is ready."""
        try:
            await self._look()
        except (aiohttp.ClientError, ApiError, TimeoutError):
            return False
        return True

    async def _bridge(self, since: str) -> str:
        """Go on after "too old resource version", which a restarted API server says even if nothing was missed."""
        now, until = await self._look()
        await self._fill_in(dict(self._present), int(since), now, int(until))
        return until

    async def _fill_in(self, before: State, since: int, after: State, until: int) -> None:
        """Record what happened between two states, by halving until it is one write."""
        if _revisions(before) == _revisions(after):
            return
        if until - since > 1:
            middle = (since + until) // 2
            between, _ = await self._look(resourceVersion=str(middle), resourceVersionMatch="Exact")
            await self._fill_in(before, since, between, middle)
            await self._fill_in(between, middle, after, until)
            return
        for name in before.keys() - after.keys():
            gone = before[name]
            self._record("DELETED", gone | {"metadata": gone["metadata"] | {"resourceVersion": str(until)}})
        for name, obj in after.items():
            if name not in before:
                self._record("ADDED", obj)
            elif revision(obj) != revision(before[name]):
                self._record("MODIFIED", obj)

    async def _look(self, **query: str) -> tuple[State, str]:
        """Return the objects as they are now, or were, by name, and the revision from which a watch goes on."""
        path = self._resource.path(namespace=self._namespace)
        found = await self._api.request("GET", path, query=self._selection | query)
        return {obj["metadata"]["name"]: obj for obj in found["items"]}, revision(found)

    @property
    def _selection(self) -> dict[str, str]:
        return {"fieldSelector": f"metadata.name={self._name}"} if self._name else {}

    def _record(self, change: str, obj: Json) -> None:
        self.versions.append(Version(received=time.monotonic(), change=change, object=obj))
        if change == "DELETED":
            self._present.pop(obj["metadata"]["name"], None)
        else:
            self._present[obj["metadata"]["name"]] = obj


def _revisions(state: State) -> dict[str, str]:
    return {name: revision(obj) for name, obj in state.items()}
