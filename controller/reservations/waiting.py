"""Pods that wait, and the reservations that may be theirs: who applies where placeholders keep the room."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from dra.api.reservations.model import Reservation
from dra.engine.reservations import holdings, marks, yielding
from dra.engine.reservations.candidates import Candidates
from dra.engine.reservations.claimants import Claimant, MalformedAnnotationError, allocated
from dra.engine.reservations.holdings import Holding
from dra.model.meta import Struct, Uid
from dra.model.placement import PlacedPod


class _Pod(Struct, frozen=True):
    pod: PlacedPod
    claimant: Claimant | None
    """None: an annotation of it cannot be read, nobody lets it in."""


class Waiting:
    """Pods without a node, filed by what they may enter. Each change returns the reservations that it concerns."""

    def __init__(self) -> None:
        self.news = False
        """Whether a pod behind our gate has come, or has changed."""
        self._pods: dict[Uid, _Pod] = {}
        self._holdings: dict[Uid, Holding] = {}
        self._candidates = Candidates()
        self._naming: dict[Uid, set[Uid]] = {}

    def observe(self, pod: PlacedPod) -> set[Uid]:
        """Take in a pod."""
        uid = pod.metadata.uid
        concerned = set(self.candidates(uid))
        self._pods.pop(uid, None)
        if not pod.spec.node_name and not pod.terminal:
            try:
                claimant: Claimant | None = Claimant.of(pod)
            except MalformedAnnotationError:
                claimant = None
            self._pods[uid] = _Pod(pod=pod, claimant=claimant)
            self.news |= marks.GATE in pod.gates
        return concerned | set(self.candidates(uid)) | self.named_by(uid)

    def forget(self, uid: Uid) -> set[Uid]:
        """A pod is gone, or has a node."""
        concerned = set(self.candidates(uid)) | self.named_by(uid)
        self._pods.pop(uid, None)
        return concerned

    def observe_reservation(self, uid: Uid, reservation: Reservation) -> set[Uid]:
        """Take in a reservation."""
        holding = holdings.of(reservation)
        before = self._holdings.get(uid)
        self._name(before.listed if before is not None else frozenset(), holding.listed, uid)
        self._holdings[uid] = holding
        self._candidates.put(holding)
        return self._rivals(uid)

    def forget_reservation(self, uid: Uid) -> set[Uid]:
        """A reservation is gone."""
        concerned = self._rivals(uid) - {uid}
        before = self._holdings.pop(uid, None)
        self._name(before.listed if before is not None else frozenset(), frozenset(), uid)
        self._candidates.drop(uid)
        return concerned

    def holding(self, uid: Uid) -> Holding:
        """Return a reservation that is known."""
        return self._holdings[uid]

    def named_by(self, uid: Uid) -> set[Uid]:
        """Return the reservations whose status names a pod."""
        return self._naming.get(uid, set())

    def candidates(self, uid: Uid) -> tuple[Uid, ...]:
        """Return the reservations that may be a pod's."""
        known = self._pods.get(uid)
        return tuple(self._candidates.of(known.claimant)) if known is not None and known.claimant is not None else ()

    def claimant(self, uid: Uid) -> Claimant | None:
        """Return a pod that waits, as reservations see it."""
        known = self._pods.get(uid)
        return known.claimant if known is not None else None

    def gated(self) -> Iterator[PlacedPod]:
        """Yield the pods behind our gate."""
        return (each.pod for each in self._pods.values() if marks.GATE in each.pod.gates)

    def applicants(self, uid: Uid) -> Iterator[tuple[PlacedPod, Claimant, tuple[Uid, ...]]]:
        """Yield the pods that want room, may enter a reservation, and are in none; and what else they may enter."""
        for key, each in self._pods.items():
            if each.claimant is None or self._naming.get(key) or not yielding.applies(each.pod):
                continue
            candidates = tuple(self._candidates.of(each.claimant))
            if uid in candidates:
                yield each.pod, each.claimant, candidates

    def told(self, uid: Uid, *, but: AbstractSet[Uid]) -> Iterator[PlacedPod]:
        """Yield the pods that wait and were told to enter a reservation, but for those that its status names."""
        for key, each in self._pods.items():
            if key not in but and allocated(each.pod.metadata.annotation(marks.ALLOCATED)) == uid:
                yield each.pod

    def _rivals(self, uid: Uid) -> set[Uid]:
        """Return what else the pods may enter that may enter a reservation: they choose anew."""
        found = {uid}
        for each in self._pods.values():
            if each.claimant is not None and uid in (candidates := self._candidates.of(each.claimant)):
                found.update(candidates)
        return found

    def _name(self, before: AbstractSet[Uid], after: AbstractSet[Uid], uid: Uid) -> None:
        for pod in before - after:
            self._naming[pod].discard(uid)
            if not self._naming[pod]:
                del self._naming[pod]
        for pod in after - before:
            self._naming.setdefault(pod, set()).add(uid)
