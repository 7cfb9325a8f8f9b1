"""The filter of nodes for a pod: inside one of the reservations that the pod may use, or in unreserved capacity.

Exactly one reservation serves a pod. With policies Default and Aligned a pod gets what remains of the reservation and
the rest of the node; with policy Restricted it gets of the restricted resources only what is held. A pod that requires
a reservation (reservation affinity) must fit into one; any other pod may also run beside all reservations, in what is
free.
"""

from collections.abc import Iterable

from dra.api.reservations.model import AllocatePolicy
from dra.engine.reservations import eligibility, ports
from dra.engine.reservations.amounts import NanoAmounts
from dra.engine.reservations.node_usage import NodeUsage, ReservationUsage
from dra.engine.reservations.pod_info import PodInfo
from dra.engine.reservations.ports import HostPorts
from dra.engine.reservations.rejections import Rejection, RejectionReason
from dra.model.meta import Struct, Uid


class NodeFilterResult(Struct, frozen=True):
    """The result of filtering one node for a pod."""

    node: str
    inside: tuple[Uid, ...] = ()
    """Reservations with enough capacity for the pod."""
    beside: bool = False
    """Whether the pod fits on the node without any reservation."""
    refusals: tuple[Rejection, ...] = ()
    """Why the pod does not fit on the node; empty if it does."""

    @property
    def fits(self) -> bool:
        """Return whether the pod fits on the node, in a reservation or without."""
        return self.beside or bool(self.inside)


def filter_node(room: NodeUsage, pod: PodInfo, eligible: Iterable[Uid] | None = None) -> NodeFilterResult:
    """Return whether a pod fits on a node, in which reservations, or why not.

    `eligible` are the reservations that the pod may use; None if the caller has not computed them.
    """
    if not room.known:
        return NodeFilterResult(node=room.name, refusals=(Rejection(why=RejectionReason.NO_SUCH_NODE),))
    if pod.ignores:
        lacking = _check_ignoring_reservations(room, pod.amounts)
        return NodeFilterResult(node=room.name, beside=not lacking, refusals=lacking)
    candidates = eligible_reservations(room, pod) if eligible is None else tuple(eligible)
    inside: list[Uid] = []
    refusals: list[Rejection] = []
    for uid in candidates:
        if lacking := check_reservation(room, room.held[uid], pod):
            refusals.extend(lacking)
        else:
            inside.append(uid)
    if pod.affinity is not None:
        if not inside:
            refusals = refusals or [Rejection(why=RejectionReason.NO_MATCH)]
        return NodeFilterResult(node=room.name, inside=tuple(inside), refusals=() if inside else _deduplicate(refusals))
    short = (*check_unreserved(room, pod.amounts), *check_host_ports(room, pod.ports))
    fits = not short or inside
    return NodeFilterResult(
        node=room.name,
        inside=tuple(inside),
        beside=not short,
        refusals=() if fits else _deduplicate([*short, *refusals]),
    )


def eligible_reservations(room: NodeUsage, pod: PodInfo) -> tuple[Uid, ...]:
    """Return the reservations of a node that a pod may use."""
    return tuple(
        uid
        for uid, held in room.held.items()
        if eligibility.check_eligibility(held.holding, pod, node_labels=room.labels, consumers=held.entered) is None
    )


def check_unreserved(room: NodeUsage, wanted: NanoAmounts) -> tuple[Rejection, ...]:
    """Return the resources that a node lacks for a pod that gets nothing of what is held."""
    capacity, charged = room.capacity, room.charged
    return tuple(
        Rejection(
            why=RejectionReason.NODE_SHORT,
            subject=name,
            requested=amount,
            used=charged.get(name, 0),
            capacity=capacity.get(name, 0),
        )
        for name, amount in wanted.items()
        if amount > 0 and amount > capacity.get(name, 0) - charged.get(name, 0)
    )


def check_host_ports(room: NodeUsage, wanted: HostPorts, *, but: Uid | None = None) -> tuple[Rejection, ...]:
    """Return a rejection if a reservation other than `but` holds one of the wanted host ports."""
    if wanted and any(ports.have_conflict(wanted, held.holding.ports) for uid, held in room.held.items() if uid != but):
        return (Rejection(why=RejectionReason.HOST_PORT),)
    return ()


def check_reservation(room: NodeUsage, held: ReservationUsage, pod: PodInfo) -> tuple[Rejection, ...]:
    """Return what is lacking for a pod that uses a reservation; the caller has checked that the pod may use it."""
    found = [
        Rejection(
            why=RejectionReason.NODE_SHORT,
            subject=name,
            requested=amount,
            used=room.capacity.get(name, 0) - room.available_to_owner(held, name, to=pod.uid),
            capacity=room.capacity.get(name, 0),
        )
        for name, amount in pod.amounts.items()
        if amount > 0 and amount > room.available_to_owner(held, name, to=pod.uid)
    ]
    holding = held.holding
    found += check_host_ports(room, pod.ports, but=holding.uid)
    if holding.policy is not AllocatePolicy.RESTRICTED:
        return tuple(found)
    named = pod.affinity is not None and pod.affinity.name == holding.name
    for name, amount in pod.amounts.items():
        if amount > 0 and name in holding.restricted and amount > held.remainder(name, to=pod.uid):
            found.append(
                Rejection(
                    why=RejectionReason.SHORT,
                    subject=name,
                    requested=amount,
                    used=held.taken(name, to=pod.uid),
                    capacity=max(0, holding.amounts.get(name, 0) - holding.inner.get(name, 0)),
                    named=named,
                )
            )
    return tuple(found)


def _check_ignoring_reservations(room: NodeUsage, wanted: NanoAmounts) -> tuple[Rejection, ...]:
    return tuple(
        Rejection(
            why=RejectionReason.NODE_SHORT,
            subject=name,
            requested=amount,
            used=room.capacity.get(name, 0) - room.unused(name),
            capacity=room.capacity.get(name, 0),
        )
        for name, amount in wanted.items()
        if amount > 0 and amount > room.unused(name)
    )


def _deduplicate(refusals: Iterable[Rejection]) -> tuple[Rejection, ...]:
    """Drop duplicate rejections; keep of each the numbers of the node or reservation that is used least."""
    found: dict[str, Rejection] = {}
    for each in refusals:
        known = found.get(each.text)
        if known is None or each.used < known.used:
            found[each.text] = each
    return tuple(found.values())
