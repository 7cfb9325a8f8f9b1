"""Reads the outcome of bindings and placements that were not answered, and rolls back what was not done."""

import asyncio
import logging
from typing import Final, NoReturn

from controller.extender.metrics import ExtenderMetrics
from controller.extender.writer import ExtenderWriter, UnknownOutcomeError
from controller.runtime import Runtime
from dra.engine.instants import Instant
from dra.engine.scheduling.scheduler_cache import CachedReservation, SchedulerCache
from dra.engine.scheduling.status_updates import RemoveOwner, WriteRefusedError
from dra.engine.scheduling.unconfirmed_bindings import (
    UnconfirmedBinding,
    UnconfirmedBindings,
    UnconfirmedPlacement,
)
from dra.kube.client import WRITE_TIMEOUT
from dra.kube.errors import ApiError

ROUND_INTERVAL: Final = 1.0
"""Seconds between two rounds."""

_log: Final = logging.getLogger(__name__)


class BindingConfirmer:
    """A loop that confirms unconfirmed bindings, one after the other."""

    def __init__(self, runtime: Runtime[ExtenderMetrics], *, cache: SchedulerCache, writer: ExtenderWriter) -> None:
        self.unconfirmed = UnconfirmedBindings(cache)
        self._runtime = runtime
        self._cache = cache
        self._writer = writer

    def adopt_reserved_pods(self) -> None:
        """Confirm bindings later that a previous process may have begun."""
        self.unconfirmed.adopt_reserved_pods(writes_possible_until=self._writes_possible_until())

    def confirm_later(self, binding: UnconfirmedBinding) -> None:
        """Confirm a binding of unknown outcome once none of its writes can arrive any more."""
        self.unconfirmed.add(binding, writes_possible_until=self._writes_possible_until())

    def confirm_placement_later(self, known: CachedReservation) -> None:
        """Confirm a placement of unknown outcome once none of its writes can arrive any more."""
        self.unconfirmed.add_placement(known, writes_possible_until=self._writes_possible_until())

    async def run(self) -> NoReturn:
        """Confirm bindings and placements whose time has come, until cancelled."""
        while True:
            await asyncio.sleep(ROUND_INTERVAL)
            for binding in self.unconfirmed.due_bindings(now=self._runtime.instant()):
                await self._confirm(binding)
            for placement in self.unconfirmed.due_placements(now=self._runtime.instant()):
                await self._confirm_placement(placement)

    async def roll_back(self, binding: UnconfirmedBinding, *, deadline: Instant) -> None:
        """Free the capacity of a pod that is not bound, and will not be by this process.

        Raises as `ExtenderWriter.update_status` does.
        """
        reservation = binding.reservation
        if reservation is not None and self._cache.reservation(reservation) is not None:
            await self._writer.update_status(reservation, RemoveOwner(binding.pod), deadline=deadline)
        self.unconfirmed.roll_back(binding)

    async def _confirm(self, binding: UnconfirmedBinding) -> None:
        self.unconfirmed.begin(binding.pod.uid)
        deadline = self._writer.deadline()
        try:
            pod = await self._writer.read_pod(binding.pod.key, deadline=deadline)
            if not self.unconfirmed.confirm_outcome(binding, pod):
                await self.roll_back(binding, deadline=deadline)
        except (ApiError, WriteRefusedError, UnknownOutcomeError) as error:
            text = "pod %s/%s: bind on node %s not confirmed, its capacity stays held: %s"
            _log.info(text, *binding.pod.key, binding.node, error)
        finally:
            self.unconfirmed.end(binding.pod.uid)

    async def _confirm_placement(self, placement: UnconfirmedPlacement) -> None:
        known = placement.known
        try:
            with self.unconfirmed.placement(known.info.uid):
                await self._writer.read_reservation(known, deadline=self._writer.deadline())
                self.unconfirmed.confirm_placement(placement)
        except WriteRefusedError as error:
            _log.info("reservation %s: placement not confirmed, its capacity stays held: %s", known.name, error)

    def _writes_possible_until(self) -> Instant:
        return self._runtime.instant() + WRITE_TIMEOUT
