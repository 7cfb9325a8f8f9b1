import asyncio

import msgspec
import pytest

from dra.model.meta import ObjectMeta
from localplane.controller_manager.api_types import Pod, PodSpec
from localplane.controller_manager.manager import ControllerManager
from localplane.controller_manager.node_lifecycle.node_types import TimedTaint
from localplane.controller_manager.node_lifecycle.rules import min_toleration_seconds
from localplane.nodes.kubelets import SILENT, Kubelets
from localplane.nodes.node_objects import EmulatedNode
from tests.localplane.components import Plane, pod, running
from tests.violations import for_each_case

VIRTUAL_TIME = True


def working(plane):
    kubelets = Kubelets(plane.client(), nodes=[EmulatedNode(name="n1")], clock=plane.clock, random=plane.random)
    return running(kubelets, ControllerManager(plane.client(), clock=plane.clock, random=plane.random))


async def ready(plane, node):
    found = await plane.user.get("nodes", node)
    state = next(c["status"] for c in found["status"]["conditions"] if c["type"] == "Ready")
    return state, sorted((t["key"], t["effect"]) for t in found["spec"].get("taints", ()))


async def silence(plane, value):
    await plane.user.patch("nodes", "n1", {"metadata": {"annotations": {SILENT: value}}})


async def test_a_silent_node_becomes_unknown_and_ready_when_it_is_heard_of_again():
    plane = Plane()
    async with working(plane):
        await asyncio.sleep(30)
        assert await ready(plane, "n1") == ("True", [])
        await silence(plane, "true")
        await asyncio.sleep(60)
        unreachable = "node.kubernetes.io/unreachable"
        assert await ready(plane, "n1") == ("Unknown", [(unreachable, "NoExecute"), (unreachable, "NoSchedule")])
        await silence(plane, None)
        await asyncio.sleep(30)
        assert await ready(plane, "n1") == ("True", [])


async def test_pods_of_a_silent_node_are_deleted_after_five_minutes():
    plane = Plane()
    async with working(plane):
        body = pod("p", node="n1")
        body["metadata"]["finalizers"] = ["example.com/hold"]
        await plane.user.create("pods", body)
        await asyncio.sleep(5)
        await silence(plane, "true")
        await asyncio.sleep(300)
        assert "deletionTimestamp" not in (await plane.user.get("pods", "p"))["metadata"]
        await asyncio.sleep(60)
        found = await plane.user.get("pods", "p")
        assert "deletionTimestamp" in found["metadata"]
        assert {"DeletionByTaintManager"} == {
            c["reason"] for c in found["status"]["conditions"] if c["type"] == "DisruptionTarget"
        }
        assert found["status"]["phase"] == "Running", "nobody knows better"
        await silence(plane, None)
        await asyncio.sleep(60)
        assert (await plane.user.get("pods", "p"))["status"]["phase"] == "Failed"
        await plane.user.patch("pods", "p", {"metadata": {"finalizers": None}})
        assert not await plane.user.names("pods")


async def test_pods_that_do_not_tolerate_a_taint_are_deleted_at_once():
    plane = Plane()
    async with working(plane):
        tolerating = [{"key": "maintenance", "operator": "Exists"}]
        await plane.user.create("pods", pod("stays", node="n1", tolerations=tolerating))
        await plane.user.create("pods", pod("goes", node="n1"))
        await asyncio.sleep(1)
        taints = [{"key": "maintenance", "effect": "NoExecute"}]
        await plane.user.patch("nodes", "n1", {"spec": {"taints": taints}})
        await asyncio.sleep(60)
        assert await plane.user.names("pods") == ["stays"]


async def test_pods_of_a_node_that_is_gone_are_removed():
    plane = Plane()
    async with running(ControllerManager(plane.client(), clock=plane.clock, random=plane.random)):
        await plane.user.create("nodes", {"metadata": {"name": "by-hand"}})
        await plane.user.create("pods", pod("p", node="by-hand"))
        await asyncio.sleep(100)
        assert await plane.user.names("pods") == ["p"]
        await plane.user.delete("nodes", "by-hand")
        await asyncio.sleep(30)
        assert await plane.user.names("pods") == ["p"]
        await asyncio.sleep(30)
        assert not await plane.user.names("pods")


async def test_a_node_without_a_lease_is_not_judged():
    plane = Plane()
    async with running(ControllerManager(plane.client(), clock=plane.clock, random=plane.random)):
        await plane.user.create("nodes", {"metadata": {"name": "by-hand"}})
        conditions = [{"type": "Ready", "status": "True"}]
        await plane.user.patch("nodes", "by-hand", {"status": {"conditions": conditions}}, subresource="status")
        await asyncio.sleep(300)
        assert await ready(plane, "by-hand") == ("True", [])


@for_each_case(
    [
        pytest.param([], TimedTaint(key="a", effect="NoExecute"), 0.0, id="none"),
        pytest.param([{"operator": "Exists"}], TimedTaint(key="a", effect="NoExecute"), None, id="everything"),
        pytest.param([{"key": "a", "value": "x"}], TimedTaint(key="a", value="x"), None, id="equal"),
        pytest.param([{"key": "a", "value": "y"}], TimedTaint(key="a", value="x"), 0.0, id="other-value"),
        pytest.param([{"key": "a", "effect": "NoSchedule"}], TimedTaint(key="a", effect="NoExecute"), 0.0, id="effect"),
        pytest.param(
            [{"key": "a", "operator": "Exists", "tolerationSeconds": 7}], TimedTaint(key="a"), 7.0, id="a-while"
        ),
        pytest.param(
            [{"key": "a", "operator": "Gt", "value": "3"}], TimedTaint(key="a", value="4"), None, id="greater"
        ),
        pytest.param([], TimedTaint(key="node.kubernetes.io/unreachable"), 300.0, id="default"),
    ]
)
def test_how_long_a_pod_bears_a_taint(tolerations, taint, expected):
    subject = Pod(metadata=ObjectMeta(name="p"), spec=msgspec.convert({"tolerations": tolerations}, PodSpec))
    assert min_toleration_seconds(subject, [taint]) == expected
