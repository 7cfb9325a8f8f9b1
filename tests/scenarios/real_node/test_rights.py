"""The account that the plugin is installed with may do what a kubelet may do for its own node, and no more."""

from __future__ import annotations

import pytest

from tests.cluster.node import RealNode
from tests.scenarios import api as kubernetes
from tests.scenarios import objects
from tests.scenarios.api import ApiError, Json
from tests.scenarios.claims import revision
from tests.scenarios.namespaces import Namespace
from tests.scenarios.real_node.plugin import DRIVER, Plugin, slices
from tests.scenarios.resources import CLAIMS, NODES, PODS, RESOURCE_SLICES
from tests.scenarios.target import Capability, Mode

pytestmark = [pytest.mark.needs(Capability.KUBELET, Capability.COMPONENTS), pytest.mark.modes(Mode.REPLACE)]


async def test_a_plugin_writes_slices_of_its_own_node_only(
    plugin: Plugin, namespace: Namespace, real_node: RealNode
) -> None:
    own = (await slices(namespace.api, real_node.name))[0]
    note: Json = {"metadata": {"annotations": {"scenario.dra/by": "the plugin"}}}
    others = [each["metadata"]["name"] for each in await namespace.api.all(NODES)]
    other = next(name for name in others if name != real_node.name)
    foreign = objects.resource_slice(f"{namespace.name}-foreign", driver=DRIVER, devices=["gpu-9"], node=other)
    async with kubernetes.connect(plugin.kubeconfig) as account:
        patched = await account.patch(RESOURCE_SLICES, own["metadata"]["name"], note)
        assert revision(patched) != revision(own)
        with pytest.raises(ApiError, match=f"on node {real_node.name} may not write slices of node {other}"):
            await account.create(foreign)
        await namespace.create(foreign)
        with pytest.raises(ApiError, match=f"on node {real_node.name} may not write slices of node {other}"):
            await account.delete(RESOURCE_SLICES, foreign["metadata"]["name"])


async def test_a_plugin_reads_neither_pods_nor_lists_of_claims(plugin: Plugin, namespace: Namespace) -> None:
    async with kubernetes.connect(plugin.kubeconfig) as account:
        for resource in (PODS, CLAIMS):
            with pytest.raises(ApiError, match="cannot list resource") as refused:
                await account.all(resource, namespace=namespace.name)
            assert refused.value.status == 403
