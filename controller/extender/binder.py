"""Bind, the transaction: a pod is admitted by the accounting, then by the reservation's status, then bound to the node.

1. The accounting admits the pod: from here on no other pod gets the same capacity.
2. For a reservation with allocateOnce, or one that holds devices: its status names the pod, compared and swapped. A
   replica that wrongly believes to lead, and a reservation that has ended meanwhile, fail here. Where owners share
   amounts, the accounting reads the pods from their annotations: such a status names the pod after the binding, in one
   write with others (`controller.reservations.loop`).
3. One Binding, with the annotation that names the reservation.

After a refusal everything is rolled back at once, in reverse. After a missing answer the capacity stays held
(`unconfirmed_bindings`), until a read shows the outcome.

A placeholder is bound in the same way: its reservation holds the node in the accounting, then in its status, and only
then is the pod bound, to satisfy kube-scheduler; the controller deletes it right after.
"""

import logging
from collections.abc import Iterable

from controller.extender.binding_limiter import BindingLimiter
from controller.extender.protocol import ExtenderBindingArgs
from controller.extender.scheduler_cache import CachedReservation, SchedulerCache
from controller.extender.unconfirmed_bindings import UnconfirmedBinding, UnconfirmedBindings
from controller.extender.writer import ExtenderWriter, PodChangedError, UnknownOutcomeError, WriteRefusedError
from dra.api.reservations import well_known
from dra.api.reservations.model import Reservation, ReservationPhase, ReservationStatus
from dra.api.reservations.well_known import MalformedAnnotationError
from dra.engine.reservations import phases, placeholders, reservation_info, statuses
from dra.engine.reservations.accounting import AssumedPod
from dra.engine.reservations.pod_info import PodInfo
from dra.engine.reservations.rejections import Rejection
from dra.engine.reservations.reservation_info import ReservationInfo
from dra.engine.reservations.reservation_placement import ReservationPlacement
from dra.engine.reservations.statuses import AssignedPod
from dra.kube.clock import Clock
from dra.kube.errors import ApiError
from dra.kube.tasks import BackgroundTasks
from dra.model.meta import Uid
from dra.model.quantities import MalformedAmountsError
from dra.model.scheduling import SchedulerPod

_log = logging.getLogger(__name__)


class Binder:
    """A binder of pods that handles one call per pod at a time."""

    def __init__(
        self,
        *,
        picture: SchedulerCache,
        writing: ExtenderWriter,
        doubts: UnconfirmedBindings,
        turns: BindingLimiter,
        clock: Clock,
        seconds: float,
    ) -> None:
        """Create a binder; ``seconds`` is the maximum duration of a bind."""
        self._turns = turns
        self._picture = picture
        self._writing = writing
        self._doubts = doubts
        self._clock = clock
        self._seconds = seconds
        self._busy: set[Uid] = set()
        self._tidying = BackgroundTasks()

    async def bind(self, call: ExtenderBindingArgs) -> None:
        """Bind a pod to the node of the call.

        Raises WriteRefusedError if nothing has changed, or UnknownOutcomeError.
        """
        if call.pod_uid in self._busy:
            raise WriteRefusedError("another bind of this pod is in progress; the scheduler retries")
        if self._doubts.busy(call.pod_uid):
            raise WriteRefusedError("the writes of the last failed bind are being rolled back; the scheduler retries")
        self._busy.add(call.pod_uid)
        deadline = self._clock.now() + self._seconds
        try:
            async with self._turns.turn(deadline=deadline):
                pod = await self._found(call, deadline=deadline)
                if (uid := placeholders.reservation_uid_of(pod.metadata)) is not None:
                    await self._place(pod, uid, call.node, deadline=deadline)
                else:
                    await self._bind(pod, call.node, deadline=deadline)
        finally:
            self._busy.discard(call.pod_uid)

    async def close(self) -> None:
        """Wait until running rollbacks have finished."""
        await self._tidying.wait_for_all()

    async def _found(self, call: ExtenderBindingArgs, *, deadline: float) -> SchedulerPod:
        found = self._picture.waiting(call.pod_uid)
        if found is None:
            try:
                found = await self._writing.pod((call.pod_namespace, call.pod_name), deadline=deadline)
            except ApiError as error:
                raise WriteRefusedError(str(error)) from error
        if found is None or found.metadata.uid != call.pod_uid:
            raise WriteRefusedError("it is gone")
        if found.spec.node_name:
            raise WriteRefusedError(f"it is bound to node {found.spec.node_name} already")
        return found

    async def _bind(self, pod: SchedulerPod, node: str, *, deadline: float) -> None:
        try:
            claimant = self._picture.claimant(pod)
        except MalformedAnnotationError as error:
            raise WriteRefusedError(str(error)) from error
        self._picture.nominations.release(claimant.uid)
        admission = self._picture.accounting.assume_pod(claimant, node)
        if not isinstance(admission, AssumedPod):
            self._picture.nominations.update_nomination(claimant, pod.status.nominated_node_name)
            raise WriteRefusedError(_joined_reasons(admission))
        consumer = AssignedPod(uid=claimant.uid, key=claimant.key, amounts=claimant.amounts, binding=True)
        doubt = UnconfirmedBinding(pod=consumer, node=node, inside=admission.reservation)
        self._doubts.begin(doubt)
        try:
            known = await self._enter(admission.reservation, claimant, consumer, deadline=deadline)
            await self._writing.post(claimant.key, claimant.uid, node, reservation=known, deadline=deadline)
        except PodChangedError as error:
            if not await self._bound_already(doubt, deadline=deadline):
                self._take_back(doubt)
                raise WriteRefusedError(str(error)) from error
        except WriteRefusedError:
            self._take_back(doubt)
            raise
        except BaseException:
            self._doubts.stays(doubt)  # unanswered, or cancelled in between
            raise
        self._doubts.end(claimant.uid)

    async def _bound_already(self, doubt: UnconfirmedBinding, *, deadline: float) -> bool:
        """Return whether an earlier attempt has bound the pod; raise WriteRefusedError if it is on another node."""
        try:
            pod = await self._writing.pod(doubt.pod.key, deadline=deadline)
        except (ApiError, WriteRefusedError) as error:
            self._doubts.stays(doubt)
            raise UnknownOutcomeError(str(error)) from error
        except BaseException:
            self._doubts.stays(doubt)
            raise
        if pod is None or pod.metadata.uid != doubt.pod.uid or not pod.spec.node_name:
            return False
        self._picture.observe_pod(pod)
        self._doubts.end(doubt.pod.uid)
        if pod.spec.node_name != doubt.node:
            raise WriteRefusedError(f"it is bound to node {pod.spec.node_name} already")
        return True

    async def _enter(
        self, inside: Uid | None, pod: PodInfo, consumer: AssignedPod, *, deadline: float
    ) -> CachedReservation | None:
        if inside is None:
            return None

        def change(reservation: Reservation) -> ReservationStatus | None:
            if (
                reservation.status.phase is not ReservationPhase.AVAILABLE
                or reservation.metadata.deletion_timestamp is not None
            ):
                raise WriteRefusedError(f"reservation {reservation.metadata.name}: is not available any more")
            over = reservation_info.pre_allocated_pods(reservation)
            others = {each.uid for each in reservation.status.current_owners} - {pod.uid} - over
            if reservation.spec.allocate_once and others:
                raise WriteRefusedError("reservation has allocateOnce enabled and has already been allocated")
            return statuses.status_with_owner(reservation, consumer)

        known = self._picture.reservation(inside)
        if known is not None and not statuses.names_owner_before_binding(known.reservation):
            change(known.reservation)
            return known
        await self._writing.swap(inside, change, deadline=deadline)
        return self._picture.reservation(inside)

    def _take_back(self, doubt: UnconfirmedBinding) -> None:
        """Free the capacity, and remove the pod from the reservation's status.

        If the write fails, the outcome is read later. The possible effects of an earlier attempt are read when its time
        is over, which this refusal does not delay.
        """
        if self._doubts.open(doubt.pod.uid):
            self._doubts.refused(doubt)
            return

        async def tidy() -> None:
            try:
                await self._doubts.roll_back(doubt, deadline=self._clock.now() + self._seconds)
            except (WriteRefusedError, UnknownOutcomeError) as error:
                _log.info("pod %s/%s: the reservation's status may still list the pod: %s", *doubt.pod.key, error)
                self._doubts.stays(doubt)
            except BaseException:  # a bug, or cancelled: without this the capacity would never be freed
                self._doubts.stays(doubt)
                raise

        self._tidying.start(tidy(), name="pod {}/{}: taking back its place".format(*doubt.pod.key))

    async def _place(self, pod: SchedulerPod, uid: Uid, node: str, *, deadline: float) -> None:
        known = self._picture.reservation(uid)
        if known is None:
            raise WriteRefusedError("the placeholder's Reservation was deleted")
        if not known.info.available:
            with self._doubts.place(uid):
                await self._hold(known, node, deadline=deadline)
        elif known.info.node != node:
            raise WriteRefusedError(f"its reservation is on node {known.info.node} already")
        try:
            await self._writing.post(pod.metadata.key, pod.metadata.uid, node, reservation=None, deadline=deadline)
        except (WriteRefusedError, UnknownOutcomeError) as error:  # the placeholder has served its purpose
            _log.info("pod %s/%s: not bound, no retry needed: %s", *pod.metadata.key, error)
            raise

    async def _hold(self, known: CachedReservation, node: str, *, deadline: float) -> None:
        holding = self._wanted(known, node)
        over = ",".join(sorted(holding.pre_allocated_pods))
        inside = [AssignedPod.from_pod_info(pod) for pod in self._picture.accounting.owner_pods(holding.uid)]

        def change(reservation: Reservation) -> ReservationStatus | None:
            if reservation.status.phase is ReservationPhase.AVAILABLE and reservation.status.node_name == node:
                return None  # done by an earlier attempt
            if reservation_info.from_reservation(reservation).allocatable != holding.allocatable:
                raise WriteRefusedError(f"reservation {known.name}: was resized during the bind; the scheduler retries")
            now = self._writing.now().timestamp()
            try:
                after = statuses.bound_status(reservation, node=node, now=now, pre_allocated_pods=inside)
            except (MalformedAmountsError, MalformedAnnotationError) as error:
                raise WriteRefusedError(f"reservation {known.name}: {error}") from error
            if after is None or phases.expiration_time(reservation) <= now:
                raise WriteRefusedError(f"reservation {known.name}: is over")
            return after

        try:
            await self._writing.swap(
                holding.uid,
                change,
                deadline=deadline,
                annotations={well_known.ANNOTATION_PLACED_OVER: over} if over else None,
            )
        except WriteRefusedError:
            if not self._doubts.open(holding.uid):
                self._picture.settle(holding.uid)
            raise
        except BaseException:
            self._doubts.placing(known)
            raise
        self._picture.settle(holding.uid)

    def _wanted(self, known: CachedReservation, node: str) -> ReservationInfo:
        """Hold the node for a reservation in the accounting; raise WriteRefusedError if it does not fit."""
        if (already := self._picture.placing(known.info.uid)) is not None:
            if already.node != node:
                raise WriteRefusedError(f"reservation {known.name}: is being placed on node {already.node}")
            return already
        if known.info.parse_error:
            raise WriteRefusedError(f"reservation {known.name}: {known.info.parse_error}")
        found = self._picture.accounting.assume_reservation(
            known.info, node, node_name=known.only, pre_allocation_required=known.required
        )
        if not isinstance(found, ReservationPlacement):
            raise WriteRefusedError(_joined_reasons(found))
        held = self._picture.accounting.reservation(known.info.uid)
        if held is None:
            raise AssertionError("what was placed is held")
        self._picture.place(held.uid, held)
        return held


def _joined_reasons(refusals: Iterable[Rejection]) -> str:
    return ", ".join(each.text for each in refusals)
