from datetime import UTC, datetime, timedelta

import pytest

from dra.model.meta import ObjectMeta
from localplane.controller_manager.api_types import Condition, Pod, PodStatus
from localplane.controller_manager.disruption.decision import DELETION_TIMEOUT, count_disruptions
from tests.violations import for_each_case

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _pod(name: str, *, ready: bool = True, deleted: bool = False) -> Pod:
    meta = ObjectMeta(name=name, namespace="default", deletion_timestamp="2026-01-01T00:00:00Z" if deleted else None)
    condition = Condition(type="Ready", status="True" if ready else "False")
    return Pod(metadata=meta, status=PodStatus(phase="Running", conditions=[condition]))


THREE = (_pod("a"), _pod("b"), _pod("c"))


@for_each_case(
    [
        pytest.param(THREE, 2, None, 0, (3, 3, 2, 1), id="minAvailable counts the pods, not the scale"),
        pytest.param(THREE, "50%", None, 3, (3, 3, 2, 1), id="a percentage is rounded up"),
        pytest.param(THREE, None, 1, 4, (4, 3, 3, 0), id="maxUnavailable counts a pod that is missing"),
        pytest.param(THREE, None, "50%", 3, (3, 3, 1, 2), id="maxUnavailable is rounded up too"),
        pytest.param(THREE, None, 5, 3, (3, 3, 0, 3), id="more unavailable than pods"),
        pytest.param((), 0, None, 0, (0, 0, 0, 0), id="no pods"),
        pytest.param((_pod("a"), _pod("b", ready=False)), 1, None, 0, (2, 1, 1, 0), id="a pod that is not ready"),
        pytest.param((_pod("a"), _pod("b", deleted=True)), 1, None, 0, (2, 1, 1, 0), id="a pod that is deleted"),
    ]
)
def test_counts_follow_the_budget(pods, min_available, max_unavailable, scale, expected) -> None:
    counts = count_disruptions(
        pods,
        min_available=min_available,
        max_unavailable=max_unavailable,
        scale=scale,
        disrupted_pods={},
        now=NOW,
    )
    found = (counts.expected_pods, counts.current_healthy, counts.desired_healthy, counts.disruptions_allowed)
    assert found == expected


@pytest.mark.parametrize(
    ("name", "age", "healthy"),
    [
        pytest.param("a", DELETION_TIMEOUT - timedelta(seconds=1), 2, id="evicted a moment ago"),
        pytest.param("a", DELETION_TIMEOUT + timedelta(seconds=1), 3, id="never deleted"),
        pytest.param("gone", timedelta(0), 3, id="gone"),
    ],
)
def test_an_evicted_pod_is_not_healthy_until_the_timeout(name, age, healthy) -> None:
    at = NOW - age
    counts = count_disruptions(
        THREE, min_available=1, max_unavailable=None, scale=3, disrupted_pods={name: at}, now=NOW
    )
    assert counts.current_healthy == healthy
    assert counts.disrupted_pods == ({"a": at} if healthy == 2 else {})
    assert counts.recheck_at == (at + DELETION_TIMEOUT if healthy == 2 else None)
