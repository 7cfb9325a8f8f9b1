import pytest

from dra.engine.descheduling.node_classification import deviations, mean_percentages, percentage, share

NANOS = 10**9


@pytest.mark.parametrize(
    ("resource", "percent", "capacity", "amount"),
    [
        pytest.param("pods", 29, 100 * NANOS, 28 * NANOS, id="29-percent-of-100-are-28"),
        pytest.param("pods", 30, 100 * NANOS, 30 * NANOS, id="30-percent-of-100-are-30"),
        pytest.param("cpu", 50, 4 * NANOS, 2 * NANOS, id="milli-cpus"),
        pytest.param("prod cpu", 33, NANOS, 330 * NANOS // 1000, id="cpus-of-prod-pods-are-milli-cpus-too"),
        pytest.param("cpu", 50, 0, 0, id="of-nothing"),
    ],
)
def test_share_of_a_capacity(resource, percent, capacity, amount):
    assert share(resource, percent, capacity) == amount


@pytest.mark.parametrize(
    ("used", "capacity", "percent"),
    [
        pytest.param(NANOS // 2, NANOS, 50.0, id="half"),
        pytest.param(1, NANOS, 0.1, id="a-part-of-a-milli-CPU-counts-as-one"),
        pytest.param(NANOS, 0, 0.0, id="of-nothing"),
    ],
)
def test_percentage_of_a_capacity(used, capacity, percent):
    assert percentage("cpu", used, capacity) == pytest.approx(percent)


def test_deviations_stay_between_0_and_100():
    mean = mean_percentages([{"cpu": 90.0}, {"cpu": 100.0, "memory": 5.0}])
    assert mean == {"cpu": 95.0, "memory": 5.0}
    low, high = deviations(mean, {"cpu": 10, "memory": 10}, {"cpu": 10, "memory": 10})
    assert low == {"cpu": 85.0, "memory": 0.0}
    assert high == {"cpu": 100.0, "memory": 15.0}
