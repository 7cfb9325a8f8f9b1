import pytest

from dra.engine.descheduling.load_scores import node_score, pod_score

CPU = 10**9
CAPACITY = {"cpu": 4 * CPU, "memory": 3000 * CPU}


@pytest.mark.parametrize(
    ("cpu", "weights", "score"),
    [
        pytest.param(3 * CPU, {"cpu": 1, "memory": 1}, 625, id="42-equal-weights"),
        pytest.param(3 * CPU, {"cpu": 2, "memory": 1}, 666, id="42-cpu-twice"),
        pytest.param(9 * CPU, {"cpu": 1, "memory": 1}, 750, id="42-use-above-the-capacity-counts-1000"),
        pytest.param(3 * CPU, {"cpu": 0, "memory": 0}, 0, id="no-weights"),
        pytest.param(3 * CPU, {"cpu": 1, "gpu": 1}, 375, id="a-resource-that-the-node-has-not"),
    ],
)
def test_score_of_a_node(cpu, weights, score):
    assert node_score({"cpu": cpu, "memory": 1500 * CPU}, CAPACITY, weights=weights) == score


@pytest.mark.parametrize(
    ("milli", "score"),
    [
        pytest.param(300, 0.6, id="43-below-the-excess"),
        pytest.param(500, 2.0, id="43-as-large-as-the-excess"),
        pytest.param(900, 1.556, id="43-above-it"),
        pytest.param(0, 0.0, id="uses-nothing"),
    ],
)
def test_score_of_a_pod(milli, score):
    use = {"cpu": milli * CPU // 1000, "memory": CPU}
    assert pod_score(use, {"cpu": CPU // 2}, weights={"cpu": 1}) == pytest.approx(score, abs=1e-3)
