"""The question whether the pod that will replace a migrated pod can use a Reservation, answered before the eviction.

The rules are those of the scheduler (`dra.engine.reservations.filters`): owners, reservation affinity, taints and
resources. The replacement has the labels, annotations and controller of the migrated pod, but another uid, and another
name unless its StatefulSet gives it the same. Its requests must fit into the Reservation alone: other pods may take
what the node has free besides. Labels of nodes are not known here, so a reservation affinity that selects by such
labels is no match.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from dra.api.reservations.model import AllocatePolicy, Reservation, ReservationPhase
from dra.api.reservations.well_known import LABEL_RESERVATION_IGNORED, MalformedAnnotationError
from dra.engine.migration.live_reads import LookedAtPod
from dra.engine.migration.reservation_manifest import controller_reference
from dra.engine.reservations import filters, reservation_info
from dra.engine.reservations.node_usage import ReservationUsage, empty_node
from dra.engine.reservations.placeholders import without_pods
from dra.engine.reservations.pod_info import PodInfo
from dra.engine.reservations.rejections import RejectionReason
from dra.model.meta import Uid
from dra.model.scheduling import SchedulerPod

_KEEPS_NAMES: Final = "StatefulSet"
_SUBJECT: Final = "Reservation(s) "

_NOTHING_REQUESTED: Final = (
    "the Pod requests neither resources nor claims, so no Reservation can hold anything for its replacement; set "
    "requests in its workload, or migrate the Pod with mode EvictDirectly"
)
_IGNORES_RESERVATIONS: Final = (
    f"the Pod has label {LABEL_RESERVATION_IGNORED}=true, so its replacement would use no Reservation; remove the "
    "label from its workload, or migrate the Pod with mode EvictDirectly"
)


def misfit(reservation: Reservation, pod: Mapping[str, Any], *, pending: bool = False) -> str:
    """Return why the replacement of a pod cannot use a Reservation; empty if it can.

    `pod` is the pod as in the API. With `pending` the pod itself is to use the Reservation. Whether the Reservation has
    a node yet does not matter; the caller has checked that no pod uses it (`is_used`).
    """
    try:
        replacement = _replacement(pod, pending=pending)
    except MalformedAnnotationError as error:
        return f"the Pod cannot use a Reservation: {error}"
    if replacement.ignores_reservations:
        return _IGNORES_RESERVATIONS
    info = reservation_info.from_reservation(reservation)
    if info.parse_error:
        return f'Reservation "{info.name}" has invalid fields: {info.parse_error}'
    if not replacement.affinity and not replacement.claims and not any(without_pods(replacement.amounts).values()):
        return _NOTHING_REQUESTED
    info = reservation_info.assign_node(info, node=info.node or "?")
    rejection = filters.check_eligibility(info, replacement, node_labels={}, new_owner_count=0)
    if rejection is not None:
        return f'Reservation "{info.name}" {rejection.text.removeprefix(_SUBJECT)}'
    alone = msgspec.structs.replace(
        info, policy=AllocatePolicy.RESTRICTED, restricted_resources=frozenset(replacement.amounts)
    )
    usage = ReservationUsage(info=alone)
    lacking = (
        msgspec.structs.replace(rejection, named=True)
        for rejection in filters.check_reservation(
            empty_node(alone.node, {}).with_reservation(usage), usage, replacement
        )
        if rejection.reason is RejectionReason.RESERVATION_INSUFFICIENT  # nothing is known of the node
    )
    return ", ".join(f'Reservation "{info.name}": {rejection.text.removeprefix(_SUBJECT)}' for rejection in lacking)


def is_used(reservation: Reservation) -> bool:
    """Return whether a pod uses a Reservation, or has used it up."""
    return bool(reservation.status.current_owners) or reservation.status.phase is ReservationPhase.SUCCEEDED


def holds_room(reservation: Reservation, looked_at: LookedAtPod) -> bool:
    """Return whether a Reservation still holds room on another node for the replacement of a pod."""
    return (
        reservation.status.phase is ReservationPhase.AVAILABLE
        and reservation.metadata.deletion_timestamp is None
        and not is_used(reservation)
        and reservation.status.node_name not in ("", looked_at.pod.spec.node_name)
        and not misfit(reservation, looked_at.content)
    )


def _replacement(pod: Mapping[str, Any], *, pending: bool) -> PodInfo:
    """Return a pod's replacement, as the scheduler will see it. Raises MalformedAnnotationError."""
    parts = {name: pod.get(name) or {} for name in ("metadata", "spec")}
    info = PodInfo.from_pod(msgspec.convert(parts, SchedulerPod))
    if pending:
        return info
    namespace, name = info.key
    kept = (controller_reference(pod) or {}).get("kind") == _KEEPS_NAMES
    return msgspec.structs.replace(
        info, key=(namespace, name if kept else ""), uid=Uid(""), allocated_reservation=Uid("")
    )
