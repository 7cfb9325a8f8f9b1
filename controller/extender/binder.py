"""Bind, the transaction: a pod is admitted by the accounting, then by the reservation's status, then bound to the node.

`dra.engine.scheduling.bindings` decides each step. After a refusal everything is rolled back at once, in reverse. After
a missing answer the capacity stays held (`dra.engine.scheduling.unconfirmed_bindings`), until a read shows the outcome.
"""

import logging

from controller.extender.binding_confirmer import BindingConfirmer
from controller.extender.binding_limiter import BindingLimiter
from controller.extender.metrics import ExtenderMetrics
from controller.extender.writer import ExtenderWriter, PodChangedError, UnknownOutcomeError
from controller.runtime import Runtime
from dra.engine.scheduling import bindings
from dra.engine.scheduling.scheduler_cache import CachedReservation, SchedulerCache
from dra.engine.scheduling.status_updates import WriteRefusedError
from dra.engine.scheduling.unconfirmed_bindings import UnconfirmedBinding
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
        confirmer: BindingConfirmer,
    ) -> None:
        self.limiter = BindingLimiter(clock=runtime.clock, seconds=writer.seconds)
        self.is_active = False
        """Whether this replica is the leader and may bind."""
        self.binds_placeholders = True
        """Whether each placeholder is bound, although the controller deletes it right after."""
        self._cache = cache
        self._writer = writer
        self._confirmer = confirmer
        self._unconfirmed = confirmer.cache
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
                if bindings.is_placeholder(pod):
                    await self._bind_placeholder(pod, call.node, deadline=deadline)
                else:
                    await self._bind(pod, call.node, deadline=deadline)
        finally:
            self._busy.discard(call.pod_uid)

    async def close(self) -> None:
        """Wait until running rollbacks have finished."""
        await self._rollbacks.wait_for_all()

    async def _find_pod(self, call: ExtenderBindingArgs, *, deadline: float) -> SchedulerPod:
        pod = self._cache.pending_pod(call.pod_uid)
        if pod is None:
            try:
                pod = await self._writer.read_pod((call.pod_namespace, call.pod_name), deadline=deadline)
            except ApiError as error:
                raise WriteRefusedError(str(error)) from error
        return bindings.check_unbound(pod, call.pod_uid)

    async def _bind(self, pod: SchedulerPod, node: str, *, deadline: float) -> None:
        binding = bindings.assume_pod(self._cache, pod, node)
        self._unconfirmed.begin(binding.pod.uid)
        try:
            known = await self._reserve(binding, deadline=deadline)
            await self._writer.bind(binding.pod.key, binding.pod.uid, node, reservation=known, deadline=deadline)
        except PodChangedError as error:
            if not await self._bound_already(binding, deadline=deadline):
                self._unreserve(binding)
                raise WriteRefusedError(str(error)) from error
        except WriteRefusedError:
            self._unreserve(binding)
            raise
        except BaseException:
            self._confirmer.confirm_later(binding)  # unanswered, or cancelled in between
            raise
        self._unconfirmed.confirm(binding.pod.uid)

    async def _bound_already(self, binding: UnconfirmedBinding, *, deadline: float) -> bool:
        """Return whether an earlier attempt has bound the pod; raise WriteRefusedError if it is on another node."""
        try:
            pod = await self._writer.read_pod(binding.pod.key, deadline=deadline)
        except (ApiError, WriteRefusedError) as error:
            self._confirmer.confirm_later(binding)
            raise UnknownOutcomeError(str(error)) from error
        except BaseException:
            self._confirmer.confirm_later(binding)
            raise
        return self._unconfirmed.confirm_bound(binding, pod)

    async def _reserve(self, binding: UnconfirmedBinding, *, deadline: float) -> CachedReservation | None:
        if binding.reservation is None:
            return None
        if (update := bindings.owner_update(self._cache, binding)) is not None:
            await self._writer.update_status(binding.reservation, update, deadline=deadline)
        return self._cache.reservation(binding.reservation)

    def _unreserve(self, binding: UnconfirmedBinding) -> None:
        """Free the capacity, and remove the pod from the reservation's status.

        If the write fails, the outcome is read later. The possible effects of an earlier attempt are read when its time
        is over, which this refusal does not delay.
        """
        if self._unconfirmed.is_unconfirmed(binding.pod.uid):
            self._unconfirmed.end(binding.pod.uid)
            return
        self._rollbacks.start(
            self._roll_back(binding), name="pod {}/{}: removal from the reservation".format(*binding.pod.key)
        )

    async def _roll_back(self, binding: UnconfirmedBinding) -> None:
        try:
            await self._confirmer.roll_back(binding, deadline=self._writer.deadline())
        except (WriteRefusedError, UnknownOutcomeError) as error:
            _log.info("pod %s/%s: the reservation's status may still list the pod: %s", *binding.pod.key, error)
            self._confirmer.confirm_later(binding)
        except BaseException:  # a bug, or cancelled: without this the capacity would never be freed
            self._confirmer.confirm_later(binding)
            raise

    async def _bind_placeholder(self, pod: SchedulerPod, node: str, *, deadline: float) -> None:
        if (known := bindings.reservation_to_place(self._cache, pod, node)) is not None:
            with self._unconfirmed.placement(known.info.uid):
                await self._place_reservation(known, node, deadline=deadline)
        if not self.binds_placeholders and not bindings.needs_binding(self._cache, pod):
            return  # its Reservation holds the node, and kube-scheduler forgets the pod when the controller deletes it
        try:
            await self._writer.bind(pod.metadata.key, pod.metadata.uid, node, reservation=None, deadline=deadline)
        except (WriteRefusedError, UnknownOutcomeError) as error:  # the placeholder has served its purpose
            _log.info("pod %s/%s: not bound, no retry needed: %s", *pod.metadata.key, error)
            raise

    async def _place_reservation(self, known: CachedReservation, node: str, *, deadline: float) -> None:
        uid, update = known.info.uid, bindings.assume_reservation(self._cache, known, node)
        try:
            await self._writer.update_status(uid, update, deadline=deadline)
        except WriteRefusedError:
            if not self._unconfirmed.is_unconfirmed(uid):
                self._cache.forget_assumed_reservation(uid)
            raise
        except BaseException:
            self._confirmer.confirm_placement_later(known)
            raise
        self._cache.forget_assumed_reservation(uid)
