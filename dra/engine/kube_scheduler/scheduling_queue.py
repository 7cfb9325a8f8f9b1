"""Pods that wait to be scheduled: active pods, pods in backoff, and unschedulable pods that wait for a cluster event.

An unschedulable pod waits until a cluster event happens that could help *this* pod: the events are derived from the
reasons of its failure. The pod is then retried, but not before its backoff is over (1, 2, 4 … 10 seconds since its last
attempt). A pod that waits longer than five minutes is retried anyway, in case an event is missing here. Upstream calls
the three parts activeQ, backoffQ and unschedulablePods.

The queue has no clock: callers pass `now`.
"""

import heapq
import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum, Flag, auto
from typing import Final

from dra.api.reservations.well_known import ANNOTATION_LOOK_AGAIN
from dra.engine.allocator import ClaimToAllocate
from dra.engine.instants import NEVER, Instant
from dra.engine.kube_scheduler.node_info import PodRequests
from dra.model.meta import Key, Uid
from dra.model.pods import claim_names
from dra.model.scheduling import SchedulerPod

POD_INITIAL_BACKOFF: Final = 1.0
POD_MAX_BACKOFF: Final = 10.0
POD_MAX_IN_UNSCHEDULABLE_PODS: Final = 300.0
FLUSH_UNSCHEDULABLE_SECONDS: Final = 30.0


class ClusterEvent(Flag):
    """The cluster events that could make an unschedulable pod schedulable."""

    NOTHING = 0
    NODE = auto()  # a node is added or changes
    ASSIGNED_POD_DELETED = auto()  # a pod ends on some node
    DEVICE_AVAILABLE = auto()  # a device becomes free or is published
    DEVICE_CLASS = auto()  # a device class is added or changes
    CLAIM = auto()  # one of the pod's claims changes
    POD = auto()  # the pod itself changes, for example its scheduling gates


class QueuedPodState(Enum):
    """The part of the queue that a pod is in."""

    ACTIVE = auto()
    BACKOFF = auto()
    UNSCHEDULABLE = auto()
    IN_FLIGHT = auto()  # being scheduled or bound
    REMOVED = auto()


@dataclass(slots=True, eq=False)
class QueuedPodInfo:
    """A pod in the queue, with its attempts and the events that it waits for."""

    demand: PodRequests
    state: QueuedPodState = QueuedPodState.REMOVED
    number: int = 0
    """Number of the pod's current heap entry, which distinguishes it from outdated entries."""

    attempts: int = 0
    last_attempt: Instant = -NEVER
    unschedulable_since: Instant = 0.0
    events: ClusterEvent = ClusterEvent.NOTHING
    claims_to_allocate: dict[Uid, tuple[int, ClaimToAllocate]] = field(default_factory=dict)
    """Allocation requests of the pod's claims, with the version of the device classes that they were made from."""

    @property
    def pod(self) -> SchedulerPod:
        """Return the newest version of the pod."""
        return self.demand.pod

    @property
    def uid(self) -> Uid:
        """Return the uid of the pod."""
        return self.pod.metadata.uid

    @property
    def backoff_until(self) -> Instant:
        """Return the time when the pod's backoff is over."""
        if not self.attempts:
            return -NEVER
        return self.last_attempt + min(POD_MAX_BACKOFF, POD_INITIAL_BACKOFF * 2.0 ** (self.attempts - 1))


class SchedulingQueue:
    """Queues all pods that are not bound yet."""

    def __init__(self) -> None:
        self._entries: dict[Uid, QueuedPodInfo] = {}
        self._numbers = itertools.count(1)
        self._active: list[tuple[int, int, QueuedPodInfo]] = []
        self._backoff: list[tuple[Instant, int, QueuedPodInfo]] = []
        self._unschedulable: dict[Uid, QueuedPodInfo] = {}
        self._by_claim: dict[Key, dict[Uid, QueuedPodInfo]] = {}
        self._flushed_at: Instant = 0.0

    def __len__(self) -> int:
        return len(self._entries)

    def add_or_update(self, pod: SchedulerPod, *, now: Instant) -> None:
        """Add a pod, or store a new version of a queued pod."""
        uid = pod.metadata.uid
        entry = self._entries.get(uid)
        if entry is None:
            entry = self._entries[uid] = QueuedPodInfo(PodRequests.from_pod(pod))
            self._index(entry)
            self._activate(entry)
            return
        before = entry.pod
        self._unindex(entry)
        entry.demand = PodRequests.from_pod(pod) if before.spec != pod.spec else replace(entry.demand, pod=pod)
        self._index(entry)
        changed = before.spec != pod.spec or before.status.resource_claim_statuses != pod.status.resource_claim_statuses
        rescheduling_requested = before.metadata.annotation(ANNOTATION_LOOK_AGAIN) != pod.metadata.annotation(
            ANNOTATION_LOOK_AGAIN
        )
        if entry.state is QueuedPodState.UNSCHEDULABLE and (changed or rescheduling_requested):
            self._move(entry, now)

    def remove(self, uid: Uid) -> None:
        """Remove a pod that is bound, deleted, or another scheduler's."""
        entry = self._entries.pop(uid, None)
        if entry is not None:
            self._unindex(entry)
            self._unschedulable.pop(uid, None)
            entry.state = QueuedPodState.REMOVED

    def pop(self, *, now: Instant) -> QueuedPodInfo | None:
        """Return the next pod to schedule, if any; the pod is busy until it is queued again or removed."""
        if (
            now >= self._flushed_at + FLUSH_UNSCHEDULABLE_SECONDS
        ):  # the same sum as in `next_due`: else rounding may make them differ
            self._flushed_at = now
            for entry in [
                e for e in self._unschedulable.values() if now - e.unschedulable_since >= POD_MAX_IN_UNSCHEDULABLE_PODS
            ]:
                self._move(entry, now)
        while self._backoff and self._backoff[0][0] <= now:
            _, number, entry = heapq.heappop(self._backoff)
            if entry.number == number and entry.state is QueuedPodState.BACKOFF:
                self._activate(entry)
        while self._active:
            _, number, entry = heapq.heappop(self._active)
            if entry.number == number and entry.state is QueuedPodState.ACTIVE:
                entry.state = QueuedPodState.IN_FLIGHT
                return entry
        return None

    def next_due(self, *, now: Instant) -> Instant:
        """Return the time of the next `pop` that may return a pod, if no event happens."""
        due = self._flushed_at + FLUSH_UNSCHEDULABLE_SECONDS if self._unschedulable else NEVER
        while self._backoff and (self._backoff[0][2].number, self._backoff[0][2].state) != (
            self._backoff[0][1],
            QueuedPodState.BACKOFF,
        ):
            heapq.heappop(self._backoff)
        return max(now, min(due, self._backoff[0][0] if self._backoff else NEVER))

    def add_unschedulable(
        self, entry: QueuedPodInfo, events: ClusterEvent, *, now: Instant, tried: bool = True
    ) -> None:
        """Make a pod wait for cluster events; unless `tried`, the wait costs the pod no backoff."""
        if entry.state is QueuedPodState.REMOVED:
            return
        if tried:
            entry.attempts += 1
            entry.last_attempt = now
        entry.events, entry.unschedulable_since = events, now
        entry.state = QueuedPodState.UNSCHEDULABLE
        self._unschedulable[entry.uid] = entry

    def requeue(self, entry: QueuedPodInfo, *, now: Instant) -> None:
        """Queue a pod again after an error: the pod is retried after its backoff without a cluster event."""
        if entry.state is QueuedPodState.REMOVED:
            return
        entry.attempts += 1
        entry.last_attempt = now
        self._back_off(entry)

    def move_all_to_active_or_backoff(self, events: ClusterEvent, *, now: Instant) -> None:
        """Retry the pods that wait for one of these cluster events."""
        for entry in [e for e in self._unschedulable.values() if e.events & events]:
            self._move(entry, now)

    def move_claim_users(self, claims: Iterable[Key], *, now: Instant) -> None:
        """Retry the pods that use one of these changed claims."""
        for key in claims:
            for entry in tuple(self._by_claim.get(key, {}).values()):
                if entry.state is QueuedPodState.UNSCHEDULABLE:
                    self._move(entry, now)

    def unschedulable_pods(self) -> Iterable[QueuedPodInfo]:
        """Return the pods that wait for a cluster event."""
        return tuple(self._unschedulable.values())

    def move_pod(self, entry: QueuedPodInfo, *, now: Instant) -> None:
        """Retry one pod that waits for a cluster event."""
        if entry.state is QueuedPodState.UNSCHEDULABLE:
            self._move(entry, now)

    def _move(self, entry: QueuedPodInfo, now: Instant) -> None:
        del self._unschedulable[entry.uid]
        if entry.backoff_until <= now:
            self._activate(entry)
        else:
            self._back_off(entry)

    def _activate(self, entry: QueuedPodInfo) -> None:
        entry.state, entry.number = QueuedPodState.ACTIVE, next(self._numbers)
        heapq.heappush(self._active, (-entry.pod.spec.priority, entry.number, entry))

    def _back_off(self, entry: QueuedPodInfo) -> None:
        entry.state, entry.number = QueuedPodState.BACKOFF, next(self._numbers)
        heapq.heappush(self._backoff, (entry.backoff_until, entry.number, entry))

    def _index(self, entry: QueuedPodInfo) -> None:
        for key in _claim_keys(entry.pod):
            self._by_claim.setdefault(key, {})[entry.uid] = entry

    def _unindex(self, entry: QueuedPodInfo) -> None:
        for key in _claim_keys(entry.pod):
            users = self._by_claim[key]
            users.pop(entry.uid, None)
            if not users:
                del self._by_claim[key]


def _claim_keys(pod: SchedulerPod) -> list[Key]:
    return [(pod.metadata.namespace, name) for name in claim_names(pod)] if pod.spec.resource_claims else []
