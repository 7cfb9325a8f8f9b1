"""A reservation as the arithmetic sees it: what is held, where, for whom, and how; read once from the object.

An annotation or a selector that cannot be read makes it a `fault`: then nobody may use the reservation, but what it
holds stays held, since somebody reserved it; the fault is told in a condition.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from dra.api.reservations import template_validation, well_known
from dra.api.reservations.model import (
    AllocatePolicy,
    PreAllocationMode,
    PreAllocationPolicy,
    Reservation,
    ReservationOwner,
    ReservationPhase,
    ReservationSpec,
    ReservationStatus,
    ReservationTaint,
)
from dra.engine.reservations import amounts, node_reservation, owner_matching, ports
from dra.engine.reservations.amounts import NANOS_PER_UNIT, NO_AMOUNTS, PODS, MalformedAmountsError, NanoAmounts
from dra.engine.reservations.pod_info import MalformedAnnotationError, decode_annotation
from dra.engine.reservations.ports import NO_HOST_PORTS, HostPorts
from dra.model.meta import Struct, Uid
from dra.model.quantities import MalformedQuantityError

HIGHEST_PRIORITY: Final = 2**31 - 1
"""Of a reservation for which none is written: nothing preempts it."""


class ReservationInfo(Struct, frozen=True):
    """What a reservation holds; or, before it is placed, wants to."""

    name: str
    uid: Uid
    amounts: NanoAmounts
    """One of ``pods`` is held at least: the place of the pod to come."""
    counts_pods: bool = False
    """Whether ``pods`` were asked for, as any resource."""
    ports: HostPorts = NO_HOST_PORTS
    """The host ports that nobody else may use on its node."""
    node: str = ""
    available: bool = True
    owners: tuple[ReservationOwner, ...] = ()
    policy: AllocatePolicy = AllocatePolicy.DEFAULT
    restricted: frozenset[str] = frozenset()
    """With policy Restricted: the resources of which owners get what is held, and no more."""
    inner: NanoAmounts = NO_AMOUNTS
    """Of what is held: kept from owners, too."""
    allocate_once: bool = True
    unschedulable: bool = False
    terminating: bool = False
    taints: tuple[ReservationTaint, ...] = ()
    order: int = 0
    """0: none."""
    labels: Mapping[str, str] = {}
    listed: frozenset[Uid] = frozenset()
    """The consumers that its status names: they are in, whatever its owners say now."""
    predecessors: frozenset[Uid] = frozenset()
    """Pods that ran where it was placed: consumers whose place it keeps, and whose presence does not use it up."""
    pre_allocates: bool = False
    pre_allocation_mode: PreAllocationMode = PreAllocationMode.DEFAULT
    enable_multiple: bool = False
    """Whether it may be placed over several pods."""
    priority: int = HIGHEST_PRIORITY
    stands_in: bool = False
    """Whether there is no reservation, but a pod that makes others leave."""
    fault: str = ""
    """What of the object cannot be read."""

    def serves(self, resource: str) -> bool:
        """Whether owners get this resource from it: with policy Restricted those that the policy is about."""
        if not self.amounts.get(resource):
            return False
        return self.policy is not AllocatePolicy.RESTRICTED or resource in self.restricted

    @property
    def default_policy(self) -> bool:
        """Whether it is of the policy that goes with no other on a node."""
        return self.policy is AllocatePolicy.DEFAULT


def from_reservation(reservation: Reservation) -> ReservationInfo:
    """Read a reservation."""
    faults: list[str] = []
    meta, spec, status = reservation.metadata, reservation.spec, reservation.status
    policy = spec.pre_allocation_policy or PreAllocationPolicy()
    available = status.phase is ReservationPhase.AVAILABLE and bool(status.node_name)
    faults += template_validation.validate_template(spec.template)
    held = _allocatable(reservation, faults, placed=available)
    faults += owner_matching.validate_owners(spec.owners)
    return ReservationInfo(
        name=meta.name,
        uid=Uid(meta.uid),
        amounts={**held, PODS: held.get(PODS, NANOS_PER_UNIT)},
        counts_pods=PODS in held,
        ports=ports.template_host_ports(spec.template),
        node=status.node_name,
        available=available,
        owners=spec.owners,
        policy=spec.allocate_policy,
        restricted=_restricted_resources(reservation, held, faults),
        inner=_reserved_amounts(reservation, faults),
        allocate_once=spec.allocate_once,
        unschedulable=spec.unschedulable,
        terminating=meta.deletion_timestamp is not None,
        taints=spec.taints,
        order=well_known.parse_integer(meta.labels.get(well_known.LABEL_RESERVATION_ORDER)),
        labels=dict(meta.labels),
        listed=frozenset(Uid(each.uid) for each in status.current_owners),
        predecessors=pre_allocated_pods(reservation),
        pre_allocates=allows_pre_allocation(spec),
        pre_allocation_mode=policy.mode,
        enable_multiple=policy.enable_multiple,
        priority=_pod_priority(reservation),
        fault="; ".join(faults),
    )


def from_status(name: str, uid: Uid, status: object, *, fault: str) -> ReservationInfo | None:
    """Return what a reservation holds of which only the status can be read; None if it has no place, or not even that.

    What it holds was promised, and stays held. Nobody may use it: whose it is cannot be read.
    """
    try:
        found = ReservationStatus.model_validate(status or {}, by_alias=True, by_name=False)
        held = amounts.from_resource_list(found.allocatable)
    except ValueError:
        return None
    if found.phase is not ReservationPhase.AVAILABLE or not found.node_name:
        return None
    return ReservationInfo(
        name=name,
        uid=uid,
        amounts={**held, PODS: held.get(PODS, NANOS_PER_UNIT)},
        counts_pods=PODS in held,
        node=found.node_name,
        listed=frozenset(Uid(each.uid) for each in found.current_owners),
        fault=fault,
    )


def reservation_requests(reservation: Reservation) -> dict[str, int]:
    """Return what is to be held: what the template asks for, but for what the resize annotation says.

    Raises MalformedAmountsError or MalformedAnnotationError.
    """
    asked = amounts.template_amounts(reservation.spec.template)
    text = reservation.metadata.annotations.get(well_known.ANNOTATION_RESIZE_ALLOCATABLE)
    return asked if text is None else asked | parse_resize_annotation(text)


def parse_resize_annotation(text: str) -> dict[str, int]:
    """Return the amounts of a resize annotation. Raises MalformedAnnotationError."""
    content = decode_annotation(well_known.ANNOTATION_RESIZE_ALLOCATABLE, text, dict[str, Any])
    for name in content:
        if name != "resources":
            raise MalformedAnnotationError(
                f"annotation {well_known.ANNOTATION_RESIZE_ALLOCATABLE}: {name}: unknown field; known are resources"
            )
    try:
        return amounts.parse_resource_list(content.get("resources"), path="resources")
    except MalformedAmountsError as error:
        raise MalformedAnnotationError(f"annotation {well_known.ANNOTATION_RESIZE_ALLOCATABLE}: {error}") from error


def allows_pre_allocation(spec: ReservationSpec) -> bool:
    """Whether a reservation may be placed over running pods: policy Restricted only, as Koordinator has it."""
    return spec.pre_allocation and spec.allocate_policy is AllocatePolicy.RESTRICTED


def pre_allocated_pods(reservation: Reservation) -> frozenset[Uid]:
    """Return the pods that it was placed over."""
    text = reservation.metadata.annotations.get(well_known.ANNOTATION_PLACED_OVER, "")
    return frozenset(Uid(uid) for uid in text.split(",") if uid)


def _allocatable(reservation: Reservation, faults: list[str], *, placed: bool) -> NanoAmounts:
    if placed and reservation.status.allocatable:
        try:
            return amounts.from_resource_list(reservation.status.allocatable)
        except MalformedQuantityError as error:
            faults.append(f"status.allocatable: {error}")
    try:
        return reservation_requests(reservation)
    except MalformedAnnotationError as error:
        faults.append(str(error))
    except MalformedAmountsError as error:
        faults.append(str(error))
        return NO_AMOUNTS
    return amounts.template_amounts(reservation.spec.template)


class _RestrictedOptions(Struct, frozen=True, forbid_unknown_fields=True):
    resources: list[str] | None = None


def _restricted_resources(reservation: Reservation, held: NanoAmounts, faults: list[str]) -> frozenset[str]:
    if reservation.spec.allocate_policy is not AllocatePolicy.RESTRICTED:
        return frozenset()
    text = reservation.metadata.annotations.get(well_known.ANNOTATION_RESTRICTED_OPTIONS)
    named: Iterable[str] = ()
    if text is not None:
        try:
            named = (
                decode_annotation(well_known.ANNOTATION_RESTRICTED_OPTIONS, text, _RestrictedOptions).resources or ()
            )
        except MalformedAnnotationError as error:
            faults.append(str(error))
    chosen = frozenset(name for name in named if name in held)
    return (chosen or frozenset(held)) | ({PODS} & held.keys())


def _reserved_amounts(reservation: Reservation, faults: list[str]) -> NanoAmounts:
    try:
        return node_reservation.parse(
            reservation.metadata.annotations.get(well_known.ANNOTATION_NODE_RESERVATION)
        ).amounts
    except MalformedAnnotationError as error:
        faults.append(str(error))
        return NO_AMOUNTS


def _pod_priority(reservation: Reservation) -> int:
    spec = reservation.spec.template.get("spec")
    given = spec.get("priority") if isinstance(spec, dict) else None
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    return well_known.parse_integer(
        reservation.metadata.labels.get(well_known.LABEL_PRIORITY), otherwise=HIGHEST_PRIORITY
    )


def assign_node(holding: ReservationInfo, *, node: str) -> ReservationInfo:
    """Return the holding once it is on a node."""
    return msgspec.structs.replace(holding, node=node, available=True)
