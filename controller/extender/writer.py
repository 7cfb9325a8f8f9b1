"""The writes of a bind, each with what its answers mean: done, refused for good, or nobody knows.

A status is compared and swapped: when somebody else was faster, it is read again and decided again, as long as there is
time. All deadlines lie before the scheduler stops waiting, and before the lease can be another's.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeAlias

import msgspec

from controller.extender.scheduler_cache import CachedReservation, SchedulerCache
from controller.leadership import Leadership
from dra.api.reservations import well_known
from dra.api.reservations.model import Reservation, ReservationStatus
from dra.engine.reservations import statuses
from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.kube.errors import ApiError, Conflict, NotFound
from dra.kube.rate_limiter import RequestPriority
from dra.kube.resources import PODS, RESERVATIONS
from dra.model.meta import Key, PartialObjectMetadata, Uid, UnstructuredObject
from dra.model.scheduling import SchedulerPod

ATTEMPTS: Final = 5
"""At swapping one status: beside its controller there is nobody who writes it often."""

WRITE_TIMEOUT_MIN: Final = 0.2
"""Seconds that are too few for a write: most would not be answered, and nobody would know what became of them."""

StatusUpdate: TypeAlias = Callable[[Reservation], ReservationStatus | None]
"""What a status becomes; None: it is so already."""


class WriteRefusedError(Exception):
    """It cannot be done, and nothing has been written."""


class PodChangedError(WriteRefusedError):
    """The API server does not bind the pod as it is now: bound, in deletion, or another one."""


class UnknownOutcomeError(Exception):
    """It may have been done, or may still be: only a read can tell."""


class ExtenderWriter:
    """Carries out single writes."""

    def __init__(self, client: Client, *, picture: SchedulerCache, clock: Clock, leadership: Leadership) -> None:
        self._client = client
        self._picture = picture
        self._clock = clock
        self._leadership = leadership
        self._lines: dict[Uid, _PendingUpdates] = {}

    def within(self, deadline: float) -> float:
        """Return how long a write that begins now may take. Raises RefusedError if that is less than `BRIEF`."""
        now = self._clock.now()
        left = self._leadership.within(deadline - now, now=now)
        if left < WRITE_TIMEOUT_MIN:
            raise WriteRefusedError("not done in time, nothing was written; the scheduler tries again")
        return left

    def now(self) -> datetime:
        """Return the time of day."""
        return self._clock.wall()

    async def swap(
        self, uid: Uid, change: StatusUpdate, *, deadline: float, annotations: dict[str, str] | None = None
    ) -> None:
        """Bring a reservation's status to what `change` makes of it, whoever else writes it meanwhile.

        `change` may raise RefusedError: what was decided on has changed. `annotations` are written before. Changes that
        wait for the same reservation go out in one write: each for itself, they would overtake each other.
        """
        line = self._lines.setdefault(uid, _PendingUpdates())
        wish = _PendingUpdate(change, annotations)
        line.wishes.append(wish)
        try:
            await self._turn(line, wish, deadline=deadline)
            try:
                if not wish.settled:
                    await self._update_all(uid, line.group(wish), deadline=deadline)
            finally:
                line.lock.release()
        finally:
            if wish in line.wishes:
                line.wishes.remove(wish)
            if not line.wishes and self._lines.get(uid) is line:
                del self._lines[uid]
        if wish.failure is not None:
            raise wish.failure

    async def _turn(self, line: "_PendingUpdates", wish: "_PendingUpdate", *, deadline: float) -> None:
        """Wait for the lock of a reservation. Raises RefusedError or UnknownOutcomeError if it comes too late."""
        try:
            async with asyncio.timeout(self.within(deadline)):
                await line.lock.acquire()
        except TimeoutError as error:
            if wish.sent:
                raise UnknownOutcomeError("its reservation's status was not written in time") from error
            raise WriteRefusedError("not done in time, nothing was written; the scheduler tries again") from error

    async def _update_all(self, uid: Uid, group: "list[_PendingUpdate]", *, deadline: float) -> None:
        """Carry out the changes of a group; each is settled afterwards."""
        try:
            await self._attempt(uid, group, deadline=deadline)
        except (WriteRefusedError, UnknownOutcomeError) as error:
            for wish in group:
                wish.settle(error)
        except BaseException:  # called off in the middle, or a mistake of ours
            for wish in group:
                wish.settle(UnknownOutcomeError("its reservation's status was being written when that was called off"))
            raise
        for wish in group:
            wish.settle(None)

    async def _attempt(self, uid: Uid, group: "list[_PendingUpdate]", *, deadline: float) -> None:
        for _ in range(ATTEMPTS):
            found = self._picture.reservation(uid)
            if found is None:
                raise WriteRefusedError("cannot find target reservation")
            known = found
            after = _status_after(known.reservation, group)
            if after is known.reservation.status:
                return
            body = statuses.status_patch(known.reservation.status, after)
            try:
                if annotations := group[0].annotations:
                    known = await self._annotate(known, annotations, deadline=deadline)
                    group[0].annotations = None
                for wish in group:
                    wish.sent = True
                answer = await self._client.merge_patch(
                    RESERVATIONS,
                    ("", known.name),
                    {"status": body},
                    model=UnstructuredObject,
                    subresource="status",
                    resource_version=known.version,
                    uid=uid,
                    priority=RequestPriority.URGENT,
                    within=self.within(deadline),
                )
            except Conflict:
                await self.look(known, deadline=deadline)
                continue
            except NotFound as error:
                self._picture.forget_reservation(uid)
                raise WriteRefusedError("cannot find target reservation") from error
            except ApiError as error:
                raise _write_error(error) from error
            self._picture.observe_reservation(answer)
            return
        raise WriteRefusedError(f"reservation {known.name}: written by others all the time; the scheduler tries again")

    async def look(self, known: CachedReservation, *, deadline: float) -> None:
        """Read a reservation live. Raises RefusedError if that fails."""
        try:
            answer = await self._client.get(
                RESERVATIONS,
                ("", known.name),
                UnstructuredObject,
                priority=RequestPriority.URGENT,
                within=self.within(deadline),
            )
        except NotFound:
            self._picture.forget_reservation(known.holding.uid)
            return
        except ApiError as error:
            raise WriteRefusedError(str(error)) from error
        if answer.metadata.uid != known.holding.uid:
            self._picture.forget_reservation(known.holding.uid)
        self._picture.observe_reservation(answer)

    async def pod(self, key: Key, *, deadline: float) -> SchedulerPod | None:
        """Read a pod live; None if there is none of that name. Raises ApiError."""
        try:
            found: SchedulerPod = await self._client.get(
                PODS, key, SchedulerPod, priority=RequestPriority.URGENT, within=self.within(deadline)
            )
        except NotFound:
            return None
        self._picture.note_read_pod(found)
        return found

    async def post(
        self, key: Key, uid: Uid, node: str, *, reservation: CachedReservation | None, deadline: float
    ) -> None:
        """Bind a pod; the annotation that names its reservation comes with it, in one write."""
        metadata: dict[str, Any] = {"name": key[1], "namespace": key[0], "uid": uid}
        if reservation is not None:
            told = {"name": reservation.name, "uid": reservation.holding.uid}
            metadata["annotations"] = {well_known.ANNOTATION_RESERVATION_ALLOCATED: msgspec.json.encode(told).decode()}
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            await self._client.create(
                PODS,
                body,
                model=_BindingResponse,
                namespace=key[0],
                name=key[1],
                subresource="binding",
                priority=RequestPriority.URGENT,
                within=self.within(deadline),
            )
        except Conflict as error:
            raise PodChangedError(str(error)) from error
        except ApiError as error:
            raise _write_error(error) from error

    async def touch(self, key: Key, uid: Uid, mark: str) -> None:
        """Change an annotation of a pod that waits: kube-scheduler then looks at it again."""
        await self._client.merge_patch(
            PODS,
            key,
            {"metadata": {"annotations": {well_known.ANNOTATION_LOOK_AGAIN: mark}}},
            model=PartialObjectMetadata,
            uid=uid,
            priority=RequestPriority.BULK,
        )

    async def _annotate(
        self, known: CachedReservation, annotations: dict[str, str], *, deadline: float
    ) -> CachedReservation:
        answer = await self._client.merge_patch(
            RESERVATIONS,
            ("", known.name),
            {"metadata": {"annotations": annotations}},
            model=UnstructuredObject,
            resource_version=known.version,
            uid=known.holding.uid,
            priority=RequestPriority.URGENT,
            within=self.within(deadline),
        )
        self._picture.observe_reservation(answer)
        return msgspec.structs.replace(known, version=answer.metadata.resource_version)


@dataclass(eq=False, slots=True)
class _PendingUpdate:
    """A change of a status that somebody waits for."""

    change: StatusUpdate
    annotations: dict[str, str] | None
    sent: bool = False
    """Whether a write of it may have been sent."""

    settled: bool = False
    failure: Exception | None = None

    def settle(self, failure: Exception | None) -> None:
        """Tell how it ended; what was told first counts."""
        if not self.settled:
            self.settled, self.failure = True, failure


@dataclass(eq=False, slots=True)
class _PendingUpdates:
    """The changes that wait for one reservation."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    wishes: list[_PendingUpdate] = field(default_factory=list)

    def group(self, first: _PendingUpdate) -> list[_PendingUpdate]:
        """Return the changes that go out with one of them: all that wait, but for those that write annotations."""
        if first.annotations:
            return [first]
        return [each for each in self.wishes if not each.settled and not each.annotations]


def _status_after(reservation: Reservation, group: list[_PendingUpdate]) -> ReservationStatus:
    """Return the status after the changes of a group; a change that is refused is settled, and not in it."""
    for wish in group:
        if wish.settled:
            continue
        try:
            after = wish.change(reservation)
        except WriteRefusedError as error:
            wish.settle(error)
            continue
        if after is not None:
            reservation = reservation.model_copy(update={"status": after})
    return reservation.status


class _BindingResponse(msgspec.Struct):
    """A Status; a success says nothing more."""


def _write_error(error: ApiError) -> Exception:
    return UnknownOutcomeError(str(error)) if error.ambiguous else WriteRefusedError(str(error))
