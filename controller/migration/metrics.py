"""The Prometheus metrics of the descheduler: migrations by phase, outcomes, durations, evictions."""

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from controller.descheduling.metrics import RoundMetrics
from dra.engine.migration.job_cache import JobCache
from dra.kube.large_objects import LargeObjects
from dra.telemetry.metrics import (
    count_large_objects,
    decision_failures_counter,
    discarded_events_counter,
    dropped_connections_observer,
    render_metrics,
    request_observer,
)

_BUCKETS: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
_PENDING: Final = "Pending"


class _JobCollector(Collector):
    def __init__(self, jobs: JobCache) -> None:
        self._jobs = jobs

    def collect(self) -> Iterator[Metric]:
        jobs = GaugeMetricFamily(
            "dra_reserve_descheduler_migration_jobs",
            "PodMigrationJobs by phase, and by the reason of the present step or of the failure",
            labels=["phase", "reason"],
        )
        waiting = GaugeMetricFamily(
            "dra_reserve_descheduler_migration_waiting",
            "PodMigrationJobs that wait for arbitration, by the limit or the budget that they wait for",
            labels=["reason"],
        )
        for (phase, reason), count in sorted(self._jobs.count_by_phase().items()):
            jobs.add_metric([phase, reason], count)
            if phase == _PENDING and reason:
                waiting.add_metric([reason], count)
        yield jobs
        yield waiting
        yield GaugeMetricFamily(
            "dra_reserve_descheduler_approvals_waiting",
            "Unfinished PodMigrationJobs that wait for the approval of a person",
            value=self._jobs.count_waiting_for_approval(),
        )


class DeschedulerMetrics:
    """All metrics of one descheduler, in a registry of their own."""

    def __init__(self, jobs: JobCache) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_JobCollector(jobs))
        self.migrations = Counter(
            "dra_reserve_descheduler_migrations",
            "PodMigrationJobs that ended, by outcome and by the reason of a failure",
            ["outcome", "reason"],
            registry=self.registry,
        )
        self.migration_seconds = Histogram(
            "dra_reserve_descheduler_migration_seconds",
            "Seconds from the creation of a PodMigrationJob to its success",
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.evictions = Counter(
            "dra_reserve_descheduler_evictions",
            "Requests that end a pod, by policy and outcome; refused: by a PodDisruptionBudget or a missing permission",
            ["policy", "outcome"],
            registry=self.registry,
        )
        self.arbitration_seconds = Histogram(
            "dra_reserve_descheduler_arbitration_seconds",
            "Seconds of computation for one arbitration of all waiting PodMigrationJobs",
            buckets=(0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 5.0),
            registry=self.registry,
        )
        self.rounds = RoundMetrics(self.registry)
        self.leading = Gauge(
            "dra_reserve_descheduler_leading",
            "1 if this replica migrates pods; the sum over all replicas should be 1",
            registry=self.registry,
        )
        self.failures = decision_failures_counter(self.registry)
        self.request = request_observer(self.registry)
        self.large_objects = LargeObjects()
        count_large_objects(self.registry, kept_bytes=self.large_objects.kept_bytes, refused=self.large_objects.refused)
        self.events_discarded = discarded_events_counter(self.registry)
        self.dropped = dropped_connections_observer(self.registry, "probes", "metrics")

    def render(self) -> bytes:
        """Return all metrics in the text format."""
        return render_metrics(self.registry)
