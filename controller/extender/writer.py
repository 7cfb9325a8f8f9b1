"""The writes of a bind, each with the meaning of its answers: done, refused for good, or unknown.

A status is compared and swapped: after a conflict it is read again and decided again, as long as there is time. All
deadlines are before kube-scheduler's timeout, and before another replica can hold the lease.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from controller.extender.metrics import ExtenderMetrics
from controller.runtime import Runtime
from dra.api.reservations import well_known
from dra.api.reservations.model import Reservation
from dra.engine.instants import Instant
from dra.engine.scheduling import status_updates
from dra.engine.scheduling.scheduler_cache import CachedReservation, SchedulerCache
from dra.engine.scheduling.status_updates import StatusUpdate, WriteRefusedError
from dra.kube.errors import ApiError, Conflict, NotFound
from dra.kube.rate_limiter import RequestPriority
from dra.kube.resources import PODS, RESERVATIONS
from dra.model.meta import Key, PartialObjectMetadata, Uid, UnstructuredObject
from dra.model.scheduling import SchedulerPod

ATTEMPTS: Final = 5
"""Maximum number of attempts to swap a status: besides its controller, no client writes it often."""

WRITE_TIMEOUT_MIN: Final = 0.2
"""Minimum number of seconds for a write: with less time most writes would not be answered, and their outcome would be
unknown."""


class PodChangedError(WriteRefusedError):
    """The API server does not bind the pod as it is now: bound, terminating, or replaced."""


class UnknownOutcomeError(Exception):
    """A write may have been done, or may still be done: only a read shows the outcome."""


class ExtenderWriter:
    """A writer that executes single writes of the extender."""

    def __init__(self, runtime: Runtime[ExtenderMetrics], *, cache: SchedulerCache, seconds: float) -> None:
        """Create a writer; ``seconds`` is the maximum duration of a bind, and of every other sequence of writes."""
        self._runtime = runtime
        self._client = runtime.client
        self._cache = cache
        self.seconds = seconds
        self._pending: dict[Uid, _PendingUpdates] = {}

    def deadline(self) -> Instant:
        """Return the deadline of a sequence of writes that begins now."""
        return self._runtime.instant() + self.seconds

    def timeout_until(self, deadline: float) -> float:
        """Return how long a write that begins now may take.

        Raises WriteRefusedError if that is less than `WRITE_TIMEOUT_MIN`.
        """
        now = self._runtime.instant()
        left = self._runtime.leadership.write_timeout(deadline - now, now=now)
        if left < WRITE_TIMEOUT_MIN:
            raise WriteRefusedError("timed out before anything was written; the scheduler retries")
        return left

    async def update_status(self, uid: Uid, wanted: StatusUpdate, *, deadline: float) -> None:
        """Update a reservation's status, retrying after conflicts with other writers.

        Updates that wait for the same reservation go out in one write: separate writes would conflict with each other.
        Raises WriteRefusedError, also if the basis of the update has changed, and UnknownOutcomeError.
        """
        pending = self._pending.setdefault(uid, _PendingUpdates())
        update = _PendingUpdate(wanted, status_updates.annotations_before(wanted))
        pending.updates.append(update)
        try:
            await self._acquire(pending, update, deadline=deadline)
            try:
                if not update.finished:
                    await self._update_all(uid, pending.group(update), deadline=deadline)
            finally:
                pending.lock.release()
        finally:
            if update in pending.updates:
                pending.updates.remove(update)
            if not pending.updates and self._pending.get(uid) is pending:
                del self._pending[uid]
        if update.failure is not None:
            raise update.failure

    async def _acquire(self, pending: "_PendingUpdates", update: "_PendingUpdate", *, deadline: float) -> None:
        """Wait for the lock of a reservation; raise WriteRefusedError or UnknownOutcomeError after the deadline."""
        try:
            async with asyncio.timeout(self.timeout_until(deadline)):
                await pending.lock.acquire()
        except TimeoutError as error:
            if update.sent:
                raise UnknownOutcomeError("the status of its reservation was not written in time") from error
            raise WriteRefusedError("timed out before anything was written; the scheduler retries") from error

    async def _update_all(self, uid: Uid, group: "list[_PendingUpdate]", *, deadline: float) -> None:
        """Execute the updates of a group and set the result of each."""
        try:
            await self._attempt(uid, group, deadline=deadline)
        except (WriteRefusedError, UnknownOutcomeError) as error:
            for update in group:
                update.finish(error)
        except BaseException:  # cancelled in between, or a bug
            for update in group:
                update.finish(
                    UnknownOutcomeError("the write of its reservation's status was canceled, its outcome is unknown")
                )
            raise
        for update in group:
            update.finish(None)

    async def _attempt(self, uid: Uid, group: "list[_PendingUpdate]", *, deadline: float) -> None:
        for _ in range(ATTEMPTS):
            cached = self._cache.reservation(uid)
            if cached is None:
                raise WriteRefusedError("cannot find target reservation")
            known = cached
            if not (patch := self._merge(known.reservation, group)):
                return
            try:
                if annotations := group[0].annotations_before:
                    version = await self._patch(known, {"metadata": {"annotations": annotations}}, deadline=deadline)
                    known = msgspec.structs.replace(known, version=version)
                    group[0].annotations_before = {}
                for update in group:
                    # Before the request: from here on, a canceled write may have been carried out.
                    update.sent = True
                await self._patch(known, {"status": patch}, deadline=deadline, subresource="status")
            except Conflict:
                await self.read_reservation(known, deadline=deadline)
                continue
            except NotFound as error:
                if not error.is_about(known.name):  # an API server that does not serve Reservations, or not yet
                    raise WriteRefusedError(str(error)) from error
                self._cache.forget_reservation(uid)
                raise WriteRefusedError("cannot find target reservation") from error
            except ApiError as error:
                raise _write_error(error) from error
            return
        raise WriteRefusedError(
            f"reservation {known.name}: conflicts with writes of other clients; the scheduler retries"
        )

    def _merge(self, reservation: Reservation, group: "list[_PendingUpdate]") -> dict[str, Any]:
        """Return the patch for the updates of a group, empty if none is needed; a refused update is finished."""
        pending = [update for update in group if not update.finished]
        wanted = [update.wanted for update in pending]
        patch, refusals = status_updates.merge(reservation, wanted, now=self._runtime.moment().wall)
        for position, refusal in refusals.items():
            pending[position].finish(refusal)
        return patch

    async def read_reservation(self, known: CachedReservation, *, deadline: float) -> None:
        """Read a reservation live into the cache; raise WriteRefusedError if that fails."""
        try:
            answer = await self._client.get(
                RESERVATIONS,
                ("", known.name),
                UnstructuredObject,
                priority=RequestPriority.URGENT,
                timeout_seconds=self.timeout_until(deadline),
            )
        except NotFound as error:
            if not error.is_about(known.name):
                raise WriteRefusedError(str(error)) from error
            self._cache.forget_reservation(known.info.uid)
            return
        except ApiError as error:
            raise WriteRefusedError(str(error)) from error
        self._cache.observe_read_reservation(answer, known.info.uid)

    async def read_pod(self, key: Key, *, deadline: float) -> SchedulerPod | None:
        """Read a pod live; None if there is none of that name. Raises ApiError."""
        try:
            pod: SchedulerPod = await self._client.get(
                PODS, key, SchedulerPod, priority=RequestPriority.URGENT, timeout_seconds=self.timeout_until(deadline)
            )
        except NotFound as error:
            if not error.is_about(key[1]):
                raise
            return None
        self._cache.note_read_pod(pod)
        return pod

    async def bind(
        self, key: Key, uid: Uid, node: str, *, reservation: CachedReservation | None, deadline: float
    ) -> None:
        """Bind a pod; the same write adds the annotation that names its reservation."""
        metadata: dict[str, Any] = {"name": key[1], "namespace": key[0], "uid": uid}
        if reservation is not None:
            reference = {"name": reservation.name, "uid": reservation.info.uid}
            metadata["annotations"] = {
                well_known.ANNOTATION_RESERVATION_ALLOCATED: msgspec.json.encode(reference).decode()
            }
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
                timeout_seconds=self.timeout_until(deadline),
            )
        except Conflict as error:
            raise PodChangedError(str(error)) from error
        except ApiError as error:
            raise _write_error(error) from error

    async def requeue_pod(self, key: Key, uid: Uid, mark: str) -> None:
        """Change an annotation of a pending pod, so that kube-scheduler retries it."""
        await self._client.merge_patch(
            PODS,
            key,
            {"metadata": {"annotations": {well_known.ANNOTATION_LOOK_AGAIN: mark}}},
            model=PartialObjectMetadata,
            uid=uid,
            priority=RequestPriority.BULK,
            timeout_seconds=self._runtime.write_timeout(),
        )

    async def _patch(
        self, known: CachedReservation, body: dict[str, Any], *, deadline: float, subresource: str | None = None
    ) -> str:
        """Patch a reservation on condition of its version, into the cache; return its new resourceVersion."""
        answer = await self._client.merge_patch(
            RESERVATIONS,
            ("", known.name),
            body,
            model=UnstructuredObject,
            subresource=subresource,
            resource_version=known.version,
            uid=known.info.uid,
            priority=RequestPriority.URGENT,
            timeout_seconds=self.timeout_until(deadline),
        )
        self._cache.observe_reservation(answer)
        return answer.metadata.resource_version


@dataclass(eq=False, slots=True)
class _PendingUpdate:
    """An update of a status that a caller waits for."""

    wanted: StatusUpdate
    annotations_before: dict[str, str]
    sent: bool = False
    """Whether a write of the update may have been sent."""

    finished: bool = False
    failure: Exception | None = None

    def finish(self, failure: Exception | None) -> None:
        """Set the result; only the first result counts."""
        if not self.finished:
            self.finished, self.failure = True, failure


@dataclass(eq=False, slots=True)
class _PendingUpdates:
    """The updates that wait for one reservation."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    updates: list[_PendingUpdate] = field(default_factory=list)

    def group(self, first: _PendingUpdate) -> list[_PendingUpdate]:
        """Return the updates to write together with `first`: all pending ones, except those that write annotations."""
        if first.annotations_before:
            return [first]
        return [update for update in self.updates if not update.finished and not update.annotations_before]


class _BindingResponse(msgspec.Struct):
    """A Status; a success has no further content."""


def _write_error(error: ApiError) -> Exception:
    return UnknownOutcomeError(str(error)) if error.is_outcome_unknown else WriteRefusedError(str(error))
