"""CPU shares as weights of cgroup v2, by both formulas, and which one a node uses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.engine.suppression.cpu_weights import (
    MAX_SHARES,
    WeightFormula,
    WeightSample,
    cpu_weight,
    detect_weight_formula,
)
from tests.violations import for_each_case

LINEAR, QUADRATIC = WeightFormula.LINEAR, WeightFormula.QUADRATIC


@for_each_case(
    [
        pytest.param(2, 1, 1, id="least"),
        pytest.param(512, 20, 59, id="half-a-cpu"),
        pytest.param(583, 23, 65, id="570-milli"),
        pytest.param(1024, 39, 100, id="one-cpu"),
        pytest.param(2048, 79, 174, id="two-cpus"),
        pytest.param(262144, 10000, 10000, id="greatest"),
        pytest.param(0, 1, 1, id="below-the-range"),
        pytest.param(300000, 10000, 10000, id="above-the-range"),
    ]
)
def test_weights_by_both_formulas(shares, linear, quadratic):
    assert cpu_weight(shares, LINEAR) == linear
    assert cpu_weight(shares, QUADRATIC) == quadratic


@given(shares=st.integers(2, MAX_SHARES), formula=st.sampled_from(WeightFormula))
def test_more_shares_never_weigh_less_and_the_kernel_takes_every_weight(shares, formula):
    assert 1 <= cpu_weight(shares - 1, formula) <= cpu_weight(shares, formula) <= 10000


@pytest.mark.parametrize(
    ("samples", "formula"),
    [
        # The class burstable and two pods, as kubelets with libcontainer before and after the change write them.
        pytest.param([(972, 37), (102, 4), (256, 10)], LINEAR, id="kubelet-and-runc-before-the-change"),
        pytest.param([(972, 97), (102, 17), (256, 36)], QUADRATIC, id="kubelet-and-runc-after-the-change"),
        pytest.param([(2, 1), (2, 1)], LINEAR, id="only-pods-without-requests-tell-nothing"),
        pytest.param([], LINEAR, id="no-pods"),
        pytest.param([(1024, 500), (1024, 100), (1024, 700)], QUADRATIC, id="weights-of-others-do-not-count"),
    ],
)
def test_the_formula_is_the_one_that_the_kubelets_own_cgroups_show(samples, formula):
    assert detect_weight_formula(WeightSample(shares=s, weight=w) for s, w in samples) is formula
