"""Rule 12 for machines: what nobody can vouch for keeps its devices, and a person can vouch.

A node falls silent, reboots or is deleted; pods are deleted by force or collected. Whoever knows better says so: by the
Node object, by the out-of-service taint, or by an annotation on the claim that carries its uid.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.scenarios import objects, steps
from tests.scenarios.claims import allocated, finished, listed, revision
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, NODES, PODS
from tests.scenarios.target import Mode

pytestmark = pytest.mark.usefixtures("controller")

COLLECTED_WITHIN = 100.0
"""Seconds: the pod garbage collector waits 40 s for a node that is gone, and looks every 20 s."""

BOUND_FOR_CERTAIN_WITHIN = 75.0
"""Seconds: whoever was listed may be bound for a minute."""


async def test_a_claim_is_released_by_force_by_its_own_uid_only(namespace: Namespace) -> None:
    await _shared(namespace)
    await namespace.create(objects.pod("worker", PodShape(claim="shared")))
    await steps.pods_run(namespace, "worker")
    await steps.list_too(namespace, "shared", steps.foreign_entry("dam"))
    await namespace.delete(PODS, "worker", grace_seconds=1)
    await steps.claim_is(namespace, "shared", lambda found: not listed(found), saying="nobody uses it")

    await steps.force_release(namespace, "shared", value="true")
    assert (await namespace.get(CLAIMS, "shared"))["metadata"]["uid"] in await steps.note(
        namespace, "shared", "ForceReleaseIgnored"
    )
    await steadily(lambda: _is_allocated(namespace), lasting=1, saying="a wrong value does nothing")
    await steps.force_release(namespace, "shared")
    await steps.freed(namespace, "shared")
    assert "overridden: entry widgets.example.com/dam" in await steps.note(namespace, "shared", "ForceReleased")


async def test_a_pod_on_a_silent_node_keeps_its_claim_until_somebody_vouches(namespace: Namespace) -> None:
    node = await _running_on_its_own_node(namespace)
    await steps.force_release(namespace, "shared")
    assert "(worker)" in await steps.note(namespace, "shared", "ForceReleaseBlocked")
    await steadily(lambda: _is_allocated(namespace), lasting=1, saying="a pod on a sound node is not overridden")
    await steps.lose_node(namespace, node)
    await steps.freed(namespace, "shared")
    assert f"pod worker on node {node}" in await steps.note(namespace, "shared", "ForceReleased")
    await steps.told(namespace, "worker", "AllocationLost")


@pytest.mark.modes(Mode.REPLACE)
async def test_a_silent_node_alone_gives_nothing_back(namespace: Namespace) -> None:
    node = await _running_on_its_own_node(namespace)
    await steps.lose_node(namespace, node)
    await steadily(lambda: _is_allocated(namespace), lasting=3, saying="its pod may run")
    await steps.claim_is(namespace, "shared", lambda found: listed(found) == {"worker"}, saying="and it is listed")


@pytest.mark.long
@pytest.mark.modes(Mode.REPLACE)
async def test_a_reboot_gives_nothing_back(namespace: Namespace) -> None:
    """Its pods start anew with the devices that they have; a controller between them must not take these away."""
    node = await _running_on_its_own_node(namespace)
    async with namespace.history("shared") as history:
        await steps.reboot(namespace, node)
        await steps.told(namespace, "worker", "SandboxNotReady", within=BOUND_FOR_CERTAIN_WITHIN)
    assert all(allocated(version.object) and listed(version.object) == {"worker"} for version in history.versions)


async def _delete_node(namespace: Namespace, node: str) -> None:
    await namespace.api.delete(NODES, node)


async def _vouch_by_taint(namespace: Namespace, node: str) -> None:
    taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
    await namespace.api.patch(NODES, node, {"spec": {"taints": [taint]}}, kind="strategic-merge-patch")


async def _vouch_by_annotation(namespace: Namespace, node: str) -> None:
    del node
    await steps.force_release(namespace, "shared")


@pytest.mark.modes(Mode.REPLACE)
@pytest.mark.parametrize(
    "vouch",
    [
        pytest.param(_delete_node, id="node-deleted"),
        pytest.param(_vouch_by_taint, id="node-out-of-service"),
        pytest.param(steps.reboot, id="node-rebooted"),
        pytest.param(_vouch_by_annotation, id="claim-annotated"),
    ],
)
async def test_a_pod_deleted_by_force_on_a_silent_node_keeps_its_claim_until_its_end_is_certain(
    namespace: Namespace, vouch: Callable[[Namespace, str], Awaitable[None]]
) -> None:
    node = await _running_on_its_own_node(namespace)
    await steps.lose_node(namespace, node)
    await namespace.delete(PODS, "worker", grace_seconds=0)
    await steps.claim_is(
        namespace, "shared", lambda found: listed(found, "lostnodes") == {node}, saying="its node has its entry"
    )
    assert "node.kubernetes.io/out-of-service" in await steps.note(namespace, "shared", "NodeLost")
    await steadily(lambda: _is_allocated(namespace), lasting=1, saying="it may run still")
    await vouch(namespace, node)
    await steps.freed(namespace, "shared")


async def test_beside_a_workload_entry_the_stock_controller_keeps_the_entry_of_a_silent_node(
    namespace: Namespace,
) -> None:
    await namespace.create(objects.deployment("crew", PodShape(), replicas=0))
    node = await _running_on_its_own_node(namespace, reserved_for="deployments.apps/crew")
    await steps.claim_is(namespace, "shared", lambda found: listed(found, "deployments"), saying="it is reserved")
    await steps.lose_node(namespace, node)
    await namespace.delete(PODS, "worker", grace_seconds=0)
    await steps.claim_is(namespace, "shared", lambda found: listed(found, "lostnodes") == {node}, saying="it is kept")
    await _delete_node(namespace, node)
    await steps.claim_is(
        namespace, "shared", lambda found: not listed(found, "lostnodes"), saying="that node is no more"
    )
    assert await _is_allocated(namespace)


@pytest.mark.long
@pytest.mark.modes(Mode.REPLACE)
async def test_a_pod_of_a_deleted_node_keeps_its_claim_until_it_is_collected(namespace: Namespace) -> None:
    node = await _running_on_its_own_node(namespace)
    async with namespace.history("shared") as claim, namespace.history("worker", resource=PODS) as worker:
        await namespace.api.delete(NODES, node)
        await eventually(
            lambda: namespace.find(PODS, "worker"),
            until=lambda pod: pod is None,
            within=COLLECTED_WITHIN,
            saying="the pod is collected",
        )
        await steps.freed(namespace, "shared")
    ended = next(version.object for version in worker.versions if finished(version.object))
    before = [v.object for v in claim.versions if int(revision(v.object)) < int(revision(ended))]
    assert all(map(allocated, before))
    assert "NodeLost" not in await steps.reasons(namespace, "shared")


@pytest.mark.long
@pytest.mark.modes(Mode.REPLACE)
async def test_a_release_by_force_waits_for_pods_that_may_be_bound(namespace: Namespace) -> None:
    await _shared(namespace)
    await namespace.create(objects.pod("first", PodShape(claim="shared")))
    await steps.pods_run(namespace, "first")
    await steps.list_too(namespace, "shared", steps.foreign_entry("dam"))
    misfit = PodShape(claim="shared", annotations={objects.PRE_LIST: "true"}, spec=steps.UNSCHEDULABLE)
    await namespace.create(objects.pod("misfit", misfit))
    await steps.claim_is(namespace, "shared", lambda found: "misfit" in listed(found), saying="who waits is listed")
    await namespace.delete(PODS, "first", grace_seconds=1)

    await steps.force_release(namespace, "shared")
    await steps.told(namespace, "shared", "ForceReleaseWaits")
    await steadily(lambda: _is_allocated(namespace), lasting=10, saying="who was listed may be bound")
    await steps.freed(namespace, "shared", within=BOUND_FOR_CERTAIN_WITHIN)


async def _shared(namespace: Namespace, *, node: str | None = None, reserved_for: str | None = None) -> None:
    """A claim, and the only device that it could have."""
    devices = await namespace.offer_devices(node=node)
    await namespace.create(objects.claim("shared", device_class=devices, reserved_for=reserved_for))


async def _running_on_its_own_node(namespace: Namespace, *, reserved_for: str | None = None) -> str:
    """A pod runs with a device of a node that nobody else depends on; returns the node."""
    node = await steps.add_node(namespace, "own")
    await _shared(namespace, node=node, reserved_for=reserved_for)
    await namespace.create(objects.pod("worker", PodShape(claim="shared")))
    await steps.pods_run(namespace, "worker")
    return node


async def _is_allocated(namespace: Namespace) -> bool:
    return allocated(await namespace.get(CLAIMS, "shared"))
