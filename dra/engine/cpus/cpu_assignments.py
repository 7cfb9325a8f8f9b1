"""CPU assignments: the exclusive CPUs of each holder on a machine, and the shared pool for all other containers.

The *shared pool* is where all containers without exclusive CPUs run. It is never empty: an assignment that would empty
it is rejected, as a cpuset without CPUs can neither be written nor run anything. CPUs reserved for the system cannot be
assigned, and belong to the shared pool. CPUs that the node *reserves* (by its annotation) are for no container, as the
kubelet's ``reservedSystemCPUs`` with ``strict-cpu-reservation``. Isolated CPUs can be assigned, and are not in the
shared pool: the kernel does not balance load there, so all threads of a container might queue on one of them.

A machine may have changed since assignments were recorded (CPUs switched off, a reservation widened). Recorded
assignments stay as they are; no CPU is taken away or assigned twice. `CpuAssignments.inconsistencies` lists what no
longer fits the machine.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from dra.engine.cpus.cpusets import NO_CPUS, CpuSet
from dra.engine.cpus.topology import CpuTopology
from dra.engine.devices.ledger import Holder


@dataclass(frozen=True, kw_only=True)
class CpuAssignments:
    """The CPUs of a machine, divided between holders, the shared pool, the system and the node."""

    topology: CpuTopology
    reserved: CpuSet = NO_CPUS
    """CPUs for the system, and for containers without exclusive CPUs."""
    node_reserved: CpuSet = NO_CPUS
    """CPUs that no container may use."""
    assignments: Mapping[Holder, CpuSet] = field(default_factory=dict)

    @cached_property
    def assigned(self) -> CpuSet:
        """CPUs that are assigned to a holder."""
        return CpuSet(cpu for cpus in self.assignments.values() for cpu in cpus)

    @cached_property
    def allocatable(self) -> CpuSet:
        """CPUs that can be assigned, including assigned ones."""
        return self.topology.online - self.reserved - self.node_reserved

    @cached_property
    def free(self) -> CpuSet:
        """CPUs that can be assigned now, except for the last CPUs of the shared pool."""
        return self.allocatable - self.assigned

    @cached_property
    def shared_pool(self) -> CpuSet:
        """The shared pool, never empty; `inconsistencies` names the fallback when the machine has changed."""
        return self._pool(self.assigned) or self._unassigned or self.topology.online

    def _pool(self, assigned: CpuSet) -> CpuSet:
        return self.topology.online - self.topology.isolated - self.node_reserved - assigned

    @property
    def _unassigned(self) -> CpuSet:
        return self.topology.online - self.assigned

    def assign(self, holder: Holder, cpus: CpuSet) -> "CpuAssignments | str":
        """Return assignments in which the holder has exactly these CPUs, or the reason why it cannot have them."""
        if not cpus:
            return f"{holder}: no CPUs are asked for; a request needs at least one"
        if unknown := cpus - self.topology.online:
            return f"{holder}: CPUs {unknown} are not online (online: {self.topology.online}); have it allocated anew"
        for why, those in (("kept by the node", self.node_reserved), ("reserved for the system", self.reserved)):
            if nobodys := cpus & those:
                return f"{holder}: CPUs {nobodys} are {why} ({those}) and cannot be allocated"
        others = {other: theirs for other, theirs in self.assignments.items() if other != holder}
        for other, theirs in others.items():
            if both := cpus & theirs:
                return f"{holder}: CPUs {both} are held by {other}, refused"
        assigned = CpuSet(cpu for theirs in others.values() for cpu in theirs)
        if not self._pool(assigned | cpus):
            pool = self._pool(assigned)
            return (
                f"{holder}: {len(cpus)} CPUs ({cpus}) refused: no CPU would be left for the shared pool; "
                f"{len(pool)} of {len(self.topology.online)} online CPUs are in the pool now ({pool}),"
                f" so request {max(len(pool) - 1, 0)} at most"
            )
        return replace(self, assignments={**self.assignments, holder: cpus})

    def release(self, holder: Holder) -> "CpuAssignments":
        """Return assignments in which the holder has no CPUs."""
        return replace(self, assignments={other: cpus for other, cpus in self.assignments.items() if other != holder})

    def inconsistencies(self) -> tuple[str, ...]:
        """Return the contradictions between recorded assignments and the machine; empty if there are none."""
        contradictions: list[str] = []
        seen: dict[int, Holder] = {}
        for holder, cpus in self.assignments.items():
            if gone := cpus - self.topology.online:
                contradictions.append(f"{holder}: CPUs {gone} that it holds are not online")
            if kept := cpus & self.node_reserved:
                contradictions.append(f"{holder}: CPUs {kept} that it holds have since been kept by the node")
            if reserved := cpus & self.reserved - self.node_reserved:
                contradictions.append(
                    f"{holder}: CPUs {reserved} that it holds have since been reserved for the system"
                )
            for cpu in cpus:
                first = seen.setdefault(cpu, holder)
                if first != holder:
                    contradictions.append(f"{holder}: CPU {cpu} that it holds is also held by {first}")
        if not self._pool(self.assigned):
            rest = "kept or isolated CPUs" if self._unassigned else "all CPUs, with those that hold them"
            contradictions.append(
                f"shared pool: no CPU is left; containers without their own run on {rest} ({self.shared_pool})"
            )
        return tuple(contradictions)
