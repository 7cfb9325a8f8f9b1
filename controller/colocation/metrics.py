"""The metrics of colocation in the controller: closed label sets, no names of nodes."""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dra.api.colocation.well_known import KEY_COLOCATION, KEY_QOS, KEY_THRESHOLD
from dra.engine.colocation.batch_resources import ZeroReason
from dra.engine.colocation.held_batch import BatchAmounts
from dra.engine.colocation.reasons import ColocationReason

_KEYS = (KEY_COLOCATION, KEY_THRESHOLD, KEY_QOS)


class BatchCollector(Collector):
    """A collector of what nodes offer to batch pods, and of the nodes for which nothing is computed."""

    def __init__(self, totals: Callable[[], tuple[BatchAmounts, Mapping[ZeroReason, int]]]) -> None:
        self._totals = totals

    def collect(self) -> Iterator[Metric]:
        """Add up all nodes at each scrape."""
        amounts, zero = self._totals()
        yield GaugeMetricFamily(
            "dra_reserve_batch_cpu_cores", "CPUs that nodes offer to batch pods, all together", value=amounts.cpu / 1000
        )
        yield GaugeMetricFamily(
            "dra_reserve_batch_memory_bytes",
            "Memory that nodes offer to batch pods, all together",
            value=amounts.memory,
        )
        nodes = GaugeMetricFamily(
            "dra_reserve_batch_nodes_degraded",
            "Nodes that offer batch pods no more than these hold, by reason",
            labels=["reason"],
        )
        for reason, number in zero.items():
            nodes.add_metric([reason.value], number)
        yield nodes


class ColocationMetrics:
    """The metrics of the loops of colocation."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Create the metrics in the registry of the controller."""
        self._registry = registry
        self.writes = Counter("dra_reserve_batch_writes", "Writes of the batch resources of nodes", registry=registry)
        self.states = Counter(
            "dra_reserve_colocation_reasons",
            "States of nodes and of the ConfigMap slo-controller-config that were reported in Events, by reason",
            ["reason"],
            registry=registry,
        )
        self.config_errors = Gauge(
            "dra_reserve_slo_config_errors",
            "Errors in the ConfigMap slo-controller-config, by key; a key with errors keeps its last valid content",
            ["key"],
            registry=registry,
        )
        for reason in ColocationReason:
            self.states.labels(reason.value)
        for key in _KEYS:
            self.config_errors.labels(key)

    def count_nodes(self, totals: Callable[[], tuple[BatchAmounts, Mapping[ZeroReason, int]]]) -> None:
        """Export what nodes offer at each scrape."""
        self._registry.register(BatchCollector(totals))
