"""The rows that browsers have, and the stream of their changes.

Every published change has a number. A client that comes back with the last number it saw gets what it missed, as long
as the log still has it; else it is told to fetch the rows again. A client that reads slowly gets the newest row of each
key and never a queue of messages, so that memory has a bound per client: its rows.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import Any, Final

import msgspec

from dra.cli.page.views import COLUMNS, Cells, Patch

LOG_PATCHES_MAX: Final = 1_024
"""Maximum number of changes that a client can be behind and still be brought up to date row by row."""

LOG_ROWS_MAX: Final = 40_000
"""Maximum number of rows in these changes: about 8 MiB."""

PENDING_ROWS_MAX: Final = 2_000
"""Maximum number of changed rows that wait for one client; beyond it, fetching all rows again is cheaper."""

SUBSCRIBERS_MAX: Final = 64
"""Maximum number of open streams."""

_ENCODER: Final = msgspec.json.Encoder()


def _do_nothing() -> None:
    """Leave the opening of a stream unnoticed."""


class TooManySubscribersError(Exception):
    """No stream can be opened now."""


class Subscriber:
    """One open stream: the changes that its client has not been sent yet."""

    def __init__(self, views: AbstractSet[str]) -> None:
        self.views = views
        self.changed = asyncio.Event()
        self._pending: dict[str, Patch] = {}
        self._must_reset = False
        self._rows = 0

    def add(self, patch: Patch) -> None:
        """Add a change; a client that is too far behind must fetch the rows again."""
        if patch.view not in self.views or self._must_reset:
            return
        pending = self._pending.setdefault(patch.view, Patch(patch.view))
        pending.merge(patch)
        self._rows = sum(map(len, self._pending.values()))
        if self._rows > PENDING_ROWS_MAX:
            self.reset()
        self.changed.set()

    def reset(self) -> None:
        """Let the client fetch the rows again."""
        self._pending.clear()
        self._must_reset = True
        self.changed.set()

    def take(self) -> tuple[bool, list[Patch]]:
        """Return whether the client must fetch the rows again, and the changes since the last call."""
        taken = (self._must_reset, [*self._pending.values()])
        self._pending, self._must_reset = {}, False
        self.changed.clear()
        return taken


class PatchStream:
    """The rows of all views with their changes, for any number of clients."""

    def __init__(self, epoch: str) -> None:
        """Create an empty stream; ``epoch`` tells its numbers from those of an earlier process."""
        self._epoch = epoch
        self._number = 0
        self._rows: dict[str, dict[str, Cells]] = {view: {} for view in COLUMNS}
        self._log: deque[tuple[int, Patch]] = deque()
        self._logged_rows = 0
        self._subscribers: set[Subscriber] = set()
        self._encoded: dict[str, tuple[int, bytes]] = {}
        self._versions = dict.fromkeys(COLUMNS, 0)
        self.on_subscribe: Callable[[], object] = _do_nothing
        """Called when a client has opened a stream."""

        self.ready = asyncio.Event()
        """Set once the first rows of every view have been published."""

    @property
    def event_id(self) -> str:
        """The number of the latest change, as clients send it back."""
        return f"{self._epoch}-{self._number}"

    @property
    def is_ready(self) -> bool:
        """Report whether the first rows of every view have been published."""
        return self.ready.is_set()

    def set_ready(self) -> None:
        """Record that the rows of every view are there, and tell clients that have fetched rows before.

        A patch without rows tells it: the last rows may have been published earlier, and in a quiet cluster no other
        patch would come.
        """
        self.ready.set()
        self.publish(map(Patch, COLUMNS))

    def publish(self, patches: Iterable[Patch]) -> None:
        """Apply changes and pass them to every client."""
        for patch in patches:
            self._number += 1
            rows = self._rows[patch.view]
            rows.update(patch.changed)
            for key in patch.gone:
                rows.pop(key, None)
            self._versions[patch.view] = self._number
            self._append(patch)
            for subscriber in self._subscribers:
                subscriber.add(patch)

    def restart(self, epoch: str) -> None:
        """Begin again without rows; every client fetches the new rows."""
        self._epoch, self._number = epoch, 0
        self.ready.clear()
        self._rows = {view: {} for view in COLUMNS}
        self._versions = dict.fromkeys(COLUMNS, 0)
        self._encoded.clear()
        self._log.clear()
        self._logged_rows = 0
        for subscriber in self._subscribers:
            subscriber.reset()

    def rows(self, view: str) -> bytes:
        """Return all rows of a view as JSON; equal answers are encoded once."""
        version = self._versions[view]
        known = self._encoded.get(view)
        if known is None or known[0] != version:
            rows = [[key, *cells] for key, cells in self._rows[view].items()]
            known = self._encoded[view] = (version, _ENCODER.encode(rows))
        head = _ENCODER.encode(
            {"id": self.event_id, "ready": self.is_ready, "view": view, "columns": ("KEY", *COLUMNS[view])}
        )
        return head[:-1] + b',"rows":' + known[1] + b"}"

    def subscribe(self, views: AbstractSet[str], last_event_id: str) -> Subscriber:
        """Open a stream of the views that continues after the client's last change."""
        if len(self._subscribers) >= SUBSCRIBERS_MAX:
            raise TooManySubscribersError
        subscriber = Subscriber(views)
        missed = self._missed(last_event_id)
        if missed is None:
            subscriber.reset()
        else:
            for patch in missed:
                subscriber.add(patch)
        self._subscribers.add(subscriber)
        self.on_subscribe()
        return subscriber

    def is_watched(self, view: str) -> bool:
        """Report whether a client has opened a stream of a view."""
        return any(view in subscriber.views for subscriber in self._subscribers)

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Close the stream of a client."""
        self._subscribers.discard(subscriber)

    def wake(self) -> None:
        """Wake the writers of all streams, so that they notice the end of the process."""
        for subscriber in self._subscribers:
            subscriber.changed.set()

    def _missed(self, last_event_id: str) -> list[Patch] | None:
        """Return the changes after an event; None if the log does not have all of them."""
        epoch, _, digits = last_event_id.rpartition("-")
        is_number = digits.isdecimal() and len(digits) <= len(str(self._number))
        if epoch != self._epoch or not is_number or int(digits) > self._number:
            return None
        last = int(digits)
        first_known = self._log[0][0] if self._log else self._number + 1
        if last + 1 < first_known:
            return None
        return [patch for number, patch in self._log if number > last]

    def _append(self, patch: Patch) -> None:
        self._log.append((self._number, patch))
        self._logged_rows += len(patch)
        while len(self._log) > LOG_PATCHES_MAX or self._logged_rows > LOG_ROWS_MAX:
            self._logged_rows -= len(self._log.popleft()[1])


def encode_patches(patches: Iterable[Patch], event_id: str) -> bytes:
    """Return changes as one server-sent event."""
    content: list[dict[str, Any]] = [
        {"view": patch.view, "set": [[key, *cells] for key, cells in patch.changed.items()], "gone": sorted(patch.gone)}
        for patch in patches
    ]
    return b"id: %b\nevent: patch\ndata: %b\n\n" % (event_id.encode(), _ENCODER.encode(content))


def encode_reset(event_id: str) -> bytes:
    """Return the server-sent event after which a client fetches all rows again."""
    return b"id: %b\nevent: reset\ndata: {}\n\n" % event_id.encode()
