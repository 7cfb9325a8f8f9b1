import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.engine.usage.windows import PERCENTILES, SAMPLES_MAX, Aggregate, SampleWindow, percentile


def window_of(values, *, keep=1800.0, start=1.0):
    window = SampleWindow(keep)
    for number, value in enumerate(values):
        window.add(start + number, float(value))
    return window


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        pytest.param(range(1, 152), (75, 135, 143, 149), id="151-values"),
        pytest.param(range(1, 21), (10, 18, 19, 19), id="20-values"),
        pytest.param(range(100, 1100, 100), (500, 900, 900, 900), id="10-values"),
        pytest.param([7], (7, 7, 7, 7), id="one-value"),
    ],
)
def test_percentiles_are_those_of_koordinator(values, wanted):
    assert tuple(percentile(sorted(values), percent) for percent in PERCENTILES) == wanted


def test_a_window_tells_nothing_before_its_samples_span_half_of_it():
    window = window_of(range(1, 151))
    assert window.aggregate(300, now=150.0) is None
    window.add(151.0, 151.0)
    assert window.aggregate(300, now=151.0) == Aggregate(avg=76, p50=75, p90=135, p95=143, p99=149)


def test_samples_before_the_window_do_not_count():
    window = window_of([1000] * 100 + [10] * 101)
    assert window.average(100, now=201.0) == 10
    assert window.span(100, now=201.0) == 100


def test_a_sample_counts_by_the_time_that_it_stands_for():
    """A round that comes late stands for more time than others."""
    window = SampleWindow(300)
    window.add(10.0, 100.0, seconds=10.0)
    window.add(40.0, 500.0, seconds=30.0)
    assert window.average(300, now=40.0) == pytest.approx(400)


def test_an_empty_window_has_neither_average_nor_age():
    window = SampleWindow(300)
    assert window.average(300, now=0.0) is None
    assert window.aggregate(300, now=0.0) is None
    assert window.span(300, now=0.0) == 0
    assert window.age(now=0.0) == float("inf")


def test_once_samples_stop_the_window_empties():
    window = window_of([5] * 200)
    assert window.age(now=230.0) == 30
    assert window.aggregate(300, now=230.0) is not None
    assert window.aggregate(300, now=400.0) is None
    assert window.average(300, now=10_000.0) is None


def test_samples_are_kept_for_their_time_and_never_more_than_the_bound():
    kept = window_of([1] * 100, keep=10.0)
    assert len(kept._samples) == 11
    assert len(window_of([1] * (SAMPLES_MAX + 5), keep=1e9)._samples) == SAMPLES_MAX
    kept.keep(5.0)
    kept.add(101.0, 1.0)
    assert len(kept._samples) == 6


@given(st.lists(st.floats(min_value=0, max_value=1e12), min_size=1, max_size=300))
def test_percentiles_are_values_and_do_not_fall(values):
    values.sort()
    percentiles = [percentile(values, percent) for percent in PERCENTILES]
    assert percentiles == sorted(percentiles)
    assert set(percentiles) <= set(values)
