"""Prometheus metrics of colocation on the node."""

from prometheus_client import CollectorRegistry, Counter, Gauge


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
            "CPU time that sampling has cost: of the node, of its pods, or of its GPUs",
            ["of"],
            registry=registry,
        )
        self.unreadable_pods = Gauge(
            "dra_reserve_node_unreadable_pods",
            "Pods whose cgroups could not be read in the last round of sampling; the log has the reasons",
            registry=registry,
        )
