"""What a pod takes, and how nodes compare."""

import msgspec
import pytest

from dra.engine.fit import Demand, Room, amounts_of, lacks, score
from dra.model.placement import Host, PlacedPod


def pod(*containers, init=(), **spec):
    def listed(each):
        return [{"resources": {"requests": c}, **({"restartPolicy": "Always"} if c.pop("@", 0) else {})} for c in each]

    body = {"containers": listed(containers), "initContainers": listed(init), **spec}
    return msgspec.convert({"metadata": {"name": "a", "uid": "a"}, "spec": body}, PlacedPod)


def room(**allocatable):
    found = Room("n")
    found.observe(msgspec.convert({"metadata": {"name": "n"}, "status": {"allocatable": allocatable}}, Host))
    return found


@pytest.mark.parametrize(
    ("given", "amounts"),
    [
        pytest.param(pod({"cpu": "500m"}, {"cpu": 1, "memory": "1Gi"}), {"cpu": 1500, "memory": 2**30}, id="the-sum"),
        pytest.param(pod({"cpu": "1"}, init=[{"cpu": "3"}]), {"cpu": 3000}, id="an-init-container-that-needs-more"),
        pytest.param(pod({"cpu": "1"}, init=[{"cpu": "2", "@": 1}]), {"cpu": 3000}, id="a-sidecar-stays"),
        pytest.param(
            pod({"cpu": "1"}, init=[{"cpu": "2", "@": 1}, {"cpu": "2"}]), {"cpu": 4000}, id="init-beside-a-sidecar"
        ),
        pytest.param(pod({"cpu": "1"}, overhead={"cpu": "250m"}), {"cpu": 1250}, id="overhead"),
        pytest.param(pod({"cpu": "1"}, resources={"requests": {"cpu": "4"}}), {"cpu": 4000}, id="the-pod-as-a-whole"),
        pytest.param(pod({"cpu": "none"}), {}, id="no-quantity"),
    ],
)
def test_a_pod_takes(given, amounts):
    assert amounts_of(given) == {**amounts, "pods": 1}


def test_pods_come_and_go():
    demand, found = Demand.of(pod({"cpu": "3"})), room(cpu="4", memory="1Gi", pods="2")
    assert not lacks(found, demand)
    before = score(found, demand)

    found.add("a", demand.amounts)
    found.add("a", demand.amounts)
    assert lacks(found, demand) == ["Insufficient cpu"]
    assert score(found, demand) < before
    assert found.remove("a")
    assert not found.remove("a")
    assert score(found, demand) == before
    assert not lacks(found, demand)


def test_heartbeats_are_no_news():
    found = room(cpu="4")
    same = msgspec.convert(
        {"metadata": {"name": "n", "resourceVersion": "9"}, "status": {"allocatable": {"cpu": "4"}}}, Host
    )

    assert not found.observe(same)
