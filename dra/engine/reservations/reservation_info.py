"""The reservation as the scheduler sees it: what is held, on which node, for which pods.

It is read from the object once.

A template, selector or annotation that cannot be read is a `parse_error`. No pod may use such a reservation, but what
it holds stays held, since a user reserved it; a condition reports the error.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from dra.api.migration import model as migration_model
from dra.api.object_fields import ObjectReference
from dra.api.reservations import validation, well_known
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
from dra.api.reservations.well_known import MalformedAnnotationError, decode_annotation
from dra.engine.kube_scheduler import pod_requests
from dra.engine.kube_scheduler.host_ports import NO_HOST_PORTS, HostPorts
from dra.engine.reservations import node_reservation, pod_info, translated_templates
from dra.engine.reservations.pod_info import NO_CLAIMS, Claims, PodInfo
from dra.model import quantities
from dra.model.meta import Struct, Uid
from dra.model.quantities import (
    NANOS_PER_UNIT,
    NO_AMOUNTS,
    PODS,
    Amounts,
    MalformedAmountsError,
    MalformedQuantityError,
)

DEFAULT_NAMESPACE: Final = "default"

_MIGRATION_GROUP: Final = migration_model.API_VERSION.partition("/")[0]

HIGHEST_PRIORITY: Final = 2**31 - 1
"""Priority of a reservation that sets none: nothing preempts it."""


class ReservationInfo(Struct, frozen=True):
    """A reservation with the amounts that it holds; before it is placed, with those that it requests."""

    name: str
    uid: Uid
    allocatable: Amounts
    """Amounts held; at least one of ``pods``, the place of the pod to come."""
    reserves_pods: bool = False
    """Whether the reservation requests ``pods`` explicitly, as it does any other resource."""
    host_ports: HostPorts = NO_HOST_PORTS
    """Host ports that no other pod may use on the node."""
    claims: Claims = NO_CLAIMS
    """Claims whose devices are held."""
    node: str = ""
    required_node: str = ""
    """Node that the template names; empty: any."""
    available: bool = True
    owners: tuple[ReservationOwner, ...] = ()
    policy: AllocatePolicy = AllocatePolicy.DEFAULT
    restricted_resources: frozenset[str] = frozenset()
    """With policy Restricted: resources of which owner pods get at most what is held."""
    reserved: Amounts = NO_AMOUNTS
    """Part of the amounts held that is kept from owner pods, too."""
    allocate_once: bool = True
    unschedulable: bool = False
    terminating: bool = False
    taints: tuple[ReservationTaint, ...] = ()
    order: int = 0
    """Value of the order label; 0 if there is none."""
    for_migration: bool = False
    """Whether a PodMigrationJob created the reservation: room for the replacement of the pod that the job evicts."""
    labels: Mapping[str, str] = {}
    current_owners: frozenset[Uid] = frozenset()
    """Pods named in the status: they stay in the reservation, whatever its owners say now."""
    pre_allocated_pods: frozenset[Uid] = frozenset()
    """Running pods over which the reservation was placed: they are in it from the beginning and do not use it up."""
    allows_pre_allocation: bool = False
    pre_allocation_mode: PreAllocationMode = PreAllocationMode.DEFAULT
    enable_multiple: bool = False
    """Whether the reservation may be placed over several pods."""
    priority: int = HIGHEST_PRIORITY
    for_preemptor: bool = False
    """Whether this stands for no Reservation object, but for capacity that a preemptor's victims free."""
    parse_error: str = ""
    """Fields of the object that cannot be read, with the cause."""

    def provides(self, resource: str) -> bool:
        """Return whether owner pods get a resource from the reservation: with policy Restricted, a restricted one."""
        if not self.allocatable.get(resource):
            return False
        return self.policy is not AllocatePolicy.RESTRICTED or resource in self.restricted_resources

    @property
    def rank(self) -> tuple[bool, bool, int]:
        """Rank among reservations that fit a pod, the smallest first: room for a migration, then the order label."""
        return (not self.for_migration, not self.order, self.order)

    @property
    def requires_pre_allocation(self) -> bool:
        """Return whether the reservation must be placed over running pods."""
        return self.labels.get(well_known.LABEL_PRE_ALLOCATION_REQUIRED) == well_known.TRUE

    @property
    def has_default_policy(self) -> bool:
        """Return whether the policy is Default, which shares a node with no other policy."""
        return self.policy is AllocatePolicy.DEFAULT


def from_reservation(reservation: Reservation) -> ReservationInfo:
    """Return the ReservationInfo of a Reservation; parts that cannot be read are collected in `parse_error`."""
    errors: list[str] = []
    meta, spec, status = reservation.metadata, reservation.spec, reservation.status
    policy = spec.pre_allocation_policy or PreAllocationPolicy()
    available = status.phase is ReservationPhase.AVAILABLE and bool(status.node_name)
    errors += validation.validate_template(spec.template)
    allocatable = _allocatable(reservation, errors, placed=available)
    errors += validation.validate_owners(spec.owners)
    return ReservationInfo(
        name=meta.name,
        uid=Uid(meta.uid),
        allocatable={**allocatable, PODS: allocatable.get(PODS, NANOS_PER_UNIT)},
        reserves_pods=PODS in allocatable,
        host_ports=pod_info.template_host_ports(spec.template),
        claims=pod_info.template_claims(
            translated_templates.translated(spec.template, meta.labels, meta.annotations),
            template_namespace(reservation),
        ),
        node=status.node_name,
        required_node=template_node_name(reservation),
        available=available,
        owners=spec.owners,
        policy=spec.allocate_policy,
        restricted_resources=_restricted_resources(reservation, allocatable, errors),
        reserved=_reserved_amounts(reservation, errors),
        allocate_once=spec.allocate_once,
        unschedulable=spec.unschedulable,
        terminating=meta.deletion_timestamp is not None,
        taints=spec.taints,
        order=well_known.parse_integer(meta.labels.get(well_known.LABEL_RESERVATION_ORDER)),
        for_migration=bool(creator_of(reservation)),
        labels=dict(meta.labels),
        current_owners=frozenset(Uid(owner.uid) for owner in status.current_owners),
        pre_allocated_pods=pre_allocated_pods(reservation),
        allows_pre_allocation=allows_pre_allocation(spec),
        pre_allocation_mode=policy.mode,
        enable_multiple=policy.enable_multiple,
        priority=_pod_priority(reservation),
        parse_error="; ".join(errors),
    )


def from_status(name: str, uid: Uid, status: object, *, parse_error: str) -> ReservationInfo | None:
    """Return a reservation of which only the status can be read; None without a node or a readable status.

    What the reservation holds stays held. No pod may use it: its owners cannot be read.
    """
    try:
        parsed = ReservationStatus.model_validate(status or {}, by_alias=True, by_name=False)
        allocatable = held_amounts(parsed)
    except ValueError:
        return None
    if parsed.phase is not ReservationPhase.AVAILABLE or not parsed.node_name:
        return None
    return ReservationInfo(
        name=name,
        uid=uid,
        allocatable={**allocatable, PODS: allocatable.get(PODS, NANOS_PER_UNIT)},
        reserves_pods=PODS in allocatable,
        node=parsed.node_name,
        current_owners=frozenset(Uid(owner.uid) for owner in parsed.current_owners),
        parse_error=parse_error,
    )


def creator_of(reservation: Reservation) -> str:
    """Return the uid of the job that created a Reservation; empty if no job did.

    The controller decides, which only accounts with the verb `migrate` can name (deploy/reservations/admission.yaml).
    """
    owner, name = reservation.metadata.controller, reservation.metadata.name
    if owner is None or owner.kind != migration_model.KIND or owner.uid != name:
        return ""
    return name if owner.api_version.partition("/")[0] == _MIGRATION_GROUP else ""


def reservation_requests(reservation: Reservation) -> dict[str, int]:
    """Return the amounts to hold: the requests of the template, overridden by the resize annotation.

    Shares of GPUs are no amounts: claims hold them.

    Raises MalformedAmountsError or MalformedAnnotationError.
    """
    asked = pod_requests.template_requests(reservation.spec.template)
    text = reservation.metadata.annotations.get(well_known.ANNOTATION_RESIZE_ALLOCATABLE)
    return translated_templates.without_gpus(asked if text is None else asked | parse_resize_annotation(text))


def held_amounts(status: ReservationStatus) -> dict[str, int]:
    """Return the amounts that a status shows as held, without shares of GPUs. Raises MalformedQuantityError."""
    return translated_templates.without_gpus(quantities.from_resource_list(status.allocatable))


def parse_resize_annotation(text: str) -> dict[str, int]:
    """Return the amounts of a resize annotation. Raises MalformedAnnotationError."""
    content = decode_annotation(well_known.ANNOTATION_RESIZE_ALLOCATABLE, text, dict[str, Any])
    for name in content:
        if name != "resources":
            raise MalformedAnnotationError(
                f"annotation {well_known.ANNOTATION_RESIZE_ALLOCATABLE}: {name}: unknown field; known are resources"
            )
    try:
        return quantities.parse_resource_list(content.get("resources"), path="resources")
    except MalformedAmountsError as error:
        raise MalformedAnnotationError(f"annotation {well_known.ANNOTATION_RESIZE_ALLOCATABLE}: {error}") from error


def allows_pre_allocation(spec: ReservationSpec) -> bool:
    """Return whether a reservation may be placed over running pods: only with policy Restricted, as in Koordinator."""
    return spec.pre_allocation and spec.allocate_policy is AllocatePolicy.RESTRICTED


def pre_allocated_pods(reservation: Reservation) -> frozenset[Uid]:
    """Return the pods over which a reservation was placed."""
    text = reservation.metadata.annotations.get(well_known.ANNOTATION_PLACED_OVER, "")
    return frozenset(Uid(uid) for uid in text.split(",") if uid)


def _allocatable(reservation: Reservation, errors: list[str], *, placed: bool) -> Amounts:
    if placed and reservation.status.allocatable:
        try:
            return held_amounts(reservation.status)
        except MalformedQuantityError as error:
            errors.append(f"status.allocatable: {error}")
    try:
        return reservation_requests(reservation)
    except MalformedAnnotationError as error:
        errors.append(str(error))
    except MalformedAmountsError as error:
        errors.append(str(error))
        return NO_AMOUNTS
    return translated_templates.without_gpus(pod_requests.template_requests(reservation.spec.template))


class _RestrictedOptions(Struct, frozen=True, forbid_unknown_fields=True):
    resources: list[str] | None = None


def _restricted_resources(reservation: Reservation, allocatable: Amounts, errors: list[str]) -> frozenset[str]:
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
            errors.append(str(error))
    chosen = frozenset(name for name in named if name in allocatable)
    return (chosen or frozenset(allocatable)) | ({PODS} & allocatable.keys())


def _reserved_amounts(reservation: Reservation, errors: list[str]) -> Amounts:
    try:
        return node_reservation.parse(
            reservation.metadata.annotations.get(well_known.ANNOTATION_NODE_RESERVATION)
        ).amounts
    except MalformedAnnotationError as error:
        errors.append(str(error))
        return NO_AMOUNTS


def _pod_priority(reservation: Reservation) -> int:
    spec = reservation.spec.template.get("spec")
    given = spec.get("priority") if isinstance(spec, dict) else None
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    return well_known.parse_integer(
        reservation.metadata.labels.get(well_known.LABEL_PRIORITY), otherwise=HIGHEST_PRIORITY
    )


def assign_node(info: ReservationInfo, *, node: str) -> ReservationInfo:
    """Return the reservation as available on a node."""
    return msgspec.structs.replace(info, node=node, available=True)


def preemptor_reservation(pod: PodInfo, node: str, victims: Iterable[Uid]) -> ReservationInfo:
    """Return a reservation for one preemptor alone, over its victims: no other pod gets what the victims free."""
    return ReservationInfo(
        name=f"preemptor {'/'.join(pod.key)}",
        uid=preemptor_reservation_uid(pod.uid),
        allocatable=pod.amounts,
        reserves_pods=True,
        host_ports=pod.host_ports,
        node=node,
        owners=(ReservationOwner(object=ObjectReference(uid=pod.uid)),),
        pre_allocated_pods=frozenset(victims),
        for_preemptor=True,
    )


def preemptor_reservation_uid(pod: Uid) -> Uid:
    """Return the uid of the reservation made for a preemptor."""
    return Uid(f"preemptor-{pod}")


def template_namespace(reservation: Reservation) -> str:
    """Return the namespace of a reservation's template: its placeholder and its claims are there."""
    template = reservation.spec.template
    metadata = template.get("metadata")
    named = metadata.get("namespace") if isinstance(metadata, Mapping) else None
    return str(named or template.get("namespace") or DEFAULT_NAMESPACE)


def template_node_name(reservation: Reservation) -> str:
    """Return the node that the template names; empty if the template names none."""
    spec = reservation.spec.template.get("spec")
    name = spec.get("nodeName") if isinstance(spec, Mapping) else None
    return name if isinstance(name, str) else ""


def template_resource_claims(reservation: Reservation) -> tuple[Mapping[str, Any], ...]:
    """Return the entries of ``resourceClaims`` in a reservation's template."""
    spec = reservation.spec.template.get("spec")
    entries = spec.get("resourceClaims") if isinstance(spec, Mapping) else None
    return tuple(entry for entry in entries or () if isinstance(entry, Mapping)) if isinstance(entries, list) else ()
