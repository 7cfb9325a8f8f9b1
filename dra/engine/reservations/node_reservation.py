"""The capacity of a node that is kept from pods: annotation ``node.koordinator.sh/reservation``.

``{"resources": {"cpu": "4", "memory": "8Gi"}, "reservedCPUs": "0-5", "applyPolicy": "Default"}``. ``reservedCPUs``
overrides the amount of cpu in ``resources``. With ``ReservedCPUsOnly`` the named CPUs are kept from pods and nothing is
subtracted (the CPUs belong to something that the kubelet's allocatable excludes already).

Parsing is strict, since no component has validated the annotation. An unknown field, a negative amount, a range that
runs backwards, a CPU that the machine does not have, more than the node has: each is an error that names the field.
(Koordinator treats such an annotation as absent, so a typo gives away what was to be kept.)

`effective_node_reservation` is the one function for what a node has for pods: the scheduler of the local plane, the
extender, and the explanations of both call it. If an annotation cannot be read, the last valid one counts; if none is
remembered, the valid fields of the annotation count.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from dra.api.parameters.cpu_policies import NumaAllocateStrategy
from dra.api.reservations import well_known
from dra.api.reservations.well_known import MalformedAnnotationError, decode_annotation
from dra.engine.cpus import cpusets
from dra.engine.cpus.accumulator import take_cpus
from dra.engine.cpus.cpu_snapshot import CpuRequest, CpuSnapshot
from dra.engine.cpus.cpusets import NO_CPUS, CpuSet, MalformedCpuListError
from dra.engine.cpus.failures import CpuAllocationFailure
from dra.engine.cpus.topology import CpuTopology
from dra.model import quantities
from dra.model.meta import Struct
from dra.model.quantities import CPU, NANOS_PER_UNIT, NO_AMOUNTS, Amounts, MalformedAmountsError, format_quantity
from dra.model.scheduling import SchedulerNode


class ApplyPolicy(StrEnum):
    """The way in which a node reservation takes effect."""

    DEFAULT = "Default"
    RESERVED_CPUS_ONLY = "ReservedCPUsOnly"


class NodeReservation(Struct, frozen=True):
    """The capacity and the CPUs that a node keeps from pods."""

    amounts: Amounts = NO_AMOUNTS
    cpus: CpuSet = NO_CPUS
    """CPUs reserved by number."""
    policy: ApplyPolicy = ApplyPolicy.DEFAULT


NO_NODE_RESERVATION = NodeReservation()

BATCH_RESOURCES: Final = frozenset({"kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"})
"""Resources that Koordinator's manager has computed from what is left already."""

_FIELDS: Final = ("resources", "reservedCPUs", "applyPolicy")


class EffectiveNodeReservation(Struct, frozen=True):
    """A node after its node reservation is applied."""

    reservation: NodeReservation = NO_NODE_RESERVATION
    """The node reservation in force."""
    allocatable: Amounts = NO_AMOUNTS
    """Amounts left for pods."""
    error: str = ""
    """Errors in the current annotation; empty if there are none."""


def effective_node_reservation(node: SchedulerNode, *, before: NodeReservation | None) -> EffectiveNodeReservation:
    """Return what a node has for pods; `before` is the last valid reservation, None if none is remembered.

    A node that has not reported its allocatable yet has nothing for pods, and what was in force stays in force.
    """
    allocatable = quantities.from_validated_list(node.status.allocatable)
    if not allocatable:
        return EffectiveNodeReservation(reservation=before or NO_NODE_RESERVATION)
    text = node.metadata.annotation(well_known.ANNOTATION_NODE_RESERVATION)
    problem = ""
    try:
        reservation, errors = _parse(text, allocatable=allocatable, online=None)
    except MalformedAnnotationError as error:
        reservation, errors = NO_NODE_RESERVATION, [str(error)]
    if errors:
        problem = _format_errors(errors)
        reservation = reservation if before is None else before
    return EffectiveNodeReservation(
        reservation=reservation, allocatable=trim_allocatable(allocatable, reservation), error=problem
    )


def parse(text: str | None, *, allocatable: Amounts | None = None, online: CpuSet | None = None) -> NodeReservation:
    """Return the node reservation of an annotation; checked against the node as far as the node is known.

    Raises MalformedAnnotationError: the text begins with the annotation and names each wrong field.
    """
    reservation, errors = _parse(text, allocatable=allocatable, online=online)
    if errors:
        raise MalformedAnnotationError(_format_errors(errors))
    return reservation


def _format_errors(errors: Sequence[str]) -> str:
    prefix = f"annotation {well_known.ANNOTATION_NODE_RESERVATION}: "
    return prefix + "; ".join(error.removeprefix(prefix) for error in errors)


def _parse(
    text: str | None, *, allocatable: Amounts | None, online: CpuSet | None
) -> tuple[NodeReservation, list[str]]:
    """Return the valid fields, and the errors in the others.

    Raises MalformedAnnotationError if the annotation is no JSON object. An empty text is what people write to keep
    nothing any more.
    """
    if not text:
        return NO_NODE_RESERVATION, []
    content = decode_annotation(well_known.ANNOTATION_NODE_RESERVATION, text, dict[str, Any])
    errors = [f"{name}: unknown field; known are {', '.join(_FIELDS)}" for name in content if name not in _FIELDS]
    policy = content.get("applyPolicy") or ApplyPolicy.DEFAULT
    if policy not in list(ApplyPolicy):
        errors.append(f"applyPolicy: {policy!r} is not valid; use Default or ReservedCPUsOnly")
        policy = ApplyPolicy.DEFAULT
    amounts = _parse_resources(content.get("resources"), errors)
    cpus = NO_CPUS
    try:
        cpus = _parse_reserved_cpus(content.get("reservedCPUs"), online=online)
    except MalformedAnnotationError as error:
        errors.append(str(error))
    if cpus:
        amounts[CPU] = len(cpus) * NANOS_PER_UNIT
    if allocatable is not None and policy == ApplyPolicy.DEFAULT:
        for name, amount in amounts.items():
            if amount > (there := allocatable.get(name, 0)):
                field = "reservedCPUs" if cpus and name == CPU else f"resources.{name}"
                errors.append(
                    f"{field}: {format_quantity(amount)} is more than the node has ({format_quantity(there)})"
                )
    return NodeReservation(amounts=amounts, cpus=cpus, policy=ApplyPolicy(policy)), errors


def _parse_resources(given: object, errors: list[str]) -> dict[str, int]:
    """Return the amounts that are valid; errors are appended to `faults`."""
    amounts: dict[str, int] = {}
    parts = [{name: text} for name, text in given.items()] if isinstance(given, Mapping) else [given]
    for part in parts:
        try:
            amounts |= quantities.parse_resource_list(part, path="resources")
        except MalformedAmountsError as error:
            errors.append(str(error))
    return amounts


def _parse_reserved_cpus(text: object, *, online: CpuSet | None) -> CpuSet:
    if text is None:
        return NO_CPUS
    if not isinstance(text, str):
        raise MalformedAnnotationError("reservedCPUs: must be a string, for example 0-3,8")
    try:
        cpus = cpusets.parse(text)
    except MalformedCpuListError as error:
        raise MalformedAnnotationError(f"reservedCPUs: {error}") from error
    if online is not None and (missing := cpus - online):
        raise MalformedAnnotationError(f"reservedCPUs: CPUs {missing} are not on the node, which has {online}")
    return cpus


def trim_allocatable(allocatable: Amounts, reservation: NodeReservation) -> dict[str, int]:
    """Return the allocatable amounts of a node minus its reservation."""
    if reservation.policy is ApplyPolicy.RESERVED_CPUS_ONLY:
        return dict(allocatable)
    kept = reservation.amounts
    return {
        name: amount if name in BATCH_RESOURCES else max(0, amount - kept.get(name, 0))
        for name, amount in allocatable.items()
    }


class NumaZone(Struct, frozen=True):
    """The number of CPUs of a NUMA node, and how many of these are for pods."""

    node: int
    capacity: int
    allocatable: int


class ReservedCpus(Struct, frozen=True):
    """The reserved CPUs of a node, and what is left of each NUMA node."""

    cpus: CpuSet = NO_CPUS
    zones: tuple[NumaZone, ...] = ()


def reserved_cpus(cpus: CpuSet, topology: CpuTopology) -> ReservedCpus:
    """Return the reserved CPUs with the numbers of CPUs left on each NUMA node."""
    zones = (
        NumaZone(node=node, capacity=len(there), allocatable=len(there - cpus))
        for node, there in topology.numa_nodes.items()
    )
    return ReservedCpus(cpus=cpus, zones=tuple(sorted(zones, key=lambda zone: zone.node)))


def select_reserved_cpus(
    reservation: NodeReservation, topology: CpuTopology, *, usable: CpuSet | None = None
) -> CpuSet:
    """Return the CPUs to reserve: those named by the annotation, otherwise as many as the amount of cpu needs.

    CPUs that are not isolated come first; the order is whole sockets, whole cores, fewest free CPUs, lowest number.
    `usable` limits the choice if other CPUs are taken.
    """
    if reservation.cpus:
        return reservation.cpus
    count = -(-reservation.amounts.get(CPU, 0) // NANOS_PER_UNIT)
    if count <= 0:
        return NO_CPUS
    among = topology.online if usable is None else usable
    free = CpuSnapshot(topology=topology, allocatable=among, allocations=())
    request = CpuRequest(count=min(count, len(among)), strategy=NumaAllocateStrategy.MOST_ALLOCATED)
    taken = take_cpus(free, request, preferred=topology.housekeeping if topology.isolated else NO_CPUS)
    return NO_CPUS if isinstance(taken, CpuAllocationFailure) else taken
