"""The status of a NodeMetric: what a node, its system and its pods use, on average over a window.

Nothing is reported before the samples of the node and of its system span half of the window, or once they have stopped:
the status keeps its old ``updateTime`` then, by which readers see that it is stale. A field without samples is absent,
never 0. A pod is reported once its samples span the time between two reports; before that, readers count its request.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from dra.api.durations import SECOND, format_duration
from dra.engine.instants import Instant
from dra.engine.suppression.decide import Suppression
from dra.engine.usage.history import GpuWindows, UsageHistory, UseWindows
from dra.engine.usage.kernel_files import CpuPressure
from dra.engine.usage.windows import Aggregate
from dra.model.meta import Struct, Uid

STALE_AFTER: Final = 30.0
"""Seconds without a sample after which nothing is reported: three rounds of pods."""

GPU_CORE: Final = "koordinator.sh/gpu-core"
GPU_MEMORY: Final = "koordinator.sh/gpu-memory"
GPU_MEMORY_RATIO: Final = "koordinator.sh/gpu-memory-ratio"


NOT_HELD_BACK: Final = Suppression()


class CollectPolicy(Struct, frozen=True):
    """``spec.metricCollectPolicy`` of a NodeMetric, with Koordinator's defaults."""

    aggregate_seconds: float = 300.0
    """The window of the averages."""

    report_seconds: float = 60.0
    """The time between two reports."""

    percentile_seconds: tuple[float, ...] = (300.0, 600.0, 1800.0)
    """The windows of the node's percentiles."""

    @property
    def longest_seconds(self) -> float:
        """The time for which samples of the node are needed."""
        return max(self.aggregate_seconds, *self.percentile_seconds, 0.0)


class ReportedPod(Struct, frozen=True):
    """A pod in a report, with its classes in Koordinator's words."""

    namespace: str
    name: str
    uid: Uid
    priority: str
    qos: str


def make_report(
    history: UsageHistory,
    pods: Iterable[ReportedPod],
    policy: CollectPolicy,
    *,
    now: Instant,
    update_time: str,
    suppression: Suppression = NOT_HELD_BACK,
) -> dict[str, Any] | None:
    """Return the status of a NodeMetric; None while there is too little to report."""
    window = policy.aggregate_seconds
    node, system = (_averages(use, window, now=now) for use in (history.node, history.system))
    if node is None or system is None:
        return None
    # None takes the field out: a merge patch keeps what it does not name.
    node_usage = {"resources": node, "devices": None} | _devices(history.gpus, window, now=now)
    return {
        "updateTime": update_time,
        "nodeMetric": {
            "nodeUsage": node_usage,
            "systemUsage": {"resources": system},
            "aggregatedNodeUsages": _percentiles(history.node, policy.percentile_seconds, now=now),
        },
        "podsMetric": _pod_metrics(history, sorted(pods, key=_name), policy, now=now),
        "suppression": _suppression(suppression),
    }


def _suppression(suppression: Suppression) -> dict[str, Any] | None:
    """Return the field ``suppression``: how far batch pods are held back; None, which removes it, if they are not."""
    if suppression.policy is None or suppression.budget_milli is None:
        return None
    return {
        "policy": suppression.policy.value,
        "cpu": f"{suppression.budget_milli}m",
        "atFloor": suppression.at_floor,
    }


def _name(pod: ReportedPod) -> tuple[str, str, Uid]:
    return pod.namespace, pod.name, pod.uid


def _averages(use: UseWindows, window: float, *, now: Instant) -> dict[str, str] | None:
    cpu, memory = (samples.aggregate(window, now=now) for samples in (use.cpu_milli, use.memory_bytes))
    stopped = use.cpu_milli.age(now=now) > STALE_AFTER
    return None if cpu is None or memory is None or stopped else _resources(cpu.avg, memory.avg)


def _percentiles(use: UseWindows, windows: Sequence[float], *, now: Instant) -> list[dict[str, Any]]:
    reported = []
    for window in windows:
        cpu, memory = use.cpu_milli.aggregate(window, now=now), use.memory_bytes.aggregate(window, now=now)
        if cpu is not None and memory is not None:
            usage = {name: {"resources": _resources(getattr(cpu, name), getattr(memory, name))} for name in _NAMES}
            reported.append({"usage": usage, "duration": format_duration(round(window * SECOND))})
    return reported


def _pod_metrics(
    history: UsageHistory, pods: Iterable[ReportedPod], policy: CollectPolicy, *, now: Instant
) -> list[dict[str, Any]]:
    window = policy.aggregate_seconds
    enough = min(policy.report_seconds, window / 2)
    reported = []
    for pod in pods:
        samples = history.pods.get(pod.uid)
        if samples is None or samples.windows.cpu_milli.span(window, now=now) < enough:
            continue
        cpu = samples.windows.cpu_milli.average(window, now=now)
        memory = samples.windows.memory_bytes.average(window, now=now)
        if cpu is not None and memory is not None and samples.windows.cpu_milli.age(now=now) <= STALE_AFTER:
            usage = {"resources": _resources(cpu, memory)} | _devices(samples.gpus, window, now=now)
            reported.append(_identity(pod) | {"podUsage": usage} | _pressure(samples.pressure))
    return reported


def _identity(pod: ReportedPod) -> dict[str, Any]:
    classes = {"priority": pod.priority, "qos": pod.qos}
    identity = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
    return identity | {key: text for key, text in classes.items() if text}


def _pressure(pressure: CpuPressure | None) -> dict[str, Any]:
    """Return the field ``psi`` in the form of the kubelet's summary; empty where the kernel does not tell."""
    if pressure is None:
        return {}
    some = {
        "avg10": pressure.avg10_percent,
        "avg60": pressure.avg60_percent,
        "avg300": pressure.avg300_percent,
        "total": pressure.total_micros,
    }
    return {"psi": {"cpu": {"some": some}}}


def _devices(gpus: Mapping[str, GpuWindows], window: float, *, now: Instant) -> dict[str, Any]:
    """Return the field ``devices`` with the GPUs; empty if there are none."""
    devices = []
    for uuid, gpu in sorted(gpus.items()):
        percent = gpu.utilization_percent.average(window, now=now)
        memory = gpu.memory_bytes.average(window, now=now)
        resources = {} if percent is None else {GPU_CORE: str(round(percent))}
        if memory is not None:
            resources[GPU_MEMORY] = str(round(memory))
            if gpu.memory_total_bytes:
                resources[GPU_MEMORY_RATIO] = str(round(100 * memory / gpu.memory_total_bytes))
        minor = {} if gpu.minor is None else {"minor": gpu.minor}
        devices.append({"type": "gpu", "id": uuid, **minor, "resources": resources})
    return {"devices": devices} if devices else {}


def _resources(cpu_milli: float, memory_bytes: float) -> dict[str, str]:
    """Return a ResourceList: CPUs in milli-CPUs, memory in bytes."""
    return {"cpu": f"{round(cpu_milli)}m", "memory": str(round(memory_bytes))}


_NAMES: Final = Aggregate.__struct_fields__
