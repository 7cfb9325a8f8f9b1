"""The places of a prepared claim's CPUs: whether a number still stands for the CPU that was prepared. Pure.

The kernel numbers CPUs anew when a machine starts, or when a CPU is plugged in: with other firmware, another number of
sockets, or threads switched off, CPU 2 may be a core of another socket. So the state of a prepared claim has the place
of each CPU, to be compared with the machine whenever a pod of the claim starts. The numbers of cores are not compared:
cores are counted, so that other CPUs that go offline change them. Which CPUs of a claim share a core is compared.

A state without places, as an earlier build wrote it, is compared by the numbers of CPUs alone.
"""

from collections.abc import Iterable
from typing import Any, Final

from msgspec.structs import replace

from dra.engine.cpus.topology import CoreType, Cpu, CpuTopology
from kubeletplugin.contract import PreparedClaim

PLACES: Final = "places"
"""Key of the places in the state of a prepared claim."""

RECORDED_FIELDS: Final = 8
"""Fields of a recorded place; the last says that the build knew types of arm64 cores, and earlier builds lack it."""


def places_state(cpus: Iterable[int], topology: CpuTopology) -> dict[str, Any]:
    """Return the part of a claim's state that records the places of its CPUs, which are online; empty without CPUs."""
    places = [_encode(topology.by_id[cpu]) for cpu in sorted(cpus)]
    return {PLACES: places} if places else {}


def _cpus_without_type(preparation: PreparedClaim) -> set[int]:
    """Return the CPUs whose type of core was not recorded: earlier builds took arm64 cores for alike."""
    places = preparation.state.get(PLACES, ())
    return {place[0] for place in places if len(place) < RECORDED_FIELDS and place[6] == CoreType.STANDARD}


def recorded_places(preparation: PreparedClaim) -> dict[int, Cpu]:
    """Return the CPUs of a prepared claim, each with its place when the claim was prepared, if that was recorded."""
    places = (_decode(place) for place in preparation.state.get(PLACES, ()))
    return {place.id: place for place in places if place is not None}


def describe_moved_cpus(preparation: PreparedClaim, topology: CpuTopology) -> str:
    """Return a text about the first CPU of a claim whose number now stands for another CPU; empty if there is none."""
    before = recorded_places(preparation)
    before |= {
        cpu: replace(before[cpu], core_type=topology.by_id[cpu].core_type)
        for cpu in before.keys() & topology.online & _cpus_without_type(preparation)
    }
    online = [topology.by_id[cpu] for cpu in sorted(before.keys() & topology.online)]
    for cpu in online:
        if (was := _describe_place(before[cpu.id])) != (now := _describe_place(cpu)):
            return f"CPU {cpu.id} was {was} when the claim was prepared, and is {now} now"
    cores_before = _share_cores(before[cpu.id] for cpu in online)
    cores_now = _share_cores(online)
    for first, second in sorted(cores_before ^ cores_now):
        was, now = ("one core", "two") if (first, second) in cores_before else ("two cores", "one")
        return f"CPUs {first} and {second} were of {was} when the claim was prepared, and are of {now} now"
    return ""


def _describe_place(cpu: Cpu) -> str:
    return f"in socket {cpu.socket}, NUMA node {cpu.numa_node}, a core of type {cpu.core_type}"


def _share_cores(cpus: Iterable[Cpu]) -> set[tuple[int, int]]:
    """Return each CPU that shares a core with a lower one, after the lowest one of that core."""
    first_of_core: dict[int, int] = {}
    return {
        (first, cpu.id)
        for cpu in sorted(cpus, key=lambda one: one.id)
        if (first := first_of_core.setdefault(cpu.core, cpu.id)) != cpu.id
    }


def _encode(cpu: Cpu) -> list[Any]:
    return [cpu.id, cpu.core, cpu.numa_node, cpu.socket, cpu.core_id, cpu.l3, cpu.core_type.value, True]


def _decode(place: Iterable[Any]) -> Cpu | None:
    """Return a CPU with its recorded place; None if a later build has recorded what this one does not know."""
    number, core, numa_node, socket, core_id, l3, core_type, *_ = place
    if core_type not in set(CoreType):
        return None
    return Cpu(
        id=number,
        core=core,
        numa_node=numa_node,
        socket=socket,
        core_id=core_id,
        l3=l3,
        core_type=CoreType(core_type),
    )
