"""Prometheus metrics of colocation on the node."""

from prometheus_client import CollectorRegistry, Counter


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
