"""Halves of one GPU of a real node: what containers learn, and what Koordinator's objects say of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from tests.cluster.kubectl import kubectl
from tests.cluster.node import RealNode
from tests.scenarios import api as kubernetes
from tests.scenarios import installation, objects
from tests.scenarios.api import Api, ApiError, Json
from tests.scenarios.conftest import ALONE, StartController
from tests.scenarios.eventually import eventually
from tests.scenarios.features import Feature
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.real_node import pods
from tests.scenarios.real_node.conftest import StartPlugin
from tests.scenarios.real_node.plugin import Plugin
from tests.scenarios.resources import CLAIMS, DEVICES, NAMESPACES, NODES, PODS
from tests.scenarios.target import Capability, Mode, Target

pytestmark = [
    pytest.mark.needs(Capability.KUBELET, Capability.COMPONENTS, Feature.CONSUMABLE_CAPACITY),
    pytest.mark.modes(Mode.ALONGSIDE),
]

OVERLAYS: Final = (installation.DEPLOY / "koordinator-devices", installation.DEPLOY / "koordinator")
HALF: Final = 40779
"""MiB of half a card of 81559 MiB."""

SHARE: Final = {"memory": f"{HALF}Mi", "core": "50"}
LABELS: Final = {
    "node.koordinator.sh/gpu-model": "NVIDIA-H100-80GB-HBM3",
    "node.koordinator.sh/gpu-driver-version": "570.86.15",
    "node.koordinator.sh/gpu-vendor": "nvidia",
}
TELL: Final = 'echo "share=$GPU_DEVICE_0_MEMORY_LIMIT/$GPU_DEVICE_0_CORE gpu=$GPU_DEVICE_0"'


@pytest.fixture
async def installed(target: Target, real_node: RealNode, api: Api) -> AsyncIterator[None]:
    """What reports in Koordinator's objects need."""
    for overlay in OVERLAYS:
        installation.install(target.admin, kustomization=overlay)
    yield
    labels: Json = dict.fromkeys(LABELS)
    await api.patch(NODES, real_node.name, {"metadata": {"labels": labels}})
    for overlay in OVERLAYS:
        kubectl("delete", "--ignore-not-found", f"--kustomize={overlay}", kubeconfig=target.admin)


@pytest.fixture
async def sharing(installed: None, start_plugin: StartPlugin) -> Plugin:
    """A plugin that offers shares of one GPU, and reports."""
    del installed
    return await start_plugin(arguments=("--gpu-shares", "--koordinator-devices"))


async def test_two_containers_with_half_a_card_each_learn_their_shares(
    sharing: Plugin,
    namespace: Namespace,
    real_node: RealNode,
    start_controller: StartController,
) -> None:
    del sharing
    await namespace.api.patch(
        NAMESPACES, namespace.name, {"metadata": {"labels": {"reserve.dra/koordinator": "enabled"}}}
    )
    await start_controller(configuration={**ALONE, "koordinator": True})
    device_class = await pods.offer_gpus(namespace)
    for name in ("a", "b"):
        await namespace.create(half(name, device_class))
        await namespace.create(objects.pod(name, PodShape(spec=objects.ON_REAL_NODE, script=TELL, claim=name)))
    for name in ("a", "b"):
        said = await eventually(
            lambda name=name: lines(real_node, namespace, name), within=pods.WITHIN, saying=f"pod {name} says its share"
        )
        assert said[0].startswith(f"share={HALF * 2**20}/50 gpu=GPU-")

    entries = await eventually(
        lambda: allocations(namespace.api, real_node.name),
        until=lambda found: len(found) == 2,
        saying="both claims are allocations of the Device",
    )
    claims = [await namespace.get(CLAIMS, name) for name in ("a", "b")]
    assert entries == [
        {
            "namespace": namespace.name,
            "name": each["metadata"]["name"],
            "uuid": each["metadata"]["uid"],
            "minors": [0],
        }
        for each in claims
    ]
    device = await namespace.api.get(DEVICES, real_node.name)
    (card,) = device["spec"]["devices"]
    assert (card["type"], card["minor"], card["health"]) == ("gpu", 0, True)
    assert card["resources"]["koordinator.sh/gpu-memory"] == "81559Mi"
    node = await namespace.api.get(NODES, real_node.name)
    assert LABELS.items() <= node["metadata"]["labels"].items()

    report = await eventually(lambda: reported(namespace, "a"), saying="pod a has its report")
    (gpu,) = report["gpu"]
    assert (gpu["minor"], gpu["id"]) == (0, card["id"])
    assert gpu["resources"]["koordinator.sh/gpu-core"] == "50"

    await namespace.delete(PODS, "a", grace_seconds=1)
    await eventually(
        lambda: allocations(namespace.api, real_node.name),
        until=lambda found: [each["name"] for each in found] == ["b"],
        within=30.0,
        saying="the Device has one allocation less",
    )


async def test_the_account_of_a_plugin_writes_no_device_and_no_label_of_another_node(
    sharing: Plugin, namespace: Namespace, real_node: RealNode
) -> None:
    await eventually(
        lambda: namespace.api.find(DEVICES, real_node.name), saying="the plugin has written its own Device"
    )
    body = {"apiVersion": DEVICES.api_version, "kind": "Device", "metadata": {"name": "node-000"}}
    labels = {"metadata": {"labels": {"node.koordinator.sh/gpu-model": "x"}}}
    other = {"metadata": {"labels": {"x": "y"}}}
    async with kubernetes.connect(sharing.kubeconfig) as plugin:
        with pytest.raises(ApiError, match="may not write the Device of node node-000"):
            await plugin.create(body)
        with pytest.raises(ApiError, match="may write no Node but the labels of its own"):
            await plugin.patch(NODES, "node-000", labels)
        with pytest.raises(ApiError, match="and nothing else"):
            await plugin.patch(NODES, real_node.name, other)
        await plugin.patch(NODES, real_node.name, labels)


def half(name: str, device_class: str) -> Json:
    """Return a claim for half of a GPU."""
    exactly = {"deviceClassName": device_class, "capacity": {"requests": SHARE}}
    return {
        "apiVersion": CLAIMS.api_version,
        "kind": CLAIMS.kind,
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }


def lines(node: RealNode, namespace: Namespace, pod: str) -> list[str]:
    """Return what a pod has said of its share."""
    return [line for line in node.output(namespace.name, pod).splitlines() if line.startswith("share=")]


async def allocations(api: Api, node: str) -> list[Json]:
    """Return the entries of the allocations of a node's Device; none if the Device is not written yet."""
    device = await api.find(DEVICES, node)
    found = device.get("status", {}).get("allocations", []) if device is not None else []
    return [entry for each in found for entry in each["entries"]]


async def reported(namespace: Namespace, pod: str) -> Any:
    """Return the report of a pod; None if there is none."""
    found = await namespace.get(PODS, pod)
    return json.loads(
        found["metadata"].get("annotations", {}).get("scheduling.koordinator.sh/device-allocated", "null")
    )
