"""The division as a part of the agent: from the ConfigMap and the pods of the API server to the kernel."""

import asyncio

import pytest

from kubeletplugin.cgroups.pod_cgroups import find_pod_hierarchies
from kubeletplugin.colocation import node_agent
from kubeletplugin.colocation.node_agent import create_parts
from tests.dra.engine.resctrl import machines
from tests.dra.engine.resctrl.fake_kernel import FakeKernel
from tests.dra.engine.resctrl.test_decide_shares import RELEASE_NOTES
from tests.kubeletplugin.colocation.agent import NODE, Place, watching
from tests.kubeletplugin.node import until_async


@pytest.fixture
def kernel(monkeypatch):
    made = FakeKernel(machines.INTEL)
    monkeypatch.setattr(node_agent, "ResctrlFiles", lambda *_, **__: made)
    return made


@pytest.fixture
async def place(tmp_path, kernel):
    assert kernel.mounted  # before the agent is made, since it is made with the kernel's files
    place = Place(tmp_path)
    place.agent._parts = create_parts(place.agent._context)
    await place.define()
    await place.user.create("nodes", {"metadata": {"name": NODE}})
    async with watching(place):
        yield place


async def run_pod(place, kernel, name, qos, *threads):
    """Run a pod on the node with threads in its container."""
    uid = await place.create_pod(name, qos=qos)
    place.machine.add(uid, milli=100, qos="burstable")
    tree = find_pod_hierarchies(place.machine.cgroups, uids={uid})
    folder = next(iter(tree.tops.values())).joinpath(*tree.kubepods, *tree.read_pods()[uid].path)
    (folder / "0123abcd/tasks").write_text("".join(f"{thread}\n" for thread in threads))
    kernel.threads |= dict.fromkeys(threads, "")
    await place.seen(lambda informers: ("default", name) in informers.pods.objects)


async def configure(place, text):
    await place.configure({"resource-qos-config": text})
    await place.seen(
        lambda informers: any(
            (each.data or {}).get("resource-qos-config") == text for each in informers.config_maps.objects.values()
        )
    )


async def test_the_configmap_of_the_release_notes_divides_the_pods_of_the_node(place, kernel):
    await run_pod(place, kernel, "web", "LS", 10, 11)
    await run_pod(place, kernel, "job", "BE", 20)
    await place.steps(1)
    assert kernel.writes == []
    await configure(place, RELEASE_NOTES)
    await place.steps(1)
    assert kernel.groups["BE"]["L3"] == {0: 0x7, 1: 0x7}
    assert kernel.groups["LS"] == kernel.defaults
    assert (kernel.tasks("LS"), kernel.tasks("BE")) == ({10, 11}, {20})


async def test_switched_off_in_the_configmap_the_groups_get_everything_back(place, kernel):
    await run_pod(place, kernel, "job", "BE", 20)
    await configure(place, RELEASE_NOTES)
    await place.steps(1)
    await configure(place, "{}")
    await place.steps(1)
    assert kernel.groups["BE"] == kernel.defaults
    assert kernel.tasks("BE") == {20}


async def test_the_nodemetric_says_what_the_kernel_can_do(place, kernel):
    await run_pod(place, kernel, "job", "BE", 20)
    await place.create_node_metric()
    await place.seen(lambda informers: len(informers.node_metrics.objects) == 1)
    await place.steps(200)
    assert await place.agent._reporter.report() > 50
    features = {each["name"]: each for each in (await place.node_metric())["status"]["features"]}
    assert features["resctrl"]["usable"] is True
    assert features["resctrl"]["text"].startswith("L3 cache: 10 ways")
    assert features["cpuPressure"]["usable"] is False


async def test_an_agent_that_is_cancelled_gives_everything_back(place, kernel):
    await configure(place, RELEASE_NOTES)
    running = asyncio.create_task(place.agent.run())

    async def divided():
        return kernel.groups.get("BE", {}).get("L3") == {0: 0x7, 1: 0x7}

    await until_async(divided)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert kernel.groups["BE"] == kernel.defaults
