"""Bindings of unknown outcome: their capacity stays held until a live read shows the outcome.

An unanswered request may arrive for as long as requests can be in flight; so the decisive read comes after that time. A
pod that is not bound then will not be bound by this request: its capacity is freed, and its reservation's status no
longer names it. After a start the same check is made for each unbound pod that a status names: the previous process may
have been about to bind it.

A pod is being bound or rolled back, never both at a time: a bind that began during a rollback would use capacity that
is then given to another pod.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from dra.engine.dirty_keys import Cache, DirtyKeys
from dra.engine.instants import NEVER, Instant
from dra.engine.reservations.statuses import AssignedPod
from dra.engine.scheduling.scheduler_cache import CachedReservation, SchedulerCache
from dra.engine.scheduling.status_updates import RemoveOwner, WriteRefusedError
from dra.model.meta import Struct, Uid
from dra.model.scheduling import SchedulerPod

CHECK_INTERVAL: Final = 1.0
"""Seconds after which an outcome is read again that could not be read, or that a newer attempt is about to change."""


class UnconfirmedBinding(Struct, frozen=True):
    """A binding whose outcome is unknown."""

    pod: AssignedPod
    node: str
    reservation: Uid | None
    writes_possible_until: Instant = 0.0
    """Time after which no write of the binding can arrive any more."""

    @property
    def uid(self) -> Uid:
        """Return the uid of the pod."""
        return self.pod.uid


class UnconfirmedPlacement(Struct, frozen=True):
    """A placement of a reservation whose outcome is unknown."""

    known: CachedReservation
    writes_possible_until: Instant

    @property
    def uid(self) -> Uid:
        """Return the uid of the reservation."""
        return self.known.info.uid


class UnconfirmedBindings(Cache[Uid]):
    """The bindings and placements that are in progress, and those whose outcome is unknown.

    The keys are the uids of pods and of reservations.
    """

    def __init__(self, cache: SchedulerCache) -> None:
        self.dirty = DirtyKeys()
        self._cache = cache
        self._in_progress: set[Uid] = set()
        """Pods that are being bound or rolled back; reservations that are being placed or read."""
        self._unconfirmed: dict[Uid, UnconfirmedBinding | UnconfirmedPlacement] = {}

    def __len__(self) -> int:
        return len(self._unconfirmed)

    def mark_all_dirty(self) -> None:
        """Mark everything whose outcome is unknown, each from its time on."""
        for uid, unconfirmed in self._unconfirmed.items():
            self.dirty.add(uid, due=unconfirmed.writes_possible_until)

    def begin(self, pod: Uid) -> None:
        """Start a binding or the check of its outcome: until it ends its pod is not checked."""
        self._in_progress.add(pod)

    def end(self, pod: Uid) -> None:
        """End an attempt or a check that has shown nothing: earlier attempts stay unconfirmed."""
        self._in_progress.discard(pod)

    def confirm(self, pod: Uid) -> None:
        """End a binding whose outcome is known."""
        self._in_progress.discard(pod)
        self._unconfirmed.pop(pod, None)

    def add(self, binding: UnconfirmedBinding, *, writes_possible_until: Instant) -> None:
        """Record that the outcome of a binding is unknown."""
        self._in_progress.discard(binding.pod.uid)
        self._add(msgspec.structs.replace(binding, writes_possible_until=writes_possible_until))

    def owner_removal(self, binding: UnconfirmedBinding) -> RemoveOwner | None:
        """Return the update that comes before a rollback; None: no reservation's status can name the pod."""
        uid = binding.reservation
        return RemoveOwner(binding.pod) if uid is not None and self._cache.reservation(uid) is not None else None

    def roll_back(self, binding: UnconfirmedBinding) -> None:
        """End a binding that will not be done by this process, and free its capacity."""
        self.confirm(binding.pod.uid)
        self._cache.accounting.forget_assumed_pod(binding.pod.uid)

    def confirm_bound(self, binding: UnconfirmedBinding, pod: SchedulerPod | None) -> bool:
        """Return whether a live read shows that an earlier attempt has bound the pod.

        Raises WriteRefusedError if the pod is bound to another node.
        """
        if pod is None or pod.metadata.uid != binding.pod.uid or not pod.spec.node_name:
            return False
        self._cache.observe_pod(pod)
        self.confirm(binding.pod.uid)
        if pod.spec.node_name != binding.node:
            raise WriteRefusedError(f"it is bound to node {pod.spec.node_name} already")
        return True

    def confirm_outcome(self, binding: UnconfirmedBinding, pod: SchedulerPod | None) -> bool:
        """End a binding if a live read shows its outcome; otherwise it must be rolled back."""
        if pod is None or pod.metadata.uid != binding.pod.uid:
            # Gone: the reservation's controller determines whether the pod ran in between.
            self._cache.accounting.forget_pod(binding.pod.uid)
        elif pod.spec.node_name:
            self._cache.observe_pod(pod)
        else:
            return False
        self.confirm(binding.pod.uid)
        return True

    def is_in_progress(self, uid: Uid) -> bool:
        """Return whether a pod is being bound or rolled back."""
        return uid in self._in_progress

    def is_unconfirmed(self, uid: Uid) -> bool:
        """Return whether an earlier write for a pod or a reservation may still take effect."""
        return uid in self._unconfirmed

    @contextmanager
    def placement(self, uid: Uid) -> Iterator[None]:
        """Mark a reservation as being placed for the duration of the block. Raises WriteRefusedError."""
        if uid in self._in_progress:
            raise WriteRefusedError("the placement of its reservation is being confirmed; the scheduler retries")
        self._in_progress.add(uid)
        try:
            yield
        finally:
            self._in_progress.discard(uid)

    def add_placement(self, known: CachedReservation, *, writes_possible_until: Instant) -> None:
        """Record that the outcome of a reservation's placement is unknown."""
        self._add(UnconfirmedPlacement(known, writes_possible_until))

    def _add(self, unconfirmed: UnconfirmedBinding | UnconfirmedPlacement) -> None:
        self._unconfirmed[unconfirmed.uid] = unconfirmed
        self.dirty.add(unconfirmed.uid, due=unconfirmed.writes_possible_until)

    def confirm_placement(self, placement: UnconfirmedPlacement) -> None:
        """End a placement whose outcome was read into the cache."""
        del self._unconfirmed[placement.uid]
        self._cache.forget_assumed_reservation(placement.uid)

    def adopt_reserved_pods(self, *, writes_possible_until: Instant) -> None:
        """Add the unbound pods that reservations name after a start: a binding of theirs may be in flight."""
        cache = self._cache
        for known in cache.available():
            for owner in known.reservation.status.current_owners:
                uid = Uid(owner.uid)
                pod = cache.pending_pod(uid)
                if pod is None or cache.accounting.assignment(uid) is not None:
                    continue
                pod_info = cache.bound_pod_info(pod)
                held = msgspec.structs.replace(pod_info, allocated_reservation=known.info.uid)
                cache.accounting.observe_pod(held, node=known.info.node, assumed=True)
                consumer = AssignedPod.from_pod_info(pod_info, binding=True)
                binding = UnconfirmedBinding(pod=consumer, node=known.info.node, reservation=known.info.uid)
                self.add(binding, writes_possible_until=writes_possible_until)

    def due(self, uid: Uid, *, now: Instant) -> UnconfirmedBinding | UnconfirmedPlacement | None:
        """Return the binding or placement whose outcome a read shows, unless a newer attempt is in progress."""
        unconfirmed = self._unconfirmed.get(uid)
        if unconfirmed is None or uid in self._in_progress or unconfirmed.writes_possible_until > now:
            return None
        return unconfirmed

    def next_check(self, uid: Uid, *, now: Instant) -> Instant:
        """Return when a pod or a reservation is to be checked again."""
        unconfirmed = self._unconfirmed.get(uid)
        return NEVER if unconfirmed is None else max(unconfirmed.writes_possible_until, now + CHECK_INTERVAL)
