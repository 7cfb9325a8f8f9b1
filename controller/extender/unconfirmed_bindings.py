"""Bindings of unknown outcome: their capacity stays held until a live read shows the outcome.

An unanswered request may arrive for as long as requests can be in flight; so the decisive read comes after that time. A
pod that is not bound then will not be bound by this request: its capacity is freed, and its reservation's status no
longer names it. After a start the same check is made for each unbound pod that a status names: the previous process may
have been about to bind it.

A pod is being bound or rolled back, never both at a time: a bind that began during a rollback would use capacity that
is then given to another pod.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

import msgspec

from controller.extender.metrics import ExtenderMetrics
from controller.extender.writer import ExtenderWriter, UnknownOutcomeError
from controller.runtime import Runtime
from dra.engine.reservations.statuses import AssignedPod
from dra.engine.scheduling.scheduler_cache import CachedReservation, SchedulerCache
from dra.engine.scheduling.status_updates import RemoveOwner, WriteRefusedError
from dra.kube.client import WRITE_TIMEOUT
from dra.kube.errors import ApiError
from dra.model.meta import Struct, Uid

ROUND_INTERVAL: Final = 1.0
"""Seconds between two rounds."""

_log: Final = logging.getLogger(__name__)


class UnconfirmedBinding(Struct, frozen=True):
    """A binding whose outcome is unknown."""

    pod: AssignedPod
    node: str
    reservation: Uid | None
    writes_possible_until: float = 0.0
    """Time after which no write of the binding can arrive any more."""


class UnconfirmedBindings:
    """Tracks bindings whose outcome is unknown; `run` confirms them one after the other."""

    def __init__(self, runtime: Runtime[ExtenderMetrics], *, cache: SchedulerCache, writer: ExtenderWriter) -> None:
        self._runtime = runtime
        self._cache = cache
        self._writer = writer
        self._in_progress: set[Uid] = set()
        """Pods that are being bound or rolled back; reservations that are being placed or read."""
        self._unconfirmed: dict[Uid, UnconfirmedBinding] = {}
        self._placements: dict[Uid, tuple[CachedReservation, float]] = {}

    def __len__(self) -> int:
        return len(self._unconfirmed) + len(self._placements)

    def begin(self, binding: UnconfirmedBinding) -> None:
        """Start a binding: until it ends its pod is not checked."""
        self._in_progress.add(binding.pod.uid)

    def is_in_progress(self, uid: Uid) -> bool:
        """Return whether a pod is being bound or rolled back."""
        return uid in self._in_progress

    def is_unconfirmed(self, uid: Uid) -> bool:
        """Return whether an earlier write for a pod or a reservation may still take effect."""
        return uid in self._unconfirmed or uid in self._placements

    def confirm(self, uid: Uid) -> None:
        """End a binding that has succeeded."""
        self._in_progress.discard(uid)
        self._unconfirmed.pop(uid, None)

    def add(self, binding: UnconfirmedBinding) -> None:
        """Record that the outcome of a binding is unknown."""
        self._in_progress.discard(binding.pod.uid)
        self._unconfirmed[binding.pod.uid] = msgspec.structs.replace(
            binding, writes_possible_until=self._runtime.instant() + WRITE_TIMEOUT
        )

    def end_attempt(self, binding: UnconfirmedBinding) -> None:
        """End an attempt that was refused entirely: earlier attempts stay unconfirmed."""
        self._in_progress.discard(binding.pod.uid)

    @contextmanager
    def placement(self, uid: Uid) -> Iterator[None]:
        """Mark a reservation as being placed for the duration of the block. Raises WriteRefusedError."""
        if uid in self._in_progress:
            raise WriteRefusedError("the placement of its reservation is being confirmed; the scheduler retries")
        self._in_progress.add(uid)
        try:
            yield
        finally:
            self._in_progress.discard(uid)

    def add_placement(self, known: CachedReservation) -> None:
        """Record that the outcome of a reservation's placement is unknown."""
        self._placements[known.info.uid] = (known, self._runtime.instant() + WRITE_TIMEOUT)

    def adopt_reserved_pods(self, found: Iterable[CachedReservation]) -> None:
        """Add the unbound pods that reservations name after a start: a binding of theirs may be in flight."""
        for known in found:
            for each in known.reservation.status.current_owners:
                uid = Uid(each.uid)
                pod = self._cache.pending_pod(uid)
                if pod is None or self._cache.accounting.assignment(uid) is not None:
                    continue
                pod_info = self._cache.bound_pod_info(pod)
                held = msgspec.structs.replace(pod_info, allocated_reservation=known.info.uid)
                self._cache.accounting.observe_pod(held, node=known.info.node, assumed=True)
                consumer = AssignedPod.from_pod_info(pod_info, binding=True)
                self.add(UnconfirmedBinding(pod=consumer, node=known.info.node, reservation=known.info.uid))

    async def run(self) -> NoReturn:
        """Confirm bindings and placements whose time has come, until cancelled."""
        while True:
            await asyncio.sleep(ROUND_INTERVAL)
            for binding in [
                each for each in self._unconfirmed.values() if each.writes_possible_until <= self._runtime.instant()
            ]:
                await self._confirm(binding)
            for known, until in list(self._placements.values()):
                if until <= self._runtime.instant():
                    await self._confirm_placement(known, until)

    async def roll_back(self, binding: UnconfirmedBinding, *, deadline: float) -> None:
        """Free the capacity of a pod that is not bound, and will not be by this process.

        Raises as `ExtenderWriter.update_status` does.
        """
        uid = binding.pod.uid
        if binding.reservation is not None and self._cache.reservation(binding.reservation) is not None:
            await self._writer.update_status(binding.reservation, RemoveOwner(binding.pod), deadline=deadline)
        self._in_progress.discard(uid)
        self._unconfirmed.pop(uid, None)
        self._cache.accounting.forget_assumed_pod(uid)

    async def _confirm(self, binding: UnconfirmedBinding) -> None:
        uid = binding.pod.uid
        if uid in self._in_progress or self._unconfirmed.get(uid) is not binding:  # a newer attempt to bind the pod
            return
        self._in_progress.add(uid)
        try:
            await self._read_outcome(binding)
        finally:
            self._in_progress.discard(uid)

    async def _read_outcome(self, binding: UnconfirmedBinding) -> None:
        deadline = self._writer.deadline()
        try:
            pod = await self._writer.read_pod(binding.pod.key, deadline=deadline)
            if pod is None or pod.metadata.uid != binding.pod.uid:
                # Gone: the reservation's controller determines whether the pod ran in between.
                self.confirm(binding.pod.uid)
                self._cache.accounting.forget_pod(binding.pod.uid)
            elif pod.spec.node_name:
                self._cache.observe_pod(pod)
                self.confirm(binding.pod.uid)
            else:
                await self.roll_back(binding, deadline=deadline)
        except (ApiError, WriteRefusedError, UnknownOutcomeError) as error:
            _log.info(
                "pod %s/%s: bind on node %s not confirmed, its capacity stays held: %s",
                *binding.pod.key,
                binding.node,
                error,
            )

    async def _confirm_placement(self, known: CachedReservation, until: float) -> None:
        uid = known.info.uid
        if self._placements.get(uid) != (known, until):  # a newer attempt to place the reservation
            return
        try:
            with self.placement(uid):
                await self._writer.read_reservation(known, deadline=self._writer.deadline())
                del self._placements[uid]
                self._cache.forget_assumed_reservation(uid)
        except WriteRefusedError as error:
            _log.info("reservation %s: placement not confirmed, its capacity stays held: %s", known.name, error)
