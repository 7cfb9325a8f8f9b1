"""Reads the outcome of bindings and placements that were not answered, and rolls back what was not done."""

import logging
from typing import Final

from controller.extender.informers import ExtenderInformers
from controller.extender.metrics import ExtenderMetrics
from controller.extender.writer import ExtenderWriter, UnknownOutcomeError
from controller.reconciler import Reconciler, Settings
from controller.runtime import Runtime
from dra.engine.instants import Instant, Moment
from dra.engine.scheduling.scheduler_cache import CachedReservation
from dra.engine.scheduling.status_updates import WriteRefusedError
from dra.engine.scheduling.unconfirmed_bindings import (
    CHECK_INTERVAL,
    UnconfirmedBinding,
    UnconfirmedBindings,
    UnconfirmedPlacement,
)
from dra.kube.client import WRITE_TIMEOUT
from dra.kube.errors import ApiError
from dra.model.meta import Uid

_log: Final = logging.getLogger(__name__)


class BindingConfirmer(Reconciler[Uid]):
    """The loop that confirms unconfirmed bindings and placements, one after the other."""

    settings = Settings(name="unconfirmed binding", workers=1, retry=(CHECK_INTERVAL, CHECK_INTERVAL))
    cache: UnconfirmedBindings

    def __init__(
        self,
        runtime: Runtime[ExtenderMetrics],
        informers: ExtenderInformers,
        *,
        cache: UnconfirmedBindings,
        writer: ExtenderWriter,
    ) -> None:
        super().__init__(runtime, informers, cache)
        self._writer = writer

    def adopt_reserved_pods(self) -> None:
        """Confirm bindings later that a previous process may have begun."""
        self.cache.adopt_reserved_pods(writes_possible_until=self._writes_possible_until())

    def confirm_later(self, binding: UnconfirmedBinding) -> None:
        """Confirm a binding of unknown outcome once none of its writes can arrive any more."""
        self.cache.add(binding, writes_possible_until=self._writes_possible_until())
        self.enqueue_dirty()

    def confirm_placement_later(self, known: CachedReservation) -> None:
        """Confirm a placement of unknown outcome once none of its writes can arrive any more."""
        self.cache.add_placement(known, writes_possible_until=self._writes_possible_until())
        self.enqueue_dirty()

    async def reconcile(self, key: Uid, now: Moment) -> Instant:
        """Confirm the binding of one pod, or the placement of one reservation; return when to try again."""
        match self.cache.due(key, now=now.instant):
            case UnconfirmedBinding() as binding:
                await self._confirm(binding)
            case UnconfirmedPlacement() as placement:
                await self._confirm_placement(placement)
        return self.cache.next_check(key, now=self._runtime.instant())

    async def roll_back(self, binding: UnconfirmedBinding, *, deadline: Instant) -> None:
        """Free the capacity of a pod that is not bound, and will not be by this process.

        Raises as `ExtenderWriter.update_status` does.
        """
        if binding.reservation is not None and (removal := self.cache.owner_removal(binding)) is not None:
            await self._writer.update_status(binding.reservation, removal, deadline=deadline)
        self.cache.roll_back(binding)

    async def _confirm(self, binding: UnconfirmedBinding) -> None:
        self.cache.begin(binding.pod.uid)
        deadline = self._writer.deadline()
        try:
            pod = await self._writer.read_pod(binding.pod.key, deadline=deadline)
            if not self.cache.confirm_outcome(binding, pod):
                await self.roll_back(binding, deadline=deadline)
        except (ApiError, WriteRefusedError, UnknownOutcomeError) as error:
            text = "pod %s/%s: bind on node %s not confirmed, its capacity stays held: %s"
            _log.info(text, *binding.pod.key, binding.node, error)
        finally:
            self.cache.end(binding.pod.uid)

    async def _confirm_placement(self, placement: UnconfirmedPlacement) -> None:
        known = placement.known
        try:
            with self.cache.placement(known.info.uid):
                await self._writer.read_reservation(known, deadline=self._writer.deadline())
                self.cache.confirm_placement(placement)
        except WriteRefusedError as error:
            _log.info("reservation %s: placement not confirmed, its capacity stays held: %s", known.name, error)

    def _writes_possible_until(self) -> Instant:
        return self._runtime.instant() + WRITE_TIMEOUT
