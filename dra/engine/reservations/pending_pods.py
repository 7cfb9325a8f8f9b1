"""The pods without a node, and the reservations that may admit each pod, for mode yielding."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from dra.api.reservations import well_known
from dra.api.reservations.model import Reservation
from dra.api.reservations.well_known import MalformedAnnotationError
from dra.engine.dirty_keys import Cache, DirtyKeys
from dra.engine.instants import NEVER, Instant
from dra.engine.reservations import placeholder_handover, reservation_info
from dra.engine.reservations.owner_matching import OwnerIndex
from dra.engine.reservations.pod_info import PodInfo, allocated_reservation_uid
from dra.engine.reservations.reservation_info import ReservationInfo
from dra.model.meta import Struct, Uid
from dra.model.scheduling import SchedulerPod


class _PendingPod(Struct, frozen=True):
    pod: SchedulerPod
    info: PodInfo | None
    """None if an annotation of the pod cannot be parsed: no reservation admits the pod then."""


class PendingPods(Cache[Uid]):
    """The cache of pods without a node; each update returns the reservations that it affects.

    ``dirty`` has the pods with our scheduling gate that no reservation may admit any longer.
    """

    def __init__(self) -> None:
        self.dirty: DirtyKeys[Uid] = DirtyKeys()
        self._pods: dict[Uid, _PendingPod] = {}
        self._gated: dict[Uid, Instant] = {}
        """Pods with our scheduling gate → from when on removing it may be tried."""

        self._reservations: dict[Uid, ReservationInfo] = {}
        self._owner_index = OwnerIndex()
        self._naming: dict[Uid, set[Uid]] = {}

    def observe(self, pod: SchedulerPod) -> set[Uid]:
        """Add or update a pod; return the affected reservations."""
        uid = pod.metadata.uid
        affected = set(self.candidates(uid))
        self._pods.pop(uid, None)
        if not pod.spec.node_name and not pod.terminal:
            try:
                info: PodInfo | None = PodInfo.from_pod(pod)
            except MalformedAnnotationError:
                info = None
            self._pods[uid] = _PendingPod(pod=pod, info=info)
        if self.gated_pod(uid) is None:
            self._gated.pop(uid, None)
        else:
            self.dirty.add(uid, due=self._gated.setdefault(uid, -NEVER))
        return affected | set(self.candidates(uid)) | self.reservations_naming(uid)

    def forget(self, uid: Uid) -> set[Uid]:
        """Forget a deleted pod; return the affected reservations."""
        affected = set(self.candidates(uid)) | self.reservations_naming(uid)
        self._pods.pop(uid, None)
        self._gated.pop(uid, None)
        return affected

    def observe_reservation(self, uid: Uid, reservation: Reservation) -> set[Uid]:
        """Add or update a reservation; return the affected reservations."""
        info = reservation_info.from_reservation(reservation)
        before = self._reservations.get(uid)
        self._update_naming(before.current_owners if before is not None else frozenset(), info.current_owners, uid)
        self._reservations[uid] = info
        self._owner_index.update(info)
        return self._competing_reservations(uid)

    def forget_reservation(self, uid: Uid) -> set[Uid]:
        """Forget a deleted reservation; return the other affected reservations."""
        affected = self._competing_reservations(uid) - {uid}
        before = self._reservations.pop(uid, None)
        self._update_naming(before.current_owners if before is not None else frozenset(), frozenset(), uid)
        self._owner_index.remove(uid)
        return affected

    def reservation(self, uid: Uid) -> ReservationInfo:
        """Return a reservation by uid. Raises KeyError for an unknown uid."""
        return self._reservations[uid]

    def reservations_naming(self, uid: Uid) -> set[Uid]:
        """Return the reservations whose status names a pod."""
        return self._naming.get(uid, set())

    def candidates(self, uid: Uid) -> tuple[Uid, ...]:
        """Return the reservations whose owners may match a pod."""
        known = self._pods.get(uid)
        return tuple(self._owner_index.candidates(known.info)) if known is not None and known.info is not None else ()

    def pod_info(self, uid: Uid) -> PodInfo | None:
        """Return a pending pod as reservations see it; None if unknown or not readable."""
        known = self._pods.get(uid)
        return known.info if known is not None else None

    def mark_all_dirty(self) -> None:
        """Mark all pods with our scheduling gate."""
        for uid, due in self._gated.items():
            self.dirty.add(uid, due=due)

    def postpone(self, uid: Uid, *, until: Instant) -> None:
        """Record that the gate of a pod could not be removed: whatever marks the pod, it waits until then."""
        if uid in self._gated:
            self._gated[uid] = until

    def gated_pod(self, uid: Uid) -> SchedulerPod | None:
        """Return a pod with our scheduling gate; None for any other."""
        known = self._pods.get(uid)
        return known.pod if known is not None and well_known.SCHEDULING_GATE in known.pod.gates else None

    def candidate_pods(self, uid: Uid) -> Iterator[tuple[SchedulerPod, PodInfo, tuple[Uid, ...]]]:
        """Yield pods that wait for capacity and may use the reservation, each with all of its candidates.

        Pods that a reservation names already are left out.
        """
        for key, pending in self._pods.items():
            if (
                pending.info is None
                or self._naming.get(key)
                or not placeholder_handover.waits_for_capacity(pending.pod)
            ):
                continue
            candidates = tuple(self._owner_index.candidates(pending.info))
            if uid in candidates:
                yield pending.pod, pending.info, candidates

    def annotated_pods(self, uid: Uid, *, excluding: AbstractSet[Uid]) -> Iterator[SchedulerPod]:
        """Yield pending pods whose annotation names a reservation, except the pods in `excluding`."""
        for key, pending in self._pods.items():
            if key not in excluding and allocated_reservation_uid(pending.pod.metadata) == uid:
                yield pending.pod

    def _competing_reservations(self, uid: Uid) -> set[Uid]:
        """Return the reservations, this one included, that share a candidate pod with it: such a pod chooses again."""
        competing = {uid}
        for pending in self._pods.values():
            if pending.info is not None and uid in (candidates := self._owner_index.candidates(pending.info)):
                competing.update(candidates)
        return competing

    def _update_naming(self, before: AbstractSet[Uid], after: AbstractSet[Uid], uid: Uid) -> None:
        for pod in before - after:
            self._naming[pod].discard(uid)
            if not self._naming[pod]:
                del self._naming[pod]
        for pod in after - before:
            self._naming.setdefault(pod, set()).add(uid)
