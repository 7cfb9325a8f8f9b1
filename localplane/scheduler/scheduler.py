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
from dra.engine.scheduling.node_info import unresolvable_reason
from dra.kube.client import Client
from dra.kube.clock import SYSTEM, Clock
from dra.kube.errors import ApiError
from dra.kube.event_handlers import EventHandlerFuncs
from dra.kube.informers import Informers
from dra.kube.reflector import Reflector
from dra.kube.resources import CLAIMS, DEVICE_CLASSES, NODES, PODS, SLICES, TAINT_RULES, Resource
from dra.kube.store import ServerRestoredError
from dra.model.claims import ResourceClaim
from dra.model.device_classes import DeviceClass
from dra.model.scheduling import DEFAULT_SCHEDULER, SchedulerNode, SchedulerPod
from dra.model.slices import ResourceSlice
from dra.model.taints import DeviceTaintRule
from localplane.scheduler.binding_cycle import Binder, BindingError, BoundElsewhereError
from localplane.scheduler.cluster_cache import ClusterCache
from localplane.scheduler.scheduler_events import SCHEDULER_ERROR, SchedulerEvents
from localplane.scheduler.scheduler_extender import Extender
from localplane.scheduler.scheduling_cycle import Deallocation, NodeAssignment, Pending, Unschedulable, decide
from localplane.scheduler.scheduling_queue import ClusterEvent, QueuedPodInfo, SchedulingQueue
from localplane.schemas.releases import NEWEST, Release

MAX_CONCURRENT_BINDINGS: Final = 100
"""Maximum number of pods that are bound or reported at once: more would queue until their requests are too late."""

YIELD_EVERY: Final = 20
"""Number of decisions after which other tasks get to run."""

_log: Final = logging.getLogger(__name__)


class Scheduler:
    """Schedules the pods that name it in ``schedulerName``; `run` never returns, so cancel it."""

    def __init__(  # noqa: PLR0913 - keyword-only; who it is, and the injected sources of time and chance
        self,
        client: Client,
        *,
        clock: Clock = SYSTEM,
        chance: Random,
        release: Release = NEWEST,
        name: str = DEFAULT_SCHEDULER,
        profiles: Collection[str] = (),
        extender: Extender | None = None,
    ) -> None:
        """Take ``profiles``, further scheduler names to serve, and ``extender``, which filters nodes and binds."""
        self._client = client
        self._clock = clock
        self._chance = chance
        self._release = release
        self._profiles = (name, *profiles)
        self._extender = extender

    async def run(self) -> None:
        """Schedule until cancelled; start over with an empty cache when the server was restored from a backup."""
        while True:
            try:
                life = _SchedulerRun(
                    self._client, self._clock, self._chance, self._release, self._profiles, self._extender
                )
                await life.run()
            except* ServerRestoredError as errors:
                _log.warning("%s", errors.exceptions[0])


class _SchedulerRun:
    """One run of the scheduler from an empty cache, until cancelled or until the server was restored."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        chance: Random,
        release: Release,
        profiles: Sequence[str],
        extender: Extender | None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._chance = chance
        self._profiles = frozenset(profiles)
        self._extender = extender
        self._cluster = ClusterCache(release=release)
        self._queue = SchedulingQueue()
        self._binder = Binder(client, self._cluster.claims, clock=clock, chance=chance, extender=extender)
        self._reports = SchedulerEvents(client, clock=clock, name=profiles[0])
        self._news = asyncio.Event()
        self._free = asyncio.Semaphore(MAX_CONCURRENT_BINDINGS)
        self._tasks = asyncio.TaskGroup()
        self._start = 0
        served = release.traits.device_taint_rules
        self._reflectors = Informers(
            self._reflector(NODES, SchedulerNode, self._host, self._host_gone),
            self._reflector(SLICES, ResourceSlice, self._slice, self._slice_gone),
            self._reflector(DEVICE_CLASSES, DeviceClass, self._class, self._class_gone),
            self._reflector(CLAIMS, ResourceClaim, self._claim, self._claim_gone),
            self._reflector(PODS, SchedulerPod, self._pod, self._pod_gone),
            *([self._reflector(TAINT_RULES, DeviceTaintRule, self._rule, self._rule_gone)] if served else []),
        )

    async def run(self) -> None:
        """Schedule until cancelled, after fencing all claims."""
        async with self._tasks:
            self._tasks.create_task(self._reports.recorder.run())
            self._tasks.create_task(self._reflectors.run())
            await self._reflectors.synced()
            for claim in self._cluster.claims:
                await self._binder.fence(claim)
            await self._loop()

    async def _loop(self) -> None:
        taken = 0
        while True:
            await self._free.acquire()
            if self._extender is not None and not self._extender.ready:
                await self._extender.wait()
            entry = self._queue.pop(now=self._clock.now())
            if entry is None:
                self._free.release()
                await self._wait()
                continue
            self._schedule_one(entry)
            taken += 1
            if taken % YIELD_EVERY == 0:
                await asyncio.sleep(0)

    async def _wait(self) -> None:
        """Wait until there may be a pod to schedule."""
        self._news.clear()
        now = self._clock.now()
        due = self._queue.next_at(now=now)
        if due <= now:
            return
        try:
            async with asyncio.timeout(None if due == NEVER else due - now):
                await self._news.wait()
        except TimeoutError:
            return

    def _schedule_one(self, entry: QueuedPodInfo) -> None:
        """Decide about a pod and start a task for the outcome; `_free` is released when the task is done."""
        verdict = decide(entry, self._cluster, start=self._start, chance=self._chance, extender=self._extender)
        now = self._clock.now()
        match verdict:
            case Pending(needs=needs):
                self._queue.wait(entry, needs, now=now, tried=False)
                self._free.release()
            case Unschedulable(message=message, needs=needs):
                pod = entry.pod
                self._queue.wait(entry, needs, now=now)
                self._begin(self._reports.refused(pod, message))
            case Deallocation():
                self._begin(self._deallocate(entry, verdict))
            case NodeAssignment(node=node):
                self._start += 1
                self._cluster.place(verdict.of(entry.pod), node)
                for claim, allocation in verdict.claims:
                    if allocation is not None:
                        self._cluster.claims.assume(claim, allocation)
                self._begin(self._bind(entry, verdict))

    def _begin(self, work: Any) -> None:  # noqa: ANN401 - a coroutine
        self._tasks.create_task(work).add_done_callback(lambda _: self._free.release())

    async def _bind(self, entry: QueuedPodInfo, placement: NodeAssignment) -> None:
        pod = entry.pod
        room = self._cluster.room(placement.node)
        error: BindingError | None = None
        try:
            await self._binder.bind(pod, placement, labels=room.labels if room is not None else {})
        except BindingError as failed:
            error = failed
            if not isinstance(failed, BoundElsewhereError):
                await self._binder.unreserve(pod, placement)
        now = self._clock.now()
        freed = False
        for claim, allocation in placement.claims:
            if allocation is not None:
                freed |= self._cluster.claims.settle(claim)
                self._queue.wake_for([claim.metadata.key], now=now)
        if freed:
            self._queue.wake(ClusterEvent.DEVICE, now=now)
        self._news.set()
        if error is None:
            self._reports.scheduled(pod, placement.node)
            return
        self._cluster.displace(pod.metadata.uid)
        self._queue.wake(ClusterEvent.ROOM, now=now)
        await self._reports.refused(pod, str(error), reason=SCHEDULER_ERROR)
        self._queue.retry(entry, now=self._clock.now())
        self._news.set()

    async def _deallocate(self, entry: QueuedPodInfo, verdict: Deallocation) -> None:
        pod = entry.pod
        try:
            await self._binder.deallocate(verdict.claim)
        except ApiError as error:
            await self._reports.refused(pod, str(error), reason=SCHEDULER_ERROR)
            self._queue.retry(entry, now=self._clock.now())
        else:
            now = self._clock.now()
            self._queue.wait(entry, ClusterEvent.DEVICE | ClusterEvent.CLAIM, now=now)
            self._queue.wake(ClusterEvent.DEVICE, now=now)
            self._queue.wake_for([verdict.claim.metadata.key], now=now)
            await self._reports.refused(pod, verdict.message)
        self._news.set()

    def _reflector(
        self, resource: Resource, model: type[Any], put: Callable[[Any], None], gone: Callable[[Any], None]
    ) -> Reflector[Any]:
        return Reflector(
            self._client,
            resource,
            model,
            handler=EventHandlerFuncs(on_upsert=put, on_delete=gone, on_batch_end=self._news.set),
            clock=self._clock,
            random=Random(self._chance.random()),  # noqa: S311
        )

    def _host(self, host: SchedulerNode) -> None:
        room = self._cluster.observe_host(host)
        if room is not None:
            now = self._clock.now()
            for entry in self._queue.waiting():
                if (
                    entry.needs & (ClusterEvent.NODE | ClusterEvent.ROOM | ClusterEvent.DEVICE)
                    and unresolvable_reason(room, entry.demand) is None
                ):
                    self._queue.wake_entry(entry, now=now)

    def _host_gone(self, host: SchedulerNode) -> None:
        self._cluster.remove_node(host.metadata.name)

    def _slice(self, found: ResourceSlice) -> None:
        before = self._cluster.inventory.version
        self._cluster.inventory.observe(found)
        if self._cluster.inventory.version != before:
            self._queue.wake(ClusterEvent.DEVICE, now=self._clock.now())

    def _slice_gone(self, found: ResourceSlice) -> None:
        self._cluster.inventory.forget(found.metadata.name)
        self._queue.wake(
            ClusterEvent.DEVICE, now=self._clock.now()
        )  # a claim with allocationMode All may have waited for this pool

    def _rule(self, rule: DeviceTaintRule) -> None:
        before = self._cluster.inventory.version
        self._cluster.inventory.observe_rule(rule)
        if self._cluster.inventory.version != before:
            self._queue.wake(ClusterEvent.DEVICE, now=self._clock.now())

    def _rule_gone(self, rule: DeviceTaintRule) -> None:
        self._cluster.inventory.forget_rule(rule.metadata.name)
        self._queue.wake(ClusterEvent.DEVICE, now=self._clock.now())

    def _class(self, found: DeviceClass) -> None:
        if self._cluster.observe_class(found):
            self._queue.wake(ClusterEvent.CLASS, now=self._clock.now())

    def _class_gone(self, found: DeviceClass) -> None:
        self._cluster.forget_class(found.metadata.name)

    def _claim(self, claim: ResourceClaim) -> None:
        now = self._clock.now()
        if self._cluster.claims.observe(claim):
            self._queue.wake(ClusterEvent.DEVICE, now=now)
        self._queue.wake_for([claim.metadata.key], now=now)

    def _claim_gone(self, claim: ResourceClaim) -> None:
        self._binder.forget(claim.metadata.uid)
        now = self._clock.now()
        if self._cluster.claims.forget(claim):
            self._queue.wake(ClusterEvent.DEVICE, now=now)
        self._queue.wake_for([claim.metadata.key], now=now)

    def _pod(self, pod: SchedulerPod) -> None:
        now = self._clock.now()
        if pod.spec.node_name or pod.terminal:
            self._queue.remove(pod.metadata.uid)
            if pod.spec.node_name and not pod.terminal:
                self._cluster.place(pod, pod.spec.node_name)
            elif self._cluster.displace(pod.metadata.uid):
                self._queue.wake(ClusterEvent.ROOM, now=now)
        elif pod.spec.scheduler_name in self._profiles:
            if pod.metadata.deleting:
                self._queue.remove(pod.metadata.uid)
            else:
                self._queue.put(pod, now=now)

    def _pod_gone(self, pod: SchedulerPod) -> None:
        self._queue.remove(pod.metadata.uid)
        if self._cluster.displace(pod.metadata.uid):
            self._queue.wake(ClusterEvent.ROOM, now=self._clock.now())
