"""The last look before an eviction: whether the eviction still makes sense, by what live reads show."""

from dra.api.migration.model import EvictionPolicy
from dra.api.migration.well_known import ANNOTATION_SOFT_EVICTION
from dra.api.reservations.model import Reservation, ReservationPhase
from dra.engine.migration.live_reads import LookedAtPod
from dra.engine.migration.plan import EvictPod
from dra.engine.migration.reservation_fit import is_used, misfit
from dra.engine.migration.view import MigrationPod


def holds_room(reservation: Reservation, looked_at: LookedAtPod) -> bool:
    """Return whether a Reservation still holds room on another node for the replacement of a pod."""
    return (
        reservation.status.phase is ReservationPhase.AVAILABLE
        and reservation.metadata.deletion_timestamp is None
        and not is_used(reservation)
        and reservation.status.node_name not in ("", looked_at.pod.spec.node_name)
        and not misfit(reservation, looked_at.content)
    )


def is_requested_already(action: EvictPod, pod: MigrationPod) -> bool:
    """Return whether a pod has the annotation that a soft eviction would write."""
    is_soft = action.policy is EvictionPolicy.SOFT_EVICTION
    return is_soft and pod.metadata.annotation(ANNOTATION_SOFT_EVICTION) is not None
