"""Rule 9, deleted nodes: an allocation on a node that an autoscaler has deleted is freed, whatever else has devices.

Neither cluster autoscaler nor Karpenter sees a claim that no pod uses: the node of such a claim is empty to them. Both
add no node for a pod whose claim is allocated to another node, so nobody but the controller can go first.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenarios import objects, steps
from tests.scenarios.claims import allocated, listed
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import NODES, PODS, RESOURCE_SLICES
from tests.scenarios.target import Mode

pytestmark = [pytest.mark.usefixtures("controller")]

FREED_WITHIN = 120.0
"""Seconds: the bind horizon of 60 from the deletion on, live reads, and some for a busy machine."""


async def kept_on_a_deleted_node(namespace: Namespace) -> None:
    """Allocate a claim of a Deployment without pods on a node, then delete the node as an autoscaler does."""
    node = await steps.add_node(namespace, "own")
    devices = await namespace.offer_devices(node=node)
    await namespace.create(objects.deployment("crew", PodShape(), replicas=0))
    await namespace.create(objects.claim("shared", device_class=devices, reserved_for="deployments.apps/crew"))
    await namespace.create(objects.pod("first", PodShape(claim="shared")))
    await steps.pods_run(namespace, "first")
    await steps.claim_is(namespace, "shared", lambda found: listed(found, "deployments"), saying="it is reserved")
    await steps.end_pods(namespace, "first")
    await steps.pod_is(namespace, "first", lambda pod: pod["status"]["phase"] == "Succeeded", saying="it has ended")
    await namespace.api.delete(NODES, node)
    await namespace.api.delete(RESOURCE_SLICES, f"{namespace.name}-{node}")


async def test_it_is_freed_though_no_node_has_such_devices_and_allocated_on_the_node_that_an_autoscaler_adds(
    namespace: Namespace,
) -> None:
    await kept_on_a_deleted_node(namespace)
    await namespace.create(objects.pod("worker", PodShape(claim="shared", gated=True)))
    await namespace.create(objects.pod("ungated", PodShape(claim="shared")))
    await steps.claim_is(
        namespace, "shared", lambda claim: not allocated(claim), within=FREED_WITHIN, saying="it is freed"
    )
    assert "its nodes were deleted" in await steps.note(namespace, "shared", "Deallocated")
    added = await steps.add_node(namespace, "added")
    await namespace.offer_devices(node=added)
    await steps.pods_run(namespace, "worker", "ungated")
    assert {(await namespace.get(PODS, name))["spec"]["nodeName"] for name in ("worker", "ungated")} == {added}
    await steps.claim_is(namespace, "shared", lambda claim: listed(claim, "deployments"), saying="it is reserved anew")


@pytest.mark.modes(Mode.REPLACE)
async def test_it_is_freed_whatever_a_scheduler_says_of_the_pods(namespace: Namespace) -> None:
    await kept_on_a_deleted_node(namespace)
    await namespace.create(objects.pod("worker", PodShape(claim="shared", spec={"schedulerName": "volcano"})))
    message = "can possibly be assigned to the node once minAvailable is satisfied"
    said: dict[str, Any] = {"type": "PodScheduled", "status": "False", "reason": "Schedulable", "message": message}
    await namespace.api.patch(
        PODS,
        "worker",
        {"status": {"conditions": [said]}},
        namespace=namespace.name,
        subresource="status",
        kind="strategic-merge-patch",
    )
    await steps.claim_is(
        namespace, "shared", lambda claim: not allocated(claim), within=FREED_WITHIN, saying="it is freed"
    )
