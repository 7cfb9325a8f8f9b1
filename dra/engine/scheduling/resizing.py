"""Resizing of reservations, requested by the annotation ``reservation-resize-allocatable``.

An increase is granted only if the node has all of it free; a decrease is always granted. While the status is being
written, the maximum of both amounts is held, so that no other pod gets the old or the new amounts in between.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from dra.api.reservations.well_known import MalformedAnnotationError
from dra.engine.instants import Instant
from dra.engine.plan import Plan
from dra.engine.reservations import reservation_info, reservation_placement, statuses
from dra.engine.scheduling.scheduler_cache import CachedReservation, SchedulerCache
from dra.engine.scheduling.status_updates import ResizeReservation
from dra.model import quantities
from dra.model.meta import Struct, Uid
from dra.model.quantities import NANOS_PER_UNIT, PODS, Amounts

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
    except MalformedAnnotationError as error:
        return Plan(reasons=(f"{error}; its holding is unchanged",))
    if statuses.resized_status(known.reservation) is None:
        return Plan()
    if lacking := reservation_placement.insufficient_for_resize(node, info.uid, requests):
        lacks = ", ".join(rejection.text for rejection in lacking)
        text = f"node {info.node}: {lacks}; its holding is unchanged until the node has capacity"
        return Plan(reasons=(text,), wake_at=now + RETRY_AFTER)
    held = quantities.maximum(info.allocatable, {PODS: NANOS_PER_UNIT, **requests})
    return Plan(actions=(Resize(ResizeReservation(requests), held),))


class CheckedReservations:
    """The reservations that were checked, each in one version."""

    def __init__(self) -> None:
        self._checked: dict[Uid, tuple[str, Instant]] = {}
        """The version that was checked, and the time of the next check."""

    def add(self, known: CachedReservation, *, next_check: Instant) -> None:
        """Note that a version was checked; it is due again from ``next_check`` on."""
        self._checked[known.info.uid] = (known.version, next_check)

    def due(self, available: Iterable[CachedReservation], *, now: Instant) -> Iterator[CachedReservation]:
        """Yield the reservations to check, and forget those that are not available any more."""
        known_by_uid = {known.info.uid: known for known in available}
        self._checked = {uid: check for uid, check in self._checked.items() if uid in known_by_uid}
        for uid, known in known_by_uid.items():
            version, next_check = self._checked.get(uid, ("", now))
            if version != known.version or next_check <= now:
                yield known
