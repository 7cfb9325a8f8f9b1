from collections import Counter
from types import SimpleNamespace

import pytest

from controller.migration.metrics import DeschedulerMetrics

COUNTS = Counter(
    {
        ("Pending", "MaxMigratingPerNode"): 2,
        ("Pending", ""): 1,
        ("Running", "Evicting"): 3,
        ("Failed", "Timeout"): 4,
        ("Succeeded", ""): 5,
    }
)


@pytest.fixture
def rendered():
    metrics = DeschedulerMetrics(SimpleNamespace(count_by_phase=lambda: COUNTS, count_waiting_for_approval=lambda: 2))
    metrics.request("PATCH", "pods", 200, 0.1)
    metrics.evictions.labels("Eviction", "granted").inc()
    metrics.migrations.labels("Failed", "Timeout").inc()
    metrics.leading.set(1)
    metrics.events_discarded.inc()
    return metrics.render().decode().splitlines()


@pytest.mark.parametrize(
    "line",
    [
        'dra_reserve_descheduler_migration_jobs{phase="Pending",reason="MaxMigratingPerNode"} 2.0',
        'dra_reserve_descheduler_migration_jobs{phase="Pending",reason=""} 1.0',
        'dra_reserve_descheduler_migration_jobs{phase="Running",reason="Evicting"} 3.0',
        'dra_reserve_descheduler_migration_jobs{phase="Failed",reason="Timeout"} 4.0',
        'dra_reserve_descheduler_migration_jobs{phase="Succeeded",reason=""} 5.0',
        'dra_reserve_descheduler_migration_waiting{reason="MaxMigratingPerNode"} 2.0',
        'dra_reserve_descheduler_migrations_total{outcome="Failed",reason="Timeout"} 1.0',
        'dra_reserve_descheduler_evictions_total{outcome="granted",policy="Eviction"} 1.0',
        "dra_reserve_descheduler_leading 1.0",
        "dra_reserve_descheduler_approvals_waiting 2.0",
        'dra_reserve_api_requests_total{code="200",method="PATCH",resource="pods"} 1.0',
        "dra_reserve_events_discarded_total 1.0",
    ],
)
def test_each_metric_has_its_line(rendered, line):
    assert line in rendered


def test_only_jobs_that_wait_count_as_waiting(rendered):
    assert sum(line.startswith("dra_reserve_descheduler_migration_waiting{") for line in rendered) == 1
