"""Capacity of a node that is kept from pods: annotation ``node.koordinator.sh/reservation``.

``{"resources": {"cpu": "4", "memory": "8Gi"}, "reservedCPUs": "0-5", "applyPolicy": "Default"}``. CPUs that are named
take the place of an amount of them. With ``ReservedCPUsOnly`` the named CPUs are kept away, and nothing is subtracted
(they belong to something that the kubelet's allocatable is without already).

Read strictly, since nobody has validated it: an unknown field, a negative amount, a range that runs backwards, a CPU
that the machine does not have, more than there is: each is refused with the field named. (Koordinator takes such an
annotation for none, so that a typo gives away what was to be kept.)

`heed` is what everybody asks who wants to know what a node has for pods: the scheduler of the local plane, the
extender, and what explains them. Of an annotation that cannot be read the last valid one counts; where nobody remembers
one, those of its fields that can be read.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from dra.engine.cpus import cpusets
from dra.engine.cpus.accumulator import choose
from dra.engine.cpus.binding import Refusal, Strategy
from dra.engine.cpus.cpusets import NO_CPUS, CpuSet, MalformedCpuListError
from dra.engine.cpus.room import Request, Room
from dra.engine.cpus.topology import Topology
from dra.engine.reservations import amounts, marks
from dra.engine.reservations.amounts import CPU, NOTHING, ONE, Amounts, MalformedAmountsError, printed
from dra.engine.reservations.claimants import MalformedAnnotationError, decoded
from dra.model.meta import Struct
from dra.model.placement import Host


class ApplyPolicy(StrEnum):
    """What is done with it."""

    DEFAULT = "Default"
    RESERVED_CPUS_ONLY = "ReservedCPUsOnly"


class NodeReservation(Struct, frozen=True):
    """What is kept from pods."""

    amounts: Amounts = NOTHING
    cpus: CpuSet = NO_CPUS
    """These very ones."""
    policy: ApplyPolicy = ApplyPolicy.DEFAULT


NONE = NodeReservation()

BATCH: Final = frozenset({"kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"})
"""What Koordinator's manager has computed from what is left already."""

_FIELDS: Final = ("resources", "reservedCPUs", "applyPolicy")


class Heeded(Struct, frozen=True):
    """A node as its annotation leaves it."""

    reservation: NodeReservation = NONE
    """What is in force."""
    left: Amounts = NOTHING
    """What there is for pods."""
    fault: str = ""
    """What is wrong with the annotation as it is."""


def heed(node: Host, *, before: NodeReservation | None) -> Heeded:
    """Return what a node has for pods; `before` is the last valid reservation, if it is known that there was one.

    Of a node that has not told yet what it has, nothing can be said: what was in force stays so.
    """
    allocatable = amounts.known(node.status.allocatable)
    if not allocatable:
        return Heeded(reservation=before or NONE)
    text = node.metadata.annotation(marks.NODE_RESERVATION)
    fault = ""
    try:
        found, faults = _read(text, allocatable=allocatable, online=None)
    except MalformedAnnotationError as error:
        found, faults = NONE, [str(error)]
    if faults:
        fault = _told(faults)
        found = found if before is None else before
    return Heeded(reservation=found, left=trimmed(allocatable, found), fault=fault)


def parse(text: str | None, *, allocatable: Amounts | None = None, online: CpuSet | None = None) -> NodeReservation:
    """Return what the annotation says; checked against the node as far as it is known.

    Raises MalformedAnnotationError: the text begins with the annotation and names each field that is wrong.
    """
    found, faults = _read(text, allocatable=allocatable, online=online)
    if faults:
        raise MalformedAnnotationError(_told(faults))
    return found


def _told(faults: Sequence[str]) -> str:
    prefix = f"annotation {marks.NODE_RESERVATION}: "
    return prefix + "; ".join(each.removeprefix(prefix) for each in faults)


def _read(text: str | None, *, allocatable: Amounts | None, online: CpuSet | None) -> tuple[NodeReservation, list[str]]:
    """Return what can be read, and what is wrong with the rest. Raises MalformedAnnotationError if nothing can be."""
    if text is None:
        return NONE, []
    content = decoded(marks.NODE_RESERVATION, text, dict[str, Any])
    faults = [f"{name}: unknown field; known are {', '.join(_FIELDS)}" for name in content if name not in _FIELDS]
    policy = content.get("applyPolicy") or ApplyPolicy.DEFAULT
    if policy not in list(ApplyPolicy):
        faults.append(f"applyPolicy: {policy!r} is neither Default nor ReservedCPUsOnly")
        policy = ApplyPolicy.DEFAULT
    found = _amounts(content.get("resources"), faults)
    cpus = NO_CPUS
    try:
        cpus = _cpus(content.get("reservedCPUs"), online=online)
    except MalformedAnnotationError as error:
        faults.append(str(error))
    if cpus:
        found[CPU] = len(cpus) * ONE
    if allocatable is not None and policy == ApplyPolicy.DEFAULT:
        for name, amount in found.items():
            if amount > (there := allocatable.get(name, 0)):
                field = "reservedCPUs" if cpus and name == CPU else f"resources.{name}"
                faults.append(f"{field}: {printed(amount)} is more than the node has ({printed(there)})")
    return NodeReservation(amounts=found, cpus=cpus, policy=ApplyPolicy(policy)), faults


def _amounts(given: object, faults: list[str]) -> dict[str, int]:
    """Return the amounts that can be read."""
    found: dict[str, int] = {}
    parts = [{name: text} for name, text in given.items()] if isinstance(given, Mapping) else [given]
    for part in parts:
        try:
            found |= amounts.read(part, path="resources")
        except MalformedAmountsError as error:
            faults.append(str(error))
    return found


def _cpus(text: object, *, online: CpuSet | None) -> CpuSet:
    if text is None:
        return NO_CPUS
    if not isinstance(text, str):
        raise MalformedAnnotationError("reservedCPUs: must be a text as in: 0-3,8")
    try:
        cpus = cpusets.parse(text)
    except MalformedCpuListError as error:
        raise MalformedAnnotationError(f"reservedCPUs: {error}") from error
    if online is not None and (missing := cpus - online):
        raise MalformedAnnotationError(f"reservedCPUs: CPUs {missing} are not on the node, which has {online}")
    return cpus


def trimmed(allocatable: Amounts, reservation: NodeReservation) -> dict[str, int]:
    """Return what is left of a node for pods."""
    if reservation.policy is ApplyPolicy.RESERVED_CPUS_ONLY:
        return dict(allocatable)
    kept = reservation.amounts
    return {
        name: amount if name in BATCH else max(0, amount - kept.get(name, 0)) for name, amount in allocatable.items()
    }


class Zone(Struct, frozen=True):
    """The CPUs of a NUMA node: how many it has, and how many of them are for pods."""

    node: int
    capacity: int
    allocatable: int


class Kept(Struct, frozen=True):
    """The very CPUs that a node keeps, and what that leaves of each NUMA node."""

    cpus: CpuSet = NO_CPUS
    zones: tuple[Zone, ...] = ()


def kept(cpus: CpuSet, topology: Topology) -> Kept:
    """Return what it means to a machine that these are kept."""
    zones = (
        Zone(node=node, capacity=len(there), allocatable=len(there - cpus)) for node, there in topology.nodes.items()
    )
    return Kept(cpus=cpus, zones=tuple(sorted(zones, key=lambda each: each.node)))


def chosen(reservation: NodeReservation, topology: Topology, *, usable: CpuSet | None = None) -> CpuSet:
    """Return which CPUs are kept: those that are named, else as many as the amount needs.

    Whole sockets first, then whole cores, fewest free first, lowest number; of those `usable`, where some are
    another's.
    """
    if reservation.cpus:
        return reservation.cpus
    count = -(-reservation.amounts.get(CPU, 0) // ONE)
    if count <= 0:
        return NO_CPUS
    among = topology.online if usable is None else usable
    room = Room(topology=topology, allocatable=among, holdings=())
    found = choose(room, Request(count=min(count, len(among)), strategy=Strategy.MOST_ALLOCATED))
    return NO_CPUS if isinstance(found, Refusal) else found
