"""What is to be done about one reservation: a placeholder made or deleted, a status written, the object deleted.

1. What has ended stays for people to see, then it is deleted; its placeholder goes at once.
2. What is over by its own words, or whose node is gone, ends, placed or not.
3. What cannot be read says so in a condition, and is not placed; what it holds stays held.
4. What waits has a placeholder, and tells why kube-scheduler finds no place for that one.
5. What has its place tells who uses it. Where an extender holds the room it needs no placeholder; elsewhere they stay,
   and give way to owners (`yielding`).

A pod that the status names is its consumer until it is *known* to have ended, or never to have been bound: a live read
tells, never a watch that does not show it.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, TypeAlias

from dra.api.configuration import Placeholders
from dra.api.reservations.model import Phase, Reservation, ReservationStatus
from dra.engine.instants import NEVER, WallTime
from dra.engine.reservations import (
    collection,
    devices,
    expiry,
    holdings,
    keepers,
    marks,
    phases,
    placeholders,
    yielding,
)
from dra.engine.reservations import status as statuses
from dra.engine.reservations.claimants import Claimant, allocated
from dra.engine.reservations.keepers import Keeper
from dra.engine.reservations.phases import TERMINAL, Happening
from dra.engine.reservations.reasons import ReservationReason
from dra.engine.reservations.status import Consumer
from dra.engine.reservations.yielding import Guest, Nominate, Open, Standing, Welcome
from dra.model.meta import Key, Struct, Uid
from dra.model.nodes import Node
from dra.model.placement import PlacedPod
from dra.model.pods import SCHEDULED

UNSCHEDULABLE: Final = "Unschedulable"

PATIENCE: Final = 10.0
"""Seconds for which a placeholder may wait for room that is its own: kube-scheduler tries again after ten at most."""


class Severity(StrEnum):
    """Of an Event."""

    NORMAL = "Normal"
    WARNING = "Warning"


class Told(Struct, frozen=True):
    """An Event on the reservation, once the write that it is about has succeeded."""

    reason: ReservationReason
    text: str
    severity: Severity = Severity.NORMAL


class WriteStatus(Struct, frozen=True):
    """Compare and swap the status."""

    body: Mapping[str, Any]
    told: tuple[Told, ...] = ()


class Place(Struct, frozen=True):
    """Make the placeholder."""

    manifest: Mapping[str, Any]


class Unplace(Struct, frozen=True):
    """Delete the placeholder: it has done what it is for, or nothing is to be placed any more."""

    key: Key
    uid: Uid


class Ask(Struct, frozen=True):
    """Read a pod that the status names and nobody sees."""

    key: Key
    uid: Uid


class Remove(Struct, frozen=True):
    """Delete the reservation."""


class Dismiss(Struct, frozen=True):
    """Take back from a pod that waits what it was told when it was to enter: it did not."""

    key: Key
    uid: Uid


Action: TypeAlias = WriteStatus | Place | Unplace | Ask | Remove | Dismiss | Nominate | Welcome | Open


NO_DEVICES: Final = (
    "spec.template.spec.resourceClaims: devices are held in mode replace only, and this is not held without them; "
    "start the controller with --mode replace, or take resourceClaims out of the template"
)
"""What a reservation is told that the controller could hold only in part."""


class View(Struct, frozen=True):
    """A reservation, and what is known about it."""

    reservation: Reservation
    node_gone: bool = False
    placeholder: PlacedPod | None = None
    """The one that finds the place."""
    others: tuple[PlacedPod, ...] = ()
    """More of them, where they stay."""
    consumers: tuple[Consumer, ...] = ()
    """Pods on its node that are in it and have not finished, as far as they are seen."""
    ended: frozenset[Uid] = frozenset()
    """Pods that were read live and found finished, or gone."""
    never_bound: frozenset[Uid] = frozenset()
    """Pods that were read live for long enough, and were not bound."""
    asked: tuple[Consumer, ...] = ()
    """Pods that were read live and were not bound yet: their binding may be under way."""
    expected: frozenset[Uid] = frozenset()
    """Pods that the status has named for moments only: the watch is about to show these bound."""
    refused: str = ""
    """What the API server said when the placeholder was to be made."""
    devices: bool = False
    """Whether the claims of its template can be held."""
    placeholders: Placeholders = Placeholders.REPLACED
    home: Node | None = None
    """The node where it is; or where its placeholder is, while it has none."""
    pods: Mapping[Uid, PlacedPod] = {}
    """Those that the status names, as they are seen."""
    applicants: tuple[PlacedPod, ...] = ()
    """Pods that wait, that no reservation names, and that may have this one before others; the most urgent first."""
    strays: tuple[PlacedPod, ...] = ()
    """Pods that wait, were told to enter this one, and are not named by it any more."""
    short_since: WallTime | None = None
    """Since when its placeholders have not got all of the room."""


class Plan(Struct, frozen=True):
    """What to do, and when to look again."""

    actions: tuple[Action, ...] = ()
    wake_at: WallTime = NEVER
    short: bool = False
    """Whether placeholders have not got all of the room."""


def decide(view: View, *, now: WallTime) -> Plan:
    """Return what to do about a reservation."""
    reservation = view.reservation
    if reservation.metadata.deletion_timestamp is not None:
        return Plan(actions=_unplaced(view))
    if reservation.status.phase in TERMINAL:
        due = collection.due(reservation, node_gone=view.node_gone)
        return Plan(actions=(*_unplaced(view), *([Remove()] if due <= now else [])), wake_at=due)
    ended = expiry.expired(reservation, now=now, node_gone=view.node_gone)
    if ended is not None:
        return Plan(actions=(*_unplaced(view), _written(reservation, ended, _over(ended))), wake_at=now)
    wake_at = expiry.deadline(reservation)
    fault = holdings.of(reservation).fault
    if (told := _readable(reservation, fault, now=now)) is not None:
        return Plan(actions=(told,), wake_at=now)
    if reservation.status.phase is not Phase.AVAILABLE:
        actions = () if fault else _placed(view, now=now) or _placing(view, now=now)
    elif view.placeholders is Placeholders.YIELDING:
        return _yielding(view, now=now, wake_at=wake_at)
    else:
        actions = (*_unplaced(view), *_using(view, now=now))
    return Plan(actions=actions, wake_at=wake_at)


def _readable(reservation: Reservation, fault: str, *, now: WallTime) -> WriteStatus | None:
    happening = Happening.UNREADABLE if fault else Happening.READABLE
    status = phases.after(reservation.status, happening, now=now, message=fault)
    if status is None:
        return None
    told = Told(
        reason=ReservationReason.INVALID,
        text=f"{fault}; nobody may use it until that is corrected",
        severity=Severity.WARNING,
    )
    return _written(reservation, status, *([told] if fault else []))


def _placing(view: View, *, now: WallTime) -> tuple[Action, ...]:
    reservation, pod = view.reservation, view.placeholder
    again: tuple[Action, ...] = ()
    if devices.asked_for(reservation) and not view.devices:
        text, again = NO_DEVICES, _unplaced(view)
    elif pod is None or view.refused:
        text = view.refused
        yielding = view.placeholders is Placeholders.YIELDING
        made = keepers.first if yielding else placeholders.manifest
        again = (Place(manifest=made(reservation)),) if pod is None else ()
    else:
        condition = pod.condition(SCHEDULED)
        waits = condition is not None and condition.status == "False" and not pod.spec.node_name
        text = condition.message if condition is not None and waits else ""
    if not text:
        return again
    status = phases.after(reservation.status, Happening.UNSCHEDULABLE, now=now, message=text)
    if status is None:
        return again
    told = Told(reason=ReservationReason.FAILED_SCHEDULING, text=text, severity=Severity.WARNING)
    return (*again, _written(reservation, status, told))


def _using(view: View, *, now: WallTime) -> tuple[Action, ...]:
    reservation = view.reservation
    seen = {each.uid for each in view.consumers}
    known = seen | view.ended | view.never_bound
    missing = {Uid(each.uid): each for each in reservation.status.current_owners if each.uid not in known}
    under_way = [each for each in view.asked if each.uid in missing]
    for each in under_way:
        del missing[each.uid]
    if missing:  # what they take is not known either
        expected = view.expected - holdings.predecessors(reservation)  # those run already, and name it later
        asked = {uid: each for uid, each in missing.items() if uid not in expected}
        return tuple(Ask(key=(each.namespace, each.name), uid=uid) for uid, each in asked.items())
    status = statuses.synced(reservation, (*view.consumers, *under_way), now=now, never_bound=view.never_bound)
    if status is None:
        return tuple(_annotated(view, (*view.consumers, *under_way)))
    told = []
    if status.phase is Phase.SUCCEEDED:
        names = (
            ", ".join(f"{each.namespace}/{each.name}" for each in status.current_owners) or "an owner that has ended"
        )
        told = [Told(reason=ReservationReason.SUCCEEDED, text=f"was allocated once, to {names}")]
    return (_written(reservation, status, *told),)


def _annotated(view: View, consumers: Iterable[Consumer]) -> Iterator[Welcome]:
    """Yield the pods that the reservation was placed over and whose annotation does not name the reservation yet.

    The status names such a pod first, so its annotation can be written after a restart as well.
    """
    before = holdings.predecessors(view.reservation)
    for each in consumers:
        pod = view.pods.get(each.uid)
        said = allocated(pod.metadata.annotation(marks.ALLOCATED)) if pod is not None else ""
        if each.uid in before and not each.under_way and said != view.reservation.metadata.uid:
            yield Welcome(key=each.key, uid=each.uid, nominate=False, label=False)


def _placed(view: View, *, now: WallTime) -> tuple[Action, ...]:
    """Return the write by which a reservation has its place where its placeholder is; nothing before that."""
    pod = view.placeholder
    if view.placeholders is not Placeholders.YIELDING or pod is None or view.home is None:
        return ()
    if pod.metadata.deleting or pod.spec.node_name != view.home.metadata.name:
        return ()
    if pod.terminal:  # its node would not have it: another one may
        return _unplaced(view)
    status = statuses.bound(view.reservation, node=pod.spec.node_name, now=now)
    return () if status is None else (_written(view.reservation, status),)


def _yielding(view: View, *, now: WallTime, wake_at: WallTime) -> Plan:
    """Return what placeholders that stay are to do; first of all the status must say what is the case."""
    reservation = view.reservation
    if known := _using(view, now=now):
        return Plan(actions=known, wake_at=wake_at)
    there = standing(view)
    holding = holdings.of(reservation)
    if view.home is not None and not holding.fault:
        for pod in view.applicants:
            claimant = Claimant.of(pod)
            if yielding.lands(pod, view.home) and yielding.admits(there, holding, claimant, node=view.home):
                consumer = Consumer(uid=claimant.uid, key=claimant.key, amounts=claimant.amounts, under_way=True)
                if (status := statuses.entering(reservation, consumer)) is not None:
                    return Plan(actions=(_written(reservation, status),), wake_at=wake_at)
    lacking = yielding.short(there)
    told, due = _kept(view, lacking, now=now)
    dismissed = (Dismiss(key=each.metadata.key, uid=each.metadata.uid) for each in view.strays)
    return Plan(
        actions=(*dismissed, *_carried_out(view, yielding.moves(there)), *told),
        wake_at=min(wake_at, due),
        short=bool(lacking),
    )


def standing(view: View) -> Standing:
    """Return what there is of a reservation that has its node, and keeps its room with placeholders."""
    reservation = view.reservation
    placed = [each for each in (view.placeholder, *view.others) if each is not None]
    named = [*view.consumers, *view.asked]
    return Standing(
        node=reservation.status.node_name,
        held=holdings.of(reservation).amounts,
        once=reservation.spec.allocate_once,
        keepers=tuple(map(Keeper.of, placed)),
        guests=tuple(_guest(view, each) for each in named),
    )


def _guest(view: View, consumer: Consumer) -> Guest:
    pod = view.pods.get(consumer.uid)
    if pod is not None:
        return Guest.of(pod, inside=Uid(view.reservation.metadata.uid))
    return Guest(key=consumer.key, uid=consumer.uid, amounts=consumer.amounts, bound=not consumer.under_way)


def _carried_out(view: View, moves: Iterable[yielding.Move]) -> Iterator[Action]:
    taken = {each.metadata.name for each in (view.placeholder, *view.others) if each is not None}
    for move in moves:
        match move:
            case yielding.Keep():
                number = keepers.unused(view.reservation, taken)
                taken.add(keepers.name(view.reservation, number=number))
                keeps, heir_of, replaces = move.amounts, move.heir_of, move.replaces
                made = keepers.another(view.reservation, number=number, keeps=keeps, heir_of=heir_of, replaces=replaces)
                yield Place(manifest=made)
            case yielding.Drop():
                yield Unplace(key=move.key, uid=move.uid)
            case _:
                yield move


def _kept(view: View, lacking: str, *, now: WallTime) -> tuple[tuple[Action, ...], WallTime]:
    """Return the write that tells whether the room is kept, and when to look again: others come and go in a moment."""
    reservation = view.reservation
    if lacking:
        since = now if view.short_since is None else view.short_since
        if now < since + PATIENCE:
            return (), since + PATIENCE
    text = f"others have room on node {reservation.status.node_name} that is reserved: {lacking}" if lacking else ""
    happening = Happening.LOST if lacking else Happening.KEPT
    status = phases.after(reservation.status, happening, now=now, message=text)
    if status is None:
        return (), NEVER
    told = Told(reason=ReservationReason.TAKEN, text=text, severity=Severity.WARNING)
    return (_written(reservation, status, *([told] if lacking else [])),), NEVER


def _unplaced(view: View) -> tuple[Unplace, ...]:
    return tuple(
        Unplace(key=pod.metadata.key, uid=pod.metadata.uid)
        for pod in (view.placeholder, *view.others)
        if pod is not None and not pod.metadata.deleting
    )


def _over(status: ReservationStatus) -> Told:
    condition = status.condition(phases.READY)
    return Told(reason=ReservationReason.EXPIRED, text=condition.message if condition is not None else "is over")


def _written(reservation: Reservation, status: ReservationStatus, *told: Told) -> WriteStatus:
    return WriteStatus(body={"status": statuses.patch(reservation.status, status)}, told=told)
