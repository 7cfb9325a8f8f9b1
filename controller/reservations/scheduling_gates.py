"""The scheduling gates of pods that no reservation will admit: our gate is removed from such pods.

The gate of a pod that a reservation admits is removed by that reservation's loop, once the capacity is there. All other
gated pods are checked here when a pod is added or a reservation changes.
"""

import asyncio
import logging
from typing import Any, Final, NoReturn

from controller.reservations.pod_writer import PodWriter
from dra.engine.reservations.placeholder_handover import RemoveSchedulingGate
from dra.engine.reservations.reservation_cache import ReservationCache
from dra.kube.clock import Clock
from dra.kube.errors import ApiError, Conflict, NotFound
from dra.kube.reflector import Reflector

DEBOUNCE: Final = 0.1
"""Seconds until gated pods are checked, so that reservations name their owner pods first; also between two rounds."""

RETRY: Final = 5.0

_log: Final = logging.getLogger(__name__)


class SchedulingGateRemover:
    """Removes our scheduling gate from pods that no reservation will admit."""

    def __init__(self, writer: PodWriter, *, cache: ReservationCache, nodes: Reflector[Any], clock: Clock) -> None:
        self._writer = writer
        self._cache = cache
        self._nodes = nodes
        self._clock = clock
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Schedule a check of all gated pods."""
        self._woken.set()

    async def run(self) -> NoReturn:
        """Remove scheduling gates until cancelled."""
        while True:
            await self._woken.wait()
            await asyncio.sleep(DEBOUNCE)
            self._woken.clear()
            self._cache.pending_pods.gated_changed = False
            if not await self._round():
                self._woken.set()
                await asyncio.sleep(RETRY)

    async def _round(self) -> bool:
        """Remove all gates that may be removed; return whether no removal has to be retried."""
        done = True
        for pod in list(self._cache.pending_pods.gated()):
            if self._cache.may_remove_gate(pod, nodes=self._nodes.objects):
                key = pod.metadata.key
                try:
                    await self._writer.remove_gate(RemoveSchedulingGate(key=key, uid=pod.metadata.uid))
                except (NotFound, Conflict):
                    pass  # the watch delivers the change
                except ApiError as error:
                    _log.warning("pod %s/%s: scheduling gate not removed, retrying: %s", *key, error)
                    done = False
        return done
