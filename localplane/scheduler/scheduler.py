"""The scheduler: a client of the API server that decides about one pod at a time and binds many at once.

Reflectors fill `ClusterCache` and `SchedulingQueue`. A loop takes the next pod, decides synchronously on the current
state and assumes the outcome. A separate task then writes it, however long that takes. All writes go through the
client, so a late binding is one to which the server, or any proxy in between, responds late.

When cancelled, the scheduler undoes nothing, as after a crash. Decisions that were not written are lost; written ones
are found by the next run. Requests without a response may still arrive: the next run fences them off before it decides
anything (`Binder.fence`).
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from random import Random
from typing import Any, Final

from dra.engine.instants import NEVER
from dra.engine.kube_scheduler.cluster_cache import ClusterCache
from dra.engine.kube_scheduler.node_info import unresolvable_reason
from dra.engine.kube_scheduler.schedule_results import (
    Deallocation,
    NodeAssignment,
    Pending,
    SchedulerError,
    Unschedulable,
)
from dra.engine.kube_scheduler.scheduling_cycle import decide
from dra.engine.kube_scheduler.scheduling_queue import ClusterEvent, QueuedPodInfo, SchedulingQueue
from dra.kube.client import Client
from dra.kube.clock import SYSTEM, Clock, rfc3339
from dra.kube.errors import ApiError
from dra.kube.event_correlator import EventRecord, Regarding
from dra.kube.event_handlers import EventHandlerFuncs
from dra.kube.events import EventRecorder
from dra.kube.informers import Informers
from dra.kube.reflector import Reflector
from dra.kube.resources import CLAIMS, DEVICE_CLASSES, NODES, PODS, SLICES, TAINT_RULES, Resource
from dra.kube.store import ServerRestoredError
from dra.model.claims import ResourceClaim
from dra.model.device_classes import DeviceClass
from dra.model.event_type import EventType
from dra.model.meta import PartialObjectMetadata
from dra.model.pods import POD_SCHEDULED
from dra.model.releases import NEWEST, Release
from dra.model.scheduling import DEFAULT_SCHEDULER, SchedulerNode, SchedulerPod
from dra.model.slices import ResourceSlice
from dra.model.taints import DeviceTaintRule
from localplane.scheduler.binding_cycle import Binder, BindingError, BoundElsewhereError
from localplane.scheduler.scheduler_extender import Extender

MAX_CONCURRENT_BINDINGS: Final = 100
"""Maximum number of pods that are bound or reported at once: more would queue until their requests are too late."""

YIELD_EVERY: Final = 20
"""Number of decisions after which other tasks get to run."""

UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"

_log: Final = logging.getLogger(__name__)


class Scheduler:
    """Schedules the pods that name it in ``schedulerName``; `run` never returns, so cancel it."""

    def __init__(  # noqa: PLR0913 - keyword-only; its name, and the injected clock and random generator
        self,
        client: Client,
        *,
        clock: Clock = SYSTEM,
        random: Random,
        release: Release = NEWEST,
        name: str = DEFAULT_SCHEDULER,
        profiles: Collection[str] = (),
        extender: Extender | None = None,
    ) -> None:
        """Take ``profiles``, further scheduler names to serve, and ``extender``, which filters nodes and binds."""
        self._client = client
        self._clock = clock
        self._random = random
        self._release = release
        self._profiles = (name, *profiles)
        self._extender = extender

    async def run(self) -> None:
        """Schedule until cancelled; start over with an empty cache when the server was restored from a backup."""
        while True:
            try:
                scheduler_run = _SchedulerRun(
                    self._client, self._clock, self._random, self._release, self._profiles, self._extender
                )
                await scheduler_run.run()
            except* ServerRestoredError as errors:
                _log.warning("%s", errors.exceptions[0])


class _SchedulerRun:
    """One run of the scheduler from an empty cache, until cancelled or until the server was restored."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        random: Random,
        release: Release,
        profiles: Sequence[str],
        extender: Extender | None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._random = random
        self._profiles = frozenset(profiles)
        self._extender = extender
        self._cluster = ClusterCache(release=release)
        self._queue = SchedulingQueue()
        self._binder = Binder(client, self._cluster.claims, clock=clock, random=random, extender=extender)
        self._events = _SchedulerEvents(client, clock=clock, name=profiles[0])
        self._wakeup = asyncio.Event()
        self._binding_slots = asyncio.Semaphore(MAX_CONCURRENT_BINDINGS)
        self._tasks = asyncio.TaskGroup()
        self._next_start_index = 0
        served = release.traits.device_taint_rules
        self._reflectors = Informers(
            self._reflector(NODES, SchedulerNode, self._update_node, self._delete_node),
            self._reflector(SLICES, ResourceSlice, self._update_slice, self._delete_slice),
            self._reflector(DEVICE_CLASSES, DeviceClass, self._update_device_class, self._delete_device_class),
            self._reflector(CLAIMS, ResourceClaim, self._update_claim, self._delete_claim),
            self._reflector(PODS, SchedulerPod, self._update_pod, self._delete_pod),
            *(
                [self._reflector(TAINT_RULES, DeviceTaintRule, self._update_taint_rule, self._delete_taint_rule)]
                if served
                else []
            ),
        )

    async def run(self) -> None:
        """Schedule until cancelled, after fencing all claims."""
        async with self._tasks:
            self._tasks.create_task(self._events.recorder.run())
            self._tasks.create_task(self._reflectors.run())
            await self._reflectors.wait_for_sync()
            for claim in self._cluster.claims:
                await self._binder.fence(claim)
            await self._loop()

    async def _loop(self) -> None:
        decided = 0
        while True:
            await self._binding_slots.acquire()
            if self._extender is not None and not self._extender.is_ready:
                await self._extender.wait_ready()
            entry = self._queue.pop(now=self._clock.now())
            if entry is None:
                self._binding_slots.release()
                await self._wait()
                continue
            self._schedule_one(entry)
            decided += 1
            if decided % YIELD_EVERY == 0:
                await asyncio.sleep(0)

    async def _wait(self) -> None:
        """Wait until there may be a pod to schedule."""
        self._wakeup.clear()
        now = self._clock.now()
        due = self._queue.next_due(now=now)
        if due <= now:
            return
        try:
            async with asyncio.timeout(None if due == NEVER else due - now):
                await self._wakeup.wait()
        except TimeoutError:
            return

    def _schedule_one(self, entry: QueuedPodInfo) -> None:
        """Decide about a pod and start a task for the outcome; `_binding_slots` is released when the task is done."""
        result = decide(
            entry, self._cluster, start_index=self._next_start_index, chance=self._random, extender=self._extender
        )
        now = self._clock.now()
        match result:
            case Pending(events=events):
                self._queue.add_unschedulable(entry, events, now=now, tried=False)
                self._binding_slots.release()
            case Unschedulable(message=message, events=events):
                pod = entry.pod
                self._queue.add_unschedulable(entry, events, now=now)
                self._start_task(self._events.failed(pod, message))
            case SchedulerError(message=message):
                self._queue.requeue(entry, now=now)
                self._start_task(self._events.failed(entry.pod, message, reason=SCHEDULER_ERROR))
            case Deallocation():
                self._start_task(self._deallocate(entry, result))
            case NodeAssignment(node=node):
                self._next_start_index += 1
                self._cluster.add_pod(result.assigned_pod(entry.pod), node)
                for claim, allocation in result.claims:
                    if allocation is not None:
                        self._cluster.claims.assume(claim, allocation)
                self._start_task(self._bind(entry, result))

    def _start_task(self, work: Any) -> None:  # noqa: ANN401 - a coroutine
        self._tasks.create_task(work).add_done_callback(lambda _: self._binding_slots.release())

    async def _bind(self, entry: QueuedPodInfo, assignment: NodeAssignment) -> None:
        pod = entry.pod
        node_info = self._cluster.node_info(assignment.node)
        error: BindingError | None = None
        try:
            await self._binder.bind(pod, assignment, labels=node_info.labels if node_info is not None else {})
        except BindingError as failed:
            error = failed
            if not isinstance(failed, BoundElsewhereError):
                await self._binder.unreserve(pod, assignment)
        now = self._clock.now()
        freed = False
        for claim, allocation in assignment.claims:
            if allocation is not None:
                freed |= self._cluster.claims.remove_pending_allocation(claim)
                self._queue.move_claim_users([claim.metadata.key], now=now)
        if freed:
            self._queue.move_all_to_active_or_backoff(ClusterEvent.DEVICE_AVAILABLE, now=now)
        self._wakeup.set()
        if error is None:
            self._events.scheduled(pod, assignment.node)
            return
        self._cluster.remove_pod(pod.metadata.uid)
        self._queue.move_all_to_active_or_backoff(ClusterEvent.ASSIGNED_POD_DELETED, now=now)
        await self._events.failed(pod, str(error), reason=SCHEDULER_ERROR)
        self._queue.requeue(entry, now=self._clock.now())
        self._wakeup.set()

    async def _deallocate(self, entry: QueuedPodInfo, result: Deallocation) -> None:
        pod = entry.pod
        try:
            await self._binder.deallocate(result.claim)
        except ApiError as error:
            await self._events.failed(pod, str(error), reason=SCHEDULER_ERROR)
            self._queue.requeue(entry, now=self._clock.now())
        else:
            now = self._clock.now()
            self._queue.add_unschedulable(entry, ClusterEvent.DEVICE_AVAILABLE | ClusterEvent.CLAIM, now=now)
            self._queue.move_all_to_active_or_backoff(ClusterEvent.DEVICE_AVAILABLE, now=now)
            self._queue.move_claim_users([result.claim.metadata.key], now=now)
            await self._events.failed(pod, result.message)
        self._wakeup.set()

    def _reflector(
        self, resource: Resource, model: type[Any], on_upsert: Callable[[Any], None], on_delete: Callable[[Any], None]
    ) -> Reflector[Any]:
        return Reflector(
            self._client,
            resource,
            model,
            handler=EventHandlerFuncs(on_upsert=on_upsert, on_delete=on_delete, on_batch_end=self._wakeup.set),
            clock=self._clock,
            random=Random(self._random.random()),  # noqa: S311
        )

    def _update_node(self, node: SchedulerNode) -> None:
        node_info = self._cluster.update_node(node)
        if node_info is not None:
            now = self._clock.now()
            for entry in self._queue.unschedulable_pods():
                if (
                    entry.events
                    & (ClusterEvent.NODE | ClusterEvent.ASSIGNED_POD_DELETED | ClusterEvent.DEVICE_AVAILABLE)
                    and unresolvable_reason(node_info, entry.demand) is None
                ):
                    self._queue.move_pod(entry, now=now)

    def _delete_node(self, node: SchedulerNode) -> None:
        self._cluster.remove_node(node.metadata.name)

    def _update_slice(self, resource_slice: ResourceSlice) -> None:
        before = self._cluster.inventory.version
        self._cluster.inventory.observe(resource_slice)
        if self._cluster.inventory.version != before:
            self._queue.move_all_to_active_or_backoff(ClusterEvent.DEVICE_AVAILABLE, now=self._clock.now())

    def _delete_slice(self, resource_slice: ResourceSlice) -> None:
        self._cluster.inventory.forget(resource_slice.metadata.name)
        self._queue.move_all_to_active_or_backoff(
            ClusterEvent.DEVICE_AVAILABLE, now=self._clock.now()
        )  # a claim with allocationMode All may have waited for this pool

    def _update_taint_rule(self, rule: DeviceTaintRule) -> None:
        before = self._cluster.inventory.version
        self._cluster.inventory.observe_rule(rule)
        if self._cluster.inventory.version != before:
            self._queue.move_all_to_active_or_backoff(ClusterEvent.DEVICE_AVAILABLE, now=self._clock.now())

    def _delete_taint_rule(self, rule: DeviceTaintRule) -> None:
        self._cluster.inventory.forget_rule(rule.metadata.name)
        self._queue.move_all_to_active_or_backoff(ClusterEvent.DEVICE_AVAILABLE, now=self._clock.now())

    def _update_device_class(self, device_class: DeviceClass) -> None:
        if self._cluster.update_class(device_class):
            self._queue.move_all_to_active_or_backoff(ClusterEvent.DEVICE_CLASS, now=self._clock.now())

    def _delete_device_class(self, device_class: DeviceClass) -> None:
        self._cluster.remove_class(device_class.metadata.name)

    def _update_claim(self, claim: ResourceClaim) -> None:
        now = self._clock.now()
        if self._cluster.claims.observe(claim):
            self._queue.move_all_to_active_or_backoff(ClusterEvent.DEVICE_AVAILABLE, now=now)
        self._queue.move_claim_users([claim.metadata.key], now=now)

    def _delete_claim(self, claim: ResourceClaim) -> None:
        self._binder.forget_claim(claim.metadata.uid)
        now = self._clock.now()
        if self._cluster.claims.forget(claim):
            self._queue.move_all_to_active_or_backoff(ClusterEvent.DEVICE_AVAILABLE, now=now)
        self._queue.move_claim_users([claim.metadata.key], now=now)

    def _update_pod(self, pod: SchedulerPod) -> None:
        now = self._clock.now()
        if pod.spec.node_name or pod.terminal:
            self._queue.remove(pod.metadata.uid)
            if pod.spec.node_name and not pod.terminal:
                self._cluster.add_pod(pod, pod.spec.node_name)
            elif self._cluster.remove_pod(pod.metadata.uid):
                self._queue.move_all_to_active_or_backoff(ClusterEvent.ASSIGNED_POD_DELETED, now=now)
        elif pod.spec.scheduler_name in self._profiles:
            if pod.metadata.deleting:
                self._queue.remove(pod.metadata.uid)
            else:
                self._queue.add_or_update(pod, now=now)

    def _delete_pod(self, pod: SchedulerPod) -> None:
        self._queue.remove(pod.metadata.uid)
        if self._cluster.remove_pod(pod.metadata.uid):
            self._queue.move_all_to_active_or_backoff(ClusterEvent.ASSIGNED_POD_DELETED, now=self._clock.now())


class _SchedulerEvents:
    """Reports scheduling results of pods; best effort, since nothing depends on the reports."""

    def __init__(self, client: Client, *, clock: Clock, name: str = DEFAULT_SCHEDULER) -> None:
        self.recorder = EventRecorder(client, instance=f"{name}-local", controller=name, clock=clock)
        self._client = client
        self._clock = clock

    def scheduled(self, pod: SchedulerPod, node: str) -> None:
        """Record an event that the pod is bound."""
        meta = pod.metadata
        note = f"Successfully assigned {meta.namespace}/{meta.name} to {node}"
        self._record(pod, EventType.NORMAL, "Scheduled", "Binding", note)

    async def failed(self, pod: SchedulerPod, message: str, *, reason: str = UNSCHEDULABLE) -> None:
        """Record an event that the pod is not bound, and write the condition if it differs."""
        self._record(pod, EventType.WARNING, "FailedScheduling", "Scheduling", message)
        known = pod.condition(POD_SCHEDULED)
        if known is not None and (known.status, known.reason, known.message) == ("False", reason, message):
            return
        condition = {"type": POD_SCHEDULED, "status": "False", "reason": reason, "message": message}
        if known is None or known.status != "False":
            condition["lastTransitionTime"] = rfc3339(self._clock.wall())
        try:
            await self._client.merge_patch(
                PODS,
                pod.metadata.key,
                {"status": {"conditions": [condition]}},
                model=PartialObjectMetadata,
                subresource="status",
                uid=pod.metadata.uid,
                strategic=True,
            )
        except ApiError:
            return  # the pod is gone, or the next attempt reports again

    def _record(self, pod: SchedulerPod, severity: EventType, reason: str, action: str, note: str) -> None:
        regarding = Regarding.of(PODS, pod.metadata)
        self.recorder.record(
            EventRecord(regarding=regarding, severity=severity, reason=reason, action=action, note=note)
        )
