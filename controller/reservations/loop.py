"""The reconcile loop of reservations: brings one reservation after another to what the engine decides."""

import asyncio
import logging
from collections.abc import Callable, Container
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, Final, NoReturn, Protocol

import msgspec

from controller.leadership import Leadership
from controller.optional_part import OptionalPart
from controller.reservations.pod_writer import PodWriter, StalePodError
from controller.reservations.scheduling_gates import SchedulingGateRemover
from dra.api.configuration import PlaceholderMode
from dra.api.reservations.model import MalformedReservationError, Reservation, ReservationPhase, parse_reservation
from dra.api.reservations.well_known import PAUSE_IMAGE
from dra.engine.instants import NEVER, Instant
from dra.engine.reservations import lifecycle
from dra.engine.reservations.actions import (
    ClearReservationAllocated,
    CreatePlaceholder,
    DeleteReservation,
    GetPod,
    PatchReservationStatus,
    ReservationAction,
    ReservationEvent,
    ReservationPlan,
)
from dra.engine.reservations.phases import CONDITION_READABLE, ReservationReason
from dra.engine.reservations.placeholder_handover import (
    DeletePlaceholder,
    NominatePlaceholder,
    RemoveSchedulingGate,
    SetReservationAllocated,
)
from dra.engine.reservations.placeholders import with_image
from dra.engine.reservations.reservation_cache import (
    ReservationCache,
    is_reservation_or_pending_pod,
    is_reservation_pod,
)
from dra.engine.reservations.view import ReservationView
from dra.kube.client import WRITE_TIMEOUT, Client, Selection
from dra.kube.clock import Clock, rfc3339
from dra.kube.errors import AlreadyExists, ApiError, Conflict, Forbidden, Invalid, NotFound
from dra.kube.event_correlator import EventRecord, Regarding
from dra.kube.event_handlers import EventHandlerFuncs
from dra.kube.events import EventRecorder
from dra.kube.informers import Informers
from dra.kube.reflector import Reflector
from dra.kube.resources import NODES, PODS, RESERVATIONS
from dra.kube.workqueue import BATCH_DELAY, ItemBackoff, RetryPolicy, WorkQueue
from dra.model.event_type import EventType
from dra.model.meta import Key, ObjectMeta, PartialObjectMetadata, Uid, UnstructuredObject, content_fault
from dra.model.scheduling import SchedulerPod
from dra.telemetry.logs import reconcile_id

WORKERS: Final = 8
MAX_ROUNDS: Final = 4
"""Maximum number of decisions on one reservation in one reconciliation."""

RETRY_BACKOFF: Final = (0.2, 30.0)
CREATE_BACKOFF: Final = (2.0, 60.0)
"""Seconds, first and longest, until a rejected placeholder is created again: quotas are changed by users."""

BAD_REQUEST: Final = 400
"""HTTP status for a pod that the API server cannot decode: a field of the template has a value of another type."""

STATUS_DEBOUNCE: Final = 3.0
"""Seconds from the binding or end of an owner pod to the status that reports it, for reservations with several owner
pods: one write covers them all, and the pods of a Job come within seconds.
"""

STATUS_INTERVAL: Final = 5.0
"""Minimum seconds between two such writes of one status, as long as owner pods come and go."""

NODE_CHECK_INTERVAL: Final = 5.0
"""Seconds between two checks for reservations whose node is gone."""

MAX_SLEEP: Final = 600.0
"""Maximum seconds until a wall-clock deadline is checked again: the wall clock may jump."""

ACTION: Final = "Reserve"

_log: Final = logging.getLogger(__name__)


class ReservationEventHandler(Protocol):
    """A handler of reservation events: the component that maintains the claims of reservations."""

    supports_claims: bool
    """Whether the claims of templates can be held."""

    def observe_reservation(self, uid: Uid, reservation: Reservation, /) -> None:
        """Handle an added or updated reservation."""

    def reservation_unreadable(self, uid: Uid, /) -> None:
        """Handle a reservation that exists and cannot be read."""

    def forget_reservation(self, uid: Uid, /) -> None:
        """Handle a reservation that is certainly deleted."""

    def flush(self) -> None:
        """Handle the end of a batch of events."""


class _ReservationGoneError(Exception):
    """The reservation was deleted after its plan was made."""


class ReservationLoop(OptionalPart):
    """Watches reservations and their pods, decides, and writes."""

    def __init__(  # noqa: PLR0913 - keyword-only: the parts it works with
        self,
        client: Client,
        *,
        recorder: EventRecorder,
        nodes: Reflector[Any],
        clock: Clock,
        leadership: Leadership,
        listener: ReservationEventHandler | None = None,
        placeholders: PlaceholderMode = PlaceholderMode.REPLACED,
        placeholder_image: str = PAUSE_IMAGE,
        translates_requests: bool = False,
        claims: Container[Key] = frozenset(),
        on_internal_error: Callable[[], None] | None = None,
    ) -> None:
        """Create the loop; ``nodes`` is a reflector of all nodes, which another component runs.

        ``listener`` receives the events of all reservations before this loop decides anything. ``translates_requests``:
        pods that request bound CPUs get a claim for them. ``claims`` are the existing claims, whose owner calls
        `claim_changed` and `claim_deleted`. ``on_internal_error`` counts internal errors.
        """
        self._client = client
        self._recorder = recorder
        self._nodes = nodes
        self._clock = clock
        self._leadership = leadership
        self._placeholder_image = placeholder_image
        self.cache = ReservationCache(placeholder_mode=placeholders, claims=claims)
        self._writer = PodWriter(client, cache=self.cache, write_timeout=self._write_timeout)
        self._gates = SchedulingGateRemover(self._writer, cache=self.cache, nodes=nodes, clock=clock)
        self._listener = listener
        self._translates_requests = translates_requests
        self._acting = False
        self._queue: WorkQueue[Uid] = WorkQueue(clock, batch_delay=BATCH_DELAY)
        self._retry: RetryPolicy[Uid] = RetryPolicy(
            _log, subject=self._subject, bounds=RETRY_BACKOFF, on_internal_error=on_internal_error
        )
        self._refusals: ItemBackoff[Uid] = ItemBackoff()
        self._reservations = Reflector(
            client,
            RESERVATIONS,
            UnstructuredObject,
            handler=EventHandlerFuncs(
                on_upsert=self._observe,
                on_delete=lambda found: self._forget(found.metadata.uid),
                on_batch_end=self._wake,
            ),
            clock=clock,
        )
        self._reflectors = Informers(
            self._reservations,
            Reflector(
                client,
                PODS,
                SchedulerPod,
                handler=EventHandlerFuncs(
                    on_upsert=self.cache.observe_pod,
                    on_delete=partial(self.cache.forget_pod, certain=True),
                    on_leave=partial(self.cache.forget_pod, certain=False),
                    on_batch_end=self._wake,
                ),
                keep=is_reservation_or_pending_pod if placeholders is PlaceholderMode.YIELDING else is_reservation_pod,
                clock=clock,
            ),
        )
        self._unreadable: dict[Uid, tuple[UnstructuredObject, str]] = {}
        self._written: dict[Uid, Instant] = {}
        """Reservation → when its status was last written."""

    async def watch(self) -> None:
        """Watch reservations and pods until cancelled; raises ServerRestoredError."""
        await self._reflectors.run()

    async def run(self) -> None:
        """Reconcile reservations until cancelled, once all caches are synced."""
        await self._nodes.synced.wait()
        await self._reflectors.wait_for_sync()
        self._acting = True
        self.cache.changed.update(self.cache.uids())
        self.cache.changed.update(self._unreadable)
        self._wake()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._queue.run(self._process, workers=WORKERS, retry=self._retry), name="turns")
                group.create_task(self._check_nodes(), name="nodes")
                group.create_task(self._gates.run(), name="gates")
        finally:
            self._acting = False

    async def _check_nodes(self) -> NoReturn:
        """Requeue reservations whose node is not in the cache, until cancelled: another component watches nodes."""
        while True:
            await asyncio.sleep(NODE_CHECK_INTERVAL)
            self.cache.changed.update(self.cache.without_node(self._nodes.objects))
            self._wake()

    async def wait_for_sync(self) -> None:
        """Wait until all reservations are in the cache."""
        await self._reservations.synced.wait()

    def not_ready_reasons(self) -> list[str]:
        """Return why reservations or pods are not in the cache; empty when ready."""
        return self._reflectors.not_ready_reasons()

    # Events from watches

    def _observe(self, obj: UnstructuredObject) -> None:
        uid = obj.metadata.uid
        try:
            reservation = parse_reservation(obj.content)
        except MalformedReservationError as error:
            self._unreadable[uid] = (obj, str(error))
            self.cache.changed.add(uid)
            if self._listener is not None:
                self._listener.reservation_unreadable(uid)
            return
        self._unreadable.pop(uid, None)
        before = self.cache.observe(uid, obj.metadata.resource_version, reservation, now=self._clock.now())
        if self._listener is not None and before is not reservation:  # otherwise older than the cached version
            self._listener.observe_reservation(uid, reservation)
        placed = reservation.status.phase is ReservationPhase.AVAILABLE
        if placed and before is not None and before.status.phase is ReservationPhase.PENDING and self._acting:
            text = f"Successfully assigned {reservation.metadata.name} to {reservation.status.node_name}"
            self._record_event(obj.metadata, ReservationEvent(reason=ReservationReason.SCHEDULED, message=text))

    @property
    def _supports_claims(self) -> bool:
        return self._listener is not None and self._listener.supports_claims

    def _forget(self, uid: Uid) -> None:
        self._unreadable.pop(uid, None)
        self._written.pop(uid, None)
        self._refusals.forget(uid)
        self.cache.forget(uid)
        if self._listener is not None:
            self._listener.forget_reservation(uid)

    def claim_changed(self, key: Key, /) -> None:
        """Reconcile the reservations that may admit a pod which lacked the claim; also called for known claims."""
        self.cache.claim_added(key)
        self._wake_if_changed()

    def claim_deleted(self, key: Key, /) -> None:
        """Reconcile the reservations whose status names a pod without a node that uses the claim."""
        self.cache.claim_deleted(key)
        self._wake_if_changed()

    def _wake_if_changed(self) -> None:
        if self.cache.changed:
            self._wake()

    def _wake(self) -> None:
        if self._listener is not None:
            self._listener.flush()
        changed, owners_changed = self.cache.changed, self.cache.owners_changed
        if not self._acting:
            changed.clear()
            owners_changed.clear()
            return
        if changed or self.cache.pending_pods.gated_changed:
            self._gates.wake()
        while changed:
            self._queue.add(changed.pop())
        now = self._clock.now()
        while owners_changed:
            uid = owners_changed.pop()
            self._queue.add_at(uid, max(now + STATUS_DEBOUNCE, self._written.get(uid, float("-inf")) + STATUS_INTERVAL))

    # Reconciliation

    def _subject(self, uid: Uid) -> str:
        found = self.cache.get(uid)
        return f"reservation {found[0].metadata.name if found is not None else uid}"

    async def _process(self, uid: Uid) -> None:
        """Reconcile one reservation, and enqueue what has changed meanwhile."""
        reconcile_id.set(self._subject(uid))
        try:
            await self.reconcile(uid)
        except _ReservationGoneError:
            return  # deleted while a request was in flight
        finally:
            self._wake()

    async def reconcile(self, uid: Uid) -> None:
        """Bring one reservation to the state that the engine decides. Raises ApiError."""
        if uid in self._unreadable:
            with suppress(Conflict):  # the watch is about to show another version
                await self._report_unreadable(*self._unreadable[uid])
            return
        await self._reread_unbound_pods(uid)
        for _ in range(MAX_ROUNDS):
            view = self.cache.view(
                uid,
                nodes=self._nodes.objects,
                supports_claims=self._supports_claims,
                translates_requests=self._translates_requests,
                now=self._clock.now(),
            )
            if view is None:
                return
            if view.node_gone and not await self._is_node_gone(view.reservation.status.node_name):
                view = msgspec.structs.replace(view, node_gone=False)
            wall = self._clock.wall()
            plan = lifecycle.decide(view, now=wall.timestamp())
            try:
                for action in plan.actions:
                    await self._apply(uid, action, view)
            except StalePodError as error:
                await self._read_pod(uid, GetPod(key=error.key, uid=error.uid))
                continue
            except Conflict:
                await self._refresh(uid)
                continue
            self.cache.record_shortage(uid, wall.timestamp() if plan.has_shortage else None)
            self._schedule_next(uid, plan, wall=wall)
            if view.expected_pods:
                self._queue.add_at(uid, self.cache.expected_bound_until(uid))
            if not any(isinstance(action, PatchReservationStatus | GetPod) for action in plan.actions):
                return

    async def _is_node_gone(self, node: str) -> bool:
        """Return whether a node is missing from a live list, too; the watch may lag behind a node just created."""
        only = Selection(fields=f"metadata.name={node}")
        pages = [page async for page in self._client.list_pages(NODES, PartialObjectMetadata, selection=only)]
        return not any(page.items for page in pages)

    def _schedule_next(self, uid: Uid, plan: ReservationPlan, *, wall: datetime) -> None:
        now = self._clock.now()
        if plan.wake_at != NEVER:
            self._queue.add_at(uid, now + min(max(plan.wake_at - wall.timestamp(), 0.0) + 0.05, MAX_SLEEP))
        reread_at, _ = self.cache.unbound_pods(uid)
        self._queue.add_at(uid, reread_at)
        if now < (retry_at := self.cache.create_retry_at(uid)):
            self._queue.add_at(uid, retry_at)

    async def _reread_unbound_pods(self, uid: Uid) -> None:
        again, pods = self.cache.unbound_pods(uid)
        if again <= self._clock.now():
            for each in pods:
                await self._read_pod(uid, GetPod(key=each.key, uid=each.uid))

    async def _apply(self, uid: Uid, action: ReservationAction, view: ReservationView) -> None:
        """Apply one action of a decision: on condition of the version that was decided on, never of a later one."""
        match action:
            case PatchReservationStatus():
                await self._patch_status(uid, action, view)
            case CreatePlaceholder():
                await self._create_placeholder(uid, action)
            case DeletePlaceholder():
                try:
                    await self._client.delete(
                        PODS, action.key, uid=action.uid, grace_seconds=0, timeout_seconds=self._write_timeout()
                    )
                except (NotFound, Conflict):
                    return
            case GetPod():
                await self._read_pod(uid, action)
            case DeleteReservation():
                await self._delete_reservation(uid, view)
            case (
                NominatePlaceholder() | SetReservationAllocated() | RemoveSchedulingGate() | ClearReservationAllocated()
            ):
                await self._writer.apply(view.reservation, action)

    async def _patch_status(self, uid: Uid, action: PatchReservationStatus, view: ReservationView) -> None:
        if self.cache.get(uid) is None:
            raise _ReservationGoneError(uid)
        answer = await self._client.merge_patch(
            RESERVATIONS,
            ("", view.reservation.metadata.name),
            action.body,
            model=UnstructuredObject,
            subresource="status",
            resource_version=view.version,
            uid=uid,
            timeout_seconds=self._write_timeout(),
        )
        self._written[uid] = self._clock.now()
        self._observe(answer)
        for event in action.events:
            self._record_event(answer.metadata, event)

    async def _create_placeholder(self, uid: Uid, action: CreatePlaceholder) -> None:
        if self._clock.now() < self.cache.create_retry_at(uid):
            return  # another placeholder of the same decision was refused
        manifest = with_image(action.manifest, self._placeholder_image)
        try:
            made = await self._client.create(
                PODS,
                manifest,
                model=SchedulerPod,
                namespace=manifest["metadata"]["namespace"],
                timeout_seconds=self._write_timeout(),
            )
        except AlreadyExists:
            return  # the watch will deliver it
        except ApiError as error:
            if not isinstance(error, Forbidden | Invalid | NotFound) and error.status != BAD_REQUEST:
                raise
            retry_at = self._clock.now() + self._refusals.next_delay(uid, CREATE_BACKOFF)
            self.cache.record_create_error(uid, error.message, retry_at=retry_at)
            return
        self._refusals.forget(uid)
        self.cache.observe_pod(made)

    async def _read_pod(self, uid: Uid, action: GetPod) -> None:
        try:
            pod: SchedulerPod | None = await self._client.get(PODS, action.key, SchedulerPod)
        except NotFound as error:
            if not error.is_about(action.key[1]):
                raise
            pod = None
        if pod is not None and pod.metadata.uid != action.uid:
            pod = None
        now = self._clock.now()
        self.cache.observe_live_pod(uid, action.uid, pod, now=now)
        self._queue.add_at(uid, self.cache.eligible_from(action.uid))

    async def _delete_reservation(self, uid: Uid, view: ReservationView) -> None:
        try:
            await self._client.delete(
                RESERVATIONS,
                ("", view.reservation.metadata.name),
                uid=uid,
                resource_version=view.version,
                timeout_seconds=self._write_timeout(),
            )
        except (NotFound, Conflict):
            return

    async def _refresh(self, uid: Uid) -> None:
        known = self.cache.get(uid)
        if known is None:
            return
        try:
            found = await self._client.get(RESERVATIONS, ("", known[0].metadata.name), UnstructuredObject)
        except NotFound as error:
            if not error.is_about(known[0].metadata.name):
                raise
            self._forget(uid)
            return
        if found.metadata.uid == uid:
            self._observe(found)
        else:
            self._forget(uid)

    async def _report_unreadable(self, obj: UnstructuredObject, text: str) -> None:
        """Report in a condition why an object cannot be read as a Reservation; no other action follows.

        An object that is too large gets only an Event, from its informer: a write of it costs the API server seconds.
        """
        if content_fault(obj.content):
            return
        status = obj.content.get("status")
        given = status.get("conditions") if isinstance(status, dict) else None
        conditions = [each for each in given or () if isinstance(each, dict)]
        before = next((each for each in conditions if each.get("type") == CONDITION_READABLE), {})
        if before.get("message") == text:
            return
        now = rfc3339(self._clock.wall())
        condition = {
            "type": CONDITION_READABLE,
            "status": "False",
            "reason": ReservationReason.INVALID.value,
            "message": text,
        }
        condition |= {"lastProbeTime": now, "lastTransitionTime": before.get("lastTransitionTime", now)}
        rest = [each for each in conditions if each.get("type") != CONDITION_READABLE]
        await self._client.merge_patch(
            RESERVATIONS,
            ("", obj.metadata.name),
            {"status": {"conditions": [*rest, condition]}},
            model=PartialObjectMetadata,
            subresource="status",
            resource_version=obj.metadata.resource_version,
            uid=obj.metadata.uid,
            timeout_seconds=self._write_timeout(),
        )
        self._record_event(
            obj.metadata,
            ReservationEvent(reason=ReservationReason.INVALID, message=text, type=EventType.WARNING),
        )

    def _record_event(self, metadata: ObjectMeta, event: ReservationEvent) -> None:
        level = logging.WARNING if event.type is EventType.WARNING else logging.INFO
        _log.log(level, "reservation %s: %s", metadata.name, event.message, extra={"reason": event.reason.value})
        self._recorder.record(
            EventRecord(
                regarding=Regarding.of(RESERVATIONS, metadata),
                reason=event.reason.value,
                action=ACTION,
                note=event.message,
                severity=event.type,
            )
        )

    def _write_timeout(self) -> float:
        return self._leadership.write_timeout(WRITE_TIMEOUT, now=self._clock.now())
