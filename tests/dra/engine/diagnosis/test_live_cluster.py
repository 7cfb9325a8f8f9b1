"""A live cluster answers as a snapshot of the same moment does."""

import msgspec
import pytest

from dra.engine.devices.allocator_releases import RELEASE_1_37, RELEASE_1_38
from dra.engine.diagnosis import audit
from dra.engine.diagnosis.devices import DeviceObstacle
from dra.engine.diagnosis.live_cluster import LiveCluster
from dra.engine.diagnosis.problem_codes import ProblemCode
from dra.model.node_pods import AgentNode
from tests.dra.engine.diagnosis.cluster_states import DRIVER, claim, node, offer_partitions, pod, snapshot
from tests.dra.engine.diagnosis.test_device_faults import failure


def test_a_similar_claim_is_suggested_while_it_exists():
    cluster, [train] = LiveCluster(), snapshot(claim("train")).claims
    found = []
    for change in (lambda _: None, cluster.observe_claim, cluster.forget_claim):
        change(train)
        cluster.refresh()
        found.append(cluster.similar_claim(("ml", "trainn")))
    assert found == ["", "ml/train", ""]


def test_the_pod_of_an_event_is_diagnosed_again_when_the_event_comes_and_goes():
    cluster, bound = LiveCluster(), snapshot(pods=[pod("a", "c", on="n1"), pod("b", "c", on="n1")])
    for each in bound.pods:
        cluster.observe_pod(each)
    told = []
    for failures in ([], [failure("not registered")], [failure("not registered")], []):
        cluster.dirty_pods.clear()
        cluster.set_surroundings(snapshot(start_failures=failures))
        problems = [each.code for each in audit.pod_problems(cluster, cluster.pods["ml", "a"])]
        told.append((set(cluster.dirty_pods), ProblemCode.NOT_PREPARED in problems))
    assert told[1:] == [({("ml", "a")}, True), (set(), True), ({("ml", "a")}, False)]


def test_the_devices_of_a_node_change_with_the_node():
    cluster, found = LiveCluster(), snapshot()
    for each in found.slices:
        cluster.observe_slice(each)
    cluster.dirty_devices.clear()
    (cordoned,) = snapshot(nodes=[node("n1", cordoned=True)]).nodes
    cluster.observe_node(cordoned)
    assert sorted(str(each) for each in cluster.dirty_devices) == [f"{DRIVER}/n1/gpu-0", f"{DRIVER}/n1/gpu-1"]
    assert {cluster.device(each).obstacle for each in cluster.dirty_devices} == {DeviceObstacle.NODE_CORDONED}


NODE = {
    "metadata": {"name": "n1", "uid": "uid-n1", "resourceVersion": "7"},
    "status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]},
}


@pytest.mark.parametrize(
    ("change", "rows"),
    [
        pytest.param({"metadata": {"labels": {"pool": "a"}}}, {"n1"}, id="label"),
        pytest.param({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, {"n1"}, id="deletion"),
        pytest.param(
            {"status": {"conditions": [{"type": kind, "status": "True"} for kind in ("Ready", "MemoryPressure")]}},
            {"n1"},
            id="condition",
        ),
        pytest.param({"status": NODE["status"] | {"nodeInfo": {"bootID": "b"}}}, {"n1"}, id="reboot"),
        pytest.param({"status": NODE["status"] | {"allocatable": {"cpu": "8"}}}, {"n1"}, id="allocatable"),
        pytest.param(
            {
                "status": {
                    "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:05:00Z"}]
                }
            },
            set(),
            id="heartbeat",
        ),
    ],
)
def test_a_change_of_a_node_updates_its_row_and_a_heartbeat_does_not(change, rows):
    cluster = LiveCluster()
    changed = NODE | change | {"metadata": NODE["metadata"] | change.get("metadata", {}) | {"resourceVersion": "8"}}
    cluster.observe_node(msgspec.convert(NODE, AgentNode))
    cluster.dirty_nodes.clear()
    cluster.observe_node(msgspec.convert(changed, AgentNode))
    assert (cluster.dirty_use, cluster.dirty_nodes, cluster.dirty_pods) == (rows, set(), set())


def test_devices_are_allocated_as_the_version_of_the_server_does():
    cluster, found = LiveCluster(), snapshot()
    assert cluster.inventory.release is RELEASE_1_37
    cluster.set_surroundings(msgspec.structs.replace(found, server="v1.38.0"))
    assert cluster.inventory.release is RELEASE_1_38


def test_the_parts_of_a_card_change_with_the_claim_that_holds_the_card():
    cluster, found = LiveCluster(), snapshot(claim("c", "n1/gpu-0"), slices=[offer_partitions("n1")])
    for each in found.slices:
        cluster.observe_slice(each)
    [whole] = found.claims
    states = []
    for change in (cluster.observe_claim, cluster.forget_claim):
        cluster.dirty_devices.clear()
        change(whole)
        states.append([cluster.device(each).obstacle for each in sorted(cluster.dirty_devices, key=str)])
    used = DeviceObstacle.COUNTERS_USED
    assert states == [[DeviceObstacle.NONE, used, used], [DeviceObstacle.NONE] * 3]
