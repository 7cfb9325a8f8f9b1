"""Capacity of a node that is kept from pods: annotation ``node.koordinator.sh/reservation``.

``{"resources": {"cpu": "4", "memory": "8Gi"}, "reservedCPUs": "0-5", "applyPolicy": "Default"}``. CPUs that are named
take the place of an amount of them. With ``ReservedCPUsOnly`` the named CPUs are kept away, and nothing is subtracted
(they belong to something that the kubelet's allocatable is without already).

Read strictly, since nobody has validated it: an unknown field, a negative amount, a range that runs backwards, a CPU
that the machine does not have, more than there is: each is refused with the field named. (Koordinator takes such an
annotation for none, so that a typo gives away what was to be kept.)
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from dra.engine.cpus import cpusets
from dra.engine.cpus.accumulator import choose
from dra.engine.cpus.binding import Refusal, Strategy
from dra.engine.cpus.cpusets import NO_CPUS, CpuSet, MalformedCpuListError
from dra.engine.cpus.room import Request, Room
from dra.engine.cpus.topology import Topology
from dra.engine.reservations import amounts, marks
from dra.engine.reservations.amounts import CPU, NOTHING, ONE, Amounts, MalformedAmountsError
from dra.engine.reservations.claimants import MalformedAnnotationError, decoded
from dra.model.meta import Struct


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

_FIELDS = ("resources", "reservedCPUs", "applyPolicy")


def parse(text: str | None, *, allocatable: Amounts | None = None, online: CpuSet | None = None) -> NodeReservation:
    """Return what the annotation says; checked against the node as far as it is known.

    Raises MalformedAnnotationError: the text begins with the annotation and the field.
    """
    if text is None:
        return NONE
    content = decoded(marks.NODE_RESERVATION, text, dict[str, Any])
    try:
        return _read(content, allocatable=allocatable, online=online)
    except (MalformedAmountsError, MalformedAnnotationError) as error:
        raise MalformedAnnotationError(f"annotation {marks.NODE_RESERVATION}: {error}") from error


def _read(content: Mapping[str, Any], *, allocatable: Amounts | None, online: CpuSet | None) -> NodeReservation:
    for name in content:
        if name not in _FIELDS:
            raise MalformedAnnotationError(f"{name}: unknown field; known are {', '.join(_FIELDS)}")
    policy = content.get("applyPolicy") or ApplyPolicy.DEFAULT
    if policy not in list(ApplyPolicy):
        raise MalformedAnnotationError(f"applyPolicy: {policy!r} is neither Default nor ReservedCPUsOnly")
    found = amounts.read(content.get("resources"), path="resources")
    cpus = _cpus(content.get("reservedCPUs"), online=online)
    if cpus:
        found[CPU] = len(cpus) * ONE
    if allocatable is not None and policy == ApplyPolicy.DEFAULT:
        for name, amount in found.items():
            if amount > allocatable.get(name, 0):
                field = "reservedCPUs" if cpus and name == CPU else f"resources.{name}"
                there = amounts.printed(allocatable.get(name, 0))
                raise MalformedAnnotationError(
                    f"{field}: {amounts.printed(amount)} is more than the node has ({there})"
                )
    return NodeReservation(amounts=found, cpus=cpus, policy=ApplyPolicy(policy))


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
    return {name: max(0, amount - kept.get(name, 0)) for name, amount in allocatable.items()}


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
