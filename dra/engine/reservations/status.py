"""What the status of a reservation says about its place and its consumers.

``allocated`` is what its owners take of the resources that it holds, more than it holds, too. ``currentOwners`` are
sorted by uid. With ``allocateOnce`` the first owner ends it: in the write that names the owner, or when one that was
named is gone. A consumer is *under way* while its binding may still fail: it is named, so that nobody else gets its
place, yet it has not ended anything. Pods that were here before the reservation (pre-allocation) do not end it.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from dra.api.reservations.model import ObjectReference, Phase, Quantities, Reservation, ReservationStatus
from dra.engine.instants import WallTime
from dra.engine.reservations import amounts, devices, holdings
from dra.engine.reservations.amounts import Amounts
from dra.engine.reservations.claimants import Claimant
from dra.engine.reservations.phases import Happening, after
from dra.model.meta import Key, Struct, Uid


class Consumer(Struct, frozen=True):
    """A pod in a reservation: on its node, not finished."""

    uid: Uid
    key: Key
    amounts: Amounts
    under_way: bool = False
    """Whether its binding may still fail."""

    @classmethod
    def of(cls, pod: Claimant, *, under_way: bool = False) -> "Consumer":
        """Return what a status says of a pod."""
        return cls(uid=pod.uid, key=pod.key, amounts=pod.amounts, under_way=under_way)


def bound(
    reservation: Reservation, *, node: str, now: WallTime, over: Iterable[Consumer] = ()
) -> ReservationStatus | None:
    """Return the status once it has a place; None if it cannot have one any more.

    `over` are the running pods that it is placed over: its first consumers.

    Raises MalformedAmountsError or MalformedAnnotationError, if what it wants cannot be read.
    """
    if reservation.metadata.deletion_timestamp is not None:
        return None
    held = holdings.wanted(reservation)
    text = f"is held on node {node}"
    found = after(reservation.status, Happening.BOUND, now=now, message=text)
    if found is None:
        return None
    like = amounts.texts(reservation.spec.template)
    there = found.model_copy(update={"node_name": node, "allocatable": written(held, like=like)})
    inside = sorted(over, key=lambda each: each.uid)
    return there if not inside else _naming(there, inside)


def synced(
    reservation: Reservation,
    consumers: Iterable[Consumer],
    *,
    now: WallTime,
    never_bound: AbstractSet[Uid] = frozenset(),
) -> ReservationStatus | None:
    """Return the status as its consumers make it; None if it says so already.

    `never_bound` are pods that the status may name although their binding is known to have failed.
    """
    status = reservation.status
    if status.phase is not Phase.AVAILABLE:
        return None
    inside = sorted(consumers, key=lambda each: each.uid)
    found = _naming(status, inside)
    if reservation.spec.allocate_once and _used(reservation, inside, never_bound):
        found = after(found, Happening.ALLOCATED, now=now, message="an owner has it") or found
    return None if found == status else found


def named_first(reservation: Reservation) -> bool:
    """Whether the status names an owner before the owner is bound.

    A reservation for once is given to nobody else from that write on; the controller gives a reservation's devices to
    the pods that the status names, and keeps the room of those that it was placed over. Elsewhere the annotation of the
    bound pod says the same, in the same write as the binding: the status may follow.
    """
    spec = reservation.spec
    return spec.allocate_once or holdings.pre_allocates(spec) or bool(devices.asked_for(reservation))


def entering(reservation: Reservation, pod: Consumer) -> ReservationStatus | None:
    """Return the status that names one consumer more, whose binding is under way; None if it names it already."""
    status = reservation.status
    if any(each.uid == pod.uid for each in status.current_owners):
        return None
    reference = ObjectReference(namespace=pod.key[0], name=pod.key[1], uid=pod.uid)
    return status.model_copy(
        update={
            "current_owners": tuple(sorted((*status.current_owners, reference), key=lambda each: each.uid)),
            "allocated": _allocated(status, amounts.plus(amounts.known(status.allocated), pod.amounts)),
        }
    )


def leaving(reservation: Reservation, pod: Consumer) -> ReservationStatus | None:
    """Return the status without a consumer that was never bound; None if it does not name it, or is final."""
    status = reservation.status
    rest = tuple(each for each in status.current_owners if each.uid != pod.uid)
    if len(rest) == len(status.current_owners) or status.phase is not Phase.AVAILABLE:
        return None
    taken = amounts.minus(amounts.known(status.allocated), pod.amounts) if rest else {}
    return status.model_copy(update={"current_owners": rest, "allocated": _allocated(status, taken)})


def resized(reservation: Reservation) -> ReservationStatus | None:
    """Return the status that holds what is wanted now; None if it does, or has no place.

    Raises MalformedAmountsError or MalformedAnnotationError.
    """
    status, wanted = reservation.status, holdings.wanted(reservation)
    if status.phase is not Phase.AVAILABLE or amounts.known(status.allocatable) == wanted:
        return None
    held = written(wanted, like=amounts.texts(reservation.spec.template))
    return status.model_copy(update={"allocatable": held})


def patch(before: ReservationStatus, after: ReservationStatus) -> dict[str, Any]:
    """Return what a JSON merge patch of the status says: fields that have changed, and names that are no more."""
    old, new = (each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in (before, after))
    found: dict[str, Any] = {}
    for name, value in new.items():
        if isinstance(value, dict):
            gone = dict.fromkeys(old[name].keys() - value.keys())
            changed = {key: each for key, each in value.items() if old[name].get(key) != each}
            if gone or changed:
                found[name] = {**changed, **gone}
        elif old.get(name) != value:
            found[name] = [_lean(each) for each in value] if isinstance(value, list) else value
    return found


def _lean(part: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in part.items() if value != ""}


def _naming(status: ReservationStatus, inside: Sequence[Consumer]) -> ReservationStatus:
    """Return a status with these consumers, and with what they take."""
    taken = amounts.total(each.amounts for each in inside)
    owners = tuple(ObjectReference(namespace=each.key[0], name=each.key[1], uid=each.uid) for each in inside)
    return status.model_copy(update={"current_owners": owners, "allocated": _allocated(status, taken)})


def _allocated(status: ReservationStatus, taken: Amounts) -> Quantities:
    return written(
        {name: taken[name] for name in status.allocatable if taken.get(name, 0) > 0}, like=status.allocatable
    )


def written(held: Amounts, *, like: Mapping[str, str | int]) -> Quantities:
    """Return amounts as a resource list, in the units of another one."""
    return {name: amounts.printed(amount, like=like.get(name, "")) for name, amount in held.items()}


def _used(reservation: Reservation, inside: list[Consumer], never_bound: AbstractSet[Uid]) -> bool:
    before = holdings.predecessors(reservation)
    there = {each.uid for each in inside}
    gone = {Uid(each.uid) for each in reservation.status.current_owners} - there - never_bound
    return bool(({each.uid for each in inside if not each.under_way} | gone) - before)
