"""The division of caches on a real node whose kernel cannot divide any: the node says so, and pods run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from tests.cluster.kubectl import kubectl
from tests.dra.engine.resctrl.test_decide_shares import RELEASE_NOTES
from tests.scenarios import objects
from tests.scenarios.eventually import eventually
from tests.scenarios.objects import PodShape
from tests.scenarios.real_node.test_node_usage import CreateNodeMetric, reporting, with_colocation
from tests.scenarios.resources import EVENTS, NODE_METRICS
from tests.scenarios.target import Capability, Mode

if TYPE_CHECKING:
    from tests.cluster.node import RealNode
    from tests.scenarios.api import Json
    from tests.scenarios.namespaces import Namespace
    from tests.scenarios.real_node.conftest import StartPlugin
    from tests.scenarios.target import Target

__all__ = ["reporting"]  # a fixture

pytestmark = [pytest.mark.needs(Capability.KUBELET, Capability.COMPONENTS), pytest.mark.modes(Mode.ALONGSIDE)]

CONFIG_MAP = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "slo-controller-config", "namespace": "koordinator-system"},
    "data": {"resource-qos-config": RELEASE_NOTES},
}


@pytest.mark.long
async def test_a_node_without_resctrl_says_so_in_an_event_and_in_its_nodemetric(
    target: Target,
    start_plugin: StartPlugin,
    namespace: Namespace,
    real_node: RealNode,
    reporting: CreateNodeMetric,
) -> None:
    await reporting(window=40, interval=5)
    kubectl("apply", "--filename=-", kubeconfig=target.admin, stdin=yaml.safe_dump(CONFIG_MAP))
    await namespace.create(objects.pod("job", PodShape(spec=objects.ON_REAL_NODE)))
    plugin = await start_plugin(**with_colocation(real_node))

    async def events() -> list[str]:
        found: list[Json] = await namespace.api.all(EVENTS, fieldSelector=f"involvedObject.name={real_node.name}")
        return [each["message"] for each in found if each["reason"] == "ResctrlUnavailable"]

    (message, *_) = await eventually(events, within=40.0, saying="the node says that it divides no cache")
    assert message.startswith(f"node {real_node.name}: the kernel or the CPU has no resctrl")

    async def reported() -> list[Json]:
        status: Json = (await namespace.api.get(NODE_METRICS, real_node.name)).get("status", {})
        return status.get("features", [])

    found = await eventually(reported, within=90.0, saying="the node says what its kernel can do")
    features = {each["name"]: each["usable"] for each in found}
    assert (features["cpuQuota"], features["resctrl"]) == (True, False)
    assert plugin.process.alive
    kubectl("delete", "--filename=-", kubeconfig=target.admin, stdin=yaml.safe_dump(CONFIG_MAP))
