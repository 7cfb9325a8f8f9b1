"""Whether a reservation that has its place can be made to hold something else there.

More must fit into what is free. Less always can be: what consumers have beyond it stays charged.
"""

from dra.engine.reservations.amounts import NANOS_PER_UNIT, PODS, NanoAmounts
from dra.engine.reservations.node_usage import NodeUsage
from dra.engine.reservations.rejections import Rejection, RejectionReason
from dra.model.meta import Uid


def insufficient_for_resize(room: NodeUsage, uid: Uid, wanted: NanoAmounts) -> tuple[Rejection, ...]:
    """Return what the node lacks for a reservation there to hold these amounts instead."""
    held = room.held[uid]
    wanted = {**wanted, PODS: wanted.get(PODS, NANOS_PER_UNIT)}
    return tuple(
        Rejection(
            why=RejectionReason.NODE_SHORT,
            subject=name,
            requested=amount,
            used=room.charged.get(name, 0) - held.charge(name),
            capacity=room.capacity.get(name, 0),
        )
        for name, amount in wanted.items()
        if max(amount, held.consumed.get(name, 0)) - held.charge(name) > max(0, room.free(name))
    )
