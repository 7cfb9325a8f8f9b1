import asyncio

from localplane.controller_manager.manager import ControllerManager
from localplane.nodes.kubelets import Kubelets
from localplane.nodes.node_objects import EmulatedNode
from tests.localplane.components import Plane, pod, running

VIRTUAL_TIME = True


def working(plane):
    kubelets = Kubelets(plane.client(), nodes=[EmulatedNode(name="n1")], clock=plane.clock, random=plane.random)
    return running(kubelets, ControllerManager(plane.client(), clock=plane.clock, random=plane.random))


async def test_each_namespace_has_a_service_account():
    plane = Plane()
    async with working(plane):
        await plane.user.create("namespaces", {"metadata": {"name": "ml"}})
        await asyncio.sleep(1)
        assert await plane.user.names("serviceaccounts", namespace="ml") == ["default"]
        await plane.user.delete("serviceaccounts", "default", namespace="ml")
        await asyncio.sleep(1)
        assert await plane.user.names("serviceaccounts", namespace="ml") == ["default"]


async def test_a_namespace_goes_with_all_that_is_in_it():
    plane = Plane()
    async with working(plane):
        await plane.user.create("namespaces", {"metadata": {"name": "ml"}})
        await plane.user.create("configmaps", {"metadata": {"name": "c"}}, namespace="ml")
        await plane.user.create("pods", pod("p", node="n1"), namespace="ml")
        await asyncio.sleep(1)
        await plane.user.delete("namespaces", "ml")
        await asyncio.sleep(60)
        assert "ml" not in await plane.user.names("namespaces")
        assert not await plane.user.names("pods", namespace="ml")


async def test_a_namespace_waits_for_what_does_not_go():
    plane = Plane()
    async with working(plane):
        await plane.user.create("namespaces", {"metadata": {"name": "ml"}})
        held = {"metadata": {"name": "c", "finalizers": ["example.com/hold"]}}
        await plane.user.create("configmaps", held, namespace="ml")
        await plane.user.delete("namespaces", "ml")
        await asyncio.sleep(60)
        found = await plane.user.get("namespaces", "ml")
        assert found["status"]["phase"] == "Terminating"
        await plane.user.patch("configmaps", "c", {"metadata": {"finalizers": None}}, namespace="ml")
        await asyncio.sleep(5)
        assert "ml" not in await plane.user.names("namespaces")
