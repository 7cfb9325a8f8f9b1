"""The view of one reservation: everything that a decision about it reads."""

from collections.abc import Mapping

from dra.api.configuration import PlaceholderMode
from dra.api.reservations.model import Reservation
from dra.engine.instants import WallTime
from dra.engine.reservations.statuses import AssignedPod
from dra.model.meta import Struct, Uid
from dra.model.nodes import Node
from dra.model.scheduling import SchedulerPod


class ReservationView(Struct, frozen=True):
    """A reservation with everything that decisions about it read."""

    reservation: Reservation
    version: str = ""
    """resourceVersion of the reservation: each write of this decision is made on condition of it."""
    node_gone: bool = False
    placeholder: SchedulerPod | None = None
    """The placeholder that finds the node."""
    other_placeholders: tuple[SchedulerPod, ...] = ()
    """Further placeholders, in mode yielding."""
    assigned_pods: tuple[AssignedPod, ...] = ()
    """Observed pods on the reservation's node that are in the reservation and have not finished."""
    ended_pods: frozenset[Uid] = frozenset()
    """Pods that a live read showed finished or gone."""
    never_bound: frozenset[Uid] = frozenset()
    """Pods that were not bound although they were read live for long enough."""
    unbound_pods: tuple[AssignedPod, ...] = ()
    """Pods that a live read showed not bound yet: their binding may be under way."""
    expected_pods: frozenset[Uid] = frozenset()
    """Pods that the status named only a moment ago: the watch is about to show their binding."""
    create_error: str = ""
    """Error of the API server when the placeholder was to be created; empty if there was none."""
    is_creation_paused: bool = False
    """Whether a placeholder was refused so recently that none is created again yet."""
    supports_claims: bool = False
    """Whether the claims of the template can be held."""
    translates_requests: bool = False
    """Whether pods that request bound CPUs get a claim for them (``koordinator: true``)."""
    placeholders: PlaceholderMode = PlaceholderMode.REPLACED
    node: Node | None = None
    """The node of the reservation; without one, the node of its placeholder."""
    pods: Mapping[Uid, SchedulerPod] = {}
    """Observed pods that the status names."""
    candidate_pods: tuple[SchedulerPod, ...] = ()
    """Pending pods that no reservation names and whose first choice is this reservation; the most urgent first."""
    pods_without_claims: frozenset[Uid] = frozenset()
    """Pods without a node, candidates or named by the status, that have a claim which does not exist."""
    stale_pods: tuple[SchedulerPod, ...] = ()
    """Pending pods whose annotation names this reservation, while its status no longer names the pods."""
    shortage_since: WallTime | None = None
    """Time since which placeholders have lacked part of the capacity; None if they lack nothing."""
