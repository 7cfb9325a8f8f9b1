"""CPUs that were offline for a while come back to the pods: cgroup v1 only, where nobody else sees to that.

When a CPU goes offline the kernel takes it out of every cpuset. When it is back, v2 gives it back (what a cgroup has is
worked out from what is written in it), but v1 has forgotten whose it was: only the root has it again. The cgroups below
the kubelet's are ours to write anyway; the kubelet's own one bounds them, and the kubelet does not write it again.

What somebody has taken from the pods on purpose is not given back: a CPU must have been seen to vanish while it was
offline. One that was offline for less than the time between two looks is not noticed, unless a claim has it.
"""

from dra.engine.cpus.cpusets import NO_CPUS, CpuSet


class OfflineCpuTracker:
    """Watches the CPUs of the cgroup of all pods."""

    def __init__(self) -> None:
        self._had = NO_CPUS
        self._offline = NO_CPUS
        self._said = NO_CPUS

    def heed(self, cpus: CpuSet, *, online: CpuSet) -> CpuSet:
        """Take what the pods have now; return what they had before it went offline, and can have again."""
        self._offline = (self._offline | (self._had - cpus - online)) - cpus
        self._had = cpus
        return self._offline & online

    def first(self, back: CpuSet) -> bool:
        """Whether it is the first time that these are given back, of late: somebody may take them again and again."""
        first = self._said != back
        self._said = back
        return first
