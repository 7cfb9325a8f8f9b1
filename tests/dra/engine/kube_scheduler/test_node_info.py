"""What a pod takes, and how nodes compare."""

import msgspec
import pytest

from dra.api.reservations.well_known import ANNOTATION_NODE_RESERVATION
from dra.engine.kube_scheduler.node_info import (
    NodeInfo,
    PodRequests,
    insufficient_resources,
    least_allocated_score,
)
from dra.engine.kube_scheduler.node_resources import DEFAULT_MAX_PODS
from dra.engine.kube_scheduler.pod_requests import pod_requests
from dra.model.scheduling import SchedulerNode, SchedulerPod
from tests.violations import for_each_case


def pod(*containers, init=(), **spec):
    def listed(each):
        return [{"resources": {"requests": c}, **({"restartPolicy": "Always"} if c.pop("@", 0) else {})} for c in each]

    body = {"containers": listed(containers), "initContainers": listed(init), **spec}
    return msgspec.convert({"metadata": {"name": "a", "uid": "a"}, "spec": body}, SchedulerPod)


FAULTS = ("{", '{"resources": {"cpu": 99}}', '{"resources": {"cpu": "two", "memory": "512Mi"}}')


def host(annotation=None, **allocatable):
    metadata = {"name": "n"} | (
        {"annotations": {ANNOTATION_NODE_RESERVATION: annotation}} if annotation is not None else {}
    )
    return msgspec.convert({"metadata": metadata, "status": {"allocatable": allocatable}}, SchedulerNode)


def room(**allocatable):
    found = NodeInfo("n")
    found.observe(host(**allocatable))
    return found


def using_port(*ports, uid="b", restart=""):
    main = [{"ports": list(ports)}]
    spec = {"initContainers": [main[0] | {"restartPolicy": restart}]} if restart else {"containers": main}
    return msgspec.convert({"metadata": {"name": uid, "uid": uid}, "spec": spec}, SchedulerPod)


HTTP = {"containerPort": 80, "hostPort": 80}
TAKEN = ("node(s) didn't have free ports for the requested pod ports",)


@for_each_case(
    [
        pytest.param(using_port(HTTP), using_port(HTTP), TAKEN, id="the-same"),
        pytest.param(using_port(HTTP), using_port(HTTP | {"hostPort": 81}), (), id="another"),
        pytest.param(using_port(HTTP), using_port(HTTP | {"protocol": "UDP"}), (), id="another-protocol"),
        pytest.param(
            using_port(HTTP | {"hostIP": "10.0.0.1"}), using_port(HTTP | {"hostIP": "10.0.0.2"}), (), id="other-address"
        ),
        pytest.param(using_port(HTTP | {"hostIP": "10.0.0.1"}), using_port(HTTP), TAKEN, id="all-addresses"),
        pytest.param(using_port({"containerPort": 80}), using_port(HTTP), (), id="no-port-of-the-host"),
        pytest.param(using_port(HTTP, restart="Always"), using_port(HTTP), TAKEN, id="a-sidecar"),
        pytest.param(using_port(HTTP, restart="Never"), using_port(HTTP), (), id="an-init-container-that-ends"),
    ]
)
def test_a_host_port_is_used_once_on_a_node(there, wanted, lacking):
    info, demand = room(cpu="8"), PodRequests.from_pod(wanted)
    other = PodRequests.from_pod(msgspec.structs.replace(there, metadata=pod().metadata))
    info.add("a", other.amounts, host_ports=other.host_ports)
    assert insufficient_resources(info, demand) == list(lacking)
    assert insufficient_resources(info, demand, without=frozenset({"a"})) == []
    info.remove("a")
    assert insufficient_resources(info, demand) == []


@for_each_case(
    [
        pytest.param(
            pod({"cpu": "500m"}, {"cpu": 1, "memory": "1Gi"}),
            {"cpu": 1500 * 10**6, "memory": 2**30 * 10**9},
            id="the-sum",
        ),
        pytest.param(
            pod({"cpu": "1"}, init=[{"cpu": "3"}]), {"cpu": 3000 * 10**6}, id="an-init-container-that-needs-more"
        ),
        pytest.param(pod({"cpu": "1"}, init=[{"cpu": "2", "@": 1}]), {"cpu": 3000 * 10**6}, id="a-sidecar-stays"),
        pytest.param(
            pod({"cpu": "1"}, init=[{"cpu": "2", "@": 1}, {"cpu": "2"}]),
            {"cpu": 4000 * 10**6},
            id="init-beside-a-sidecar",
        ),
        pytest.param(pod({"cpu": "1"}, overhead={"cpu": "250m"}), {"cpu": 1250 * 10**6}, id="overhead"),
        pytest.param(
            pod({"cpu": "1"}, resources={"requests": {"cpu": "4"}}), {"cpu": 4000 * 10**6}, id="the-pod-as-a-whole"
        ),
        pytest.param(pod({"cpu": "none"}), {}, id="no-quantity"),
    ]
)
def test_a_pod_takes(given, amounts):
    assert pod_requests(given) == {**amounts, "pods": 10**9}


def test_pods_come_and_go():
    demand, found = PodRequests.from_pod(pod({"cpu": "3"})), room(cpu="4", memory="1Gi", pods="2")
    assert not insufficient_resources(found, demand)
    before = least_allocated_score(found, demand)

    found.add("a", demand.amounts)
    found.add("a", demand.amounts)
    assert insufficient_resources(found, demand) == ["Insufficient cpu"]
    assert least_allocated_score(found, demand) < before
    assert found.remove("a")
    assert not found.remove("a")
    assert least_allocated_score(found, demand) == before
    assert not insufficient_resources(found, demand)


def test_heartbeats_are_no_news():
    found = room(cpu="4")
    same = msgspec.convert(
        {"metadata": {"name": "n", "resourceVersion": "9"}, "status": {"allocatable": {"cpu": "4"}}}, SchedulerNode
    )

    assert not found.observe(same)


@for_each_case(
    [
        pytest.param([None], {"cpu": 8000 * 10**6, "memory": 2**30 * 10**9}, {}, id="nothing"),
        pytest.param(
            ['{"resources": {"cpu": "1500m", "memory": "256Mi"}}'],
            {"cpu": 6500 * 10**6, "memory": 3 * 2**28 * 10**9},
            {"cpu": 1500 * 10**6, "memory": 2**28 * 10**9},
            id="amounts",
        ),
        pytest.param(
            ['{"reservedCPUs": "0-2"}'],
            {"cpu": 5000 * 10**6, "memory": 2**30 * 10**9},
            {"cpu": 3000 * 10**6},
            id="named-cpus",
        ),
        pytest.param(
            ['{"reservedCPUs": "0-2", "applyPolicy": "ReservedCPUsOnly"}'],
            {"cpu": 8000 * 10**6, "memory": 2**30 * 10**9},
            {},
            id="cpus-that-are-subtracted-already",
        ),
        pytest.param(
            ['{"resources": {"cpu": 2}}', '{"resources": {"cpu": 99}}'],
            {"cpu": 6000 * 10**6, "memory": 2**30 * 10**9},
            {"cpu": 2000 * 10**6},
            id="the-last-valid-one-counts",
        ),
        pytest.param([None, "{"], {"cpu": 8000 * 10**6, "memory": 2**30 * 10**9}, {}, id="none-was-the-last-valid-one"),
        pytest.param(
            ['{"resources": {"cpu": "two", "memory": "512Mi"}}'],
            {"cpu": 8000 * 10**6, "memory": 2**29 * 10**9},
            {"memory": 2**29 * 10**9},
            id="never-seen-valid-what-can-be-read-counts",
        ),
        pytest.param(
            ['{"resources": {"cpu": 2}}', None], {"cpu": 8000 * 10**6, "memory": 2**30 * 10**9}, {}, id="taken-back"
        ),
    ]
)
def test_what_a_node_keeps_is_not_there_for_pods(annotations, left, kept):
    found = NodeInfo("n")
    for each in annotations:
        found.observe(host(each, cpu="8", memory="1Gi"))
    assert (found.capacity, found.reserved) == ({"pods": DEFAULT_MAX_PODS, **left}, kept)
    assert bool(found.reservation_error) == (annotations[-1] in FAULTS)


def test_a_change_of_what_a_node_keeps_is_news():
    found = room(cpu="4")
    assert found.observe(host('{"resources": {"cpu": 1}}', cpu="4"))
    assert not found.observe(host('{"resources": {"cpu": "1000m"}}', cpu="4"))
