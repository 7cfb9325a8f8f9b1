"""CPU hotplug in cgroup v1: finds the CPUs that pods lost while these CPUs were offline.

When a CPU goes offline, the kernel removes it from every cpuset. When the CPU is online again, v2 restores it (the
kernel computes the effective CPUs of a cgroup from its written cpuset), but v1 restores it in the root cpuset only, and
no other component repairs the cgroups below. The driver writes the cgroups below the kubelet's anyway; but the
kubelet's cgroup of all pods bounds them, and the kubelet does not write that one again.

CPUs that an administrator took from the pods on purpose are not restored: a CPU counts as lost only if it vanished from
the cpuset while it was offline. A CPU that was offline for less than the time between two readings goes unnoticed,
unless a claim has it.
"""

from dra.engine.cpus.cpusets import NO_CPUS, CpuSet


class OfflineCpuTracker:
    """Tracks the CPUs that the cgroup of all pods lost while they were offline."""

    def __init__(self, lost: CpuSet = NO_CPUS) -> None:
        """Create a tracker that knows which CPUs were lost before, as `lost` of an earlier process."""
        self._had = NO_CPUS
        self._offline = lost
        self._said = NO_CPUS

    @property
    def lost(self) -> CpuSet:
        """The CPUs that pods had before these went offline, and do not have now."""
        return self._offline

    def update(self, cpus: CpuSet, *, online: CpuSet) -> CpuSet:
        """Record the pods' CPUs of now; return the CPUs that pods had before these went offline, and can have again."""
        self._offline = (self._offline | (self._had - cpus - online)) - cpus
        self._had = cpus
        return self._offline & online

    def is_first(self, back: CpuSet) -> bool:
        """Report whether these CPUs differ from the last call's: another writer may remove the same CPUs repeatedly.

        Limits logging to the first time.
        """
        first = self._said != back
        self._said = back
        return first
