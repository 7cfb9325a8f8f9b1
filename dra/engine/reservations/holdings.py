"""A reservation as the arithmetic sees it: what is held, where, for whom, and how; read once from the object.

An annotation or a selector that cannot be read makes it a `fault`: then nobody may use the reservation, but what it
holds stays held, since somebody reserved it; the fault is told in a condition.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from dra.api.reservations.model import (
    AllocatePolicy,
    Owner,
    Phase,
    PreAllocationMode,
    PreAllocationPolicy,
    Reservation,
    ReservationSpec,
    ReservationStatus,
    Taint,
)
from dra.engine.reservations import amounts, marks, nodes, owners, ports, templates
from dra.engine.reservations.amounts import NOTHING, ONE, PODS, Amounts, MalformedAmountsError
from dra.engine.reservations.claimants import MalformedAnnotationError, decoded
from dra.engine.reservations.ports import NO_PORTS, Ports
from dra.model.meta import Struct, Uid
from dra.model.quantities import MalformedQuantityError

HIGHEST_PRIORITY: Final = 2**31 - 1
"""Of a reservation for which none is written: nothing preempts it."""


class Holding(Struct, frozen=True):
    """What a reservation holds; or, before it is placed, wants to."""

    name: str
    uid: Uid
    amounts: Amounts
    """One of ``pods`` is held at least: the place of the pod to come."""
    counts_pods: bool = False
    """Whether ``pods`` were asked for, as any resource."""
    ports: Ports = NO_PORTS
    """The host ports that nobody else may use on its node."""
    node: str = ""
    available: bool = True
    owners: tuple[Owner, ...] = ()
    policy: AllocatePolicy = AllocatePolicy.DEFAULT
    restricted: frozenset[str] = frozenset()
    """With policy Restricted: the resources of which owners get what is held, and no more."""
    inner: Amounts = NOTHING
    """Of what is held: kept from owners, too."""
    allocate_once: bool = True
    unschedulable: bool = False
    terminating: bool = False
    taints: tuple[Taint, ...] = ()
    order: int = 0
    """0: none."""
    labels: Mapping[str, str] = {}
    listed: frozenset[Uid] = frozenset()
    """The consumers that its status names: they are in, whatever its owners say now."""
    predecessors: frozenset[Uid] = frozenset()
    """Pods that ran where it was placed: consumers whose place it keeps, and whose presence does not use it up."""
    pre_allocates: bool = False
    pre_allocation_mode: PreAllocationMode = PreAllocationMode.DEFAULT
    over_many: bool = False
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


def of(reservation: Reservation) -> Holding:
    """Read a reservation."""
    faults: list[str] = []
    meta, spec, status = reservation.metadata, reservation.spec, reservation.status
    policy = spec.pre_allocation_policy or PreAllocationPolicy()
    available = status.phase is Phase.AVAILABLE and bool(status.node_name)
    faults += templates.faults(spec.template)
    held = _held(reservation, faults, placed=available)
    faults += owners.faults(spec.owners)
    return Holding(
        name=meta.name,
        uid=Uid(meta.uid),
        amounts={**held, PODS: held.get(PODS, ONE)},
        counts_pods=PODS in held,
        ports=ports.of_template(spec.template),
        node=status.node_name,
        available=available,
        owners=spec.owners,
        policy=spec.allocate_policy,
        restricted=_restricted(reservation, held, faults),
        inner=_inner(reservation, faults),
        allocate_once=spec.allocate_once,
        unschedulable=spec.unschedulable,
        terminating=meta.deletion_timestamp is not None,
        taints=spec.taints,
        order=marks.number(meta.labels.get(marks.ORDER)),
        labels=dict(meta.labels),
        listed=frozenset(Uid(each.uid) for each in status.current_owners),
        predecessors=predecessors(reservation),
        pre_allocates=pre_allocates(spec),
        pre_allocation_mode=policy.mode,
        over_many=policy.enable_multiple,
        priority=_priority(reservation),
        fault="; ".join(faults),
    )


def remains(name: str, uid: Uid, status: object, *, fault: str) -> Holding | None:
    """Return what a reservation holds of which only the status can be read; None if it has no place, or not even that.

    What it holds was promised, and stays held. Nobody may use it: whose it is cannot be read.
    """
    try:
        found = ReservationStatus.model_validate(status or {}, by_alias=True, by_name=False)
        held = amounts.known(found.allocatable)
    except ValueError:
        return None
    if found.phase is not Phase.AVAILABLE or not found.node_name:
        return None
    return Holding(
        name=name,
        uid=uid,
        amounts={**held, PODS: held.get(PODS, ONE)},
        counts_pods=PODS in held,
        node=found.node_name,
        listed=frozenset(Uid(each.uid) for each in found.current_owners),
        fault=fault,
    )


def wanted(reservation: Reservation) -> dict[str, int]:
    """Return what is to be held: what the template asks for, but for what the resize annotation says.

    Raises MalformedAmountsError or MalformedAnnotationError.
    """
    asked = amounts.of_template(reservation.spec.template)
    text = reservation.metadata.annotations.get(marks.RESIZE)
    return asked if text is None else asked | resized(text)


def resized(text: str) -> dict[str, int]:
    """Return the amounts of a resize annotation. Raises MalformedAnnotationError."""
    content = decoded(marks.RESIZE, text, dict[str, Any])
    for name in content:
        if name != "resources":
            raise MalformedAnnotationError(f"annotation {marks.RESIZE}: {name}: unknown field; known are resources")
    try:
        return amounts.read(content.get("resources"), path="resources")
    except MalformedAmountsError as error:
        raise MalformedAnnotationError(f"annotation {marks.RESIZE}: {error}") from error


def pre_allocates(spec: ReservationSpec) -> bool:
    """Whether a reservation may be placed over running pods: policy Restricted only, as Koordinator has it."""
    return spec.pre_allocation and spec.allocate_policy is AllocatePolicy.RESTRICTED


def predecessors(reservation: Reservation) -> frozenset[Uid]:
    """Return the pods that it was placed over."""
    text = reservation.metadata.annotations.get(marks.PREDECESSORS, "")
    return frozenset(Uid(uid) for uid in text.split(",") if uid)


def _held(reservation: Reservation, faults: list[str], *, placed: bool) -> Amounts:
    if placed and reservation.status.allocatable:
        try:
            return amounts.known(reservation.status.allocatable)
        except MalformedQuantityError as error:
            faults.append(f"status.allocatable: {error}")
    try:
        return wanted(reservation)
    except MalformedAnnotationError as error:
        faults.append(str(error))
    except MalformedAmountsError as error:
        faults.append(str(error))
        return NOTHING
    return amounts.of_template(reservation.spec.template)


class _Options(Struct, frozen=True, forbid_unknown_fields=True):
    resources: list[str] | None = None


def _restricted(reservation: Reservation, held: Amounts, faults: list[str]) -> frozenset[str]:
    if reservation.spec.allocate_policy is not AllocatePolicy.RESTRICTED:
        return frozenset()
    text = reservation.metadata.annotations.get(marks.RESTRICTED_OPTIONS)
    named: Iterable[str] = ()
    if text is not None:
        try:
            named = decoded(marks.RESTRICTED_OPTIONS, text, _Options).resources or ()
        except MalformedAnnotationError as error:
            faults.append(str(error))
    chosen = frozenset(name for name in named if name in held)
    return (chosen or frozenset(held)) | ({PODS} & held.keys())


def _inner(reservation: Reservation, faults: list[str]) -> Amounts:
    try:
        return nodes.parse(reservation.metadata.annotations.get(marks.NODE_RESERVATION)).amounts
    except MalformedAnnotationError as error:
        faults.append(str(error))
        return NOTHING


def _priority(reservation: Reservation) -> int:
    spec = reservation.spec.template.get("spec")
    given = spec.get("priority") if isinstance(spec, dict) else None
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    return marks.number(reservation.metadata.labels.get(marks.PRIORITY), otherwise=HIGHEST_PRIORITY)


def placed(holding: Holding, *, node: str) -> Holding:
    """Return the holding once it is on a node."""
    return msgspec.structs.replace(holding, node=node, available=True)
