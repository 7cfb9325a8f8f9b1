"""What pods and nodes would use, by their annotations and requests."""

import msgspec
import pytest

from dra.model.nodes import Node
from dra.model.scheduling import SchedulerPod
from localplane.nodes.usage.demand import (
    DEFAULT_SYSTEM_USAGE,
    USAGE,
    MalformedUsageError,
    Usage,
    pod_demand,
    system_demand,
)
from tests.violations import for_each_case

GI = 2**30


def metadata(usage=None):
    return {"name": "a", "annotations": {} if usage is None else {USAGE: usage}}


def pod(requests, usage=None):
    spec = {"containers": [{"name": "main", "resources": {"requests": requests}}]}
    return msgspec.convert({"metadata": metadata(usage), "spec": spec}, SchedulerPod)


def node(usage=None):
    return msgspec.convert({"metadata": metadata(usage)}, Node)


@for_each_case(
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
    ]
)
def test_a_pod_uses_what_its_annotation_says_or_half_of_its_requests(requests, usage, wanted):
    assert pod_demand(pod(requests, usage)) == wanted


def test_the_system_of_a_node_uses_something():
    assert system_demand(node()) == DEFAULT_SYSTEM_USAGE
    assert system_demand(node("cpu=300m")) == Usage(cpu=300, memory=DEFAULT_SYSTEM_USAGE.memory)


@for_each_case(["", "cpu", "cpu=", "cpu=a", "cpu=-1", "gpu=1", "cpu=1,cpu=2", "cpu=1;memory=2"])
def test_an_annotation_that_cannot_be_read_is_refused_by_name(usage):
    for read in (lambda: pod_demand(pod({}, usage)), lambda: system_demand(node(usage))):
        with pytest.raises(MalformedUsageError, match=USAGE):
            read()
