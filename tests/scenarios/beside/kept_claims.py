"""Claims that no pod uses, and that stay allocated for their workload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.scenarios import objects, steps
from tests.scenarios.claims import finished, listed
from tests.scenarios.objects import PodShape

if TYPE_CHECKING:
    from tests.scenarios.namespaces import Namespace

WORKLOAD: Final = "crew"
"""A Deployment without pods."""


async def keep(namespace: Namespace, name: str, *, devices: str, node: str) -> None:
    """Create a claim and the workload that it is reserved for; a pod allocates the claim on the node, and ends."""
    await namespace.create(objects.deployment(WORKLOAD, PodShape(), replicas=0))
    await namespace.create(objects.claim(name, device_class=devices, reserved_for=f"deployments.apps/{WORKLOAD}"))
    await namespace.create(objects.pod("first", PodShape(claim=name, spec=steps.on(node))))
    await steps.pods_run(namespace, "first")
    await steps.claim_is(namespace, name, lambda claim: listed(claim, "deployments"), saying="it is reserved")
    await steps.end_pods(namespace, "first")
    await steps.pod_is(namespace, "first", finished, saying="it has ended")
