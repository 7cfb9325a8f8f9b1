"""Whether and how far the class BestEffort is held back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dra.api.colocation.strategies import SuppressPolicy, ThresholdStrategy
from dra.engine.cpus.cpusets import NO_CPUS, parse
from dra.engine.suppression.decide import (
    CpuCandidates,
    Suppression,
    SuppressionLevel,
    SuppressionView,
    decide_suppression,
)
from tests.dra.engine.cpus.uniform import uniform_topology
from tests.violations import for_each_case

MACHINE = uniform_topology(cores=4, threads=2)
QUOTA = ThresholdStrategy(enable=True, cpu_suppress_policy=SuppressPolicy.CFS_QUOTA)
CPUSET = ThresholdStrategy(enable=True, cpu_suppress_policy=SuppressPolicy.CPUSET)
FREE = CpuCandidates(topology=MACHINE, shared=parse("0-5"))
VIEW = SuppressionView(
    strategy=QUOTA, has_pods=True, capacity_milli=2000, sample_age=1.0, budget_milli=450, quota=44000, ours=44000
)
OFF = Suppression()
L = SuppressionLevel


def quota(level, value, budget=None):
    return Suppression(level=level, policy=SuppressPolicy.CFS_QUOTA, quota=value, budget_milli=budget)


def cpus(level, value, budget=None):
    return Suppression(level=level, policy=SuppressPolicy.CPUSET, cpus=parse(value), budget_milli=budget)


@for_each_case(
    [
        pytest.param({}, quota(L.HELD_BACK, 44000, 450), id="by-the-budget"),
        pytest.param({"strategy": replace(QUOTA, enable=False)}, OFF, id="switched-off-nothing-of-ours-stays"),
        pytest.param({"has_pods": False}, OFF, id="last-pod-gone-nothing-of-ours-stays"),
        pytest.param({"sample_age": 10.0}, quota(L.HOLDING, 44000), id="10-s-without-a-sample-as-before"),
        pytest.param({"sample_age": 59.9}, quota(L.HOLDING, 44000), id="still-as-before"),
        pytest.param(
            {"sample_age": 10.0, "quota": None}, quota(L.HOLDING, 44000), id="as-before-if-others-have-reset-it"
        ),
        pytest.param(
            {"sample_age": 10.0, "ours": None, "budget_milli": None},
            quota(L.HOLDING, 44000),
            id="started-anew-what-is-there-stays-until-there-are-samples",
        ),
        pytest.param({"sample_age": 60.0}, quota(L.FLOOR, 20000, 200), id="60-s-without-a-sample-ten-percent"),
        pytest.param(
            {"sample_age": 60.0, "strategy": replace(QUOTA, cpu_suppress_min_percent=5), "budget_milli": None},
            quota(L.FLOOR, 10000, 100),
            id="the-floor-of-the-strategy",
        ),
        pytest.param(
            {"sample_age": 600.0, "quota": 2000, "ours": 2000},
            quota(L.FLOOR, 20000, 200),
            id="the-floor-is-more-than-a-suppression-of-before",
        ),
        pytest.param(
            {"quota": None, "ours": None}, quota(L.HELD_BACK, 45000, 450), id="from-no-quota-to-the-budget-at-once"
        ),
        pytest.param({"quota": None}, quota(L.HELD_BACK, 44000, 450), id="reset-by-others-is-ours-again"),
        pytest.param({"bound": 30000}, quota(L.HELD_BACK, 30000, 450), id="no-more-than-the-cgroups-above-allow"),
        pytest.param(
            {"strategy": CPUSET, "candidates": FREE, "budget_milli": 2500},
            cpus(L.HELD_BACK, "0-2", 2500),
            id="by-cpus-without-a-quota",
        ),
        pytest.param(
            {"strategy": CPUSET, "candidates": FREE, "cpus": parse("3-5"), "budget_milli": 2500},
            cpus(L.HELD_BACK, "3-5", 2500),
            id="the-same-number-of-cpus-the-same-cpus",
        ),
        pytest.param(
            {"strategy": CPUSET, "candidates": FREE, "cpus": parse("3-5"), "sample_age": 30.0},
            cpus(L.HOLDING, "3-5"),
            id="cpus-as-before",
        ),
        pytest.param(
            {"strategy": CPUSET, "candidates": None}, quota(L.HELD_BACK, 44000, 450), id="no-writer-of-cpus-by-quota"
        ),
        pytest.param(
            {"strategy": CPUSET, "candidates": replace(FREE, shared=parse("12"))},
            quota(L.HELD_BACK, 44000, 450),
            id="no-candidates-by-quota",
        ),
        pytest.param(
            {"cpus": parse("0-2")}, quota(L.HELD_BACK, 44000, 450), id="another-policy-lifts-the-limit-of-the-first"
        ),
    ],
)
def test_decision(change, wanted):
    assert decide_suppression(replace(VIEW, **change)) == wanted


@st.composite
def lives(draw):
    """What a node sees second by second: samples that come, lie or stop, strategies that change, writes of others."""
    seconds = draw(st.lists(st.tuples(st.booleans(), st.integers(0, 2000), st.booleans(), st.booleans()), max_size=80))
    return seconds, draw(st.sampled_from([QUOTA, CPUSET, replace(QUOTA, cpu_suppress_min_percent=0)]))


@given(life=lives())
def test_no_pod_is_starved_for_good(life):
    seconds, strategy = life
    view = replace(VIEW, strategy=strategy, quota=None, ours=None, candidates=FREE)
    age = 0.0
    for sampled, budget, enabled, meddled in seconds:
        age = 0.0 if sampled else age + 1.0
        view = replace(view, sample_age=age, budget_milli=budget, strategy=replace(strategy, enable=enabled))
        view = after(view, decide_suppression(view), meddled=meddled)
        assert view.ours is None or view.ours >= 2000
        assert view.cpus == NO_CPUS or len(view.cpus) >= 2
    for _ in range(12):  # the others are idle again
        view = replace(view, strategy=strategy, sample_age=0.0, budget_milli=1300)
        view = after(view, decide_suppression(view), meddled=False)
    assert (view.ours or 0) >= 128000 or len(view.cpus) == 2  # 1 % of two CPUs is not written
    off = decide_suppression(replace(view, strategy=replace(strategy, enable=False)))
    assert off == OFF


def after(view, decision, *, meddled):
    written = None if meddled else decision.quota
    return replace(view, quota=written, ours=decision.quota, cpus=decision.cpus)


@for_each_case(
    [
        pytest.param({}, False, id="there-is-something-to-take"),
        pytest.param({"budget_milli": 20}, True, id="the-least-quota"),
        pytest.param(
            {"budget_milli": 200, "strategy": replace(QUOTA, cpu_suppress_min_percent=10)},
            True,
            id="the-strategy-s-floor",
        ),
        pytest.param({"budget_milli": 2000, "strategy": CPUSET, "candidates": FREE}, True, id="two-CPUs"),
        pytest.param({"budget_milli": 2100, "strategy": CPUSET, "candidates": FREE}, False, id="three-CPUs"),
        pytest.param({"budget_milli": 20, "sample_age": 10.0}, False, id="an-old-sample-says-nothing"),
        pytest.param({"budget_milli": 20, "sample_age": 60.0}, False, id="the-floor-without-samples-is-no-pressure"),
        pytest.param({"budget_milli": 20, "has_pods": False}, False, id="nobody-is-held-back"),
    ]
)
def test_the_class_is_at_its_floor_when_others_use_all(change, at_floor):
    assert decide_suppression(replace(VIEW, **change)).at_floor == at_floor
