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
from controller.extender.metrics import ExtenderMetrics
from controller.extender.unconfirmed_bindings import UnconfirmedBinding, UnconfirmedBindings
from controller.extender.writer import ExtenderWriter, PodChangedError, UnknownOutcomeError
from controller.runtime import Runtime
from dra.api.reservations.well_known import MalformedAnnotationError
from dra.engine.reservations import placeholders, statuses
from dra.engine.reservations.accounting import AssumedPod
from dra.engine.reservations.rejections import Rejection
from dra.engine.reservations.reservation_info import ReservationInfo
from dra.engine.reservations.reservation_placement import ReservationPlacement
from dra.engine.reservations.statuses import AssignedPod
from dra.engine.scheduling import status_updates
from dra.engine.scheduling.scheduler_cache import CachedReservation, SchedulerCache
from dra.engine.scheduling.status_updates import AddOwner, PlaceReservation, WriteRefusedError
from dra.kube.errors import ApiError
from dra.kube.tasks import BackgroundTasks
from dra.model.extender_protocol import ExtenderBindingArgs
from dra.model.meta import Uid
from dra.model.scheduling import SchedulerPod

_log = logging.getLogger(__name__)


class Binder:
    """A binder of pods that handles one call per pod at a time."""

    def __init__(
        self,
        runtime: Runtime[ExtenderMetrics],
        *,
        cache: SchedulerCache,
        writer: ExtenderWriter,
        unconfirmed: UnconfirmedBindings,
    ) -> None:
        self.limiter = BindingLimiter(clock=runtime.clock, seconds=writer.seconds)
        self.is_active = False
        """Whether this replica is the leader and may bind."""
        self._runtime = runtime
        self._cache = cache
        self._writer = writer
        self._unconfirmed = unconfirmed
        self._busy: set[Uid] = set()
        self._rollbacks = BackgroundTasks()

    async def bind(self, call: ExtenderBindingArgs) -> None:
        """Bind a pod to the node of the call.

        Raises WriteRefusedError if nothing has changed, or UnknownOutcomeError.
        """
        if call.pod_uid in self._busy:
            raise WriteRefusedError("another bind of this pod is in progress; the scheduler retries")
        if self._unconfirmed.is_in_progress(call.pod_uid):
            raise WriteRefusedError("the writes of the last failed bind are being rolled back; the scheduler retries")
        self._busy.add(call.pod_uid)
        deadline = self._writer.deadline()
        try:
            async with self.limiter.slot(deadline=deadline):
                pod = await self._find_pod(call, deadline=deadline)
                if (uid := placeholders.reservation_uid_of(pod.metadata)) is not None:
                    await self._bind_placeholder(pod, uid, call.node, deadline=deadline)
                else:
                    await self._bind(pod, call.node, deadline=deadline)
        finally:
            self._busy.discard(call.pod_uid)

    async def close(self) -> None:
        """Wait until running rollbacks have finished."""
        await self._rollbacks.wait_for_all()

    async def _find_pod(self, call: ExtenderBindingArgs, *, deadline: float) -> SchedulerPod:
        found = self._cache.pending_pod(call.pod_uid)
        if found is None:
            try:
                found = await self._writer.read_pod((call.pod_namespace, call.pod_name), deadline=deadline)
            except ApiError as error:
                raise WriteRefusedError(str(error)) from error
        if found is None or found.metadata.uid != call.pod_uid:
            raise WriteRefusedError("it is gone")
        if found.spec.node_name:
            raise WriteRefusedError(f"it is bound to node {found.spec.node_name} already")
        return found

    async def _bind(self, pod: SchedulerPod, node: str, *, deadline: float) -> None:
        try:
            pod_info = self._cache.pod_info(pod)
        except MalformedAnnotationError as error:
            raise WriteRefusedError(str(error)) from error
        scored = self._cache.nodes_with_reservation.pop(pod_info.uid, frozenset())
        is_new = self._cache.accounting.assignment(pod_info.uid) is None
        self._cache.nominations.release(pod_info.uid)
        admission = self._cache.accounting.assume_pod(pod_info, node)
        if not isinstance(admission, AssumedPod):
            self._cache.nominations.update_nomination(pod_info, pod.status.nominated_node_name)
            raise WriteRefusedError(_joined_reasons(admission))
        if is_new and admission.reservation is None and node in scored:
            # Another pod of the same owner was faster; a reservation on another node may be meant for this one.
            self._cache.accounting.forget_pod(pod_info.uid)
            raise WriteRefusedError("another pod has taken the reservation on the node; the scheduler tries again")
        consumer = AssignedPod.from_pod_info(pod_info, binding=True)
        binding = UnconfirmedBinding(pod=consumer, node=node, reservation=admission.reservation)
        self._unconfirmed.begin(binding)
        try:
            known = await self._reserve(binding, deadline=deadline)
            await self._writer.bind(pod_info.key, pod_info.uid, node, reservation=known, deadline=deadline)
        except PodChangedError as error:
            if not await self._bound_already(binding, deadline=deadline):
                self._unreserve(binding)
                raise WriteRefusedError(str(error)) from error
        except WriteRefusedError:
            self._unreserve(binding)
            raise
        except BaseException:
            self._unconfirmed.add(binding)  # unanswered, or cancelled in between
            raise
        self._unconfirmed.confirm(pod_info.uid)

    async def _bound_already(self, binding: UnconfirmedBinding, *, deadline: float) -> bool:
        """Return whether an earlier attempt has bound the pod; raise WriteRefusedError if it is on another node."""
        try:
            pod = await self._writer.read_pod(binding.pod.key, deadline=deadline)
        except (ApiError, WriteRefusedError) as error:
            self._unconfirmed.add(binding)
            raise UnknownOutcomeError(str(error)) from error
        except BaseException:
            self._unconfirmed.add(binding)
            raise
        if pod is None or pod.metadata.uid != binding.pod.uid or not pod.spec.node_name:
            return False
        self._cache.observe_pod(pod)
        self._unconfirmed.confirm(binding.pod.uid)
        if pod.spec.node_name != binding.node:
            raise WriteRefusedError(f"it is bound to node {pod.spec.node_name} already")
        return True

    async def _reserve(self, binding: UnconfirmedBinding, *, deadline: float) -> CachedReservation | None:
        if (uid := binding.reservation) is None:
            return None
        update = AddOwner(binding.pod)
        known = self._cache.reservation(uid)
        if known is not None and not statuses.names_owner_before_binding(known.reservation):
            status_updates.updated_status(known.reservation, update, now=self._runtime.moment().wall)
            return known
        await self._writer.update_status(uid, update, deadline=deadline)
        return self._cache.reservation(uid)

    def _unreserve(self, binding: UnconfirmedBinding) -> None:
        """Free the capacity, and remove the pod from the reservation's status.

        If the write fails, the outcome is read later. The possible effects of an earlier attempt are read when its time
        is over, which this refusal does not delay.
        """
        if self._unconfirmed.is_unconfirmed(binding.pod.uid):
            self._unconfirmed.end_attempt(binding)
            return

        async def roll_back() -> None:
            try:
                await self._unconfirmed.roll_back(binding, deadline=self._writer.deadline())
            except (WriteRefusedError, UnknownOutcomeError) as error:
                _log.info("pod %s/%s: the reservation's status may still list the pod: %s", *binding.pod.key, error)
                self._unconfirmed.add(binding)
            except BaseException:  # a bug, or cancelled: without this the capacity would never be freed
                self._unconfirmed.add(binding)
                raise

        self._rollbacks.start(roll_back(), name="pod {}/{}: taking back its place".format(*binding.pod.key))

    async def _bind_placeholder(self, pod: SchedulerPod, uid: Uid, node: str, *, deadline: float) -> None:
        known = self._cache.reservation(uid)
        if known is None:
            raise WriteRefusedError("the placeholder's Reservation was deleted")
        self._cache.nominations.release(pod.metadata.uid)
        if not known.info.available:
            with self._unconfirmed.placement(uid):
                await self._place_reservation(known, node, deadline=deadline)
        elif known.info.node != node:
            raise WriteRefusedError(f"its reservation is on node {known.info.node} already")
        try:
            await self._writer.bind(pod.metadata.key, pod.metadata.uid, node, reservation=None, deadline=deadline)
        except (WriteRefusedError, UnknownOutcomeError) as error:  # the placeholder has served its purpose
            _log.info("pod %s/%s: not bound, no retry needed: %s", *pod.metadata.key, error)
            raise

    async def _place_reservation(self, known: CachedReservation, node: str, *, deadline: float) -> None:
        info = self._assume_reservation(known, node)
        pods = tuple(AssignedPod.from_pod_info(pod) for pod in self._cache.accounting.owner_pods(info.uid))
        try:
            await self._writer.update_status(info.uid, PlaceReservation(info, pods), deadline=deadline)
        except WriteRefusedError:
            if not self._unconfirmed.is_unconfirmed(info.uid):
                self._cache.forget_assumed_reservation(info.uid)
            raise
        except BaseException:
            self._unconfirmed.add_placement(known)
            raise
        self._cache.forget_assumed_reservation(info.uid)

    def _assume_reservation(self, known: CachedReservation, node: str) -> ReservationInfo:
        """Hold the node for a reservation in the accounting; raise WriteRefusedError if it does not fit."""
        if (already := self._cache.assumed_reservation(known.info.uid)) is not None:
            if already.node != node:
                raise WriteRefusedError(f"reservation {known.name}: is being placed on node {already.node}")
            return already
        if known.info.parse_error:
            raise WriteRefusedError(f"reservation {known.name}: {known.info.parse_error}")
        found = self._cache.accounting.assume_reservation(
            known.info, node, node_name=known.required_node, pre_allocation_required=known.requires_pre_allocation
        )
        if not isinstance(found, ReservationPlacement):
            raise WriteRefusedError(_joined_reasons(found))
        held = self._cache.accounting.reservation(known.info.uid)
        if held is None:
            raise AssertionError("what was placed is held")
        self._cache.assume_reservation(held.uid, held)
        return held


def _joined_reasons(refusals: Iterable[Rejection]) -> str:
    return ", ".join(each.text for each in refusals)
