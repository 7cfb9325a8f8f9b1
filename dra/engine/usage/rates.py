"""Counters of CPU time become rates.

A counter that is less than before was set back: the cgroup was created anew, somebody wrote 0 into it, or a CPU was
unplugged. What was used between the two readings is unknown then, so there is no rate for this time; 0 would be a lie,
and so would the whole new counter.
"""

from typing import Final

from dra.engine.instants import Instant
from dra.engine.usage.kernel_files import NANOS_PER_TICK, CpuTicks
from dra.model.meta import Struct

NANOS_PER_MILLI: Final = 10**6
"""Nanoseconds of CPU time per second that are one milli-CPU."""


class CpuReading(Struct, frozen=True):
    """A counter of CPU time, and when it was read."""

    at: Instant
    nanos: int


class NodeCpuReading(Struct, frozen=True):
    """The times of all CPUs, and when they were read."""

    at: Instant
    ticks: CpuTicks


def cpu_milli(before: CpuReading, after: CpuReading) -> float | None:
    """Return the milli-CPUs used between two readings; None if the counter was set back or no time has passed."""
    return rate_milli(nanos=after.nanos - before.nanos, seconds=after.at - before.at)


def rate_milli(*, nanos: int, seconds: float) -> float | None:
    """Return the milli-CPUs that so much CPU time is in so many seconds; None if either is no progress."""
    return nanos / seconds / NANOS_PER_MILLI if seconds > 0 and nanos >= 0 else None


def node_cpu_milli(before: NodeCpuReading, after: NodeCpuReading) -> float | None:
    """Return the milli-CPUs that a node used between two readings; None if a time stepped back."""
    if not before.ticks.is_before(after.ticks):
        return None
    return cpu_milli(
        CpuReading(at=before.at, nanos=before.ticks.busy * NANOS_PER_TICK),
        CpuReading(at=after.at, nanos=after.ticks.busy * NANOS_PER_TICK),
    )
