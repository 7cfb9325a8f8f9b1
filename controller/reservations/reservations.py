"""The loop of reservations: brings one reservation after another to the state that the engine decides."""

from typing import Final

import msgspec

from controller.informers import ControllerInformers
from controller.metrics import ControllerMetrics
from controller.reconciler import AGAIN, Reconciler, Settings
from controller.reservations.pod_writer import PodWriter
from controller.runtime import Runtime
from dra.engine.instants import NEVER, Instant, Moment
from dra.engine.reservations import lifecycle
from dra.engine.reservations.actions import (
    ClearReservationAllocated,
    CreatePlaceholder,
    DeletePlaceholder,
    DeleteReservation,
    GetPod,
    NominatePlaceholder,
    PatchReservationStatus,
    PodWrite,
    RecordShortage,
    RemoveSchedulingGate,
    ReservationAction,
    ReservationEvent,
    SetReservationAllocated,
)
from dra.engine.reservations.placeholders import with_image
from dra.engine.reservations.reservation_cache import ReservationCache
from dra.engine.reservations.view import AnyReservationView, ReservationPolicy
from dra.kube.client import Selection
from dra.kube.errors import AlreadyExists, ApiError, Conflict, Forbidden, Invalid, NotFound
from dra.kube.event_correlator import EventRecord, Regarding, log_level
from dra.kube.event_handlers import ignore
from dra.kube.resources import NODES, PODS, RESERVATIONS
from dra.model.meta import PartialObjectMetadata, Uid, UnstructuredObject
from dra.model.scheduling import SchedulerPod

BAD_REQUEST: Final = 400
"""HTTP status for a pod that the API server cannot decode: a field of the template has a value of another type."""

ACTION: Final = "Reserve"


class StaleViewError(Exception):
    """The view of a decision is out of date, and the cache has what was found out: a new decision is due."""


class Reservations(Reconciler[Uid]):
    """The loop of reservations."""

    settings = Settings(name="reservation", workers=8, retry=(0.2, 30.0), conflicts=3)
    cache: ReservationCache

    def __init__(
        self, runtime: Runtime[ControllerMetrics], informers: ControllerInformers, *, policy: ReservationPolicy
    ) -> None:
        self.cache = ReservationCache(policy, claims=informers.claims.objects)
        needs = (informers.nodes, informers.claims, informers.reservations, informers.scheduler_pods)
        super().__init__(runtime, informers, self.cache, needs=needs)
        self._nodes = informers.nodes.objects
        self._informer = informers.reservations
        self._placeholder_image = policy.placeholder_image
        self._writer = PodWriter(runtime, self.cache)
        informers.nodes.subscribe(ignore, self.cache.forget_node)
        informers.claims.subscribe(self.cache.observe_claim, self.cache.forget_claim)
        informers.reservations.subscribe(self._observe, self._forget)
        informers.scheduler_pods.subscribe(self.cache.observe_pod, self.cache.forget_pod, leave=self.cache.leave_pod)

    def _observe(self, obj: UnstructuredObject) -> None:
        self.cache.observe(obj, now=self._runtime.instant())

    def _forget(self, obj: UnstructuredObject) -> None:
        self.cache.forget(obj.metadata.uid)

    def subject(self, key: Uid) -> str:
        """Return the name of a reservation."""
        return f"reservation {self.cache.name(key) or key}"

    async def reconcile(self, key: Uid, now: Moment) -> Instant:
        """Bring one reservation to the state that the engine decides; return when to decide again. Raises ApiError."""
        view = self.cache.view(key, nodes=self._nodes, now=now.instant)
        if view is None:
            return NEVER
        if node := lifecycle.node_to_read(view):
            view = msgspec.structs.replace(view, node_is_read=True, node_gone=await self._is_node_gone(node))
        plan = lifecycle.decide(view, now)
        try:
            for action in plan.actions:
                await self._apply(action, view)
        except StaleViewError:
            return AGAIN
        for event in plan.reasons:
            self._record_event(view, event)
            self.cache.placement_reported(key)
        return min(plan.wake_at, now.instant_of(plan.wake_at_wall))

    async def refresh(self, key: Uid) -> None:
        """Read a reservation live into the cache."""
        name = self.cache.name(key)
        if not name:
            return  # deleted while the write was in flight
        try:
            obj = await self._runtime.client.get(RESERVATIONS, ("", name), UnstructuredObject)
        except NotFound as error:
            self._forget_missing(key, name, error)
            return
        if obj.metadata.uid == key:
            self._informer.observe_response(obj)
        else:
            self._informer.observe_missing(("", name), key)
            self.cache.forget(key)

    def _forget_missing(self, uid: Uid, name: str, error: NotFound) -> None:
        """Forget a reservation that an answer shows gone; raise the error if the kind is not served at the moment."""
        if not error.is_about(name):
            raise error
        self._informer.observe_missing(("", name), uid)
        self.cache.forget(uid)

    async def _is_node_gone(self, node: str) -> bool:
        only = Selection(fields=f"metadata.name={node}")
        pages = self._runtime.client.list_pages(NODES, PartialObjectMetadata, selection=only)
        return not any([page.items async for page in pages])

    async def _apply(self, action: ReservationAction, view: AnyReservationView) -> None:
        """Apply one action of a decision: on condition of the version that was decided on, never of a later one."""
        match action:
            case PatchReservationStatus():
                await self._patch_status(action, view)
            case CreatePlaceholder():
                await self._create_placeholder(action, view)
            case DeletePlaceholder():
                await self._delete_placeholder(action)
            case GetPod():
                await self._read_pod(action, view)
            case DeleteReservation():
                await self._delete_reservation(view)
            case RecordShortage():
                self.cache.record_shortage(view.uid, action.since)
            case (
                NominatePlaceholder() | SetReservationAllocated() | RemoveSchedulingGate() | ClearReservationAllocated()
            ):
                await self._write_pod(action, view)

    async def _patch_status(self, action: PatchReservationStatus, view: AnyReservationView) -> None:
        try:
            answer = await self._runtime.client.merge_patch(
                RESERVATIONS,
                ("", view.name),
                action.body,
                model=UnstructuredObject,
                subresource="status",
                resource_version=view.version,
                uid=view.uid,
                timeout_seconds=self._runtime.write_timeout(),
            )
        except NotFound as error:
            self._forget_missing(view.uid, view.name, error)
            raise StaleViewError from error
        self.cache.record_write(view.uid, now=self._runtime.instant())
        self._informer.observe_response(answer)
        for event in action.events:
            self._record_event(view, event)

    async def _create_placeholder(self, action: CreatePlaceholder, view: AnyReservationView) -> None:
        manifest = with_image(action.manifest, self._placeholder_image)
        try:
            pod = await self._runtime.client.create(
                PODS,
                manifest,
                model=SchedulerPod,
                namespace=manifest["metadata"]["namespace"],
                timeout_seconds=self._runtime.write_timeout(),
            )
        except AlreadyExists:
            return  # the watch will deliver it
        except ApiError as error:
            if not isinstance(error, Forbidden | Invalid | NotFound) and error.status != BAD_REQUEST:
                raise
            self.cache.record_refusal(view.uid, error.message, now=self._runtime.instant())
            raise StaleViewError from error  # the pause is for all placeholders of the plan
        self.cache.observe_created(view.uid, pod)

    async def _delete_placeholder(self, action: DeletePlaceholder) -> None:
        try:
            await self._runtime.client.delete(
                PODS, action.key, uid=action.uid, grace_seconds=0, timeout_seconds=self._runtime.write_timeout()
            )
        except (NotFound, Conflict):
            return

    async def _read_pod(self, action: GetPod, view: AnyReservationView) -> None:
        try:
            pod: SchedulerPod | None = await self._runtime.client.get(PODS, action.key, SchedulerPod)
        except NotFound as error:
            if not error.is_about(action.key[1]):
                raise
            pod = None
        if pod is not None and pod.metadata.uid != action.uid:
            pod = None
        self.cache.observe_live_pod(view.uid, action.uid, pod, now=self._runtime.instant())

    async def _delete_reservation(self, view: AnyReservationView) -> None:
        try:
            await self._runtime.client.delete(
                RESERVATIONS,
                ("", view.name),
                uid=view.uid,
                resource_version=view.version,
                timeout_seconds=self._runtime.write_timeout(),
            )
        except (NotFound, Conflict):
            return

    async def _write_pod(self, action: PodWrite, view: AnyReservationView) -> None:
        try:
            await self._writer.apply(action, view)
        except (NotFound, Conflict) as error:  # the pod was deleted or replaced
            await self._read_pod(GetPod(key=action.key, uid=action.uid), view)
            raise StaleViewError from error

    def _record_event(self, view: AnyReservationView, event: ReservationEvent) -> None:
        text, reason = event.message, event.reason.value
        self._log.log(log_level(event.type), "reservation %s: %s", view.name, text, extra={"reason": reason})
        regarding = Regarding.cluster_scoped(RESERVATIONS, view.name, view.uid)
        self._runtime.recorder.record(
            EventRecord(regarding=regarding, reason=reason, action=ACTION, note=text, severity=event.type)
        )
