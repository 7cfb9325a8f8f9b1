"""Nodes on which claims are kept without pods: people are warned before they are deleted, or they are not deleted.

To an autoscaler such a node is empty. `scale_down` plays one; nobody has run a real one beside the controller.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
import yaml

from tests.cluster.kubectl import kubectl
from tests.scenarios import api as kubernetes
from tests.scenarios import installation, objects, steps
from tests.scenarios.api import Api, ApiError
from tests.scenarios.beside.scale_down import CANDIDATE, DO_NOT_DISRUPT, SCALE_DOWN_DISABLED, ScaleDown
from tests.scenarios.claims import listed
from tests.scenarios.conftest import ALONE, StartController
from tests.scenarios.controller import Controller
from tests.scenarios.eventually import eventually
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, DEPLOYMENTS, NODES, PODS
from tests.scenarios.target import Capability, Target

WARNING: Final = "NodeMayBeDeleted"
MARKER: Final = "reserve.dra/kept-node"
ANNOTATING: Final = {**ALONE, "annotateNodes": True}


async def used_claim(namespace: Namespace, name: str, *, node: str) -> None:
    """Let a pod run on a node with a claim that is reserved for a Deployment of the same name."""
    devices = await namespace.offer_devices(node=node)
    await namespace.create(objects.deployment(name, PodShape(), replicas=0))
    await namespace.create(objects.claim(name, device_class=devices, reserved_for=f"deployments.apps/{name}"))
    await namespace.create(objects.pod(name, PodShape(claim=name, spec=steps.on(node))))
    await steps.pods_run(namespace, name)
    await steps.claim_is(namespace, name, lambda found: listed(found, "deployments"), saying="it is reserved")


async def kept_claim(namespace: Namespace, name: str, *, node: str) -> None:
    """The same, and then the pod ends: the claim stays for the Deployment."""
    await used_claim(namespace, name, node=node)
    await steps.end_pods(namespace, name)
    await steps.pod_is(namespace, name, lambda pod: pod["status"]["phase"] == "Succeeded", saying="it has ended")
    await namespace.delete(PODS, name)


async def annotations_of(api: Api, node: str) -> dict[str, str]:
    found: dict[str, str] = (await api.get(NODES, node))["metadata"].get("annotations", {})
    return {key: found[key] for key in (SCALE_DOWN_DISABLED, DO_NOT_DISRUPT, MARKER) if key in found}


async def test_people_are_warned_before_the_node_of_a_kept_claim_is_deleted(
    namespace: Namespace, controller: Controller
) -> None:
    del controller
    node = await steps.add_node(namespace, "own")
    await kept_claim(namespace, "kept", node=node)
    autoscaler = ScaleDown(namespace, node)
    assert await autoscaler.mark() == {node}
    said = await steps.note(namespace, "kept", WARNING)
    assert f"node {node} may be deleted" in said
    assert CANDIDATE["key"] in said
    assert "stays reserved for deployments.apps/kept" in said
    assert f"Annotation {SCALE_DOWN_DISABLED} keeps a node" in said
    assert await autoscaler.delete() == {node}


async def test_nobody_is_warned_about_a_claim_that_a_pod_uses(namespace: Namespace, controller: Controller) -> None:
    del controller
    used, empty = await steps.add_node(namespace, "used"), await steps.add_node(namespace, "empty")
    await used_claim(namespace, "used", node=used)
    await kept_claim(namespace, "kept", node=empty)
    autoscaler = ScaleDown(namespace, used, empty)
    await autoscaler.taint(used, CANDIDATE)  # a node that is hardly used may be a candidate, too: its pods would move
    await autoscaler.taint(empty, CANDIDATE)
    await steps.told(namespace, "kept", WARNING)
    assert WARNING not in await steps.reasons(namespace, "used")
    await steps.end_pods(namespace, "used")
    await steps.told(namespace, "used", WARNING)


# With annotateNodes:


@pytest.fixture
def may_annotate(target: Target) -> Any:
    """The permission that `annotateNodes` needs, which is not installed otherwise."""
    wanted = installation.rendered(installation.KUSTOMIZATION / "annotate-nodes", admin=target.admin)
    manifests = yaml.safe_dump_all(wanted)
    kubectl("apply", "--filename=-", kubeconfig=target.admin, stdin=manifests)
    yield
    kubectl("delete", "--ignore-not-found", "--filename=-", kubeconfig=target.admin, stdin=manifests)


@pytest.mark.usefixtures("may_annotate")
async def test_an_annotated_node_is_spared_until_the_claim_is_released(
    namespace: Namespace, start_controller: StartController
) -> None:
    await start_controller(configuration=ANNOTATING)
    node = await steps.add_node(namespace, "own")
    await kept_claim(namespace, "kept", node=node)
    ours = {SCALE_DOWN_DISABLED: "true", DO_NOT_DISRUPT: "true", MARKER: f"{SCALE_DOWN_DISABLED},{DO_NOT_DISRUPT}"}
    await eventually(
        lambda: annotations_of(namespace.api, node), until=lambda found: found == ours, saying="it is annotated"
    )
    autoscaler = ScaleDown(namespace, node)
    assert await autoscaler.mark() == set()
    assert await autoscaler.delete() == set()
    await namespace.delete(DEPLOYMENTS, "kept")
    await steps.freed(namespace, "kept")
    await eventually(
        lambda: annotations_of(namespace.api, node), until=lambda found: found == {}, saying="its annotations are gone"
    )
    assert await autoscaler.mark() == {node}
    assert await autoscaler.delete() == {node}
    assert WARNING not in await steps.reasons(namespace, "kept")


@pytest.mark.usefixtures("may_annotate")
async def test_annotations_of_people_stay_and_those_of_the_controller_outlive_it(
    namespace: Namespace, start_controller: StartController
) -> None:
    first = await start_controller(configuration=ANNOTATING)
    node = await steps.add_node(namespace, "own")
    await namespace.api.patch(NODES, node, {"metadata": {"annotations": {SCALE_DOWN_DISABLED: "true"}}})
    await kept_claim(namespace, "kept", node=node)
    await eventually(
        lambda: annotations_of(namespace.api, node),
        until=lambda found: found.get(MARKER) == DO_NOT_DISRUPT,
        saying="it is annotated, beside a person's annotation",
    )
    await first.stop()
    assert (await annotations_of(namespace.api, node))[DO_NOT_DISRUPT] == "true"
    await start_controller(configuration=ALONE)  # annotateNodes is off, and the permission is still there
    await eventually(
        lambda: annotations_of(namespace.api, node),
        until=lambda found: found == {SCALE_DOWN_DISABLED: "true"},
        saying="its own annotation is gone",
    )
    assert listed(await namespace.get(CLAIMS, "kept"), "deployments"), "it is still kept"


# Rights:


@pytest.fixture
async def as_the_controller(target: Target) -> AsyncIterator[Api]:
    async with kubernetes.connect(target.controller) as client:
        yield client


async def refused(api: Api, node: str, patch: Any) -> str:
    """Return why the write of a node is refused, in a dry run; empty if it is not."""
    path = NODES.path(name=node)
    try:
        await api.request("PATCH", path, patch, query={"dryRun": "All"}, content_type="application/merge-patch+json")
    except ApiError as error:
        return str(error)
    return ""


ANNOTATED: Final = {
    "metadata": {"annotations": {SCALE_DOWN_DISABLED: "true", MARKER: SCALE_DOWN_DISABLED}},
}


@pytest.mark.needs(Capability.RIGHTS)
async def test_without_the_option_the_controller_may_not_write_nodes(
    namespace: Namespace, as_the_controller: Api
) -> None:
    node = await steps.add_node(namespace, "own")
    assert "cannot patch resource" in await refused(as_the_controller, node, ANNOTATED)


@pytest.mark.needs(Capability.RIGHTS)
@pytest.mark.usefixtures("may_annotate")
async def test_with_the_option_the_controller_may_write_only_its_annotations(
    namespace: Namespace, as_the_controller: Api
) -> None:
    node = await steps.add_node(namespace, "own")
    await eventually(
        lambda: refused(as_the_controller, node, {"spec": {"unschedulable": True}}),
        until=lambda text: "the controller may not change node" in text,
        saying="it may not cordon a node",
    )
    assert "nothing else" in await refused(as_the_controller, node, {"metadata": {"labels": {"zone": "x"}}})
    assert "nothing else" in await refused(as_the_controller, node, {"metadata": {"annotations": {"a/b": "c"}}})
    await namespace.api.patch(NODES, node, {"metadata": {"annotations": {DO_NOT_DISRUPT: "true"}}})
    by_a_person = {"metadata": {"annotations": {DO_NOT_DISRUPT: None}}}
    assert "set itself" in await refused(as_the_controller, node, by_a_person)
    assert await refused(as_the_controller, node, ANNOTATED) == ""
