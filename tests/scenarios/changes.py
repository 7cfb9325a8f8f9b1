"""Every change of a whole collection while a scenario runs: for counting, and for "nobody writes anything".

`history` follows one object and proves that it missed nothing; this follows many and only counts.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Final, Self

from tests.scenarios.claims import revision
from tests.scenarios.eventually import eventually

if TYPE_CHECKING:
    from types import TracebackType

    from tests.scenarios.api import Api, Json
    from tests.scenarios.resources import Resource


class Changes:
    """Records (when, name) of each change in a namespace's collection as long as the context lasts."""

    def __init__(self, api: Api, resource: Resource, *, namespace: str) -> None:
        self.seen: Final[list[tuple[float, str]]] = []
        self._api: Final = api
        self._resource: Final = resource
        self._namespace: Final = namespace
        self._recording: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        found = await self._api.request("GET", self._resource.path(namespace=self._namespace), query={"limit": "1"})
        self._recording = asyncio.create_task(self._follow(revision(found)))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._recording is not None
        if self._recording.done():
            self._recording.result()  # raises what ended it: a count with a hole is no count
        self._recording.cancel()
        with suppress(asyncio.CancelledError):
            await self._recording

    def since(self, moment: float) -> Counter[str]:
        """Return how often each object has changed after `moment` (`time.monotonic()`)."""
        return Counter(name for received, name in self.seen if received > moment)

    async def quiet(self, *, lasting: float, within: float) -> None:
        """Wait until nothing has changed for a while."""

        def still() -> bool:
            assert self._recording is not None
            assert not self._recording.done(), "the watch has ended"
            return time.monotonic() - max((began, *(received for received, _ in self.seen))) >= lasting

        began = time.monotonic()
        await eventually(still, within=within, saying=f"no {self._resource.plural} have changed for {lasting:g} s")

    async def _follow(self, since: str) -> None:
        while True:  # the server ends watches after a while, or when we are slow; the next one goes on where it ended
            events = self._api.watch(self._resource, namespace=self._namespace, resourceVersion=since)
            async with aclosing(events):
                async for change, obj in events:
                    if change == "ERROR":
                        raise RuntimeError(f"watch of {self._resource.plural}: {obj.get('message', obj)}")
                    since = revision(obj)
                    self._record(obj)

    def _record(self, obj: Json) -> None:
        self.seen.append((time.monotonic(), obj["metadata"]["name"]))
