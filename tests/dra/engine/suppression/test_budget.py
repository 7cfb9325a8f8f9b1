"""The CPUs that the class BestEffort may use."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.engine.suppression.budget import PodCpuUse, best_effort_budget, floor_budget

USES = st.lists(st.builds(PodCpuUse, milli=st.floats(0, 10**6), is_best_effort=st.sampled_from([True, False, None])))


def other(milli):
    return PodCpuUse(milli=milli, is_best_effort=False)


@pytest.mark.parametrize(
    ("terms", "result"),
    [
        pytest.param(
            {
                "capacity_milli": 20000,
                "threshold_percent": 70,
                "pods": [PodCpuUse(milli=8000, is_best_effort=None), PodCpuUse(milli=4000, is_best_effort=True)],
                "system_milli": -1000,
            },
            6000,
            id="an-unknown-pod-is-not-best-effort-and-the-system-never-negative",
        ),
        pytest.param(
            {"capacity_milli": 2000, "pods": [other(700)], "system_milli": 150}, 450, id="what-is-left-of-the-threshold"
        ),
        pytest.param(
            {"capacity_milli": 2000, "pods": [other(700)], "system_milli": 150, "reserved_milli": 500},
            100,
            id="the-reserved-counts-if-it-is-more-than-the-system-uses",
        ),
        pytest.param(
            {"capacity_milli": 2000, "pods": [other(1400)], "system_milli": 150, "min_percent": 10},
            200,
            id="at-least-the-floor",
        ),
        pytest.param({"capacity_milli": 2000, "pods": [other(1900)], "system_milli": 150}, 0, id="never-negative"),
        pytest.param(
            {"capacity_milli": 104000, "pods": [other(40000)], "system_milli": 3000, "reserved_milli": 5000},
            22600,
            id="a-big-node",
        ),
    ],
)
def test_the_budget(terms, result):
    assert best_effort_budget(**{"threshold_percent": 65} | terms).result == result


@pytest.mark.parametrize(
    ("min_percent", "milli"),
    [pytest.param(None, 200, id="ten-percent"), pytest.param(25, 500, id="the-strategys"), pytest.param(0, 0, id="0")],
)
def test_the_floor_without_samples(min_percent, milli):
    assert floor_budget(capacity_milli=2000, min_percent=min_percent) == milli


@given(pods=USES, system=st.floats(-(10**6), 10**6), floor=st.none() | st.integers(0, 100))
def test_the_budget_lies_between_floor_and_capacity(pods, system, floor):
    budget = best_effort_budget(
        capacity_milli=64000, threshold_percent=65, pods=pods, system_milli=system, min_percent=floor
    )
    assert budget.floor <= budget.result <= 64000
