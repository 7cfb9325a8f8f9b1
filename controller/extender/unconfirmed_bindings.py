"""Bindings of which nobody knows what became of them: their place stays held until a live read tells.

A request that was not answered may arrive for as long as requests can be under way; so the read that counts comes after
that. A pod that is not bound then never will be by us: its place is free, and its reservation names it no more. After a
start the same is asked of each pod that a status names and that is not bound: the process before us may have been about
to bind it.

A pod is bound, or its place is taken back, never both at a time: a bind that began while its place is being taken back
would have it when it is given to somebody else.
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
    """A binding whose outcome is not known."""

    pod: AssignedPod
    node: str
    inside: Uid | None
    until: float = 0.0
    """When no write of it can arrive any more."""


class UnconfirmedBindings:
    """All of them; `run` settles them one after the other."""

    def __init__(self, *, picture: SchedulerCache, writing: ExtenderWriter, clock: Clock, seconds: float) -> None:
        self._picture = picture
        self._writing = writing
        self._clock = clock
        self._seconds = seconds
        self._under_way: set[Uid] = set()
        """Pods that are being bound, or their place taken back; reservations that are being placed, or looked at."""
        self._open: dict[Uid, UnconfirmedBinding] = {}
        self._placing: dict[Uid, tuple[CachedReservation, float]] = {}

    def __len__(self) -> int:
        return len(self._open) + len(self._placing)

    def begin(self, doubt: UnconfirmedBinding) -> None:
        """A binding begins: until it ends its pod is not asked about."""
        self._under_way.add(doubt.pod.uid)

    def busy(self, uid: Uid) -> bool:
        """Whether a pod is being bound, or its place taken back."""
        return uid in self._under_way

    def open(self, uid: Uid) -> bool:
        """Whether something that was written for a pod before, or for a reservation, may still come true."""
        return uid in self._open or uid in self._placing

    def end(self, uid: Uid) -> None:
        """A binding has succeeded."""
        self._under_way.discard(uid)
        self._open.pop(uid, None)

    def stays(self, doubt: UnconfirmedBinding) -> None:
        """What became of a binding is not known."""
        self._under_way.discard(doubt.pod.uid)
        self._open[doubt.pod.uid] = msgspec.structs.replace(doubt, until=self._clock.now() + WRITE_TIMEOUT)

    def refused(self, doubt: UnconfirmedBinding) -> None:
        """An attempt was refused, all of it: what is still in doubt is what was in doubt before."""
        self._under_way.discard(doubt.pod.uid)

    @contextmanager
    def place(self, uid: Uid) -> Iterator[None]:
        """A reservation is being placed for as long as the block lasts. Raises RefusedError."""
        if uid in self._under_way:
            raise WriteRefusedError(
                "whether its reservation has been placed is being found out; the scheduler tries again"
            )
        self._under_way.add(uid)
        try:
            yield
        finally:
            self._under_way.discard(uid)

    def placing(self, known: CachedReservation) -> None:
        """Whether a reservation has been placed is not known."""
        self._placing[known.holding.uid] = (known, self._clock.now() + WRITE_TIMEOUT)

    def adopt(self, found: Iterable[CachedReservation]) -> None:
        """After a start: pods that reservations name, and that are not bound, may be about to be."""
        for known in found:
            for each in known.reservation.status.current_owners:
                uid = Uid(each.uid)
                pod = self._picture.waiting(uid)
                if pod is None or self._picture.books.seat(uid) is not None:
                    continue
                claimant = self._picture.bound_pod_info(pod)
                held = msgspec.structs.replace(claimant, reservation=known.holding.uid)
                self._picture.books.observe_pod(held, node=known.holding.node, assumed=True)
                consumer = AssignedPod(uid=uid, key=claimant.key, amounts=claimant.amounts, under_way=True)
                self.stays(UnconfirmedBinding(pod=consumer, node=known.holding.node, inside=known.holding.uid))

    async def run(self) -> NoReturn:
        """Settle what can be settled, until cancelled."""
        while True:
            await asyncio.sleep(ROUND_INTERVAL)
            for doubt in [each for each in self._open.values() if each.until <= self._clock.now()]:
                await self._attempt(doubt)
            for known, until in list(self._placing.values()):
                if until <= self._clock.now():
                    await self._look(known, until)

    async def roll_back(self, doubt: UnconfirmedBinding, *, deadline: float) -> None:
        """Free the place of a pod that is not bound, and never will be by us. Raises as `Writing.swap` does."""
        uid = doubt.pod.uid
        if doubt.inside is not None and self._picture.reservation(doubt.inside) is not None:

            def change(reservation: Reservation) -> ReservationStatus | None:
                return statuses.status_without_owner(reservation, doubt.pod)

            await self._writing.swap(doubt.inside, change, deadline=deadline)
        self._under_way.discard(uid)
        self._open.pop(uid, None)
        self._picture.books.withdraw(uid)

    async def _attempt(self, doubt: UnconfirmedBinding) -> None:
        uid = doubt.pod.uid
        if uid in self._under_way or self._open.get(uid) is not doubt:  # another attempt to bind it, since
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
                # Gone: whether it ran in between, its reservation's controller finds out.
                self.end(doubt.pod.uid)
                self._picture.books.forget_pod(doubt.pod.uid)
            elif pod.spec.node_name:
                self._picture.observe_pod(pod)
                self.end(doubt.pod.uid)
            else:
                await self.roll_back(doubt, deadline=deadline)
        except (ApiError, WriteRefusedError, UnknownOutcomeError) as error:
            _log.info("pod %s/%s: its place on node %s stays held: %s", *doubt.pod.key, doubt.node, error)

    async def _look(self, known: CachedReservation, until: float) -> None:
        uid = known.holding.uid
        if self._placing.get(uid) != (known, until):  # another attempt to place it, since
            return
        try:
            with self.place(uid):
                await self._writing.look(known, deadline=self._clock.now() + self._seconds)
                del self._placing[uid]
                self._picture.settle(uid)
        except WriteRefusedError as error:
            _log.info("reservation %s: its place stays held: %s", known.name, error)
