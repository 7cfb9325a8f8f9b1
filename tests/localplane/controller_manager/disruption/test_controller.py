"""The disruption controller keeps the status of PodDisruptionBudgets, and evictions follow the status."""

import asyncio

import pytest

from localplane.controller_manager.manager import ControllerManager
from localplane.nodes.kubelets import Kubelets
from localplane.nodes.node_objects import EmulatedNode
from tests.localplane.components import Plane, pod, running
from tests.localplane.controller_manager.test_deployments import deployment

VIRTUAL_TIME = True


def working(plane, *, start_seconds=0.0):
    nodes = [EmulatedNode(name="n1", start_seconds=start_seconds)]
    kubelets = Kubelets(plane.client(), nodes=nodes, clock=plane.clock, random=plane.random, leases=False)
    return running(kubelets, ControllerManager(plane.client(), clock=plane.clock, random=plane.random))


async def create_budget(plane, *, app="web", **spec):
    body = {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": app}}, **spec}}
    await plane.user.create("poddisruptionbudgets", body)


async def status(plane):
    found = (await plane.user.get("poddisruptionbudgets", "b"))["status"]
    (condition,) = found["conditions"]
    counts = tuple(found[name] for name in ("expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed"))
    return counts, (condition["status"], condition["reason"], condition["message"])


async def evict(plane, name):
    path = f"/api/v1/namespaces/default/pods/{name}/eviction"
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    await plane.user.request("POST", path, body=body, content_type="application/json")


SUFFICIENT = ("True", "SufficientPods", "")
INSUFFICIENT = ("False", "InsufficientPods", "")


@pytest.mark.parametrize(
    ("spec", "counts"),
    [
        pytest.param({"minAvailable": 2}, (3, 3, 2, 1), id="minAvailable"),
        pytest.param({"minAvailable": "50%"}, (3, 3, 2, 1), id="minAvailable in percent"),
        pytest.param({"maxUnavailable": 1}, (3, 3, 2, 1), id="maxUnavailable"),
    ],
)
async def test_a_budget_counts_the_pods_of_a_deployment(spec, counts):
    plane = Plane()
    async with working(plane):
        await plane.user.create("deployments", deployment("web"))
        await create_budget(plane, **spec)
        await asyncio.sleep(3)
        assert await status(plane) == (counts, SUFFICIENT)
        found = await plane.user.get("poddisruptionbudgets", "b")
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"] == 1


async def test_a_changed_budget_is_counted_again():
    plane = Plane()
    async with working(plane):
        await plane.user.create("deployments", deployment("web"))
        await create_budget(plane, maxUnavailable=1)
        await asyncio.sleep(3)
        await plane.user.patch("poddisruptionbudgets", "b", {"spec": {"maxUnavailable": 0}})
        await asyncio.sleep(1)
        assert await status(plane) == ((3, 3, 3, 0), INSUFFICIENT)
        found = await plane.user.get("poddisruptionbudgets", "b")
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"] == 2


async def test_an_eviction_waits_for_the_replacement_of_the_pod_before():
    plane = Plane()
    async with working(plane, start_seconds=5.0):
        await plane.user.create("deployments", deployment("web"))
        await create_budget(plane, maxUnavailable=1)
        await asyncio.sleep(20)
        first, second, _ = await plane.user.names("pods")
        await evict(plane, first)
        with pytest.raises(AssertionError, match="does not allow evicting pods currently"):
            await evict(plane, second)
        await asyncio.sleep(1)
        assert await status(plane) == ((3, 2, 2, 0), INSUFFICIENT)
        await asyncio.sleep(60)
        assert await status(plane) == ((3, 3, 2, 1), SUFFICIENT)
        assert "disruptedPods" not in (await plane.user.get("poddisruptionbudgets", "b"))["status"]
        await evict(plane, second)


async def test_a_pod_that_is_not_deleted_counts_again_after_two_minutes():
    plane = Plane()
    async with working(plane):
        await plane.user.create("deployments", deployment("web"))
        await create_budget(plane, minAvailable=2)
        await asyncio.sleep(3)
        name = (await plane.user.names("pods"))[0]
        at = plane.clock.wall().strftime("%Y-%m-%dT%H:%M:%SZ")
        disrupted = {"status": {"disruptedPods": {name: at}}}
        await plane.user.patch("poddisruptionbudgets", "b", disrupted, subresource="status")
        await asyncio.sleep(1)
        assert await status(plane) == ((3, 2, 2, 0), INSUFFICIENT)
        await asyncio.sleep(125)
        assert await status(plane) == ((3, 3, 2, 1), SUFFICIENT)


@pytest.mark.parametrize(
    ("spec", "counts", "condition"),
    [
        pytest.param({"minAvailable": 0}, (1, 1, 0, 1), SUFFICIENT, id="an integer needs no controller"),
        pytest.param({"maxUnavailable": 1}, (0, 1, 0, 0), INSUFFICIENT, id="a share of no controller"),
    ],
)
async def test_a_budget_counts_pods_without_a_controller(spec, counts, condition):
    plane = Plane()
    async with working(plane):
        bare = pod("p", node="n1")
        bare["metadata"]["labels"] = {"app": "web"}
        await plane.user.create("pods", bare)
        await create_budget(plane, **spec)
        await asyncio.sleep(3)
        assert await status(plane) == (counts, condition)


async def test_a_share_of_a_job_cannot_be_counted():
    plane = Plane()
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {**pod("p", policy="Never")["spec"], "nodeName": "n1"}}
    async with working(plane):
        await plane.user.create("jobs", {"metadata": {"name": "j"}, "spec": {"template": template}})
        await create_budget(plane, maxUnavailable=1)
        await asyncio.sleep(3)
        _, condition = await status(plane)
    assert condition == ("False", "SyncFailed", "jobs.batch does not implement the scale subresource")
