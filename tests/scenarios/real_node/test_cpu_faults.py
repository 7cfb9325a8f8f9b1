"""CPUs on a real kubelet when something is wrong with the node: owners keep theirs, and it is told.

A machine of two CPUs has one to give. Others are pods of each QoS class, for it decides where their cgroups are born.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from tests.cluster.node import RealNode
from tests.scenarios import objects
from tests.scenarios.api import Api
from tests.scenarios.eventually import eventually
from tests.scenarios.namespaces import Namespace
from tests.scenarios.real_node.cpus import (
    DRIVER,
    QUALITIES,
    STATIC,
    WITHIN,
    CpuPlugin,
    StartCpus,
    device_class,
    kill,
    run,
    sees,
    sights,
)
from tests.scenarios.resources import EVENTS, PODS, RESOURCE_SLICES
from tests.scenarios.target import Capability, Mode

pytestmark = [
    pytest.mark.needs(Capability.KUBELET, Capability.COMPONENTS),
    pytest.mark.modes(Mode.ALONGSIDE),
    pytest.mark.long,
]


@pytest.fixture
def namespace(cpu_namespace: Namespace) -> Namespace:
    """One with a class of CPUs."""
    return cpu_namespace


async def owner(plugin: CpuPlugin, namespace: Namespace) -> None:
    """Start a plugin, and a pod that owns CPU 1."""
    await plugin.start()
    await namespace.create(objects.claim("cpus", device_class=device_class(namespace)))
    await run(namespace, "owner", claim="cpus")
    await sees(plugin.node, namespace, "owner", "1")


async def others_are_kept_off(node: RealNode, namespace: Namespace, name: str) -> None:
    """Assert that a new pod of each class has CPU 0 alone, and that the owner has always had CPU 1."""
    for quality in QUALITIES:
        await run(namespace, f"{name}-{quality}", quality=quality)
    for quality in QUALITIES:
        await sees(node, namespace, f"{name}-{quality}", "0")
    assert {each.mask for each in sights(node, namespace, "owner")} == {"1"}


async def offers(api: Api, node: RealNode, *, devices: bool) -> None:
    """Wait until the driver offers devices on the node, or none."""
    fields = f"spec.nodeName={node.name},spec.driver={DRIVER}"

    async def found() -> bool:
        return bool(await api.all(RESOURCE_SLICES, fieldSelector=fields))

    await eventually(
        found, until=lambda there: there is devices, within=WITHIN, saying=f"devices are offered: {devices}"
    )


async def is_not_ready(plugin: CpuPlugin, text: str, *, reason: str, api: Api) -> None:
    """Wait until the plugin's probe and an Event on its Node say why it is of little use."""
    await eventually(
        plugin.readiness, until=lambda said: said[0] == 503 and text in said[1], saying=f"its probe says: {text}"
    )

    async def events() -> list[str]:
        found = await api.all(EVENTS, fieldSelector=f"reason={reason}")
        return [each["message"] for each in found if each["involvedObject"]["name"] == plugin.node.name]

    await eventually(events, until=lambda said: any(text in each for each in said), saying=f"an Event says: {text}")


async def ends(plugin: CpuPlugin, namespace: Namespace) -> None:
    """Delete the owner and wait until it has given its CPU back."""
    await namespace.delete(PODS, "owner")
    await eventually(plugin.prepared, until=lambda left: not left, within=WITHIN, saying="nothing is prepared")


async def test_others_are_kept_off_while_the_checkpoint_cannot_be_read(
    start_cpus: StartCpus, namespace: Namespace, real_node: RealNode, api: Api
) -> None:
    plugin = start_cpus("whole")
    await owner(plugin, namespace)
    plugin.stop()
    whole = plugin.checkpoint.read_bytes()
    plugin.checkpoint.write_bytes(whole[:-20])

    again = start_cpus("damaged")
    again.process.spawn()
    await is_not_ready(again, "is damaged", reason="NotRecovered", api=api)
    await offers(api, real_node, devices=False)
    await others_are_kept_off(real_node, namespace, "meanwhile")

    plugin.checkpoint.write_bytes(whole)
    await again.is_ready()
    await offers(api, real_node, devices=True)
    await ends(again, namespace)
    await sees(real_node, namespace, "meanwhile-guaranteed", "0-1")


@pytest.mark.parametrize("removed", [pytest.param("", id="all-of-it"), pytest.param("containers", id="its-records")])
async def test_a_folder_that_is_removed_is_made_again_and_the_owner_keeps_its_cpu(
    start_cpus: StartCpus, namespace: Namespace, real_node: RealNode, removed: str
) -> None:
    plugin = start_cpus("one")
    await owner(plugin, namespace)
    await others_are_kept_off(real_node, namespace, "before")
    shutil.rmtree(plugin.folder / removed)
    await others_are_kept_off(real_node, namespace, "after")
    await eventually(
        lambda: "had been removed; written again from memory" in plugin.log, saying="the plugin says what was removed"
    )
    await plugin.is_ready()

    lines = len(sights(real_node, namespace, "owner"))
    kill(namespace, real_node, "owner")
    await eventually(
        lambda: len(sights(real_node, namespace, "owner")) > lines + 10, within=WITHIN, saying="the owner runs again"
    )
    again = start_cpus("two")
    await again.start()  # finds on the disk what the first one knew
    plugin.stop()
    await others_are_kept_off(real_node, namespace, "later")
    await ends(again, namespace)


async def test_beside_the_static_cpu_manager_new_pods_start_and_the_driver_says_that_it_steps_aside(
    start_cpus: StartCpus,
    namespace: Namespace,
    real_node: RealNode,
    api: Api,
    kubelet_again: Callable[[dict[str, Any]], None],
) -> None:
    plugin = start_cpus("one")
    await owner(plugin, namespace)
    await others_are_kept_off(real_node, namespace, "before")

    await asyncio.to_thread(kubelet_again, STATIC)
    await is_not_ready(plugin, "no CPUs are allocated on this node", reason="DriverImpaired", api=api)
    await offers(api, real_node, devices=False)
    for quality in QUALITIES:
        await run(namespace, f"after-{quality}", quality=quality)
        await sees(real_node, namespace, f"after-{quality}", "0-1")
        await sees(real_node, namespace, f"before-{quality}", "0-1")
    assert not (plugin.folder / "demand.json").exists()
    assert plugin.log.count("the kubelet allocates CPUs (policy static") >= 1

    await ends(plugin, namespace)
    await asyncio.to_thread(kubelet_again, {})
    await plugin.is_ready()
    await offers(api, real_node, devices=True)


async def test_a_state_file_that_is_made_anew_takes_no_owner_its_cpu(
    start_cpus: StartCpus,
    namespace: Namespace,
    real_node: RealNode,
    api: Api,
    kubelet_again: Callable[[dict[str, Any]], None],
) -> None:
    plugin = start_cpus("one", mounted=True)
    await owner(plugin, namespace)
    await asyncio.to_thread(kubelet_again, {})
    await is_not_ready(plugin, "delete the plugin's pod on this node", reason="DriverImpaired", api=api)
    await offers(api, real_node, devices=False)
    await others_are_kept_off(real_node, namespace, "meanwhile")

    plugin.stop()
    again = start_cpus("two", mounted=True)
    await again.start()
    await offers(api, real_node, devices=True)
    await others_are_kept_off(real_node, namespace, "later")
    await ends(again, namespace)


async def test_a_plugin_that_is_started_afresh_gives_all_containers_their_cpus_back(
    start_cpus: StartCpus, namespace: Namespace, real_node: RealNode
) -> None:
    plugin = start_cpus("one")
    await owner(plugin, namespace)
    await others_are_kept_off(real_node, namespace, "before")
    plugin.stop()
    shutil.rmtree(plugin.folder)
    for file in real_node.cdi.glob(f"{DRIVER}*"):
        file.unlink()

    again = start_cpus("two")
    await again.start()
    for quality in QUALITIES:
        await sees(real_node, namespace, f"before-{quality}", "0-1")
    await run(namespace, "after", quality="burstable")
    await sees(real_node, namespace, "after", "0-1")
