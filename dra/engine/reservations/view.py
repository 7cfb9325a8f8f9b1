"""The view of one reservation: everything that a decision about it reads."""

from collections.abc import Mapping
from typing import TypeAlias

from dra.api.configuration import PlaceholderMode
from dra.api.reservations.model import Reservation
from dra.api.reservations.well_known import PAUSE_IMAGE
from dra.engine.instants import NEVER, Instant, WallTime
from dra.engine.reservations.statuses import AssignedPod
from dra.model.meta import Struct, Uid, UnstructuredObject
from dra.model.nodes import Node
from dra.model.scheduling import SchedulerPod


class ReservationPolicy(Struct, frozen=True):
    """The part of the controller's configuration that decisions read: the modes in which capacity is held."""

    placeholders: PlaceholderMode = PlaceholderMode.REPLACED
    placeholder_image: str = PAUSE_IMAGE
    supports_claims: bool = False
    """Whether the claims of templates can be held."""
    translates_requests: bool = False
    """Whether pods that request bound CPUs get a claim for them (``koordinator: true``)."""


class ReservationView(Struct, frozen=True):
    """A reservation with everything that decisions about it read."""

    reservation: Reservation
    version: str = ""
    """resourceVersion of the reservation: each write of this decision is made on condition of it."""
    newly_placed: bool = False
    """Whether the reservation has got its node, and no Event says so yet."""
    node_gone: bool = False
    """Whether the watch shows no such node; the watch may lag behind a node just created."""
    node_is_read: bool = False
    """Whether `node_gone` is the answer of a live read."""
    placeholder: SchedulerPod | None = None
    """The placeholder that finds the node."""
    scheduler_seen_at: WallTime = -NEVER
    """When the scheduler of the placeholder has last placed a reservation."""
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
    reread_at: Instant = NEVER
    """When the unbound pods are to be read live again."""
    expected_pods: frozenset[Uid] = frozenset()
    """Pods that the status named only a moment ago: the watch is about to show their binding."""
    expected_until: Instant = NEVER
    """When the watch is overdue to show the binding of the expected pods."""
    create_error: str = ""
    """Error of the API server when the placeholder was to be created; empty if there was none."""
    create_retry_at: Instant = -NEVER
    """When a placeholder may be created again after one was refused."""
    policy: ReservationPolicy = ReservationPolicy()
    node: Node | None = None
    """The node of the reservation; without one, the node of its placeholder."""
    pods: Mapping[Uid, SchedulerPod] = {}
    """Observed pods that the status names."""
    candidate_pods: tuple[SchedulerPod, ...] = ()
    """Pending pods that no reservation names and whose first choice is this reservation; the most urgent first."""
    eligible_at: Instant = NEVER
    """When the next pod that did not use its capacity may become a candidate again."""
    pods_without_claims: frozenset[Uid] = frozenset()
    """Pods without a node, candidates or named by the status, that have a claim which does not exist."""
    stale_pods: tuple[SchedulerPod, ...] = ()
    """Pending pods whose annotation names this reservation, while its status no longer names the pods."""
    shortage_since: WallTime | None = None
    """Time since which placeholders have lacked part of the capacity; None if they lack nothing."""

    @property
    def uid(self) -> Uid:
        """Return the uid of the reservation."""
        return Uid(self.reservation.metadata.uid)

    @property
    def name(self) -> str:
        """Return the name of the reservation."""
        return self.reservation.metadata.name


class UnreadableReservation(Struct, frozen=True):
    """An object that cannot be read as a reservation: what it holds stays held."""

    obj: UnstructuredObject
    error: str

    @property
    def uid(self) -> Uid:
        """Return the uid of the object."""
        return self.obj.metadata.uid

    @property
    def name(self) -> str:
        """Return the name of the object."""
        return self.obj.metadata.name

    @property
    def version(self) -> str:
        """Return the resourceVersion of the object."""
        return self.obj.metadata.resource_version


AnyReservationView: TypeAlias = ReservationView | UnreadableReservation
