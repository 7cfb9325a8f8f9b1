"""Tells several listeners of one driver that it has something new to say.

`Driver.changes` is read once, by `Changes.run`; whoever wants to hear of it has a bell of its own. A bell that rang
while nobody listened still rings: what it stands for is level-triggered, many rings are one.
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
    """The changes of one driver, for any number of listeners."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._bells: set[asyncio.Event] = set()

    @contextlib.contextmanager
    def bell(self) -> Iterator[asyncio.Event]:
        """Yield an event that is set at each change from now on; the listener clears it."""
        bell = asyncio.Event()
        self._bells.add(bell)
        try:
            yield bell
        finally:
            self._bells.discard(bell)

    def ring(self) -> None:
        """Tell all listeners."""
        for bell in self._bells:
            bell.set()

    async def run(self) -> NoReturn:
        """Listen to the driver until cancelled. A driver that fails at this still serves; it is asked again."""
        backoff = Backoff(base=1.0, cap=60.0)
        while True:
            try:
                async for _ in self._driver.changes():
                    backoff.reset()
                    self.ring()
            except Exception:  # noqa: BLE001 - a driver may be anybody's
                _log.exception("driver %s: its changes are not told; asking again", self._driver.name)
            await asyncio.sleep(backoff.next())
            self.ring()  # whatever was missed meanwhile
