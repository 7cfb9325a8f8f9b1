"""The rules by which a pod may use a reservation, capacity aside; the first rule that fails is the rejection.

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
"""

from collections.abc import Mapping
from typing import Final

from dra.api.reservations.model import TaintEffect
from dra.engine.reservations import owner_matching
from dra.engine.reservations.amounts import PODS
from dra.engine.reservations.pod_info import PodInfo, ReservationAffinity
from dra.engine.reservations.rejections import Rejection, RejectionReason
from dra.engine.reservations.reservation_info import ReservationInfo
from dra.model.nodes import matches_node_selector
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
