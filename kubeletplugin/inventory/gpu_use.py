"""The interface for what GPUs do at the moment: their utilization, their memory, and the processes on them."""

from typing import Protocol, runtime_checkable

from dra.model.meta import Struct


class GpuProcess(Struct, frozen=True):
    """The share of a GPU that one process uses."""

    pid: int
    """The process id in the pid namespace of the host."""

    memory_bytes: int
    utilization_percent: float | None = None
    """Share of the time in which the GPU worked for the process; None if unknown."""


class GpuUse(Struct, frozen=True):
    """The load of a GPU at one moment."""

    uuid: str
    minor: int | None
    memory_used_bytes: int
    memory_total_bytes: int
    utilization_percent: float | None = None
    """Share of the time in which the GPU worked; None if unknown, as for a GPU that is partitioned (MIG)."""

    processes: tuple[GpuProcess, ...] = ()


@runtime_checkable
class GpuUseSource(Protocol):
    """An inventory of GPUs, or a driver with one, that knows what the GPUs do."""

    def read_use(self) -> tuple[GpuUse, ...]:
        """Return what each GPU does; GPUs that do not answer are left out. May take seconds."""
        ...
