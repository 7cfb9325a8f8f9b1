import asyncio

import pytest

from localplane.controller_manager.manager import ControllerManager
from localplane.nodes.kubelets import Kubelets
from localplane.nodes.node_objects import EmulatedNode
from tests.localplane.components import Plane, running

VIRTUAL_TIME = True


def deployment(name, *, replicas=3, image="busybox:1", **spec):
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template(name, image),
            **spec,
        },
    }


def template(name, image):
    containers = [{"name": "main", "image": image}]
    return {
        "metadata": {"labels": {"app": name}},
        "spec": {"nodeName": "n1", "containers": containers, "restartPolicy": "Always"},
    }


def working(plane, *, start_seconds=0.0):
    nodes = [EmulatedNode(name="n1", start_seconds=start_seconds)]
    kubelets = Kubelets(plane.client(), nodes=nodes, clock=plane.clock, random=plane.random, leases=False)
    return running(kubelets, ControllerManager(plane.client(), clock=plane.clock, random=plane.random))


async def status(plane, name):
    found = (await plane.user.get("deployments", name))["status"]
    return found, {c["type"]: (c["status"], c["reason"]) for c in found["conditions"]}


async def images(plane):
    pods = await plane.user.list("pods")
    return sorted(p["spec"]["containers"][0]["image"] for p in pods if "deletionTimestamp" not in p["metadata"])


async def test_a_deployment_becomes_available():
    plane = Plane()
    async with working(plane):
        await plane.user.create("deployments", deployment("web"))
        await asyncio.sleep(3)
        found, conditions = await status(plane, "web")
        made = await plane.user.get("deployments", "web")
        [replicas] = await plane.user.list("replicasets")
    assert (found["replicas"], found["updatedReplicas"], found["availableReplicas"]) == (3, 3, 3)
    assert found["observedGeneration"] == made["metadata"]["generation"]
    assert conditions == {
        "Available": ("True", "MinimumReplicasAvailable"),
        "Progressing": ("True", "NewReplicaSetAvailable"),
    }
    label = replicas["metadata"]["labels"]["pod-template-hash"]
    assert replicas["metadata"]["name"] == f"web-{label}"
    assert made["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"


@pytest.mark.parametrize(
    ("rolling", "most", "least"),
    [
        pytest.param({"maxSurge": 1, "maxUnavailable": 0}, 5, 4, id="surge"),
        pytest.param({"maxSurge": 0, "maxUnavailable": 1}, 4, 3, id="unavailable"),
        pytest.param({"maxSurge": "50%", "maxUnavailable": "25%"}, 6, 3, id="shares"),
    ],
)
async def test_a_rollout_keeps_its_bounds(rolling, most, least):
    plane = Plane()
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    seen = []
    async with working(plane, start_seconds=1.0):
        await plane.user.create("deployments", deployment("web", replicas=4, strategy=strategy))
        await asyncio.sleep(5)
        await plane.user.patch("deployments", "web", {"spec": {"template": template("web", "busybox:2")}})
        for _ in range(300):
            await asyncio.sleep(0.1)
            pods = [p for p in await plane.user.list("pods") if "deletionTimestamp" not in p["metadata"]]
            ready = [
                p
                for p in pods
                if any(
                    c["type"] == "Ready" and c["status"] == "True" for c in p.get("status", {}).get("conditions", ())
                )
            ]
            seen.append((len(pods), len(ready)))
        _, conditions = await status(plane, "web")
        assert await images(plane) == ["busybox:2"] * 4
    assert max(total for total, _ in seen) <= most
    assert min(ready for _, ready in seen) >= least
    assert conditions["Progressing"] == ("True", "NewReplicaSetAvailable")


async def test_recreate_ends_all_old_pods_first():
    plane = Plane()
    async with working(plane):
        await plane.user.create("deployments", deployment("web", strategy={"type": "Recreate"}))
        await asyncio.sleep(3)
        await plane.user.patch("deployments", "web", {"spec": {"template": template("web", "busybox:2")}})
        for _ in range(50):
            await asyncio.sleep(0.1)
            assert len(set(await images(plane))) <= 1
        assert await images(plane) == ["busybox:2"] * 3


async def test_going_back_to_an_older_template_uses_its_replicaset_again():
    plane = Plane()
    async with working(plane):
        await plane.user.create("deployments", deployment("web"))
        await asyncio.sleep(3)
        for image in ("busybox:2", "busybox:1"):
            await plane.user.patch("deployments", "web", {"spec": {"template": template("web", image)}})
            await asyncio.sleep(10)
        sets = await plane.user.list("replicasets")
        made = await plane.user.get("deployments", "web")
        assert await images(plane) == ["busybox:1"] * 3
    assert sorted(each["spec"]["replicas"] for each in sets) == [0, 3]
    assert made["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"


async def test_scaling():
    plane = Plane()
    async with working(plane):
        await plane.user.create("deployments", deployment("web"))
        await asyncio.sleep(3)
        for size in (10, 2, 0):
            await plane.user.patch("deployments", "web", {"spec": {"replicas": size}})
            await asyncio.sleep(40)
            assert len(await plane.user.list("pods")) == size


async def test_a_pod_that_is_deleted_is_replaced():
    plane = Plane()
    async with working(plane):
        await plane.user.create("deployments", deployment("web"))
        await asyncio.sleep(3)
        before = await plane.user.names("pods")
        await plane.user.delete("pods", before[0])
        await asyncio.sleep(40)
        after = await plane.user.names("pods")
    assert len(after) == 3
    assert before[0] not in after


async def test_all_goes_with_the_deployment():
    plane = Plane()
    async with working(plane):
        await plane.user.create("deployments", deployment("web"))
        await asyncio.sleep(3)
        await plane.user.delete("deployments", "web", propagationPolicy="Foreground")
        await asyncio.sleep(60)
        assert not await plane.user.names("pods")
        assert not await plane.user.names("replicasets")
        assert not await plane.user.names("deployments")


async def test_a_rollout_that_does_not_move_is_told():
    plane = Plane()
    async with running(ControllerManager(plane.client(), clock=plane.clock, random=plane.random)):
        await plane.user.create("deployments", deployment("web", progressDeadlineSeconds=60))
        await asyncio.sleep(30)
        _, before = await status(plane, "web")
        await asyncio.sleep(60)
        _, after = await status(plane, "web")
    assert before["Progressing"] == ("True", "ReplicaSetUpdated")
    assert after["Progressing"] == ("False", "ProgressDeadlineExceeded")
    assert after["Available"] == ("False", "MinimumReplicasUnavailable")


async def test_an_idle_deployment_is_not_written():
    plane = Plane()
    async with working(plane):
        await plane.user.create("deployments", deployment("web"))
        await asyncio.sleep(60)
        before = plane.server.store.revision
        await asyncio.sleep(600)
        assert plane.server.store.revision == before
