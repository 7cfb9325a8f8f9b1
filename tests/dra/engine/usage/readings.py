"""Readings of nodes and pods, in round numbers."""

from dra.engine.usage.kernel_files import CpuPressure, CpuTicks, NodeMemory
from dra.engine.usage.samples import NodeReading, PodReading, Round

GIB = 2**30
MILLISECOND = 10**6
"""Nanoseconds of CPU time: one a second is one milli-CPU."""


def ticks(*, user=0, nice=0, system=0, irq=0, softirq=0):
    return CpuTicks(user=user, nice=nice, system=system, irq=irq, softirq=softirq)


def node(at, *, busy, used_bytes=GIB):
    """A node that has used so many hundredths of a second of CPU time."""
    memory = NodeMemory(total_bytes=16 * GIB, available_bytes=16 * GIB - used_bytes)
    return NodeReading(at=float(at), ticks=ticks(user=busy), memory=memory)


def pressure(total_micros):
    return CpuPressure(avg10_percent=1.0, avg60_percent=2.0, avg300_percent=3.0, total_micros=total_micros)


def pod(at, *, millis, memory_bytes=0, **rest):
    """A pod that has used so many thousandths of a second of CPU time."""
    return PodReading(at=float(at), cpu_nanos=millis * MILLISECOND, memory_bytes=memory_bytes, **rest)


def round_at(at, *, node_milli, used_bytes=GIB, pods=None, others=None, all_pods=None, since=0.0):
    """A round of a node that has used CPUs evenly; pods have used so many milli-CPUs since `since`."""
    seconds = at - since

    def read(millis):
        return {uid: pod(at, millis=round(milli * seconds), memory_bytes=GIB // 4) for uid, milli in millis.items()}

    return Round(
        node=node(at, busy=round(node_milli * at / 10), used_bytes=used_bytes),
        pods=read(pods or {}),
        others=read(others or {}),
        kubepods_cpu_nanos=None if all_pods is None else round(all_pods * seconds) * MILLISECOND,
    )
