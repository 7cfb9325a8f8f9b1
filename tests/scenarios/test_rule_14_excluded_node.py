"""Rule 14: a bound pod whose node the allocation excludes is never listed: the kubelet would not check, and start it.

It gets a Warning instead. The scheduler does not do such a thing; whoever sets a pod's node by hand may.
"""

from __future__ import annotations

import pytest

from tests.scenarios import objects, steps
from tests.scenarios.claims import listed
from tests.scenarios.eventually import steadily
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, PODS
from tests.scenarios.target import Mode

pytestmark = [pytest.mark.modes(Mode.REPLACE), pytest.mark.usefixtures("controller")]


@pytest.mark.parametrize("reserved_for", ["deployments.apps/crew", None], ids=["workload", "no-workload"])
async def test_a_pod_on_an_excluded_node_is_never_listed(namespace: Namespace, reserved_for: str | None) -> None:
    devices = await namespace.offer_devices(node="node-000")
    await namespace.create(objects.deployment("crew", PodShape(), replicas=0))
    async with namespace.history("shared") as history:
        await namespace.create(objects.claim("shared", device_class=devices, reserved_for=reserved_for))
        await namespace.create(objects.pod("first", PodShape(claim="shared")))
        await steps.pods_run(namespace, "first")

        for name, node in (("astray", "node-001"), ("beside", "node-000")):
            placed = PodShape(claim="shared", hold=True, spec={"nodeName": node})
            await namespace.create(objects.pod(name, placed))
        await steps.told(namespace, "astray", "PodOffAllocation")
        await steps.claim_is(namespace, "shared", lambda claim: "beside" in listed(claim), saying="it lists the other")
        await steadily(lambda: _not_listed(namespace, "astray"), lasting=1, saying="it lists no pod that is astray")
        assert "PodOffAllocation" not in await steps.reasons(namespace, "beside")

        for name in ("astray", "beside", "first"):
            await namespace.delete(PODS, name, grace_seconds=1)
        if reserved_for is None:
            await steps.freed(namespace, "shared")
    assert "astray" not in {name for version in history.versions for name in listed(version.object)}


async def _not_listed(namespace: Namespace, name: str) -> bool:
    return name not in listed(await namespace.get(CLAIMS, "shared"))
