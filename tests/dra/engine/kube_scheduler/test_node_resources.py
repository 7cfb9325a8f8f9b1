"""What a node lacks for a pod, by amounts alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.engine.kube_scheduler.node_resources import DEFAULT_MAX_PODS, Shortage, node_capacity, shortages
from dra.engine.reservations.filters import filter_node
from dra.engine.reservations.node_usage import empty_node
from dra.engine.reservations.pod_info import PodInfo
from dra.model.meta import Uid

AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "pods", "example.com/gpu"]), st.integers(0, 5))


@pytest.mark.parametrize(
    ("wanted", "lacking"),
    [
        pytest.param({"cpu": 2}, [], id="what-is-left-suffices"),
        pytest.param({"cpu": 3}, [Shortage("cpu", 3, used=2, capacity=4)], id="more-than-is-left"),
        pytest.param({"example.com/gpu": 0}, [], id="none-of-what-the-node-does-not-have"),
        pytest.param(
            {"memory": 1, "cpu": 9, "example.com/gpu": 1},
            [Shortage("cpu", 9, used=2, capacity=4), Shortage("example.com/gpu", 1, used=0, capacity=0)],
            id="each-resource-that-is-short",
        ),
    ],
)
def test_a_node_lacks(wanted, lacking):
    assert list(shortages(wanted, capacity={"cpu": 4, "memory": 1}, requested={"cpu": 2})) == lacking


def test_a_node_that_reports_no_pods_takes_as_many_as_a_kubelet():
    assert node_capacity({"cpu": 1}) == {"cpu": 1, "pods": DEFAULT_MAX_PODS}
    assert node_capacity({"pods": 2}) == {"pods": 2}


@given(allocatable=AMOUNTS, taken=AMOUNTS, wanted=AMOUNTS)
def test_without_reservations_the_accounting_says_the_same(allocatable, taken, wanted):
    node = empty_node("n", allocatable).with_unreserved(taken)
    result = filter_node(node, PodInfo(key=("ns", "p"), uid=Uid("p"), amounts=wanted))
    lacking = shortages(wanted, capacity=node_capacity(allocatable), requested=taken)
    assert [(r.subject, r.requested, r.used, r.capacity) for r in result.rejections] == list(lacking)
    assert result.fits == (not lacking)
