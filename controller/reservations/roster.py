"""What the controller knows of reservations and their pods, and what it has asked about live.

Where placeholders stay, it knows all pods that wait, too: those who may enter a reservation are found among them.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from controller.reservations.waiting import Waiting
from dra.api.configuration import Placeholders
from dra.api.reservations.model import Phase, Reservation
from dra.engine.instants import BIND_HORIZON, NEVER, Instant, WallTime
from dra.engine.reservations import amounts, lifecycle, marks, owners, placeholders, yielding
from dra.engine.reservations import status as statuses
from dra.engine.reservations.claimants import Claimant, MalformedAnnotationError, allocated
from dra.engine.reservations.lifecycle import View
from dra.engine.reservations.phases import TERMINAL
from dra.engine.reservations.status import Consumer
from dra.model import annotations
from dra.model.meta import Key, Struct, Uid
from dra.model.nodes import Node
from dra.model.placement import PlacedPod

ASKED_FOR: Final = BIND_HORIZON
"""Seconds for which a pod that a status names, and that is not bound, may still be."""


EXPECTED: Final = 5.0
"""Seconds for which a pod that a status names is expected to be shown bound, before it is read: a bind takes less, and
one read for each owner would be a request for each owner."""

PASSED_OVER: Final = 300.0
"""Seconds for which a pod that was given room and did not take it is given none: others may want it."""


def concerns_reservations(pod: PlacedPod) -> bool:
    """Whether a pod is kept: a placeholder, or in a reservation. The rest of a cluster costs no memory."""
    return pod.metadata.annotation(marks.ALLOCATED) is not None or placeholders.stands_for(pod.metadata) is not None


def may_concern_reservations(pod: PlacedPod) -> bool:
    """Whether a pod is kept where owners are looked for: all that wait."""
    return (not pod.spec.node_name and not pod.terminal) or concerns_reservations(pod)


class _Asked(Struct, frozen=True):
    consumer: Consumer
    until: Instant
    """One sum, for the queue and for the decision: two that ought to be equal differ by a rounding, and a reservation
    that is due while its pod is not yet would be looked at again and again at the same instant."""


class Roster:
    """Reservations by uid, pods by the reservation that they say they are in."""

    def __init__(self, *, kind: Placeholders = Placeholders.REPLACED) -> None:
        self.dirty: set[Uid] = set()
        """The reservations about which there is news."""
        self.settling: set[Uid] = set()
        """Those whose owners come and go: their news may wait for more."""
        self.kind = kind
        self.waiting = Waiting()
        self._short: dict[Uid, WallTime] = {}
        self._passed_over: dict[Uid, Instant] = {}
        self._reservations: dict[Uid, Reservation] = {}
        self._versions: dict[Uid, str] = {}
        self._pods: dict[Uid, PlacedPod] = {}
        self._inside: dict[Uid, dict[Uid, None]] = {}
        self._placeholders: dict[Uid, dict[Uid, PlacedPod]] = {}
        self._asked: dict[Uid, dict[Uid, _Asked]] = {}
        self._named: dict[Uid, dict[Uid, Instant]] = {}
        """Reservation → since when its status has named each pod."""
        self._ended: dict[Uid, set[Uid]] = {}
        self._never_bound: dict[Uid, set[Uid]] = {}
        self._refused: dict[Uid, str] = {}

    def observe(self, uid: Uid, version: str, reservation: Reservation, *, now: Instant) -> Reservation | None:
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
        named = self._named.get(uid, {})
        self._named[uid] = {each: named.get(each, now) for each in listed}
        self.dirty.add(uid)
        if self.kind is Placeholders.YIELDING:
            self.dirty |= self.waiting.observe_reservation(uid, reservation)
        return before

    def forget(self, uid: Uid) -> None:
        """A reservation is gone."""
        for memory in (
            self._reservations,
            self._versions,
            self._asked,
            self._named,
            self._ended,
            self._never_bound,
            self._refused,
            self._short,
        ):
            memory.pop(uid, None)
        self.dirty |= {uid} | self.waiting.forget_reservation(uid)

    def get(self, uid: Uid) -> tuple[Reservation, str] | None:
        """Return a reservation and its resourceVersion."""
        found = self._reservations.get(uid)
        return None if found is None else (found, self._versions[uid])

    def uids(self) -> Iterable[Uid]:
        """Return all reservations."""
        return tuple(self._reservations)

    def observe_pod(self, pod: PlacedPod) -> None:
        """Take in a pod."""
        annotations.trim(pod.metadata, asked_for=marks.ASKED_FOR, longest=marks.LONGEST)
        uid = pod.metadata.uid
        if (reservation := placeholders.stands_for(pod.metadata)) is not None:
            self._placeholders.setdefault(reservation, {})[uid] = pod
            self._refused.pop(reservation, None)
            self.dirty.add(reservation)
            return
        if self.kind is Placeholders.YIELDING:
            self.dirty |= self.waiting.observe(pod)
        self._look_again(uid, pod)
        before = self._pods.get(uid)
        self._pods[uid] = pod
        for said in {_said(each) for each in (before, pod) if each is not None}:
            if said:
                self._inside.setdefault(said, {})[uid] = None
                self._never_bound.get(said, set()).discard(uid)
                self._stirred(said)

    def homeless(self, nodes: Mapping[Key, object]) -> tuple[Uid, ...]:
        """Return the reservations whose node is not among those that there are."""
        placed = ((uid, each.status.node_name) for uid, each in self._reservations.items())
        return tuple(uid for uid, node in placed if node and ("", node) not in nodes)

    def forget_pod(self, pod: PlacedPod, *, certain: bool = True) -> None:
        """A pod is gone; or, if that is not certain, it does not say any more that it is in a reservation."""
        uid = pod.metadata.uid
        reservation = placeholders.stands_for(pod.metadata)
        if reservation is not None:
            known = self._placeholders.get(reservation, {})
            if known.pop(uid, None) is not None:
                self.dirty.add(reservation)
            if not known:
                self._placeholders.pop(reservation, None)
            return
        self.dirty |= self.waiting.forget(uid)
        self._look_again(uid, None)
        self._passed_over.pop(uid, None)
        self._pods.pop(uid, None)
        for said, inside in list(self._inside.items()):
            if uid in inside:
                del inside[uid]
                if certain:  # else it is asked about
                    self._ended.setdefault(said, set()).add(uid)
                self._stirred(said)
                if not inside:
                    del self._inside[said]

    def _stirred(self, uid: Uid) -> None:
        """An owner has come or gone. A reservation that many may use hears of all owners of a second at once."""
        reservation = self._reservations.get(uid)
        shared = reservation is not None and not statuses.named_first(reservation)
        (self.settling if shared and self.kind is Placeholders.REPLACED else self.dirty).add(uid)

    def _look_again(self, uid: Uid, pod: PlacedPod | None) -> None:
        """A pod that was not bound when it was read is bound, or gone: what was read is not true any more."""
        if pod is not None and not pod.spec.node_name:
            return
        for reservation, asked in self._asked.items():
            if asked.pop(uid, None) is not None:
                self.dirty.add(reservation)

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
            if not pod.spec.node_name:
                self._passed_over[asked] = now + PASSED_OVER
        else:
            if self.kind is Placeholders.YIELDING:
                self._pods[asked] = pod
            consumer = Consumer(uid=asked, key=pod.metadata.key, amounts=amounts.of_pod(pod), under_way=True)
            until = now + ASKED_FOR if before is None else before.until
            self._asked.setdefault(uid, {})[asked] = _Asked(consumer=consumer, until=until)
        self.dirty.add(uid)

    def considers_again(self, pod: Uid) -> Instant:
        """Return from when on a pod that did not take its room may be given some again; `NEVER` if it may now."""
        return self._passed_over.get(pod, NEVER)

    def ask_again(self, uid: Uid) -> tuple[Instant, tuple[Consumer, ...]]:
        """Return when the pods of a reservation that are not bound are to be read once more, and which."""
        asked = self._asked.get(uid, {})
        return (
            min((each.until for each in asked.values()), default=NEVER),
            tuple(each.consumer for each in asked.values()),
        )

    def expects_until(self, uid: Uid) -> Instant:
        """Return when the last pod that the status names is expected no more; `NEVER` if it names none."""
        return max(self._named.get(uid, {}).values(), default=NEVER) + EXPECTED

    def refused(self, uid: Uid, text: str) -> None:
        """The API server would not have the placeholder."""
        if self._refused.get(uid) != text:  # the same once more is no news: it is tried again in a while
            self._refused[uid] = text
            self.dirty.add(uid)

    def note_short(self, uid: Uid, since: WallTime | None) -> None:
        """Remember since when placeholders wait for room that is their own; None: they do not."""
        if since is None:
            self._short.pop(uid, None)
        else:
            self._short.setdefault(uid, since)

    def view(self, uid: Uid, *, nodes: Mapping[Key, Node], devices: bool = False, now: Instant = 0.0) -> View | None:
        """Return what there is to know about a reservation; `nodes` are those that there are.

        `devices` is whether the claims of its template can be held.
        """
        found = self._view(uid, nodes=nodes, devices=devices)
        if found is not None and self.kind is Placeholders.REPLACED:
            named = {each for each, since in self._named.get(uid, {}).items() if now < since + EXPECTED}
            seen = {each.uid for each in found.consumers}
            found = msgspec.structs.replace(found, expected=frozenset(named - seen))
        if found is None or self.kind is Placeholders.REPLACED or found.reservation.status.phase is not Phase.AVAILABLE:
            return found
        return msgspec.structs.replace(
            found,
            applicants=self._applicants(uid, nodes=nodes, now=now),
            strays=tuple(self.waiting.told(uid, but={Uid(o.uid) for o in found.reservation.status.current_owners})),
        )

    def gate_opens(self, pod: PlacedPod, *, nodes: Mapping[Key, Node]) -> bool:
        """Whether no reservation can be expected to take a pod that waits behind our gate."""
        if not yielding.applies(pod) or self.waiting.named_by(pod.metadata.uid):
            return False
        claimant = self.waiting.claimant(pod.metadata.uid)
        if claimant is None or claimant.affinity is not None:
            return False
        for uid in self.waiting.candidates(pod.metadata.uid):
            reservation = self._reservations[uid]
            if reservation.status.phase not in TERMINAL and not reservation.status.node_name:
                if owners.matches(reservation.spec.owners, claimant):
                    return False
            elif self._takes(uid, pod, claimant, nodes=nodes, ask=yielding.waits_for):
                return False
        return True

    def _view(self, uid: Uid, *, nodes: Mapping[Key, Node], devices: bool) -> View | None:
        reservation = self._reservations.get(uid)
        if reservation is None:
            return None
        node = reservation.status.node_name
        consumers = self._consumers(uid, reservation)
        seen = {each.uid for each in consumers}
        _, name = placeholders.key(reservation)
        placed = self._placeholders.get(uid, {}).values()
        first = next((each for each in placed if each.metadata.name == name), None)
        where = node or (first.spec.node_name if first is not None else "")
        listed = [Uid(each.uid) for each in reservation.status.current_owners]
        return View(
            reservation=reservation,
            node_gone=bool(node) and ("", node) not in nodes,
            placeholder=first,
            others=tuple(each for each in placed if each is not first),
            consumers=consumers,
            ended=frozenset(self._ended.get(uid, ())),
            never_bound=frozenset(self._never_bound.get(uid, ())),
            asked=tuple(each.consumer for key, each in self._asked.get(uid, {}).items() if key not in seen),
            refused=self._refused.get(uid, ""),
            devices=devices,
            placeholders=self.kind,
            home=nodes.get(("", where)),
            pods={key: self._pods[key] for key in (*listed, *seen) if key in self._pods},
            short_since=self._short.get(uid),
        )

    def _applicants(self, uid: Uid, *, nodes: Mapping[Key, Node], now: Instant) -> tuple[PlacedPod, ...]:
        """Return the pods that may enter a reservation before others."""
        found = []
        for pod, claimant, candidates in self.waiting.applicants(uid):
            if self._passed_over.get(pod.metadata.uid, 0.0) > now:
                continue
            ranked = sorted(candidates, key=self._rank)
            first = next((r for r in ranked if self._takes(r, pod, claimant, nodes=nodes, ask=yielding.admits)), None)
            if first == uid:
                found.append(pod)
        return tuple(sorted(found, key=yielding.urgency))

    def _takes(
        self, uid: Uid, pod: PlacedPod, claimant: Claimant, *, nodes: Mapping[Key, Node], ask: yielding.Question
    ) -> bool:
        view = self._view(uid, nodes=nodes, devices=False)
        if view is None or view.home is None or view.reservation.status.phase is not Phase.AVAILABLE:
            return False
        there = lifecycle.standing(view)
        return yielding.lands(pod, view.home) and ask(there, self.waiting.holding(uid), claimant, node=view.home)

    def _rank(self, uid: Uid) -> tuple[bool, int, str]:
        holding = self.waiting.holding(uid)
        return (not holding.order, holding.order, holding.name)

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
