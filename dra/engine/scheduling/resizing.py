"""Resizing of reservations, requested by the annotation ``reservation-resize-allocatable``.

An increase is granted only if the node has all of it free, and no quota of the namespace is exceeded; a decrease is
always granted. While the status is being
written, the maximum of both amounts is held, so that no other pod gets the old or the new amounts in between.
"""

from typing import Final

from dra.api.reservations.well_known import MalformedAnnotationError
from dra.engine.instants import Instant
from dra.engine.plan import Plan
from dra.engine.reservations import reservation_info, reservation_placement, statuses
from dra.engine.reservations.quotas import Charge
from dra.engine.scheduling.scheduler_cache import CachedReservation, SchedulerCache
from dra.engine.scheduling.status_updates import ResizeReservation
from dra.model import quantities
from dra.model.meta import Struct
from dra.model.quantities import NANOS_PER_UNIT, PODS, Amounts, MalformedAmountsError

RETRY_AFTER: Final = 15.0
"""Seconds after which a resize that did not fit is retried."""


class Resize(Struct, frozen=True):
    """Write the requested amounts into the status, while other amounts are held."""

    update: ResizeReservation
    held: Amounts


def decide(cache: SchedulerCache, known: CachedReservation, *, now: Instant) -> Plan[Resize, str]:
    """Return the plan for a reservation; its reasons say why the reservation keeps its amounts."""
    info, node = known.info, cache.accounting.node(known.info.node)
    if info.parse_error or info.terminating or node is None or info.uid not in node.reservations:
        return Plan()
    try:
        requests = reservation_info.reservation_requests(known.reservation)
    except (MalformedAnnotationError, MalformedAmountsError) as error:
        return Plan(reasons=(f"{error}; its holding is unchanged",))
    if statuses.resized_status(known.reservation) is None:
        return Plan()
    if lacking := reservation_placement.insufficient_for_resize(node, info.uid, requests):
        lacks = ", ".join(rejection.text for rejection in lacking)
        text = f"node {info.node}: {lacks}; its holding is unchanged until the node has capacity"
        return Plan(reasons=(text,), wake_at=now + RETRY_AFTER)
    more = {name: amount - info.allocatable.get(name, 0) for name, amount in requests.items()}
    if text := cache.quota_refusal(known, wanted=more, charge=Charge.NOBODY):
        return Plan(reasons=(f"{text}; its holding is unchanged until the quota has room",), wake_at=now + RETRY_AFTER)
    held = quantities.maximum(info.allocatable, {PODS: NANOS_PER_UNIT, **requests})
    return Plan(actions=(Resize(ResizeReservation(requests), held),))
