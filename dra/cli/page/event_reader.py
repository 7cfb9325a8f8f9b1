"""Reads the Events about one object, when a page of that object is open."""

from functools import partial
from typing import Final

from dra.cli.page.review_cache import ReviewCache
from dra.kube.client import Client, Selection
from dra.kube.clock import SYSTEM, Clock
from dra.kube.errors import ApiError
from dra.kube.rate_limiter import RequestPriority
from dra.kube.resources import EVENTS
from dra.model.diagnosed_pods import PodEvent
from dra.model.meta import Uid

SHOWN_MAX: Final = 30
"""Maximum number of Events that are shown, the latest ones; who may write Events decides how many there are."""

OBJECTS_MAX: Final = 256
"""Maximum number of objects whose Events are remembered."""

EventRow = tuple[str, str, int, str]
"""Time of the last occurrence, reason, number of occurrences, note."""


class EventReader:
    """The Events about objects, read at most every 30 seconds for one object; where there are none, every 5."""

    def __init__(self, client: Client, *, clock: Clock = SYSTEM) -> None:
        self._client = client
        self._cache: ReviewCache[tuple[str, Uid], tuple[EventRow, ...]] = ReviewCache(
            clock=clock, answers_max=OBJECTS_MAX
        )

    async def events_of(self, namespace: str, uid: Uid) -> tuple[EventRow, ...]:
        """Return the Events about an object, the latest first; none if they cannot be read."""
        try:
            return await self._cache.answer((namespace, uid), partial(self._read, namespace, uid))
        except ApiError:
            return ()

    async def _read(self, namespace: str, uid: Uid) -> tuple[EventRow, ...]:
        selection = Selection(namespace=namespace, fields=f"regarding.uid={uid}")
        pages = self._client.list_pages(EVENTS, PodEvent, selection=selection, priority=RequestPriority.REPORT)
        rows: list[EventRow] = []
        async for page in pages:
            rows = [(event.last, event.reason, event.count, event.note) for event in page.items]
            break  # a page has hundreds
        return tuple(sorted(rows, reverse=True)[:SHOWN_MAX])
