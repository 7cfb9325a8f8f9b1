"""What the plugin writes can be damaged, and can find no room: nothing is given away, and all goes on afterwards."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.cluster.node import RealNode
from tests.scenarios import objects
from tests.scenarios.eventually import eventually
from tests.scenarios.namespaces import Namespace
from tests.scenarios.real_node import pods
from tests.scenarios.real_node.conftest import StartPlugin
from tests.scenarios.real_node.plugin import cdi_files
from tests.scenarios.resources import PODS
from tests.scenarios.target import Capability, Mode

pytestmark = [pytest.mark.needs(Capability.KUBELET, Capability.COMPONENTS), pytest.mark.modes(Mode.REPLACE)]

ROOM = 64 * 2**10
"""Bytes for sockets and checkpoint: a few claims, no more."""


async def refusal(namespace: Namespace, pod: str, pattern: str) -> str:
    """Wait until the kubelet says of the pod why it cannot start, and return that."""

    async def found() -> list[str]:
        events = [each["message"] for each in await namespace.events(pod)]
        return [each for each in events if re.search(pattern, each)]

    return (await eventually(found, within=pods.WITHIN, saying=f"pod {pod} is told: {pattern}"))[0]


@pytest.mark.long
@pytest.mark.usefixtures("controller")
async def test_a_truncated_checkpoint_is_refused_with_the_way_out(
    start_plugin: StartPlugin, namespace: Namespace, real_node: RealNode
) -> None:
    plugin = await start_plugin(gpus=3)
    previous = plugin.checkpoint.with_name("checkpoint.json.previous")
    await pods.offer_gpus(namespace)
    await pods.claim_gpu(namespace)
    await pods.run(namespace, real_node, "holder", pods.shape(restart=True))
    await pods.claim_gpu(namespace, "last")
    await pods.run(namespace, real_node, "last", pods.shape("last"))
    files = cdi_files(real_node)
    plugin.crash()
    os.truncate(plugin.checkpoint, plugin.checkpoint.stat().st_size // 2)

    plugin.process.spawn()
    await eventually(lambda: str(plugin.checkpoint) in plugin.log, within=120, saying="the log names the file")
    await pods.claim_gpu(namespace, "late")
    await namespace.create(objects.pod("late", pods.shape("late")))
    said = await refusal(namespace, "late", re.escape(str(plugin.checkpoint)))
    assert f"mv {previous} {plugin.checkpoint}" in said
    assert cdi_files(real_node) == files, "nothing may be taken for an orphan"
    await pods.restart_container(namespace, real_node, "holder")

    plugin.process.stop()  # the way out, as the text says it
    previous.rename(plugin.checkpoint)
    await namespace.delete(PODS, "last")
    await plugin.start()
    await pods.has_gpu(namespace, real_node, "late")
    await pods.run(namespace, real_node, "another", pods.shape())
    await pods.refuses_second_holder(namespace, real_node)


@pytest.mark.usefixtures("controller")
async def test_a_full_disk_refuses_new_claims_and_keeps_the_old_ones(
    start_plugin: StartPlugin, namespace: Namespace, real_node: RealNode
) -> None:
    plugin = await start_plugin(gpus=2, room=ROOM)
    ballast = plugin.folder / "ballast"
    await pods.offer_gpus(namespace)
    await pods.claim_gpu(namespace)
    await pods.run(namespace, real_node, "holder", pods.shape(restart=True))
    held = plugin.prepared()
    fill(ballast)

    await pods.claim_gpu(namespace, "late")
    await namespace.create(objects.pod("late", pods.shape("late")))
    said = await refusal(namespace, "late", "No space left on device")
    assert "checkpoint.json" in said
    assert plugin.prepared() == held
    await pods.restart_container(namespace, real_node, "holder")
    await pods.run(namespace, real_node, "another", pods.shape())

    ballast.unlink()
    await pods.has_gpu(namespace, real_node, "late")
    assert len(plugin.prepared()) == 2
    await pods.refuses_second_holder(namespace, real_node)


def fill(file: Path) -> None:
    """Write until there is no room."""
    with file.open("wb", buffering=0) as ballast:
        try:
            while True:
                ballast.write(b"\0" * 4096)
        except OSError:
            pass
