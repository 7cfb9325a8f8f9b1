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
7. A pod without reservation affinity has at least one resource or claim in common with the reservation; with policy
   Restricted only the restricted resources count. A claim alone is enough: its devices are what is held, and they have
   been handed over before the pod is scheduled.

Exactly one reservation serves a pod. With policies Default and Aligned a pod gets what remains of the reservation and
the rest of the node; with policy Restricted it gets of the restricted resources only what is held. A pod that requires
a reservation (reservation affinity) must fit into one; any other pod may also run beside all reservations, in what is
free.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from dra.api.reservations.model import AllocatePolicy, TaintEffect
from dra.engine.kube_scheduler import host_ports, node_resources
from dra.engine.kube_scheduler.host_ports import HostPorts
from dra.engine.reservations import owner_matching
from dra.engine.reservations.node_usage import NodeUsage, ReservationUsage
from dra.engine.reservations.pod_info import PodInfo, ReservationAffinity
from dra.engine.reservations.rejections import Rejection, RejectionReason
from dra.engine.reservations.reservation_info import ReservationInfo
from dra.model.meta import Struct, Uid
from dra.model.nodes import matches_node_selector
from dra.model.quantities import PODS, Amounts
from dra.model.scheduling import Toleration

_UNSCHEDULABLE_TAINT: Final = "node.kubernetes.io/unschedulable"
_FILTERING_EFFECTS: Final = frozenset({TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE})


def check_eligibility(
    info: ReservationInfo, pod: PodInfo, *, node_labels: Mapping[str, str], new_owner_count: int
) -> Rejection | None:
    """Return why a pod may not use a reservation; None if it may."""
    return check_owner_and_affinity(
        info, pod, node_labels=node_labels, new_owner_count=new_owner_count
    ) or _check_resources(info, pod)


def check_usage(node: NodeUsage, usage: ReservationUsage, pod: PodInfo) -> Rejection | None:
    """Return why a pod may not use a reservation on its node; None if it may."""
    return check_eligibility(usage.info, pod, node_labels=node.labels, new_owner_count=usage.new_owner_count)


def check_owner_and_affinity(
    info: ReservationInfo, pod: PodInfo, *, node_labels: Mapping[str, str], new_owner_count: int = 0
) -> Rejection | None:
    """Return why a pod may not use a reservation, whatever amounts both have (rules 1 to 5); None if it may."""
    if reason := unusable_reason(info, new_owner_count=new_owner_count):
        return Rejection(reason=reason, subject=info.parse_error)
    if info.allocate_once and info.current_owners - info.pre_allocated_pods - {pod.uid}:
        return Rejection(
            reason=RejectionReason.ALREADY_ALLOCATED
        )  # by a pod that is not in the cache, perhaps because it started and finished in between
    if not owner_matching.matches_any_owner(info.owners, pod):
        return Rejection(reason=RejectionReason.NOT_OWNER)
    return _check_affinity(info, pod.affinity, node_labels)


def _check_affinity(
    info: ReservationInfo, affinity: ReservationAffinity | None, node_labels: Mapping[str, str]
) -> Rejection | None:
    if affinity is not None and affinity.name:
        return None if affinity.name == info.name else Rejection(reason=RejectionReason.OTHER_NAME)
    if rejection := _check_taints(info, affinity):
        return rejection
    if affinity is not None and not _matches_affinity(info, affinity, node_labels):
        return Rejection(reason=RejectionReason.AFFINITY_MISMATCH)
    return None


def _check_resources(info: ReservationInfo, pod: PodInfo) -> Rejection | None:
    if any(info.allocatable.get(name, 0) != pod.amounts.get(name, 0) for name in pod.exact_match_resources):
        return Rejection(reason=RejectionReason.NOT_EXACT_MATCHED)
    if pod.affinity is None and not has_common_resource(info, pod) and not has_common_claim(info, pod):
        return Rejection(reason=RejectionReason.NOTHING_IN_COMMON)
    return None


def has_common_resource(info: ReservationInfo, pod: PodInfo) -> bool:
    """Return whether a pod requests a resource that a reservation provides."""
    return any(amount and name != PODS and info.provides(name) for name, amount in pod.amounts.items())


def has_common_claim(info: ReservationInfo, pod: PodInfo) -> bool:
    """Return whether a pod requests a claim that a reservation holds: the same claim, or one from the same template."""
    return not info.claims.isdisjoint(pod.claims)


def can_be_pre_allocated(info: ReservationInfo, pod: PodInfo, *, node_labels: Mapping[str, str]) -> bool:
    """Return whether a running pod may be in a reservation that is about to be placed over it (rules 3 to 7)."""
    rejection = _check_affinity(info, pod.affinity, node_labels) or _check_resources(info, pod)
    return rejection is None and has_common_resource(info, pod)


def unusable_reason(info: ReservationInfo, *, new_owner_count: int) -> RejectionReason | None:
    """Return why no pod at all may use a reservation now; None if pods may."""
    if not info.available:
        return RejectionReason.NOT_AVAILABLE
    if info.parse_error:
        return RejectionReason.UNREADABLE
    if info.terminating:
        return RejectionReason.TERMINATING
    if info.allocate_once and new_owner_count:
        return RejectionReason.ALREADY_ALLOCATED
    return None


def _check_taints(info: ReservationInfo, affinity: ReservationAffinity | None) -> Rejection | None:
    tolerations = affinity.tolerations if affinity is not None else ()
    if info.unschedulable and not _is_tolerated(_UNSCHEDULABLE_TAINT, "", TaintEffect.NO_SCHEDULE, tolerations):
        return Rejection(reason=RejectionReason.UNSCHEDULABLE)
    for taint in info.taints:
        if taint.effect in _FILTERING_EFFECTS and not _is_tolerated(taint.key, taint.value, taint.effect, tolerations):
            return Rejection(reason=RejectionReason.UNTOLERATED_TAINT, subject=str(taint))
    return None


def _is_tolerated(key: str, value: str, effect: TaintEffect, tolerations: tuple[Toleration, ...]) -> bool:
    return any(
        toleration.effect in ("", effect)
        and (
            toleration.key in ("", key)
            if toleration.operator == "Exists"
            else (toleration.key, toleration.value) == (key, value)
        )
        for toleration in tolerations
    )


def _matches_affinity(info: ReservationInfo, affinity: ReservationAffinity, node_labels: Mapping[str, str]) -> bool:
    labels = {**node_labels, **info.labels}
    return all(labels.get(key) == value for key, value in affinity.selector.items()) and matches_node_selector(
        affinity.terms, name=info.name, labels=labels
    )


class NodeFilterResult(Struct, frozen=True):
    """The result of filtering one node for a pod."""

    node: str
    reservations: tuple[Uid, ...] = ()
    """Reservations with enough capacity for the pod."""
    fits_unreserved: bool = False
    """Whether the pod fits on the node without any reservation."""
    rejections: tuple[Rejection, ...] = ()
    """Why the pod does not fit on the node; empty if it does."""

    @property
    def fits(self) -> bool:
        """Return whether the pod fits on the node, in a reservation or without."""
        return self.fits_unreserved or bool(self.reservations)


def filter_node(node: NodeUsage, pod: PodInfo, eligible: Iterable[Uid] | None = None) -> NodeFilterResult:
    """Return whether a pod fits on a node, in which reservations, or why not.

    `eligible` are the reservations that the pod may use; None if the caller has not computed them.
    """
    if not node.is_known:
        return NodeFilterResult(node=node.name, rejections=(Rejection(reason=RejectionReason.NODE_UNKNOWN),))
    if pod.ignores_reservations:
        lacking = _check_ignoring_reservations(node, pod.amounts)
        return NodeFilterResult(node=node.name, fits_unreserved=not lacking, rejections=lacking)
    if not node.reservations and pod.affinity is None:  # most nodes
        short = check_unreserved(node, pod.amounts)
        return NodeFilterResult(node.name, (), not short, short)
    candidates = eligible_reservations(node, pod) if eligible is None else tuple(eligible)
    fitting: list[Uid] = []
    rejections: list[Rejection] = []
    for uid in candidates:
        if lacking := check_reservation(node, node.reservations[uid], pod):
            rejections.extend(lacking)
        else:
            fitting.append(uid)
    if pod.affinity is not None:
        if not fitting:
            rejections = rejections or [Rejection(reason=RejectionReason.NO_RESERVATIONS_MATCH)]
        return NodeFilterResult(
            node=node.name, reservations=tuple(fitting), rejections=() if fitting else _deduplicate(rejections)
        )
    short = (*check_unreserved(node, pod.amounts), *check_host_ports(node, pod.host_ports))
    fits = not short or fitting
    return NodeFilterResult(
        node=node.name,
        reservations=tuple(fitting),
        fits_unreserved=not short,
        rejections=() if fits else _deduplicate([*short, *rejections]),
    )


def eligible_reservations(node: NodeUsage, pod: PodInfo) -> tuple[Uid, ...]:
    """Return the reservations of a node that a pod may use."""
    return tuple(uid for uid, usage in node.reservations.items() if check_usage(node, usage, pod) is None)


def check_unreserved(node: NodeUsage, wanted: Amounts) -> tuple[Rejection, ...]:
    """Return the resources that a node lacks for a pod that gets nothing of what is held."""
    return tuple(
        node_insufficient(node, short.resource, short.requested, used=short.used)
        for short in node_resources.shortages(wanted, capacity=node.capacity, requested=node.requested)
    )


def node_insufficient(node: NodeUsage, resource: str, amount: int, *, used: int) -> Rejection:
    """Return the rejection by a node that has too little of a resource."""
    capacity = node.capacity.get(resource, 0)
    return Rejection(RejectionReason.NODE_INSUFFICIENT, resource, requested=amount, used=used, capacity=capacity)


def check_host_ports(node: NodeUsage, wanted: HostPorts, *, excluding: Uid | None = None) -> tuple[Rejection, ...]:
    """Return a rejection if a reservation other than `excluding` holds one of the wanted host ports."""
    if wanted and any(
        host_ports.have_conflict(wanted, usage.info.host_ports)
        for uid, usage in node.reservations.items()
        if uid != excluding
    ):
        return (Rejection(reason=RejectionReason.HOST_PORT_HELD),)
    return ()


def check_reservation(node: NodeUsage, usage: ReservationUsage, pod: PodInfo) -> tuple[Rejection, ...]:
    """Return what is lacking for a pod that uses a reservation; the caller has checked that the pod may use it."""
    rejections = [
        node_insufficient(node, name, amount, used=node.capacity.get(name, 0) - available)
        for name, amount in pod.amounts.items()
        if amount > 0 and amount > (available := node.available_to_owner(usage, name, pod=pod.uid))
    ]
    info = usage.info
    rejections += check_host_ports(node, pod.host_ports, excluding=info.uid)
    if info.policy is not AllocatePolicy.RESTRICTED:
        return tuple(rejections)
    named = pod.affinity is not None and pod.affinity.name == info.name
    for name, amount in pod.amounts.items():
        if amount > 0 and name in info.restricted_resources and amount > usage.remaining(name, pod=pod.uid):
            rejections.append(
                Rejection(
                    reason=RejectionReason.RESERVATION_INSUFFICIENT,
                    subject=name,
                    requested=amount,
                    used=usage.allocated_and_nominated(name, pod=pod.uid),
                    capacity=max(0, info.allocatable.get(name, 0) - info.reserved.get(name, 0)),
                    named=named,
                )
            )
    return tuple(rejections)


def _check_ignoring_reservations(node: NodeUsage, wanted: Amounts) -> tuple[Rejection, ...]:
    return tuple(
        node_insufficient(node, name, amount, used=node.capacity.get(name, 0) - node.unused(name))
        for name, amount in wanted.items()
        if amount > 0 and amount > node.unused(name)
    )


def _deduplicate(rejections: Iterable[Rejection]) -> tuple[Rejection, ...]:
    """Drop duplicate rejections; keep of each the numbers of the node or reservation that is used least."""
    least_used: dict[str, Rejection] = {}
    for rejection in rejections:
        known = least_used.get(rejection.text)
        if known is None or rejection.used < known.used:
            least_used[rejection.text] = rejection
    return tuple(least_used.values())
