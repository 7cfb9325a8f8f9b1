"""A kubelet that has lost what it knew never gives a GPU back; a person can, once no pod uses it."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

import pytest

from tests.cluster.node import RealNode
from tests.scenarios import objects
from tests.scenarios.controller import Controller
from tests.scenarios.eventually import eventually
from tests.scenarios.namespaces import Namespace
from tests.scenarios.real_node import pods
from tests.scenarios.real_node.plugin import COMMAND, Plugin
from tests.scenarios.resources import CLAIMS, PODS
from tests.scenarios.target import Capability, Mode, Target

pytestmark = [pytest.mark.needs(Capability.KUBELET, Capability.COMPONENTS), pytest.mark.modes(Mode.REPLACE)]


def release(node: RealNode, target: Target, uid: str, *more: str) -> str:
    """Run the command as an administrator of the cluster does; return what it says."""
    command: Sequence[str] = [
        *COMMAND,
        "release",
        f"--claim-uid={uid}",
        f"--plugins={node.plugins}",
        f"--cdi={node.cdi}",
        f"--node-name={node.name}",
        f"--kubeconfig={target.admin}",
        *more,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


@pytest.mark.long
async def test_what_a_kubelet_has_forgotten_is_given_back_by_hand(
    plugin: Plugin, controller: Controller, namespace: Namespace, real_node: RealNode, target: Target
) -> None:
    assert controller.process.alive
    await pods.offer_gpus(namespace)
    claim = await pods.claim_gpu(namespace)
    uid = claim["metadata"]["uid"]
    await pods.run(namespace, real_node, "holder", pods.shape())
    real_node.stop_kubelet()
    (real_node.plugins.parent / "dra_manager_state").unlink()
    real_node.start_kubelet()
    await plugin.is_ready()
    assert "is used on node" in release(real_node, target, uid)
    assert plugin.prepared() == {uid}

    await namespace.delete(PODS, "holder")
    await eventually(
        lambda: namespace.find(PODS, "holder"), until=lambda pod: pod is None, within=120, saying="it ended"
    )
    await namespace.delete(CLAIMS, "gpu")
    await eventually(
        lambda: namespace.find(CLAIMS, "gpu"), until=lambda found: found is None, saying="its claim is gone"
    )
    assert plugin.prepared() == {uid}, "nobody has given it back"

    await pods.claim_gpu(namespace, "next")
    await namespace.create(objects.pod("next", pods.shape("next")))

    async def refusals() -> list[str]:
        return [text for text in await pods.failures(namespace) if f"is held by claim {namespace.name}/gpu" in text]

    await eventually(refusals, within=pods.WITHIN, saying="the next pod is refused, naming who has the GPU")
    assert ": released." in release(real_node, target, uid)
    await pods.has_gpu(namespace, real_node, "next", within=120)
    assert f"claim {namespace.name}/gpu (uid {uid}): was released manually: " in plugin.log
