"""The check whether an available reservation can hold other amounts on its node.

An increase must fit into what is free. A decrease is always possible: what consumers take beyond the reservation stays
charged.
"""

from dra.engine.reservations.amounts import NANOS_PER_UNIT, PODS, NanoAmounts
from dra.engine.reservations.node_usage import NodeUsage
from dra.engine.reservations.rejections import Rejection, RejectionReason
from dra.model.meta import Uid


def insufficient_for_resize(room: NodeUsage, uid: Uid, wanted: NanoAmounts) -> tuple[Rejection, ...]:
    """Return the resources that the node lacks for its reservation to hold the wanted amounts instead."""
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
