"""Reads reservations, and the nodes and pods that matter to them, into the cache that the extender uses."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from dra.api.reservations.model import MalformedReservationError, Reservation, parse_reservation
from dra.engine.devices.ledger import DeviceID, allocated_devices
from dra.engine.diagnosis.snapshot import Snapshot
from dra.engine.reservations import placeholders
from dra.engine.scheduling.scheduler_cache import SchedulerCache
from dra.kube.client import Client
from dra.kube.resources import CLAIMS, NODES, PODS, RESERVATIONS, Resource
from dra.model.claims import ResourceClaim
from dra.model.meta import Uid, UnstructuredObject
from dra.model.node_pods import AgentNode
from dra.model.references import RESERVATIONS as OF_RESERVATIONS
from dra.model.scheduling import SchedulerPod

T = TypeVar("T")


@dataclass(slots=True)
class ReservationSnapshot:
    """The reservations of a cluster, in the extender's cache, with their claims and pods."""

    cache: SchedulerCache = field(default_factory=SchedulerCache)
    objects: dict[str, UnstructuredObject] = field(default_factory=dict)
    read_errors: dict[str, str] = field(default_factory=dict)
    """Reservation name → error of an unreadable object."""
    pods: dict[Uid, SchedulerPod] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()
    claims: tuple[ResourceClaim, ...] = ()
    installed: bool = True
    unread_reason: str = ""
    """Reason why reservations could not be read; empty if they could."""

    def reservation(self, name: str) -> Reservation | None:
        """Return a reservation by name; None if it is absent or unreadable."""
        reservation_object = self.objects.get(name)
        known = self.cache.reservation(reservation_object.metadata.uid) if reservation_object is not None else None
        return known.reservation if known is not None else None

    def held_claims(self, reservation: Reservation) -> list[ResourceClaim]:
        """Return the claims that a reservation keeps allocated: claims with the reservation in their list."""
        return claims_held_by(self.claims, Uid(reservation.metadata.uid))

    def placeholder(self, key: tuple[str, str]) -> SchedulerPod | None:
        """Return the placeholder pod with this key, or None."""
        return next((pod for pod in self.pods.values() if pod.metadata.key == key), None)

    def placeholders_of(self, reservation: Reservation) -> list[SchedulerPod]:
        """Return the placeholder pods that find the reservation's node, or hold its capacity."""
        uid = reservation.metadata.uid
        return [pod for pod in self.pods.values() if placeholders.reservation_uid_of(pod.metadata) == uid]


async def list_reservations(client: Client) -> list[UnstructuredObject]:
    """Return all reservations; raise ApiError, NotFound where the server has no such resource."""
    return await _list_all(client, RESERVATIONS, UnstructuredObject)


async def list_claims(client: Client) -> list[ResourceClaim]:
    """Return all claims; raise ApiError."""
    return await _list_all(client, CLAIMS, ResourceClaim)


async def _list_all(client: Client, resource: Resource, model: type[T]) -> list[T]:
    listed: list[T] = []
    async for page in client.list_pages(resource, model):
        if page.first:
            listed.clear()
        listed += page.items
    return listed


def claims_held_by(claims: Iterable[ResourceClaim], reservation: Uid) -> list[ResourceClaim]:
    """Return the claims that a reservation keeps allocated: claims with the reservation in their list."""
    return [
        claim
        for claim in claims
        if any(e.group_resource == OF_RESERVATIONS and e.uid == reservation for e in claim.entries)
    ]


def claim_devices(claim: ResourceClaim) -> list[DeviceID]:
    """Return the devices that are allocated to a claim."""
    allocation = claim.status.allocation
    return sorted(allocated_devices(allocation), key=str) if allocation is not None else []


def from_snapshot(snapshot: Snapshot) -> ReservationSnapshot:
    """Return the reservations of a snapshot."""
    reservation_snapshot = ReservationSnapshot(claims=snapshot.claims)
    if snapshot.reservations is None:
        reservation_snapshot.installed = False
        return reservation_snapshot
    missing = [gap.why for gap in snapshot.gaps if gap.resource in {RESERVATIONS.label, NODES.label, PODS.label}]
    if missing:
        reservation_snapshot.unread_reason = missing[0]
        return reservation_snapshot
    fill_snapshot(
        reservation_snapshot,
        reservations=list(snapshot.reservations),
        nodes=list(snapshot.nodes),
        pods=list(snapshot.pods),
    )
    return reservation_snapshot


def fill_snapshot(
    reservation_snapshot: ReservationSnapshot,
    *,
    reservations: list[UnstructuredObject],
    nodes: list[AgentNode],
    pods: list[SchedulerPod],
) -> None:
    """Fill the cache with the objects that were read."""
    for node in nodes:
        reservation_snapshot.cache.observe_node(node)
    reservation_snapshot.nodes = tuple(sorted(node.metadata.name for node in nodes))
    for reservation in reservations:
        reservation_snapshot.objects[reservation.metadata.name] = reservation
        try:
            parse_reservation(reservation.content)
        except MalformedReservationError as error:
            reservation_snapshot.read_errors[reservation.metadata.name] = str(error)
        else:
            reservation_snapshot.cache.observe_reservation(reservation)
    for pod in pods:
        if not pod.terminal:
            reservation_snapshot.pods[pod.metadata.uid] = pod
            reservation_snapshot.cache.observe_pod(pod)
