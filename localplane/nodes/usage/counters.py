"""The counters that the kernel of an emulated node would have, advanced by what the node uses.

The engine that reads real counters (`dra.engine.usage`) reads these as well, so a plane reports by the same rules:
rates, windows, and a system that has used what no pod has. Pure; the caller passes the time.
"""

from collections.abc import Mapping
from math import floor
from typing import Final

from dra.engine.instants import Instant
from dra.engine.usage.kernel_files import NANOS_PER_TICK, CpuTicks, NodeMemory
from dra.engine.usage.samples import NodeReading, PodReading, Round
from dra.model.meta import Uid
from localplane.nodes.usage.contention import NodeUsage

_NANOS_PER_MILLI_SECOND: Final = 10**6
"""Nanoseconds of CPU time that one milli-CPU is in a second."""


class EmulatedCounters:
    """The counters of one node and its pods since the plane's start."""

    def __init__(self, *, memory: int, at: Instant) -> None:
        """Begin to count; ``memory`` is that of the machine, in bytes."""
        self._memory = memory
        self._began_at = at
        self._at = at
        self._busy_nanos = 0
        self._kubepods_nanos = 0
        """Those of all pods, also of pods that have ended."""

        self._pod_nanos: dict[Uid, int] = {}

    def advance(self, usage: NodeUsage, *, now: Instant) -> Round:
        """Count what was used since the last call, and return the counters of now, without those of ended pods."""
        # Whole seconds: the kernel's hundredths would show as a milli-CPU more or less of the system.
        seconds = max(floor(now - self._began_at) - round(self._at - self._began_at), 0)
        self._at += seconds
        spent = {uid: _nanos(used.cpu, seconds) for uid, used in usage.pods.items()}
        self._pod_nanos = {uid: self._pod_nanos.get(uid, 0) + nanos for uid, nanos in spent.items()}
        self._kubepods_nanos += sum(spent.values())
        self._busy_nanos += sum(spent.values()) + _nanos(usage.system.cpu, seconds)
        return Round(
            node=self._node_reading(usage),
            pods=self._pod_readings(usage),
            kubepods_cpu_nanos=self._kubepods_nanos,
        )

    def _node_reading(self, usage: NodeUsage) -> NodeReading:
        ticks = CpuTicks(user=self._busy_nanos // NANOS_PER_TICK, nice=0, system=0, irq=0, softirq=0)
        available = max(self._memory - usage.total.memory, 0)
        return NodeReading(
            at=self._at, ticks=ticks, memory=NodeMemory(total_bytes=self._memory, available_bytes=available)
        )

    def _pod_readings(self, usage: NodeUsage) -> Mapping[Uid, PodReading]:
        return {
            uid: PodReading(at=self._at, cpu_nanos=self._pod_nanos[uid], memory_bytes=used.memory)
            for uid, used in usage.pods.items()
        }


def _nanos(milli: int, seconds: int) -> int:
    return milli * seconds * _NANOS_PER_MILLI_SECOND
