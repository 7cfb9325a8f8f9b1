"""What is to be done about one reservation: a placeholder made or deleted, a status written, the object deleted.

1. What has ended stays for people to see, then it is deleted; its placeholder goes at once.
2. What is over by its own words, or whose node is gone, ends, placed or not.
3. What cannot be read says so in a condition, and is not placed; what it holds stays held.
4. What waits has a placeholder, and tells why kube-scheduler finds no place for that one.
5. What has its place needs no placeholder, and tells who uses it.

A pod that the status names is its consumer until it is *known* to have ended, or never to have been bound: a live read
tells, never a watch that does not show it.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, TypeAlias

from dra.api.reservations.model import Phase, Reservation, ReservationStatus
from dra.engine.instants import NEVER, WallTime
from dra.engine.reservations import collection, devices, expiry, holdings, phases, placeholders
from dra.engine.reservations import status as statuses
from dra.engine.reservations.phases import TERMINAL, Happening
from dra.engine.reservations.reasons import ReservationReason
from dra.engine.reservations.status import Consumer
from dra.model.meta import Key, Struct, Uid
from dra.model.placement import PlacedPod
from dra.model.pods import SCHEDULED

UNSCHEDULABLE: Final = "Unschedulable"


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


Action: TypeAlias = WriteStatus | Place | Unplace | Ask | Remove


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
    consumers: tuple[Consumer, ...] = ()
    """Pods on its node that are in it and have not finished, as far as they are seen."""
    ended: frozenset[Uid] = frozenset()
    """Pods that were read live and found finished, or gone."""
    never_bound: frozenset[Uid] = frozenset()
    """Pods that were read live for long enough, and were not bound."""
    asked: tuple[Consumer, ...] = ()
    """Pods that were read live and were not bound yet: their binding may be under way."""
    refused: str = ""
    """What the API server said when the placeholder was to be made."""
    devices: bool = False
    """Whether the claims of its template can be held."""


class Plan(Struct, frozen=True):
    """What to do, and when to look again."""

    actions: tuple[Action, ...] = ()
    wake_at: WallTime = NEVER


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
        actions = () if fault else _placing(view, now=now)
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
        again = (Place(manifest=placeholders.manifest(reservation)),) if pod is None else ()
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
        return tuple(Ask(key=(each.namespace, each.name), uid=uid) for uid, each in missing.items())
    status = statuses.synced(reservation, (*view.consumers, *under_way), now=now, never_bound=view.never_bound)
    if status is None:
        return ()
    told = []
    if status.phase is Phase.SUCCEEDED:
        names = (
            ", ".join(f"{each.namespace}/{each.name}" for each in status.current_owners) or "an owner that has ended"
        )
        told = [Told(reason=ReservationReason.SUCCEEDED, text=f"was allocated once, to {names}")]
    return (_written(reservation, status, *told),)


def _unplaced(view: View) -> tuple[Unplace, ...]:
    pod = view.placeholder
    if pod is None or pod.metadata.deleting:
        return ()
    return (Unplace(key=pod.metadata.key, uid=pod.metadata.uid),)


def _over(status: ReservationStatus) -> Told:
    condition = status.condition(phases.READY)
    return Told(reason=ReservationReason.EXPIRED, text=condition.message if condition is not None else "is over")


def _written(reservation: Reservation, status: ReservationStatus, *told: Told) -> WriteStatus:
    return WriteStatus(body={"status": statuses.patch(reservation.status, status)}, told=told)
