"""Limits of workloads as numbers of pods; the vectors are 2 and 3 of issue 19."""

import pytest

from dra.engine.migration.limits import EvictionPace, workload_limit
from dra.engine.migration.pod_index import is_unavailable
from tests.dra.engine.migration.examples import pod
from tests.violations import for_each_case


@for_each_case(
    [
        pytest.param(6, "80%", 4, id="2-percent-rounds-down"),
        pytest.param(6, "150%", 6, id="2-at-most-all"),
        pytest.param(6, 5, 5, id="2-number"),
        pytest.param(6, 7, 6, id="2-number-above-replicas"),
        pytest.param(6, None, 2, id="2-none-given"),
        pytest.param(50, "0%", 1, id="2-at-least-one"),
        *(
            pytest.param(replicas, None, wanted, id=f"3-none-given-for-{replicas}")
            for replicas, wanted in ((1, 1), (2, 1), (3, 1), (4, 2), (10, 2), (11, 1), (19, 1), (20, 2), (100, 10))
        ),
        pytest.param(0, None, 1, id="no-replicas"),
    ],
)
def test_a_limit_as_a_number_of_pods(replicas, given, wanted):
    assert workload_limit(replicas, given) == wanted


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        pytest.param(pod("a"), False, id="ready"),
        pytest.param(pod("a", ready=False), True, id="not-ready"),
        pytest.param(pod("a", metadata={"deletionTimestamp": "2026-11-24T12:00:00Z"}), True, id="terminating"),
        pytest.param(pod("a", status={"phase": "Succeeded"}), True, id="ended"),
    ],
)
def test_unavailable_pods(found, wanted):
    assert is_unavailable(found) is wanted


@pytest.mark.parametrize(
    ("qps", "burst", "now", "turns"),
    [
        pytest.param(1.0, 1, [0.0, 0.0, 0.0], [0.0, 1.0, 2.0], id="one-a-second"),
        pytest.param(1.0, 2, [0.0, 0.0, 0.0], [0.0, 0.0, 1.0], id="two-at-once"),
        pytest.param(1.0, 1, [0.0, 5.0, 5.0], [0.0, 5.0, 6.0], id="unused-time-is-lost"),
        pytest.param(0.1, 1, [0.0, 1.0], [0.0, 10.0], id="slow"),
    ],
)
def test_turns_of_evictions(qps, burst, now, turns):
    pace = EvictionPace(qps, burst)
    assert [pace.next_turn(each) for each in now] == turns
