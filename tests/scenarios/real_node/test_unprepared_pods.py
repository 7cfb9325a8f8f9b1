"""A pod whose claim a real kubelet cannot prepare: the plugin reports why, and the controller evicts the pod.

The machine has one CPU for claims, which another pod has already. The scheduler would know, so the claim of the pod is
allocated by hand, as between two publications.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

import pytest

from tests.cluster.kubectl import kubectl
from tests.scenarios import installation, objects, steps
from tests.scenarios.conftest import ALONE, StartController
from tests.scenarios.eventually import eventually
from tests.scenarios.features import Feature
from tests.scenarios.koordinator.conftest import label
from tests.scenarios.real_node.cpus import DRIVER, WITHIN, StartCpus, sees, shape
from tests.scenarios.real_node.test_node_cpus import TOPOLOGY, WHOLE_CPU, bound
from tests.scenarios.resources import CLAIMS, PODS
from tests.scenarios.target import Capability, Mode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.node import RealNode
    from tests.scenarios.api import Json
    from tests.scenarios.namespaces import Namespace
    from tests.scenarios.target import Target

pytestmark = [
    pytest.mark.needs(Capability.KUBELET, Capability.COMPONENTS, Feature.CONSUMABLE_CAPACITY),
    pytest.mark.modes(Mode.ALONGSIDE),
]

TEMPLATE: Final = "koord-cpu-1-default-lsr"
LABELS: Final = {"app": "lost"}

KOORDINATOR: Final = installation.DEPLOY / "koordinator"


@pytest.fixture
async def namespace(cpu_namespace: Namespace) -> Namespace:
    """One with a class of CPUs, that has opted in."""
    await label(cpu_namespace, "enabled")
    return cpu_namespace


@pytest.fixture
def account(target: Target, plugin_installed: None, real_node: RealNode) -> Iterator[Path]:
    """The plugin's account, with the rights to report; the controller has its own of deploy/koordinator."""
    del plugin_installed
    for each in (TOPOLOGY, KOORDINATOR):
        installation.install(target.admin, kustomization=each)
    yield installation.plugin_kubeconfig(target.admin, real_node.folder.path, node=real_node.name)
    kubectl("delete", "--ignore-not-found", f"--kustomize={KOORDINATOR}", kubeconfig=target.admin)


def translated() -> Json:
    """Return what the policies make of an LSR pod with one CPU."""
    body = objects.pod("lost", shape())
    body["metadata"]["labels"] = body["metadata"].get("labels", {}) | LABELS
    body["spec"]["resourceClaims"] = [{"name": "koord-cpus", "resourceClaimTemplateName": TEMPLATE}]
    body["spec"]["containers"][0]["resources"] = WHOLE_CPU | {"claims": [{"name": "koord-cpus"}]}
    return body


async def allocate(namespace: Namespace, claim: str, *, node: str) -> None:
    """Allocate a CPU of a node to a claim, as the scheduler does."""
    await namespace.patch(CLAIMS, claim, {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}})
    result = {
        "request": "cpus",
        "driver": DRIVER,
        "pool": node,
        "device": "cpus",
        "shareID": str(uuid.uuid4()),
        "consumedCapacity": {"dra.cpu/cpu": "1"},
    }
    here = {"key": "metadata.name", "operator": "In", "values": [node]}
    selector = {"nodeSelectorTerms": [{"matchFields": [here]}]}
    allocation = {"devices": {"results": [result]}, "nodeSelector": selector}
    await namespace.patch_status(CLAIMS, claim, {"allocation": allocation})


async def lost_pods(namespace: Namespace) -> list[Json]:
    return await namespace.all(PODS, labelSelector="app=lost")


@pytest.mark.long
async def test_a_pod_that_the_kubelet_cannot_start_is_evicted_and_its_successor_waits_for_the_cpu(
    start_cpus: StartCpus,
    namespace: Namespace,
    real_node: RealNode,
    account: Path,
    start_controller: StartController,
) -> None:
    plugin = start_cpus("one", devices="node", kubeconfig=account)
    await plugin.start()
    await start_controller(configuration={**ALONE, "koordinator": True})
    await bound(namespace, "holder", shared=True)
    await sees(real_node, namespace, "holder", "1")

    manifest = translated()
    await namespace.create({**manifest, "spec": manifest["spec"] | {"nodeName": real_node.name}})
    template = {"metadata": {"labels": manifest["metadata"]["labels"]}, "spec": manifest["spec"]}
    owner = {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": template}
    await namespace.create({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "lost"}, "spec": owner})
    pod = await steps.pod_is(
        namespace,
        "lost",
        lambda found: found["metadata"].get("ownerReferences") and found["status"].get("resourceClaimStatuses"),
        saying="the ReplicaSet has adopted it, and it has its claim",
    )
    claim = pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
    await allocate(namespace, claim, node=real_node.name)

    def refusals(found: Json) -> list[Json]:
        devices = found["status"].get("devices") or ()
        return [each for device in devices for each in device.get("conditions") or () if each["type"] == "Ready"]

    told = await eventually(
        lambda: namespace.get(CLAIMS, claim), until=refusals, within=2 * WITHIN, saying="the plugin reports its refusal"
    )
    (condition,) = refusals(told)
    assert (condition["status"], condition["reason"]) == ("False", "CPUsInUse")
    assert "by claim " in condition["message"]

    def replaced(pods: list[Json]) -> bool:
        return [each["metadata"]["name"] for each in pods] not in ([], ["lost"]) and len(pods) == 1

    (successor,) = await eventually(
        lambda: lost_pods(namespace), until=replaced, within=3 * WITHIN, saying="the pod is evicted and replaced"
    )
    name = successor["metadata"]["name"]
    await steps.pod_is(namespace, name, steps.unschedulable, saying="the scheduler knows that no CPU is left")
    await namespace.delete(PODS, "holder")
    await sees(real_node, namespace, name, "1", within=2 * WITHIN)
