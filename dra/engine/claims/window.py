"""The window of a claim: the pods that must be listed in ``status.reservedFor`` right now.

The kubelet looks for a pod in the list only when it creates the pod's sandbox, and the scheduler writes the list only
for pods missing from it. So a pod needs its entry from just before it is scheduled until its sandbox is ready, and a
claim can serve any number of pods through a window of the list.

Rules Pre-list, Prune and Re-list of KEP-notes.md. Knows nothing of API calls, clocks or the rest of the list.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from enum import IntEnum
from functools import partial
from heapq import nsmallest
from types import MappingProxyType
from typing import Final

from dra.engine.claims.consumers import Consumer, Stage
from dra.engine.instants import NEVER, Instant, doubled
from dra.model.claims import RESERVED_FOR_MAX_SIZE
from dra.model.meta import Struct, Uid

SCHEDULER_HEADROOM: Final = 16
"""Slots left free for entries that the scheduler writes itself (pods that this controller observed too late)."""

CAPACITY: Final = RESERVED_FOR_MAX_SIZE - SCHEDULER_HEADROOM

PARKED_AFTER: Final = 60.0
"""Seconds without progress after which a pod yields its slot, and for which a parked pod has a slot in its turn."""

RELIST_BACKOFF: Final = (1.0, 60.0)
"""Seconds, first and longest, before a waiting pod that the scheduler took off the list is listed again."""


class Need(IntEnum):
    """The need of a pod for a slot; smaller values are more urgent."""

    STARTING = 1  # bound, sandbox not ready: without the entry its kubelet refuses the pod
    WAITING = 2  # not bound: with the entry the scheduler need not write the claim
    PARKED = 3  # long without progress: yields, or 240 such pods would block all others
    RUNNING = 4  # started, or will never start: needs no entry, but a list with room shows who uses the claim


class EntryHistory(Struct, frozen=True):
    """The observed history of one pod's entry in the list of one claim."""

    listed_since: Instant | None = None
    """When the entry appeared; None while there is no entry."""

    last_listed: Instant | None = None
    """When the pod was last known to be listed: the scheduler may still act on that for a bind horizon."""

    unreserve_count: int = 0
    """Number of removals of the waiting pod's entry by another component (the scheduler's Unreserve)."""

    assumed: bool = False
    """Whether ``last`` is a precaution: the list before this process started is unknown."""

    by_others: bool = False
    """Whether another component made the entry, as far as known: a scheduler lists a pod right before it binds it."""

    @property
    def seen(self) -> bool:
        """Return whether the pod was certainly in the list at some time."""
        return self.last_listed is not None and not self.assumed

    @property
    def lost_slot(self) -> bool:
        """Return whether the pod lost its slot for a reason other than the scheduler's removal."""
        return self.listed_since is None and self.seen and not self.unreserve_count

    def bindable_until(self, horizon: float, *, now: Instant) -> Instant:
        """Return until when a scheduling cycle that saw the entry may bind the pod without writing the claim."""
        last = now if self.listed_since is not None else self.last_listed
        return -NEVER if last is None else last + horizon

    def relist_at(self) -> Instant:
        """Return when a dropped pod may be listed again: 1, 2, 4 … 60 s after the drop."""
        if not self.unreserve_count or self.last_listed is None:
            return -NEVER
        return self.last_listed + doubled(RELIST_BACKOFF, self.unreserve_count - 1)


UNLISTED: Final = EntryHistory()
NO_ENTRY_HISTORIES: Final[Mapping[Uid, EntryHistory]] = MappingProxyType({})
NO_PODS: Final[AbstractSet[Uid]] = frozenset()


def need(
    consumer: Consumer, *, now: Instant, listing: EntryHistory = UNLISTED, awaiting_other_claims: bool = False
) -> Need | None:
    """Return the pod's need for a slot; None if the pod needs none.

    A kubelet creates no sandbox for a pod with a deletion timestamp, so such a pod needs no entry. The scheduler
    reports nothing about a pod that it does not try because another of its claims is missing: such a pod is parked
    after it has had a slot for a minute. The same applies to a gated pod whose other claims are not ready
    (``awaiting_other_claims``).
    """
    match consumer.stage:
        case Stage.STARTING:
            if consumer.deleting:
                return Need.RUNNING
            return Need.PARKED if _idle(consumer.stage_since, now) else Need.STARTING
        case Stage.GATED if consumer.gated_by_us_only:
            return (
                Need.PARKED
                if awaiting_other_claims and (_idle(listing.listed_since, now) or listing.lost_slot)
                else Need.WAITING
            )
        case Stage.WAITING:
            idle = _idle(consumer.unschedulable_since, now) or _idle(listing.listed_since, now) or listing.lost_slot
            return Need.PARKED if idle else Need.WAITING
        case Stage.STARTED:
            return Need.RUNNING
        case Stage.GATED | Stage.FINISHED:
            return None


def turn_changes_at(
    consumer: Consumer, listing: EntryHistory, *, now: Instant, awaiting_other_claims: bool = False
) -> Instant:
    """Return when the pod's need changes without an event: it parks, or its one-minute turn ends."""
    if consumer.stage not in {Stage.STARTING, Stage.WAITING} and not (
        consumer.stage is Stage.GATED and awaiting_other_claims
    ):
        return NEVER
    idle = consumer.stage_since if consumer.stage is Stage.STARTING else consumer.unschedulable_since
    turn = listing.last_listed if listing.listed_since is None else listing.listed_since
    return min((t + PARKED_AFTER for t in (idle, turn) if t is not None and t + PARKED_AFTER > now), default=NEVER)


def _idle(since: Instant | None, now: Instant) -> bool:
    """Return whether the minute since an instant is over.

    Compares with the same sum as `turn_changes_at`, since a difference rounds otherwise.
    """
    return since is not None and now >= since + PARKED_AFTER


def _turn(listing: EntryHistory, now: Instant) -> tuple[int, Instant]:
    """Return the sort key of a parked pod's turn: each turn lasts a minute, and the longest waiting pod comes next.

    A pod that has just lost its slot waits a minute, too: otherwise the next decision would return the slot.
    """
    if listing.listed_since is not None:
        return (2, listing.listed_since) if _idle(listing.listed_since, now) else (0, 0.0)
    if listing.last_listed is not None and not _idle(listing.last_listed, now):
        return (3, listing.last_listed)
    return (1, -NEVER if listing.last_listed is None else listing.last_listed)


def urgency(
    consumer: Consumer,
    *,
    listed: AbstractSet[Uid],
    entry_histories: Mapping[Uid, EntryHistory],
    now: Instant,
    awaiting_other_claims: AbstractSet[Uid] = NO_PODS,
) -> tuple[int, tuple[int, Instant], int, bool, tuple[int, str, Uid]]:
    """Return the sort key of a pod for slots: need, turn, priority, whether it is listed already, age."""
    listing = entry_histories.get(consumer.uid, UNLISTED)
    reason = (
        need(consumer, now=now, listing=listing, awaiting_other_claims=consumer.uid in awaiting_other_claims)
        or Need.PARKED
    )
    turn = _turn(listing, now) if reason is Need.PARKED else (0, 0.0)
    return (reason, turn, -consumer.priority, consumer.uid not in listed, consumer.scheduling_order)


def choose(
    consumers: Iterable[Consumer],
    *,
    listed: AbstractSet[Uid],
    now: Instant,
    entry_histories: Mapping[Uid, EntryHistory] = NO_ENTRY_HISTORIES,
    awaiting_other_claims: AbstractSet[Uid] = NO_PODS,
    capacity: int = CAPACITY,
) -> tuple[Consumer, ...]:
    """Return the consumers to list, at most ``capacity``: by need, then priority, then age.

    ``awaiting_other_claims`` are the gated pods whose other claims are not ready.

    Among equals, pods in ``listed`` come first: every swap is a write, and each write of the claim wakes all pods that
    the scheduler has put aside because of that claim.
    """
    needy = [c for c in consumers if need(c, now=now) is not None]
    key = partial(
        urgency, listed=listed, entry_histories=entry_histories, now=now, awaiting_other_claims=awaiting_other_claims
    )
    if len(needy) <= capacity:
        return tuple(sorted(needy, key=key))
    return tuple(nsmallest(max(capacity, 0), needy, key=key))
