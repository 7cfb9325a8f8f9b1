"""Readings of one round, and the samples that two readings make."""

from collections.abc import Mapping

from dra.engine.instants import Instant
from dra.engine.usage.kernel_files import CpuPressure, CpuTicks, NodeMemory
from dra.model.meta import Struct, Uid


class NodeReading(Struct, frozen=True):
    """The counters of a node."""

    at: Instant
    ticks: CpuTicks
    memory: NodeMemory


class PodReading(Struct, frozen=True):
    """The counters of a pod's cgroup."""

    at: Instant
    cpu_nanos: int
    memory_bytes: int
    """The working set."""

    pressure: CpuPressure | None = None
    """How long some process of the pod waited for a CPU; None where the kernel does not tell."""

    renewed: bool = False
    """Whether the cgroup is another one than at the last reading, so that its counter began anew."""


class GpuProcessUse(Struct, frozen=True):
    """The share of a GPU that the processes of one pod use."""

    utilization_percent: float | None
    """Share of the time in which the GPU worked for them; None where NVML does not tell."""

    memory_bytes: int


class GpuReading(Struct, frozen=True):
    """The load of a GPU at one moment."""

    uuid: str
    minor: int | None
    utilization_percent: float | None
    """Share of the time in which the GPU worked; None where NVML does not tell."""

    memory_used_bytes: int
    memory_total_bytes: int
    pods: Mapping[Uid, GpuProcessUse] = {}


class Round(Struct, frozen=True):
    """One round of reading: node and pods on one clock, so that their difference is the system's use."""

    node: NodeReading
    pods: Mapping[Uid, PodReading]
    """The pods of the API server, by the uid of the object."""

    others: Mapping[str, PodReading] = {}
    """Pods' cgroups that belong to no pod of the API server, by the uid in their names: counted as the system's."""

    kubepods_cpu_nanos: int | None = None
    """The counter of the cgroup of all pods, which keeps what ended pods have used; None if it cannot be read."""


class PodSample(Struct, frozen=True):
    """The use of a pod in the last round of sampling."""

    cpu_milli: float
    memory_bytes: int
    cpu_pressure_percent: float | None = None
    """Share of the time in which some process of the pod waited for a CPU; None where the kernel does not tell."""


class NodeSample(Struct, frozen=True):
    """The use of the node in the last round of sampling."""

    at: Instant
    cpu_milli: float
    """CPUs of the whole machine, in milli-CPUs, over the last second."""

    memory_bytes: int
    """MemTotal less MemAvailable."""

    pods_at: Instant | None = None
    """Time of the last round that sampled pods; None before the second one, and then the fields below are empty."""

    pods: Mapping[Uid, PodSample] = {}
    """By the uid of the pod's object; a pod that could not be sampled has no entry."""

    system_cpu_milli: float | None = None
    """The node's CPUs less those of all pods, in the round of `pods_at`."""

    system_memory_bytes: int | None = None
