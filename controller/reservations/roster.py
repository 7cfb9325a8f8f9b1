"""What the controller knows of reservations and their pods, and what it has asked about live."""

from collections.abc import Iterable, Mapping
from typing import Final

from dra.api.reservations.model import Reservation
from dra.engine.instants import BIND_HORIZON, NEVER, Instant
from dra.engine.reservations import amounts, marks, owners, placeholders
from dra.engine.reservations.claimants import Claimant, MalformedAnnotationError, allocated
from dra.engine.reservations.lifecycle import View
from dra.engine.reservations.status import Consumer
from dra.model.meta import Key, Struct, Uid
from dra.model.placement import PlacedPod

ASKED_FOR: Final = BIND_HORIZON
"""Seconds for which a pod that a status names, and that is not bound, may still be."""


def concerns_reservations(pod: PlacedPod) -> bool:
    """Whether a pod is kept: a placeholder, or in a reservation. The rest of a cluster costs no memory."""
    return pod.metadata.annotation(marks.ALLOCATED) is not None or placeholders.stands_for(pod.metadata) is not None


class _Asked(Struct, frozen=True):
    consumer: Consumer
    until: Instant
    """One sum, for the queue and for the decision: two that ought to be equal differ by a rounding, and a reservation
    that is due while its pod is not yet would be looked at again and again at the same instant."""


class Roster:
    """Reservations by uid, pods by the reservation that they say they are in."""

    def __init__(self) -> None:
        self.dirty: set[Uid] = set()
        """The reservations about which there is news."""
        self._reservations: dict[Uid, Reservation] = {}
        self._versions: dict[Uid, str] = {}
        self._pods: dict[Uid, PlacedPod] = {}
        self._inside: dict[Uid, dict[Uid, None]] = {}
        self._placeholders: dict[Uid, PlacedPod] = {}
        self._asked: dict[Uid, dict[Uid, _Asked]] = {}
        self._ended: dict[Uid, set[Uid]] = {}
        self._never_bound: dict[Uid, set[Uid]] = {}
        self._refused: dict[Uid, str] = {}

    def observe(self, uid: Uid, version: str, reservation: Reservation) -> Reservation | None:
        """Take in a reservation; return what was known of it. Older news than what is known are ignored."""
        before = self._reservations.get(uid)
        known = self._versions.get(uid, "")
        if known.isdecimal() and version.isdecimal() and int(version) < int(known):
            return reservation
        self._reservations[uid], self._versions[uid] = reservation, version
        listed = {Uid(each.uid) for each in reservation.status.current_owners}
        for memory in (self._ended, self._never_bound):
            if uid in memory:
                memory[uid] &= listed
        self.dirty.add(uid)
        return before

    def forget(self, uid: Uid) -> None:
        """A reservation is gone."""
        for memory in (self._reservations, self._versions, self._asked, self._ended, self._never_bound, self._refused):
            memory.pop(uid, None)
        self.dirty.add(uid)

    def get(self, uid: Uid) -> tuple[Reservation, str] | None:
        """Return a reservation and its resourceVersion."""
        found = self._reservations.get(uid)
        return None if found is None else (found, self._versions[uid])

    def uids(self) -> Iterable[Uid]:
        """Return all reservations."""
        return tuple(self._reservations)

    def observe_pod(self, pod: PlacedPod) -> None:
        """Take in a pod."""
        uid = pod.metadata.uid
        if (reservation := placeholders.stands_for(pod.metadata)) is not None:
            self._placeholders[reservation] = pod
            self._refused.pop(reservation, None)
            self.dirty.add(reservation)
            return
        before = self._pods.get(uid)
        self._pods[uid] = pod
        for said in {_said(each) for each in (before, pod) if each is not None}:
            if said:
                self._inside.setdefault(said, {})[uid] = None
                self._never_bound.get(said, set()).discard(uid)
                self.dirty.add(said)

    def homeless(self, nodes: Mapping[Key, object]) -> tuple[Uid, ...]:
        """Return the reservations whose node is not among those that there are."""
        placed = ((uid, each.status.node_name) for uid, each in self._reservations.items())
        return tuple(uid for uid, node in placed if node and ("", node) not in nodes)

    def forget_pod(self, pod: PlacedPod, *, certain: bool = True) -> None:
        """A pod is gone; or, if that is not certain, it does not say any more that it is in a reservation."""
        uid = pod.metadata.uid
        reservation = placeholders.stands_for(pod.metadata)
        if reservation is not None:
            known = self._placeholders.get(reservation)
            if known is not None and known.metadata.uid == uid:
                del self._placeholders[reservation]
                self.dirty.add(reservation)
            return
        self._pods.pop(uid, None)
        for said, inside in list(self._inside.items()):
            if uid in inside:
                del inside[uid]
                if certain:  # else it is asked about
                    self._ended.setdefault(said, set()).add(uid)
                self.dirty.add(said)
                if not inside:
                    del self._inside[said]

    def answer(self, uid: Uid, asked: Uid, pod: PlacedPod | None, *, now: Instant) -> None:
        """Take in a live read of a pod that a reservation's status names; None: there is none with this uid."""
        found = self._reservations.get(uid)
        before = self._asked.get(uid, {}).pop(asked, None)
        if found is None:
            return
        if pod is None or pod.terminal:
            self._ended.setdefault(uid, set()).add(asked)
        elif pod.spec.node_name == found.status.node_name:
            if asked in self._pods:
                self._pods[asked] = pod
                self._inside.setdefault(uid, {})[asked] = None
            else:  # perhaps no watch of ours will ever show it, nor its end
                inside = Consumer(uid=asked, key=pod.metadata.key, amounts=amounts.of_pod(pod))
                self._asked.setdefault(uid, {})[asked] = _Asked(consumer=inside, until=now + ASKED_FOR)
        elif pod.spec.node_name or (before is not None and now >= before.until):
            self._never_bound.setdefault(uid, set()).add(asked)
        else:
            consumer = Consumer(uid=asked, key=pod.metadata.key, amounts=amounts.of_pod(pod), under_way=True)
            until = now + ASKED_FOR if before is None else before.until
            self._asked.setdefault(uid, {})[asked] = _Asked(consumer=consumer, until=until)
        self.dirty.add(uid)

    def ask_again(self, uid: Uid) -> tuple[Instant, tuple[Consumer, ...]]:
        """Return when the pods of a reservation that are not bound are to be read once more, and which."""
        asked = self._asked.get(uid, {})
        return (
            min((each.until for each in asked.values()), default=NEVER),
            tuple(each.consumer for each in asked.values()),
        )

    def refused(self, uid: Uid, text: str) -> None:
        """The API server would not have the placeholder."""
        self._refused[uid] = text
        self.dirty.add(uid)

    def view(self, uid: Uid, *, nodes: Mapping[Key, object], devices: bool = False) -> View | None:
        """Return what there is to know about a reservation; `nodes` are those that there are.

        `devices` is whether the claims of its template can be held.
        """
        reservation = self._reservations.get(uid)
        if reservation is None:
            return None
        node = reservation.status.node_name
        consumers = self._consumers(uid, reservation)
        seen = {each.uid for each in consumers}
        return View(
            reservation=reservation,
            node_gone=bool(node) and ("", node) not in nodes,
            placeholder=self._placeholders.get(uid),
            consumers=consumers,
            ended=frozenset(self._ended.get(uid, ())),
            never_bound=frozenset(self._never_bound.get(uid, ())),
            asked=tuple(each.consumer for key, each in self._asked.get(uid, {}).items() if key not in seen),
            refused=self._refused.get(uid, ""),
            devices=devices,
        )

    def _consumers(self, uid: Uid, reservation: Reservation) -> tuple[Consumer, ...]:
        listed = {each.uid for each in reservation.status.current_owners}
        found = []
        for each in self._inside.get(uid, ()):
            pod = self._pods[each]
            if pod.terminal or not pod.spec.node_name or pod.spec.node_name != reservation.status.node_name:
                continue
            if each in listed or (_said(pod) == uid and _owns(reservation, pod)):
                found.append(Consumer(uid=each, key=pod.metadata.key, amounts=amounts.of_pod(pod)))
        return tuple(found)


def _said(pod: PlacedPod) -> Uid:
    return allocated(pod.metadata.annotation(marks.ALLOCATED))


def _owns(reservation: Reservation, pod: PlacedPod) -> bool:
    try:
        return owners.matches(reservation.spec.owners, Claimant.of(pod))
    except MalformedAnnotationError:
        return False
