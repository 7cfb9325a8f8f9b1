"""Prometheus metrics of colocation on the node. No label names a pod: the NodeMetric has the use of each pod."""

from collections.abc import Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from dra.engine.usage.samples import GpuReading, NodeSample
from dra.model.koordinator_classes import QosClass
from dra.model.meta import Uid

SAMPLED: Final = ("node", "pods", "gpus")
"""Values of the label ``sampled``."""

QOS_CLASSES: Final = tuple(qos.name for qos in QosClass)
"""Values of the label ``qos``."""

_MILLI: Final = 1000
_PERCENT: Final = 100


class ColocationMetrics:
    """The metrics of one agent, in the registry of its plugin."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.failures = Counter(
            "dra_reserve_node_part_failures",
            "Steps of a part of colocation on the node that failed and were tried again a second later",
            ["part"],
            registry=registry,
        )
        self.sampling_seconds = Counter(
            "dra_reserve_node_sampling_cpu_seconds",
            "CPU time in seconds that sampling has cost",
            ["sampled"],
            registry=registry,
        )
        self.unsampled_pods = Gauge(
            "dra_reserve_node_unsampled_pods",
            "Running pods of the node without samples, since their cgroups are unknown or unreadable; the log has the "
            "reasons",
            registry=registry,
        )
        self.reported = Gauge(
            "dra_reserve_node_metric_reported_timestamp_seconds",
            "Unix time of the last report in the NodeMetric; 0 if there was none since the start",
            registry=registry,
        )
        self._node_cpu = Gauge("dra_reserve_node_used_cpus", "CPUs in use on the node", registry=registry)
        self._node_memory = Gauge(
            "dra_reserve_node_used_memory_bytes", "Memory of the node that no process could get", registry=registry
        )
        self._system_cpu = Gauge(
            "dra_reserve_node_system_used_cpus",
            "CPUs in use on the node by other processes than pods",
            registry=registry,
        )
        self._system_memory = Gauge(
            "dra_reserve_node_system_used_memory_bytes",
            "Memory of the node in use by other processes than pods",
            registry=registry,
        )
        self._pods_cpu = Gauge(
            "dra_reserve_node_pods_used_cpus", "CPUs in use by the pods of a QoS class", ["qos"], registry=registry
        )
        self._pods_memory = Gauge(
            "dra_reserve_node_pods_used_memory_bytes",
            "Working set of the pods of a QoS class",
            ["qos"],
            registry=registry,
        )
        self._pressure = Gauge(
            "dra_reserve_node_pods_cpu_pressure_ratio",
            "Share of the time in which some process of a pod waited for a CPU: the highest of the pods of a QoS class",
            ["qos"],
            registry=registry,
        )
        self._gpu_utilization = Gauge(
            "dra_reserve_gpu_utilization_ratio", "Share of the time in which a GPU worked", ["gpu"], registry=registry
        )
        self._gpu_memory = Gauge(
            "dra_reserve_gpu_used_memory_bytes", "Memory of a GPU in use", ["gpu"], registry=registry
        )
        self._gpu_pods_utilization = Gauge(
            "dra_reserve_gpu_pods_utilization_ratio",
            "Share of the time in which a GPU worked for the pods of a QoS class",
            ["gpu", "qos"],
            registry=registry,
        )
        self._gpu_pods_memory = Gauge(
            "dra_reserve_gpu_pods_used_memory_bytes",
            "Memory of a GPU in use by the pods of a QoS class",
            ["gpu", "qos"],
            registry=registry,
        )

    def observe_sample(self, sample: NodeSample, qos_of: dict[Uid, QosClass]) -> None:
        """Set the gauges of the node and of its classes of pods."""
        self._node_cpu.set(sample.cpu_milli / _MILLI)
        self._node_memory.set(sample.memory_bytes)
        if sample.system_cpu_milli is not None:
            self._system_cpu.set(sample.system_cpu_milli / _MILLI)
        if sample.system_memory_bytes is not None:
            self._system_memory.set(sample.system_memory_bytes)
        self._pressure.clear()
        for qos in QosClass:
            pods = [pod for uid, pod in sample.pods.items() if qos_of.get(uid, QosClass.NONE) is qos]
            self._pods_cpu.labels(qos.name).set(sum(pod.cpu_milli for pod in pods) / _MILLI)
            self._pods_memory.labels(qos.name).set(sum(pod.memory_bytes for pod in pods))
            pressures = [pod.cpu_pressure_percent for pod in pods if pod.cpu_pressure_percent is not None]
            if pressures:
                self._pressure.labels(qos.name).set(max(pressures) / _PERCENT)

    def observe_gpus(self, readings: Iterable[GpuReading], qos_of: dict[Uid, QosClass]) -> None:
        """Set the gauges of GPUs; those of GPUs that are gone vanish."""
        for gauge in (self._gpu_utilization, self._gpu_memory, self._gpu_pods_utilization, self._gpu_pods_memory):
            gauge.clear()
        for gpu in readings:
            if gpu.utilization_percent is not None:
                self._gpu_utilization.labels(gpu.uuid).set(gpu.utilization_percent / _PERCENT)
            self._gpu_memory.labels(gpu.uuid).set(gpu.memory_used_bytes)
            for uid, use in gpu.pods.items():
                labels = (gpu.uuid, qos_of.get(uid, QosClass.NONE).name)
                self._gpu_pods_memory.labels(*labels).inc(use.memory_bytes)
                if use.utilization_percent is not None:
                    self._gpu_pods_utilization.labels(*labels).inc(use.utilization_percent / _PERCENT)
