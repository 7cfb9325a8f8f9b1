"""The pods behind our gate for whom there is no reservation: they go their way.

Whom a reservation takes, that reservation's loop lets go, when there is room. All others are looked at here when a pod
comes or a reservation changes.
"""

import asyncio
import logging
from typing import Any, Final, NoReturn

from controller.reservations.pod_writer import PodWriter
from controller.reservations.reservation_cache import ReservationCache
from dra.engine.reservations.placeholder_handover import RemoveSchedulingGate
from dra.kube.clock import Clock
from dra.kube.errors import ApiError, Conflict, NotFound
from dra.kube.reflector import Reflector

DEBOUNCE: Final = 0.1
"""Seconds in which reservations can name whom they take; and between two rounds."""

RETRY: Final = 5.0

_log: Final = logging.getLogger(__name__)


class SchedulingGateRemover:
    """Opens them."""

    def __init__(self, giving: PodWriter, *, roster: ReservationCache, nodes: Reflector[Any], clock: Clock) -> None:
        self._giving = giving
        self._roster = roster
        self._nodes = nodes
        self._clock = clock
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Something has changed."""
        self._woken.set()

    async def run(self) -> NoReturn:
        """Open gates, until cancelled."""
        while True:
            await self._woken.wait()
            await asyncio.sleep(DEBOUNCE)
            self._woken.clear()
            self._roster.waiting.news = False
            if not await self._round():
                self._woken.set()
                await asyncio.sleep(RETRY)

    async def _round(self) -> bool:
        """Return whether all has been done that is to be done now."""
        done = True
        for pod in list(self._roster.waiting.gated()):
            if self._roster.may_remove_gate(pod, nodes=self._nodes.objects):
                key = pod.metadata.key
                try:
                    await self._giving.open(RemoveSchedulingGate(key=key, uid=pod.metadata.uid))
                except (NotFound, Conflict):
                    pass  # the watch will tell
                except ApiError as error:
                    _log.warning("pod %s/%s: its gate is not opened yet: %s", *key, error)
                    done = False
        return done
