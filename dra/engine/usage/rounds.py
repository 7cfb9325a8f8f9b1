"""Computes what each pod and the system used between two rounds of reading.

The system's use is the node's less that of all pods, subtracted here, in the round in which both were read. A
subtraction in the cluster would take the pods of now from the use of minutes ago: a pod that has just ended would turn
into load of the system (koordinator#991).

Within a round the same trap is smaller: a pod that ends before it is read has used CPUs of the node, and is not there.
The counter of the cgroup of all pods keeps what ended pods have used, so it says what all pods together used. Cgroups
of pods that the API server does not know are taken from it: that load is nobody's request, so it is the system's.
"""

from collections.abc import Container, Mapping
from typing import Final, TypeVar

from dra.engine.usage.rates import CpuReading, NodeCpuReading, cpu_milli, node_cpu_milli, rate_milli
from dra.engine.usage.samples import NodeReading, PodReading, PodSample, Round
from dra.model.meta import Struct, Uid

K = TypeVar("K", bound=str)

MICROS_PER_PERCENT_SECOND: Final = 10_000
"""Microseconds of waiting in each second that are one percent."""


class RoundUse(Struct, frozen=True):
    """The use of CPUs and memory between two rounds."""

    pods: Mapping[Uid, PodSample]
    """Without pods that were not read in both rounds, and pods whose counter was set back."""

    others: Mapping[str, PodSample]
    """Likewise, of cgroups that belong to no pod of the API server."""

    system_cpu_milli: float | None
    """At least 0; None if the node's use is not known."""

    system_memory_bytes: int
    """The node's memory less that of all pods at the second round; at least 0."""


def use_between(before: Round, after: Round, *, without: Container[str] = frozenset()) -> RoundUse:
    """Return what was used between two rounds; pods `without` a continuous counter have no sample."""
    pods = _samples(before.pods, after.pods, without=without)
    others = _samples(before.others, after.others, without=without)
    return RoundUse(
        pods=pods,
        others=others,
        system_cpu_milli=_system_cpu_milli(before, after, pods=pods, others=others),
        system_memory_bytes=system_memory_bytes(after),
    )


def system_memory_bytes(this: Round) -> int:
    """Return the node's memory less that of all pods, at least 0."""
    return max(0, this.node.memory.used_bytes - sum(pod.memory_bytes for pod in this.pods.values()))


def _samples(
    before: Mapping[K, PodReading], after: Mapping[K, PodReading], *, without: Container[str]
) -> dict[K, PodSample]:
    samples: dict[K, PodSample] = {}
    for uid, reading in after.items():
        earlier = before.get(uid)
        if earlier is None or reading.renewed or uid in without:
            continue
        milli = rate_milli(nanos=reading.cpu_nanos - earlier.cpu_nanos, seconds=reading.at - earlier.at)
        if milli is not None:
            samples[uid] = PodSample(
                cpu_milli=milli,
                memory_bytes=reading.memory_bytes,
                cpu_pressure_percent=_pressure_percent(earlier, reading),
            )
    return samples


def _system_cpu_milli(
    before: Round, after: Round, *, pods: Mapping[Uid, PodSample], others: Mapping[str, PodSample]
) -> float | None:
    node = node_use(before.node, after.node)
    if node is None:
        return None
    used = sum(sample.cpu_milli for sample in pods.values())
    if before.kubepods_cpu_nanos is not None and after.kubepods_cpu_nanos is not None:
        all_pods = cpu_milli(
            CpuReading(at=before.node.at, nanos=before.kubepods_cpu_nanos),
            CpuReading(at=after.node.at, nanos=after.kubepods_cpu_nanos),
        )
        used = max(used, (all_pods or 0.0) - sum(sample.cpu_milli for sample in others.values()))
    return max(0.0, node - used)


def node_use(before: NodeReading, after: NodeReading) -> float | None:
    """Return the milli-CPUs that a node used between two readings; None if a counter stepped back."""
    return node_cpu_milli(
        NodeCpuReading(at=before.at, ticks=before.ticks), NodeCpuReading(at=after.at, ticks=after.ticks)
    )


def _pressure_percent(before: PodReading, after: PodReading) -> float | None:
    if before.pressure is None or after.pressure is None:
        return None
    micros = after.pressure.total_micros - before.pressure.total_micros
    return micros / (after.at - before.at) / MICROS_PER_PERCENT_SECOND if micros >= 0 else None
