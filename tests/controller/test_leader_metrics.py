"""What the metrics of processes have in common."""

import pytest

from controller.colocation.profiles_metrics import ProfilesMetrics
from controller.extender.metrics import ExtenderMetrics
from controller.leader_metrics import LeaderMetrics
from controller.metrics import ControllerMetrics
from controller.migration.metrics import DeschedulerMetrics
from dra.engine.migration.job_cache import JobCache
from dra.engine.scheduling.scheduler_cache import SchedulerCache


@pytest.mark.parametrize(
    ("metrics", "leading"),
    [
        pytest.param(ControllerMetrics(), "dra_reserve_leading", id="controller"),
        pytest.param(ExtenderMetrics(SchedulerCache()), "dra_reserve_extender_leading", id="extender"),
        pytest.param(DeschedulerMetrics(JobCache()), "dra_reserve_descheduler_leading", id="descheduler"),
        pytest.param(ProfilesMetrics(), "dra_reserve_profiles_leading", id="profiles"),
    ],
)
def test_each_process_says_whether_it_leads_and_counts_what_all_do(metrics: LeaderMetrics, leading: str) -> None:
    metrics.leading.set(1)
    metrics.request("GET", "pods", 200, 0.1)
    text = metrics.render().decode()
    assert f"{leading} 1.0" in text
    assert 'dra_reserve_api_requests_total{code="200",method="GET",resource="pods"} 1.0' in text
    assert "dra_reserve_decision_failures_total 0.0" in text
    assert "# TYPE dra_reserve_connections_dropped_total counter" in text
