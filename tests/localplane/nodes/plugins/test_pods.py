"""Pods whose devices a plugin prepares: from the claim to the environment of a process."""

import asyncio
import contextlib
import json
from types import SimpleNamespace

import pytest

from dra.kube.client import Client
from dra.kube.clock import SYSTEM
from dra.kube.rate_limiter import RateLimiter
from dra.wire import devicehealth
from dra.wire import plugin as wire
from localplane.nodes.container_runtime import ProcessRuntime
from localplane.nodes.kubelets import Kubelets
from localplane.nodes.node_objects import EmulatedNode
from localplane.nodes.plugins.checkpoints import FileCheckpointer
from localplane.nodes.plugins.node_folders import NodeFolders
from localplane.nodes.plugins.plugin_preparer import PluginPreparer
from localplane.server import ApiServer
from localplane.transport import LocalTransport
from tests.dra.kube.virtual import seeded
from tests.localplane.components import User, pod, running
from tests.localplane.nodes.plugins.socket_plugin import DRIVER, SocketPlugin

OWN = "gpu.example.com"
TOUCH = {"metadata": {"annotations": {"touched": "1"}}}
WHY = "Failed to prepare dynamic resources: prepare dynamic resources: "


@pytest.fixture
async def plane(short_path):
    folders = NodeFolders(short_path)
    server = ApiServer(random=seeded(1))
    async with started(folders, server) as plane:
        yield plane


@contextlib.asynccontextmanager
async def started(folders, server):
    """The kubelet of a node."""
    client = Client(LocalTransport(server), RateLimiter(1e6, 1e6))
    plugins = PluginPreparer({"n1": folders}, client, clock=SYSTEM, simulated_drivers=frozenset({OWN}))
    kubelets = Kubelets(
        client,
        nodes=[EmulatedNode(name="n1", devices=1)],
        clock=SYSTEM,
        random=seeded(2),
        preparer=plugins,
        health=plugins,
        checkpoint=FileCheckpointer({"n1": folders.root}),
        containers=ProcessRuntime(specs={"n1": folders.cdi}),
    )
    async with running(kubelets, plugins):
        yield SimpleNamespace(user=User(server), folders=folders, plugins=plugins, kubelets=kubelets)


async def eventually(holds):
    async with asyncio.timeout(20):
        while not await holds():  # noqa: ASYNC110 - processes and sockets tell nobody
            await asyncio.sleep(0.02)


async def registered(plugin):
    async def holds():
        return (True, "") in plugin.statuses

    await eventually(holds)


async def claim(plane, name, *drivers):
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}]
    body = {"metadata": {"name": name}, "spec": {"devices": {"requests": requests}}}
    created = await plane.user.create("resourceclaims", body)
    results = [{"request": "gpu", "driver": driver, "pool": "n1", "device": "gpu-0"} for driver in drivers]
    allocation = {"devices": {"results": results}, "reservedForAnyPod": True}
    await plane.user.patch("resourceclaims", name, {"status": {"allocation": allocation}}, subresource="status")
    return created["metadata"]["uid"]


def with_devices(body, *claims):
    """Let the container of a pod have these entries of its claims."""
    body["spec"]["containers"][0]["resources"] = {"claims": [{"name": name} for name in claims]}
    return body


async def phase(plane, name, wanted):
    async def holds():
        return (await plane.user.get("pods", name)).get("status", {}).get("phase") == wanted

    await eventually(holds)


async def deleted(plane, name):
    async def holds():
        return name not in await plane.user.names("pods")

    await eventually(holds)


async def refusal(plane):
    async def holds():
        return await plane.user.list("events")

    await eventually(holds)
    [event, *_] = await plane.user.list("events")
    return event["reason"], event["note"]


async def test_a_claim_is_prepared_once_for_all_pods_and_given_back_after_the_last(plane):
    async with SocketPlugin(plane.folders) as plugin:
        await registered(plugin)
        uid = await claim(plane, "c", DRIVER)
        for name in ("a", "b"):
            await plane.user.create("pods", pod(name, node="n1", claims=["c"]))
            await phase(plane, name, "Running")
        await plane.user.delete("pods", "a", gracePeriodSeconds=1)
        await deleted(plane, "a")
        assert not plugin.unprepared
        await plane.user.delete("pods", "b", gracePeriodSeconds=1)
        await deleted(plane, "b")
        assert plugin.prepared == plugin.unprepared == [[("default", "c", uid)]]


async def test_claims_of_a_pod_are_asked_for_in_one_call_of_each_driver(plane):
    other = "other.example.com"
    async with SocketPlugin(plane.folders) as one, SocketPlugin(plane.folders, driver=other) as two:
        await registered(one)
        await registered(two)
        await claim(plane, "c", DRIVER)
        await claim(plane, "d", DRIVER, other)
        await claim(plane, "e", other)
        await plane.user.create("pods", pod("p", node="n1", claims=["c", "d", "e"]))
        await phase(plane, "p", "Running")
        await plane.user.delete("pods", "p", gracePeriodSeconds=1)
        await deleted(plane, "p")
        for plugin, names in ((one, ["c", "d"]), (two, ["d", "e"])):
            for calls in (plugin.prepared, plugin.unprepared):
                assert [[name for _, name, _ in call] for call in calls] == [names]


async def test_processes_have_the_environment_of_their_devices(plane, tmp_path):
    async with SocketPlugin(plane.folders) as plugin:
        await registered(plugin)
        uid = await claim(plane, "c", DRIVER)
        spec = {
            "cdiVersion": "0.6.0",
            "kind": f"{DRIVER}/claim",
            "containerEdits": {"env": ["COMMON=yes"]},
            "devices": [{"name": f"{uid}-0", "containerEdits": {"env": ["VISIBLE=GPU=0"]}}],
        }
        (plane.folders.cdi / "claim.json").write_text(json.dumps(spec))
        command = ("sh", "-c", f'echo "$VISIBLE $COMMON" > {tmp_path}/environment')
        body = pod("p", node="n1", claims=["c"], command=command, policy="Never")
        await plane.user.create("pods", with_devices(body, "c0"))
        await phase(plane, "p", "Succeeded")
        assert (tmp_path / "environment").read_text() == "GPU=0 yes\n"
        await plane.user.create("pods", pod("q", node="n1", claims=["c"], command=command, policy="Never"))
        await phase(plane, "q", "Succeeded")
        assert (tmp_path / "environment").read_text() == " \n", "its container does not name the claim"


async def test_a_device_that_nobody_describes_keeps_its_container_from_starting(plane):
    async with SocketPlugin(plane.folders) as plugin:
        await registered(plugin)
        uid = await claim(plane, "c", DRIVER)
        await plane.user.create("pods", with_devices(pod("p", node="n1", claims=["c"], policy="Never"), "c0"))
        await phase(plane, "p", "Failed")
        [status] = (await plane.user.get("pods", "p"))["status"]["containerStatuses"]
        assert status["state"]["terminated"]["exitCode"] == 128
        text = f"Error: CDI device injection failed: unresolvable CDI devices {DRIVER}/claim={uid}-0"
        assert await refusal(plane) == ("Failed", text)


async def test_a_driver_that_is_not_there_fails_the_pod_which_can_be_deleted(plane):
    await claim(plane, "c", "absent.example.com")
    await plane.user.create("pods", pod("p", node="n1", claims=["c"]))
    text = WHY + "DRA driver absent.example.com is not registered"
    assert await refusal(plane) == ("FailedPrepareDynamicResources", text)
    await plane.user.delete("pods", "p")
    await deleted(plane, "p")


async def test_devices_that_the_plane_publishes_are_simulated(plane):
    await claim(plane, "c", OWN)
    await plane.user.create("pods", pod("p", node="n1", claims=["c"]))
    await phase(plane, "p", "Running")
    await plane.user.delete("pods", "p", gracePeriodSeconds=1)
    await deleted(plane, "p")


async def test_a_pod_waits_for_the_driver_that_has_its_devices(plane):
    async with SocketPlugin(plane.folders) as plugin:
        await registered(plugin)
        await claim(plane, "c", DRIVER)
        await plane.user.create("pods", pod("p", node="n1", claims=["c"]))
        await phase(plane, "p", "Running")
        await plugin.withdraw()

        async def deregistered():
            return DRIVER not in plane.plugins._nodes["n1"]

        await eventually(deregistered)
        await plane.user.delete("pods", "p", gracePeriodSeconds=1)
        assert await refusal(plane) == (
            "FailedUnprepareDynamicResources",
            f"unprepare dynamic resources: DRA driver {DRIVER} is not registered",
        )
        assert await plane.user.names("pods") == ["p"]
    async with SocketPlugin(plane.folders) as again:
        await deleted(plane, "p")
        assert len(again.unprepared) == 1


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param(lambda _: {}, "NodePrepareResources skipped 1 ResourceClaims", id="nothing"),
        pytest.param(
            lambda request: {
                claim.uid: wire.NodePrepareResourceResponse(error="device gpu-0 is broken") for claim in request.claims
            },
            "NodePrepareResources failed for ResourceClaim c: device gpu-0 is broken",
            id="error",
        ),
        pytest.param(
            lambda _: 1 / 0,
            "NodePrepareResources: rpc error: code = Unknown desc = Unexpected <class 'ZeroDivisionError'>:"
            " division by zero",
            id="a-plugin-that-fails",
        ),
    ],
)
async def test_what_a_plugin_answers_is_told_on_the_pod_which_is_tried_again(plane, answer, text):
    async with SocketPlugin(plane.folders) as plugin:
        await registered(plugin)
        await claim(plane, "c", DRIVER)
        plugin.answer = answer
        await plane.user.create("pods", pod("p", node="n1", claims=["c"]))
        assert await refusal(plane) == ("FailedPrepareDynamicResources", WHY + text)
        plugin.answer = plugin.answer_all
        await plane.user.patch("pods", "p", TOUCH)
        await phase(plane, "p", "Running")


async def test_the_health_of_devices_is_in_the_status_of_their_pods(plane):
    async with SocketPlugin(
        plane.folders, versions=(*wire.DraPluginVersion, *devicehealth.DraResourceHealthVersion)
    ) as plugin:
        await registered(plugin)
        uid = await claim(plane, "c", DRIVER)
        (plane.folders.cdi / "claim.json").write_text(
            json.dumps({"kind": f"{DRIVER}/claim", "devices": [{"name": f"{uid}-0"}]})
        )
        await plane.user.create("pods", with_devices(pod("p", node="n1", claims=["c"]), "c0"))
        await phase(plane, "p", "Running")

        async def shown():
            [status] = (await plane.user.get("pods", "p"))["status"]["containerStatuses"]
            return status.get("allocatedResourcesStatus")

        async def is_(**health):
            async def holds():
                resource = {"resourceID": f"{DRIVER}/claim={uid}-0", **health}
                return await shown() == [{"name": "claim:c0", "resources": [resource]}]

            await eventually(holds)

        await is_(health="Unknown")
        device = {"pool_name": "n1", "device_name": "gpu-0"}
        plugin.health.put_nowait([{"device": device, "health": 1}])
        await is_(health="Healthy")
        plugin.health.put_nowait([{"device": device, "health": 2, "message": "fallen off the bus"}])
        await is_(health="Unhealthy", message="fallen off the bus")
        plugin.health.put_nowait(None)
        await is_(health="Unknown")


async def test_after_a_reboot_claims_are_prepared_again(plane):
    async with SocketPlugin(plane.folders) as plugin:
        await registered(plugin)
        await claim(plane, "c", DRIVER)
        await plane.user.create("pods", pod("p", node="n1", claims=["c"]))
        await phase(plane, "p", "Running")
        plane.kubelets.reboot("n1", seconds=1.5)

        async def again():
            return len(plugin.prepared) == 2

        await eventually(again)
        await phase(plane, "p", "Running")
        assert plugin.prepared[0] == plugin.prepared[1]


async def test_what_was_prepared_before_a_kubelet_started_again_is_given_back(short_path):
    folders, server = NodeFolders(short_path), ApiServer(random=seeded(1))
    folders.make()
    async with SocketPlugin(folders) as plugin:
        async with started(folders, server) as plane:
            await registered(plugin)
            await claim(plane, "c", DRIVER)
            await plane.user.create("pods", pod("p", node="n1", claims=["c"]))
            await phase(plane, "p", "Running")
        plugin.statuses.clear()
        async with started(folders, server) as plane:
            await registered(plugin)
            await plane.user.delete("pods", "p", gracePeriodSeconds=1)
            await deleted(plane, "p")
        assert plugin.unprepared == [plugin.prepared[0]]
