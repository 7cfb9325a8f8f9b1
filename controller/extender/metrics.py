"""The Prometheus metrics of the extender: durations of calls, outcomes of binds, reservations."""

from collections.abc import Iterator
from typing import Final

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from controller.leader_metrics import LISTENERS, LeaderMetrics
from dra.engine.scheduling.scheduler_cache import SchedulerCache
from dra.telemetry.metrics import (
    certificate_observer,
)

_COST_BUCKETS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)
OUTCOMES: Final = ("bound", "refused", "unknown", "failed")


class _ReservationCollector(Collector):
    def __init__(self, cache: SchedulerCache) -> None:
        self._cache = cache

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily("dra_reserve_reservations", "Reservations by phase", labels=["phase"])
        for phase, count in self._cache.count_by_phase().items():
            family.add_metric([phase], count)
        yield family


class ExtenderMetrics(LeaderMetrics):
    """All metrics of one extender, in a registry of their own."""

    def __init__(self, cache: SchedulerCache) -> None:
        super().__init__(leading="dra_reserve_extender_leading", acts="binds pods", listeners=("extender", *LISTENERS))
        self.registry.register(_ReservationCollector(cache))
        self.calls = Histogram(
            "dra_reserve_extender_call_seconds",
            "Seconds from a call of kube-scheduler to its response, by verb; each pod waits for filter and prioritize",
            ["verb"],
            buckets=_COST_BUCKETS,
            registry=self.registry,
        )
        self.binds = Counter(
            "dra_reserve_extender_binds",
            "Binds by outcome; unknown: capacity stays held until a read confirms the "
            "outcome; failed: a bug, see the log",
            ["outcome"],
            registry=self.registry,
        )
        self.in_flight = Gauge(
            "dra_reserve_extender_binds_under_way",
            "Binds in progress; while there are as many as turns, responses to filter wait",
            registry=self.registry,
        )
        self.binding_limit = Gauge(
            "dra_reserve_extender_turns",
            "Maximum number of binds in progress; decreases while the API server is slow",
            registry=self.registry,
        )
        self.unconfirmed = Gauge(
            "dra_reserve_extender_doubts",
            "Binds with an unknown outcome; their capacity stays held. More than a minute: "
            "the API server does not answer",
            registry=self.registry,
        )
        self.faults = Gauge(
            "dra_reserve_node_reservation_faults",
            "Nodes whose annotation node.koordinator.sh/reservation is malformed; the last valid value counts",
            registry=self.registry,
        )
        self.observe_certificates = certificate_observer(self.registry, "extender")
        for outcome in OUTCOMES:
            self.binds.labels(outcome)
