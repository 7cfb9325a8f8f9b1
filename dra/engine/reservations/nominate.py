"""The choice among reservations that fit a pod: smallest order label, then fullest afterwards, then by name."""

from collections.abc import Sequence

from dra.engine.reservations import scoring
from dra.engine.reservations.filters import NodeFilterResult
from dra.engine.reservations.node_usage import NodeUsage
from dra.engine.reservations.pod_info import PodInfo
from dra.engine.reservations.scoring import NominatedReservation
from dra.model.meta import Uid


def nominate_reservation(room: NodeUsage, pod: PodInfo, fitting: Sequence[Uid]) -> Uid | None:
    """Return the reservation that a pod gets on this node; None if none fits."""

    def rank(uid: Uid) -> tuple[bool, int, int, str, Uid]:
        held = room.held[uid]
        order = held.holding.order
        return (not order, order, -scoring.most_allocated(held, pod.amounts), held.holding.name, uid)

    return min(fitting, key=rank, default=None)


def score_nominated(room: NodeUsage, pod: PodInfo, verdict: NodeFilterResult) -> NominatedReservation | None:
    """Return the nominated reservation of a node with its score; None if no reservation fits."""
    uid = nominate_reservation(room, pod, verdict.inside)
    if uid is None:
        return None
    held = room.held[uid]
    return NominatedReservation(
        node=room.name, score=scoring.reservation_score(held, pod.amounts), order=held.holding.order
    )
