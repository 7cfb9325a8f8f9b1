"""Whether a reservation that has its place can be made to hold something else there.

More must fit into what is free. Less always can be: what consumers have beyond it stays charged.
"""

from dra.engine.reservations.amounts import ONE, PODS, Amounts
from dra.engine.reservations.refusals import Refusal, Why
from dra.engine.reservations.rooms import Room
from dra.model.meta import Uid


def lacking(room: Room, uid: Uid, wanted: Amounts) -> tuple[Refusal, ...]:
    """Return what the node lacks for a reservation there to hold these amounts instead."""
    held = room.held[uid]
    wanted = {**wanted, PODS: wanted.get(PODS, ONE)}
    return tuple(
        Refusal(
            why=Why.NODE_SHORT,
            subject=name,
            requested=amount,
            used=room.charged.get(name, 0) - held.charge(name),
            capacity=room.capacity.get(name, 0),
        )
        for name, amount in wanted.items()
        if max(amount, held.consumed.get(name, 0)) - held.charge(name) > max(0, room.free(name))
    )
