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

from controller.extender.scheduler_cache import CachedReservation, SchedulerCache
from controller.extender.writer import ExtenderWriter, UnknownOutcomeError, WriteRefusedError
from dra.api.reservations.model import Reservation, ReservationStatus
from dra.engine.reservations import statuses
from dra.engine.reservations.statuses import AssignedPod
from dra.kube.client import WRITE_TIMEOUT
from dra.kube.clock import Clock
from dra.kube.errors import ApiError
from dra.model.meta import Struct, Uid

ROUND_INTERVAL: Final = 1.0
"""Seconds between two rounds."""

_log: Final = logging.getLogger(__name__)


class UnconfirmedBinding(Struct, frozen=True):
    """A binding whose outcome is unknown."""

    pod: AssignedPod
    node: str
    inside: Uid | None
    until: float = 0.0
    """Time after which no write of the binding can arrive any more."""


class UnconfirmedBindings:
    """Tracks bindings whose outcome is unknown; `run` confirms them one after the other."""

    def __init__(self, *, picture: SchedulerCache, writing: ExtenderWriter, clock: Clock, seconds: float) -> None:
        self._picture = picture
        self._writing = writing
        self._clock = clock
        self._seconds = seconds
        self._under_way: set[Uid] = set()
        """Pods that are being bound or rolled back; reservations that are being placed or read."""
        self._open: dict[Uid, UnconfirmedBinding] = {}
        self._placing: dict[Uid, tuple[CachedReservation, float]] = {}

    def __len__(self) -> int:
        return len(self._open) + len(self._placing)

    def begin(self, doubt: UnconfirmedBinding) -> None:
        """Start a binding: until it ends its pod is not checked."""
        self._under_way.add(doubt.pod.uid)

    def busy(self, uid: Uid) -> bool:
        """Return whether a pod is being bound or rolled back."""
        return uid in self._under_way

    def open(self, uid: Uid) -> bool:
        """Return whether an earlier write for a pod or a reservation may still take effect."""
        return uid in self._open or uid in self._placing

    def end(self, uid: Uid) -> None:
        """End a binding that has succeeded."""
        self._under_way.discard(uid)
        self._open.pop(uid, None)

    def stays(self, doubt: UnconfirmedBinding) -> None:
        """Record that the outcome of a binding is unknown."""
        self._under_way.discard(doubt.pod.uid)
        self._open[doubt.pod.uid] = msgspec.structs.replace(doubt, until=self._clock.now() + WRITE_TIMEOUT)

    def refused(self, doubt: UnconfirmedBinding) -> None:
        """End an attempt that was refused entirely: earlier attempts stay unconfirmed."""
        self._under_way.discard(doubt.pod.uid)

    @contextmanager
    def place(self, uid: Uid) -> Iterator[None]:
        """Mark a reservation as being placed for the duration of the block. Raises WriteRefusedError."""
        if uid in self._under_way:
            raise WriteRefusedError("the placement of its reservation is being confirmed; the scheduler retries")
        self._under_way.add(uid)
        try:
            yield
        finally:
            self._under_way.discard(uid)

    def placing(self, known: CachedReservation) -> None:
        """Record that the outcome of a reservation's placement is unknown."""
        self._placing[known.info.uid] = (known, self._clock.now() + WRITE_TIMEOUT)

    def adopt(self, found: Iterable[CachedReservation]) -> None:
        """Add the unbound pods that reservations name after a start: a binding of theirs may be in flight."""
        for known in found:
            for each in known.reservation.status.current_owners:
                uid = Uid(each.uid)
                pod = self._picture.waiting(uid)
                if pod is None or self._picture.accounting.assignment(uid) is not None:
                    continue
                claimant = self._picture.bound_pod_info(pod)
                held = msgspec.structs.replace(claimant, allocated_reservation=known.info.uid)
                self._picture.accounting.observe_pod(held, node=known.info.node, assumed=True)
                consumer = AssignedPod(uid=uid, key=claimant.key, amounts=claimant.amounts, binding=True)
                self.stays(UnconfirmedBinding(pod=consumer, node=known.info.node, inside=known.info.uid))

    async def run(self) -> NoReturn:
        """Confirm bindings and placements whose time has come, until cancelled."""
        while True:
            await asyncio.sleep(ROUND_INTERVAL)
            for doubt in [each for each in self._open.values() if each.until <= self._clock.now()]:
                await self._attempt(doubt)
            for known, until in list(self._placing.values()):
                if until <= self._clock.now():
                    await self._look(known, until)

    async def roll_back(self, doubt: UnconfirmedBinding, *, deadline: float) -> None:
        """Free the capacity of a pod that is not bound, and will not be by this process.

        Raises as `ExtenderWriter.swap` does.
        """
        uid = doubt.pod.uid
        if doubt.inside is not None and self._picture.reservation(doubt.inside) is not None:

            def change(reservation: Reservation) -> ReservationStatus | None:
                return statuses.status_without_owner(reservation, doubt.pod)

            await self._writing.swap(doubt.inside, change, deadline=deadline)
        self._under_way.discard(uid)
        self._open.pop(uid, None)
        self._picture.accounting.forget_assumed_pod(uid)

    async def _attempt(self, doubt: UnconfirmedBinding) -> None:
        uid = doubt.pod.uid
        if uid in self._under_way or self._open.get(uid) is not doubt:  # a newer attempt to bind the pod
            return
        self._under_way.add(uid)
        try:
            await self._read_outcome(doubt)
        finally:
            self._under_way.discard(uid)

    async def _read_outcome(self, doubt: UnconfirmedBinding) -> None:
        deadline = self._clock.now() + self._seconds
        try:
            pod = await self._writing.pod(doubt.pod.key, deadline=deadline)
            if pod is None or pod.metadata.uid != doubt.pod.uid:
                # Gone: the reservation's controller determines whether the pod ran in between.
                self.end(doubt.pod.uid)
                self._picture.accounting.forget_pod(doubt.pod.uid)
            elif pod.spec.node_name:
                self._picture.observe_pod(pod)
                self.end(doubt.pod.uid)
            else:
                await self.roll_back(doubt, deadline=deadline)
        except (ApiError, WriteRefusedError, UnknownOutcomeError) as error:
            _log.info(
                "pod %s/%s: bind on node %s not confirmed, its capacity stays held: %s",
                *doubt.pod.key,
                doubt.node,
                error,
            )

    async def _look(self, known: CachedReservation, until: float) -> None:
        uid = known.info.uid
        if self._placing.get(uid) != (known, until):  # a newer attempt to place the reservation
            return
        try:
            with self.place(uid):
                await self._writing.look(known, deadline=self._clock.now() + self._seconds)
                del self._placing[uid]
                self._picture.settle(uid)
        except WriteRefusedError as error:
            _log.info("reservation %s: placement not confirmed, its capacity stays held: %s", known.name, error)
