"""What pods and nodes would use, by their annotations and requests."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.model.nodes import Node
from dra.model.scheduling import SchedulerPod
from localplane.nodes.usage.demand import (
    DEFAULT_SYSTEM_USAGE,
    USAGE,
    MalformedUsageError,
    Usage,
    pod_demand,
    share_cpu_time,
    system_demand,
)

GI = 2**30


def metadata(usage=None):
    return {"name": "a", "annotations": {} if usage is None else {USAGE: usage}}


def pod(requests, usage=None):
    spec = {"containers": [{"name": "main", "resources": {"requests": requests}}]}
    return msgspec.convert({"metadata": metadata(usage), "spec": spec}, SchedulerPod)


def node(usage=None):
    return msgspec.convert({"metadata": metadata(usage)}, Node)


@pytest.mark.parametrize(
    ("requests", "usage", "wanted"),
    [
        pytest.param({"cpu": "2", "memory": "4Gi"}, None, Usage(cpu=1000, memory=2 * GI), id="half-of-its-requests"),
        pytest.param(
            {"kubernetes.io/batch-cpu": "3k", "kubernetes.io/batch-memory": "2Gi"},
            None,
            Usage(cpu=1500, memory=GI),
            id="batch-cpu-counts-milli-cpus",
        ),
        pytest.param({}, None, Usage(), id="nothing-without-requests"),
        pytest.param({"cpu": "2"}, "cpu=1500m,memory=2Gi", Usage(cpu=1500, memory=2 * GI), id="as-annotated"),
        pytest.param({"cpu": "2"}, "memory=2Gi", Usage(cpu=1000, memory=2 * GI), id="what-is-not-named-by-requests"),
        pytest.param({"cpu": "2"}, " cpu=4 ", Usage(cpu=4000), id="more-than-requested"),
        pytest.param({"cpu": "2"}, "cpu=0", Usage(), id="nothing"),
    ],
)
def test_a_pod_uses_what_its_annotation_says_or_half_of_its_requests(requests, usage, wanted):
    assert pod_demand(pod(requests, usage)) == wanted


def test_the_system_of_a_node_uses_something():
    assert system_demand(node()) == DEFAULT_SYSTEM_USAGE
    assert system_demand(node("cpu=300m")) == Usage(cpu=300, memory=DEFAULT_SYSTEM_USAGE.memory)


@pytest.mark.parametrize("usage", ["", "cpu", "cpu=", "cpu=a", "cpu=-1", "gpu=1", "cpu=1,cpu=2", "cpu=1;memory=2"])
def test_an_annotation_that_cannot_be_read_is_refused_by_name(usage):
    for read in (lambda: pod_demand(pod({}, usage)), lambda: system_demand(node(usage))):
        with pytest.raises(MalformedUsageError, match=USAGE):
            read()


@pytest.mark.parametrize(
    ("demands", "limit", "granted"),
    [
        pytest.param({"a": 500, "b": 900}, 2000, {"a": 500, "b": 900}, id="enough-for-all"),
        pytest.param({"a": 500, "b": 900}, 1000, {"a": 500, "b": 500}, id="equal-shares"),
        pytest.param({"a": 200, "b": 900, "c": 900}, 1000, {"a": 200, "b": 400, "c": 400}, id="little-is-given-whole"),
        pytest.param({"a": 200}, 0, {"a": 0}, id="nothing"),
        pytest.param({"a": 200}, -5, {"a": 0}, id="less-than-nothing"),
        pytest.param({}, 500, {}, id="nobody"),
    ],
)
def test_cpu_time_is_shared_as_among_groups_of_equal_weight(demands, limit, granted):
    assert share_cpu_time(demands, limit=limit) == granted


@given(
    st.dictionaries(st.text(max_size=3), st.integers(min_value=0, max_value=10_000), max_size=8),
    st.integers(min_value=0, max_value=40_000),
)
def test_no_more_than_the_limit_is_used_and_nothing_is_left_while_somebody_wants_it(demands, limit):
    granted = share_cpu_time(demands, limit=limit)
    assert all(granted[name] <= wanted for name, wanted in demands.items())
    used, wanted = sum(granted.values()), sum(demands.values())
    assert min(limit, wanted) - len(demands) <= used <= min(limit, wanted)  # less than a milli-CPU for each is cut
