"""Kubelets and plugins come and go under running pods: those keep their GPU, and nobody else gets it."""

from __future__ import annotations

import pytest

from tests.cluster.node import RealNode
from tests.scenarios import objects
from tests.scenarios.controller import Controller
from tests.scenarios.eventually import eventually
from tests.scenarios.namespaces import Namespace
from tests.scenarios.real_node import pods
from tests.scenarios.real_node.plugin import Plugin, cdi_files, slices
from tests.scenarios.target import Capability, Mode

pytestmark = [pytest.mark.needs(Capability.KUBELET, Capability.COMPONENTS), pytest.mark.modes(Mode.REPLACE)]


@pytest.fixture
async def holder(plugin: Plugin, controller: Controller, namespace: Namespace, real_node: RealNode) -> str:
    """A pod that runs with the node's only GPU."""
    assert plugin.process.alive
    assert controller.process.alive
    await pods.offer_gpus(namespace)
    await pods.claim_gpu(namespace)
    await pods.run(namespace, real_node, "holder", pods.shape(restart=True))
    return "holder"


async def still_serves(namespace: Namespace, node: RealNode, holder: str, *, pid: int | None = None) -> None:
    """Assert that the holder has the GPU, also after a restart, another pod of the claim joins it, nobody else does."""
    if pid is not None:
        assert await pods.has_gpu(namespace, node, holder) == pid, "its container was not to be touched"
    await pods.run(namespace, node, "another", pods.shape())
    await pods.restart_container(namespace, node, holder)
    await pods.refuses_second_holder(namespace, node)


async def published(namespace: Namespace, node: RealNode) -> None:
    await eventually(lambda: slices(namespace.api, node.name), within=120, saying="the GPUs are published again")


async def test_kubelet_restarts(namespace: Namespace, real_node: RealNode, holder: str) -> None:
    pid = await pods.has_gpu(namespace, real_node, holder)
    real_node.restart_kubelet()
    await published(namespace, real_node)
    await still_serves(namespace, real_node, holder, pid=pid)


@pytest.mark.parametrize("way", ["killed", pytest.param("stopped", marks=pytest.mark.long)])
async def test_plugin_restarts(
    plugin: Plugin, namespace: Namespace, real_node: RealNode, holder: str, way: str
) -> None:
    pid = await pods.has_gpu(namespace, real_node, holder)
    plugin.stop() if way == "stopped" else plugin.crash()
    await plugin.start()
    await still_serves(namespace, real_node, holder, pid=pid)


@pytest.mark.long
async def test_kubelet_restarts_while_the_plugin_is_down(
    plugin: Plugin, namespace: Namespace, real_node: RealNode, holder: str
) -> None:
    pid = await pods.has_gpu(namespace, real_node, holder)
    plugin.crash()
    real_node.restart_kubelet()
    await eventually(
        lambda: slices(namespace.api, real_node.name),
        until=lambda found: not found,
        within=120,
        saying="nothing is published",
    )
    assert await pods.has_gpu(namespace, real_node, holder) == pid
    await namespace.create(objects.pod("early", pods.shape()))
    await plugin.start()
    await pods.has_gpu(namespace, real_node, "early")
    await still_serves(namespace, real_node, holder, pid=pid)


async def test_registration_socket_is_deleted(
    plugin: Plugin, namespace: Namespace, real_node: RealNode, holder: str
) -> None:
    pid = await pods.has_gpu(namespace, real_node, holder)
    lost = plugin.registration.stat().st_ino
    plugin.registration.unlink()
    await eventually(
        lambda: [each.stat().st_ino for each in real_node.plugins_registry.glob("*-reg.sock")],
        until=lambda found: found and lost not in found,
        saying="the plugin can be found again",
    )
    real_node.restart_kubelet()  # forgets what it has prepared, and has to ask
    await published(namespace, real_node)
    await still_serves(namespace, real_node, holder, pid=pid)


async def test_node_reboots(plugin: Plugin, namespace: Namespace, real_node: RealNode, holder: str) -> None:
    """All processes end, and what lies in memory is gone: the CDI folder."""
    (claim,) = cdi_files(real_node)
    plugin.crash()
    real_node.stop_kubelet()
    await pods.kill(namespace, real_node, holder)
    real_node.wipe_cdi()
    plugin.process.spawn()
    real_node.start_kubelet()
    await plugin.is_ready()
    await pods.has_gpu(namespace, real_node, holder)
    assert cdi_files(real_node) == {claim}
    await still_serves(namespace, real_node, holder)


@pytest.mark.long
async def test_cdi_folder_is_wiped_under_a_running_plugin(
    namespace: Namespace, real_node: RealNode, holder: str
) -> None:
    (claim,) = cdi_files(real_node)
    real_node.wipe_cdi()
    await pods.restart_container(namespace, real_node, holder)
    assert cdi_files(real_node) == {claim}
