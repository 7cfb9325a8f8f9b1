"""Broadcasts the changes of one driver to several listeners.

`ChangeBroadcaster.run` is the only reader of `Driver.changes`; each listener has an `asyncio.Event` of its own. An
event that was set while its listener was busy stays set: changes are level-triggered, and many changes count as one.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from typing import Final, NoReturn

from dra.kube.backoff import Backoff
from kubeletplugin.contract import Driver

_log: Final = logging.getLogger(__name__)


class ChangeBroadcaster:
    """The broadcaster of one driver's changes, for any number of listeners."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._subscribers: set[asyncio.Event] = set()

    @contextlib.contextmanager
    def subscribe(self) -> Iterator[asyncio.Event]:
        """Yield an event that is set at each change from now on; the listener clears it."""
        changed = asyncio.Event()
        self._subscribers.add(changed)
        try:
            yield changed
        finally:
            self._subscribers.discard(changed)

    def notify(self) -> None:
        """Notify all listeners of a change."""
        for changed in self._subscribers:
            changed.set()

    async def run(self) -> NoReturn:
        """Forward the driver's changes until cancelled.

        A driver whose `changes` fails is still served; the call is repeated with a backoff.
        """
        backoff = Backoff(base=1.0, cap=60.0)
        while True:
            try:
                async for _ in self._driver.changes():
                    backoff.reset()
                    self.notify()
            except Exception:  # noqa: BLE001 - a driver may be anybody's
                _log.exception("driver %s: watching its changes failed; retrying", self._driver.name)
            await asyncio.sleep(backoff.next())
            self.notify()  # changes may have been missed meanwhile
