"""Pods that wait to be scheduled: those whose turn may come, those that back off, and those that wait for something.

A pod that was refused waits until something happens that could help *it*: that is what its reasons are kept for. It is
then looked at again, but not before its backoff is over (1, 2, 4 … 10 seconds since its last attempt). Whoever waits
longer than five minutes is looked at anyway, in case that a hint is missing here. Upstream calls the three parts
activeQ, backoffQ and unschedulablePods.

Knows no clock: `now` is given.
"""

import heapq
import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum, Flag, auto
from typing import Final

from dra.engine.allocate import Wanted
from dra.engine.fit import Demand
from dra.engine.instants import NEVER, Instant
from dra.engine.reservations.marks import LOOK_AGAIN
from dra.model.meta import Key, Uid
from dra.model.placement import PlacedPod
from dra.model.pods import claim_names

FIRST_BACKOFF: Final = 1.0
LONGEST_BACKOFF: Final = 10.0
LONGEST_WAIT: Final = 300.0
FLUSH_EVERY: Final = 30.0


class Need(Flag):
    """What could help a pod that was refused."""

    NOTHING = 0
    NODE = auto()  # another node, or another look of one
    ROOM = auto()  # a pod ends somewhere
    DEVICE = auto()  # a device becomes free, or is offered
    CLASS = auto()  # a device class is there
    CLAIM = auto()  # one of its claims changes
    POD = auto()  # the pod itself changes: its gates


class Place(Enum):
    """Where an entry is."""

    ACTIVE = auto()
    BACKOFF = auto()
    WAITING = auto()
    BUSY = auto()  # being scheduled or bound
    GONE = auto()


@dataclass(slots=True, eq=False)
class Entry:
    """A pod in the queue."""

    demand: Demand
    place: Place = Place.GONE
    number: int = 0
    """Distinguishes its present place in a heap from former ones."""

    attempts: int = 0
    tried_at: Instant = -NEVER
    waiting_since: Instant = 0.0
    needs: Need = Need.NOTHING
    wanted: dict[Uid, tuple[int, Wanted]] = field(default_factory=dict)
    """What its claims ask for, with the version of the classes that was read from."""

    @property
    def pod(self) -> PlacedPod:
        """The newest version of the pod."""
        return self.demand.pod

    @property
    def uid(self) -> Uid:
        """The pod's."""
        return self.pod.metadata.uid

    @property
    def ready_at(self) -> Instant:
        """When its backoff is over."""
        if not self.attempts:
            return -NEVER
        return self.tried_at + min(LONGEST_BACKOFF, FIRST_BACKOFF * 2.0 ** (self.attempts - 1))


class Queue:
    """All pods that are not bound."""

    def __init__(self) -> None:
        self._entries: dict[Uid, Entry] = {}
        self._numbers = itertools.count(1)
        self._active: list[tuple[int, int, Entry]] = []
        self._backoff: list[tuple[Instant, int, Entry]] = []
        self._waiting: dict[Uid, Entry] = {}
        self._by_claim: dict[Key, dict[Uid, Entry]] = {}
        self._flushed_at: Instant = 0.0

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, pod: PlacedPod, *, now: Instant) -> None:
        """Take in a pod, or a new version of one."""
        uid = pod.metadata.uid
        entry = self._entries.get(uid)
        if entry is None:
            entry = self._entries[uid] = Entry(Demand.of(pod))
            self._index(entry)
            self._activate(entry)
            return
        before = entry.pod
        self._unindex(entry)
        entry.demand = Demand.of(pod) if before.spec != pod.spec else replace(entry.demand, pod=pod)
        self._index(entry)
        changed = before.spec != pod.spec or before.status.resource_claim_statuses != pod.status.resource_claim_statuses
        asked = before.metadata.annotation(LOOK_AGAIN) != pod.metadata.annotation(LOOK_AGAIN)
        if entry.place is Place.WAITING and (changed or asked):
            self._wake(entry, now)

    def remove(self, uid: Uid) -> None:
        """The pod is bound, gone, or somebody else's."""
        entry = self._entries.pop(uid, None)
        if entry is not None:
            self._unindex(entry)
            self._waiting.pop(uid, None)
            entry.place = Place.GONE

    def pop(self, *, now: Instant) -> Entry | None:
        """Return the pod whose turn it is, if any; it is busy then."""
        if now >= self._flushed_at + FLUSH_EVERY:  # the same sum as in `next_at`: else rounding may part them
            self._flushed_at = now
            for entry in [e for e in self._waiting.values() if now - e.waiting_since >= LONGEST_WAIT]:
                self._wake(entry, now)
        while self._backoff and self._backoff[0][0] <= now:
            _, number, entry = heapq.heappop(self._backoff)
            if entry.number == number and entry.place is Place.BACKOFF:
                self._activate(entry)
        while self._active:
            _, number, entry = heapq.heappop(self._active)
            if entry.number == number and entry.place is Place.ACTIVE:
                entry.place = Place.BUSY
                return entry
        return None

    def next_at(self, *, now: Instant) -> Instant:
        """Return when it is worth asking again, if nothing happens."""
        due = self._flushed_at + FLUSH_EVERY if self._waiting else NEVER
        while self._backoff and (self._backoff[0][2].number, self._backoff[0][2].place) != (
            self._backoff[0][1],
            Place.BACKOFF,
        ):
            heapq.heappop(self._backoff)
        return max(now, min(due, self._backoff[0][0] if self._backoff else NEVER))

    def wait(self, entry: Entry, needs: Need, *, now: Instant, tried: bool = True) -> None:
        """The pod cannot be scheduled until something happens; unless `tried`, that costs it no backoff."""
        if entry.place is Place.GONE:
            return
        if tried:
            entry.attempts += 1
            entry.tried_at = now
        entry.needs, entry.waiting_since = needs, now
        entry.place = Place.WAITING
        self._waiting[entry.uid] = entry

    def retry(self, entry: Entry, *, now: Instant) -> None:
        """Something went wrong on the way: come back after the backoff, whatever happens."""
        if entry.place is Place.GONE:
            return
        entry.attempts += 1
        entry.tried_at = now
        self._back_off(entry)

    def wake(self, needs: Need, *, now: Instant) -> None:
        """Something happened that helps pods with such needs."""
        for entry in [e for e in self._waiting.values() if e.needs & needs]:
            self._wake(entry, now)

    def wake_for(self, claims: Iterable[Key], *, now: Instant) -> None:
        """These claims have changed."""
        for key in claims:
            for entry in tuple(self._by_claim.get(key, {}).values()):
                if entry.place is Place.WAITING:
                    self._wake(entry, now)

    def waiting(self) -> Iterable[Entry]:
        """Return the pods that wait for something."""
        return tuple(self._waiting.values())

    def wake_entry(self, entry: Entry, *, now: Instant) -> None:
        """Something happened that helps this pod."""
        if entry.place is Place.WAITING:
            self._wake(entry, now)

    def _wake(self, entry: Entry, now: Instant) -> None:
        del self._waiting[entry.uid]
        if entry.ready_at <= now:
            self._activate(entry)
        else:
            self._back_off(entry)

    def _activate(self, entry: Entry) -> None:
        entry.place, entry.number = Place.ACTIVE, next(self._numbers)
        heapq.heappush(self._active, (-entry.pod.spec.priority, entry.number, entry))

    def _back_off(self, entry: Entry) -> None:
        entry.place, entry.number = Place.BACKOFF, next(self._numbers)
        heapq.heappush(self._backoff, (entry.ready_at, entry.number, entry))

    def _index(self, entry: Entry) -> None:
        for key in _claims(entry.pod):
            self._by_claim.setdefault(key, {})[entry.uid] = entry

    def _unindex(self, entry: Entry) -> None:
        for key in _claims(entry.pod):
            users = self._by_claim[key]
            users.pop(entry.uid, None)
            if not users:
                del self._by_claim[key]


def _claims(pod: PlacedPod) -> list[Key]:
    return [(pod.metadata.namespace, name) for name in claim_names(pod)] if pod.spec.resource_claims else []
