"""The filter of nodes for a pod: inside one of the reservations that the pod may use, or in unreserved capacity.

By these rules a pod may use a reservation, capacity aside; the first rule that fails is the rejection:

1. The reservation is available, readable, not terminating and not used up (``allocateOnce``).
2. The pod matches an owner.
3. A pod that names a reservation gets that reservation; taints, ``unschedulable`` and selectors do not count then.
4. Otherwise an unschedulable reservation needs a toleration of ``node.kubernetes.io/unschedulable``, and taints repel.
   Tolerations are those of the pod's reservation affinity, not of its spec. A pod without affinity tolerates nothing.
   (Koordinator's code lets such a pod pass all taints, the reverse of their purpose.)
5. The affinity's selectors match the labels of the node, overlaid by those of the reservation.
6. Exact match: of each resource that the annotation names, the reservation holds the amount that the pod requests; 0 on
   both sides is a match.
7. A pod without reservation affinity has at least one resource in common with the reservation; with policy Restricted
   only the restricted resources count.

Exactly one reservation serves a pod. With policies Default and Aligned a pod gets what remains of the reservation and
the rest of the node; with policy Restricted it gets of the restricted resources only what is held. A pod that requires
a reservation (reservation affinity) must fit into one; any other pod may also run beside all reservations, in what is
free.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from dra.api.reservations.model import AllocatePolicy, TaintEffect
from dra.engine.reservations import owner_matching, pod_info
from dra.engine.reservations.node_usage import NodeUsage, ReservationUsage
from dra.engine.reservations.pod_info import HostPorts, PodInfo, ReservationAffinity
from dra.engine.reservations.rejections import Rejection, RejectionReason
from dra.engine.reservations.reservation_info import ReservationInfo
from dra.model.meta import Struct, Uid
from dra.model.nodes import matches_node_selector
from dra.model.quantities import PODS, Amounts
from dra.model.scheduling import Toleration

_UNSCHEDULABLE_TAINT: Final = "node.kubernetes.io/unschedulable"
_FILTERING_EFFECTS: Final = frozenset({TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE})


def check_eligibility(
    holding: ReservationInfo, pod: PodInfo, *, node_labels: Mapping[str, str], consumers: int
) -> Rejection | None:
    """Return why a pod may not use a reservation; None if it may."""
    return check_owner_and_affinity(holding, pod, node_labels=node_labels, consumers=consumers) or _check_resources(
        holding, pod
    )


def check_owner_and_affinity(
    holding: ReservationInfo, pod: PodInfo, *, node_labels: Mapping[str, str], consumers: int = 0
) -> Rejection | None:
    """Return why a pod may not use a reservation, whatever amounts both have (rules 1 to 5); None if it may."""
    if why := unusable_reason(holding, consumers=consumers):
        return Rejection(why=why, subject=holding.fault)
    if holding.allocate_once and holding.listed - holding.predecessors - {pod.uid}:
        return Rejection(
            why=RejectionReason.USED_UP
        )  # by a pod that is not in the cache, perhaps because it started and finished in between
    if not owner_matching.matches_any_owner(holding.owners, pod):
        return Rejection(why=RejectionReason.NOT_OWNER)
    return _check_affinity(holding, pod.affinity, node_labels)


def _check_affinity(
    holding: ReservationInfo, affinity: ReservationAffinity | None, node_labels: Mapping[str, str]
) -> Rejection | None:
    if affinity is not None and affinity.name:
        return None if affinity.name == holding.name else Rejection(why=RejectionReason.OTHER_NAME)
    if refusal := _check_taints(holding, affinity):
        return refusal
    if affinity is not None and not _matches_affinity(holding, affinity, node_labels):
        return Rejection(why=RejectionReason.AFFINITY)
    return None


def _check_resources(holding: ReservationInfo, pod: PodInfo) -> Rejection | None:
    if any(holding.amounts.get(name, 0) != pod.amounts.get(name, 0) for name in pod.exact):
        return Rejection(why=RejectionReason.NOT_EXACT)
    if pod.affinity is None and not has_common_resource(holding, pod):
        return Rejection(why=RejectionReason.NOTHING_IN_COMMON)
    return None


def has_common_resource(holding: ReservationInfo, pod: PodInfo) -> bool:
    """Return whether a pod requests a resource that a reservation provides."""
    return any(amount and name != PODS and holding.serves(name) for name, amount in pod.amounts.items())


def can_be_pre_allocated(holding: ReservationInfo, pod: PodInfo, *, node_labels: Mapping[str, str]) -> bool:
    """Return whether a running pod may be in a reservation that is about to be placed over it (rules 3 to 7)."""
    refused = _check_affinity(holding, pod.affinity, node_labels) or _check_resources(holding, pod)
    return refused is None and has_common_resource(holding, pod)


def unusable_reason(holding: ReservationInfo, *, consumers: int) -> RejectionReason | None:
    """Return why no pod at all may use a reservation now; None if pods may."""
    if not holding.available:
        return RejectionReason.NOT_AVAILABLE
    if holding.fault:
        return RejectionReason.UNREADABLE
    if holding.terminating:
        return RejectionReason.TERMINATING
    if holding.allocate_once and consumers:
        return RejectionReason.USED_UP
    return None


def _check_taints(holding: ReservationInfo, affinity: ReservationAffinity | None) -> Rejection | None:
    tolerations = affinity.tolerations if affinity is not None else ()
    if holding.unschedulable and not _is_tolerated(_UNSCHEDULABLE_TAINT, "", TaintEffect.NO_SCHEDULE, tolerations):
        return Rejection(why=RejectionReason.UNSCHEDULABLE)
    for taint in holding.taints:
        if taint.effect in _FILTERING_EFFECTS and not _is_tolerated(taint.key, taint.value, taint.effect, tolerations):
            return Rejection(why=RejectionReason.TAINTED, subject=str(taint))
    return None


def _is_tolerated(key: str, value: str, effect: TaintEffect, tolerations: tuple[Toleration, ...]) -> bool:
    return any(
        each.effect in ("", effect)
        and (each.key in ("", key) if each.operator == "Exists" else (each.key, each.value) == (key, value))
        for each in tolerations
    )


def _matches_affinity(holding: ReservationInfo, affinity: ReservationAffinity, node_labels: Mapping[str, str]) -> bool:
    labels = {**node_labels, **holding.labels}
    return all(labels.get(key) == value for key, value in affinity.selector.items()) and matches_node_selector(
        affinity.terms, name=holding.name, labels=labels
    )


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
    if not room.held and pod.affinity is None:  # most nodes, and all that kube-scheduler knows
        short = check_unreserved(room, pod.amounts)
        return NodeFilterResult(room.name, (), not short, short)
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
        if check_eligibility(held.holding, pod, node_labels=room.labels, consumers=held.entered) is None
    )


def check_unreserved(room: NodeUsage, wanted: Amounts) -> tuple[Rejection, ...]:
    """Return the resources that a node lacks for a pod that gets nothing of what is held."""
    capacity, charged = room.capacity, room.charged
    for name, amount in wanted.items():  # runs for thousands of nodes each time, and most of these have enough
        if amount > capacity.get(name, 0) - charged.get(name, 0) and amount > 0:
            break
    else:
        return ()
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
    if wanted and any(
        pod_info.have_conflict(wanted, held.holding.ports) for uid, held in room.held.items() if uid != but
    ):
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


def _check_ignoring_reservations(room: NodeUsage, wanted: Amounts) -> tuple[Rejection, ...]:
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
