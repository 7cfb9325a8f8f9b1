"""Which of the reservations that fit a pod gets: the smallest order, else the one that it fills best, else by name."""

from collections.abc import Sequence

from dra.engine.reservations import score
from dra.engine.reservations.claimants import Claimant
from dra.engine.reservations.filter import Verdict
from dra.engine.reservations.rooms import Room
from dra.engine.reservations.score import Nominee
from dra.model.meta import Uid


def nominate(room: Room, pod: Claimant, fitting: Sequence[Uid]) -> Uid | None:
    """Return the reservation that the pod gets on this node; None if none fits."""

    def rank(uid: Uid) -> tuple[bool, int, int, str, Uid]:
        held = room.held[uid]
        order = held.holding.order
        return (not order, order, -score.most_allocated(held, pod.amounts), held.holding.name, uid)

    return min(fitting, key=rank, default=None)


def nominee(room: Room, pod: Claimant, verdict: Verdict) -> Nominee | None:
    """Return what scoring needs to know of a node."""
    uid = nominate(room, pod, verdict.inside)
    if uid is None:
        return None
    held = room.held[uid]
    return Nominee(node=room.name, score=score.preference(held, pod.amounts), order=held.holding.order)
