"""The Prometheus metrics of the descheduler: migrations by phase, outcomes, durations, evictions."""

from collections.abc import Iterator
from typing import Final

from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from controller.descheduling.metrics import RoundMetrics
from controller.leader_metrics import LeaderMetrics
from dra.engine.migration.job_cache import JobCache

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


class DeschedulerMetrics(LeaderMetrics):
    """All metrics of one descheduler, in a registry of their own."""

    def __init__(self, jobs: JobCache) -> None:
        super().__init__(leading="dra_reserve_descheduler_leading", acts="migrates pods")
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
