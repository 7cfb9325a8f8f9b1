"""Rule 4: finished pods leave the list always, started ones as soon as something else keeps the reservation.

That is the workload entry, and from the first running pod that is not listed on a guard entry of ours, whether there is
a workload or not: a scheduler deallocates lists that are empty, and a workload's owner may release it early, or while
we are down.
"""

from __future__ import annotations

import pytest

from tests.scenarios import objects, steps
from tests.scenarios.claims import allocated, entered, entries, finished, listed
from tests.scenarios.conftest import StartController
from tests.scenarios.controller import IMPATIENT
from tests.scenarios.features import Feature, kubernetes_version
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import PODS
from tests.scenarios.target import Mode

pytestmark = pytest.mark.modes(Mode.REPLACE)


@pytest.mark.usefixtures("controller")
async def test_a_finished_pod_leaves_the_list_and_a_running_one_stays(namespace: Namespace) -> None:
    devices = await namespace.offer_devices()
    async with namespace.history("shared") as history:
        await namespace.create(objects.claim("shared", device_class=devices))
        await namespace.create(objects.pod("long", PodShape(claim="shared")))
        await namespace.create(objects.pod("short", PodShape(claim="shared", run_seconds=0)))
        await steps.pod_is(namespace, "short", finished, saying="it has ended")
        await steps.claim_is(
            namespace, "shared", lambda claim: listed(claim) == {"long"}, saying="it lists who still uses it"
        )
        assert await namespace.find(PODS, "short") is not None, "its object is still there"
    listing_long = [("long" in listed(version.object)) for version in history.versions]
    assert all(listing_long[listing_long.index(True) :])


@pytest.mark.usefixtures("controller")
async def test_the_guard_is_there_before_the_first_running_pod_is_not_listed(namespace: Namespace) -> None:
    devices = await namespace.offer_devices()
    async with namespace.history("shared") as history:
        await namespace.create(objects.deployment("crew", PodShape(claim="shared", gated=True), replicas=3))
        await namespace.create(objects.claim("shared", device_class=devices, reserved_for="deployments.apps/crew"))
        await steps.claim_is(
            namespace,
            "shared",
            lambda claim: listed(claim, "guards") and not listed(claim),
            saying="all pods have started and none is listed",
        )
    seen: set[str] = set()
    for version in history.versions:
        now = listed(version.object)
        assert not seen - now or listed(version.object, "guards"), "a pod left the list while nothing guarded it"
        seen |= now
    assert len(seen) == 3


async def test_running_pods_keep_their_devices_when_the_owner_releases_while_we_are_down(
    namespace: Namespace, start_controller: StartController
) -> None:
    """A newcomer that fits nowhere makes the scheduler look for an allocation to take back; it must not be this one."""
    controller = await start_controller(program=IMPATIENT)
    devices = await namespace.offer_devices(node="node-000")
    crew = await namespace.create(objects.deployment("crew", PodShape(), replicas=0))
    async with namespace.history("shared") as claim, namespace.history("runner", resource=PODS) as runner:
        await namespace.create(objects.claim("shared", device_class=devices, reserved_for="deployments.apps/crew"))
        await namespace.create(objects.pod("runner", PodShape(claim="shared")))
        await steps.claim_is(
            namespace,
            "shared",
            # The annotation is written after the list: without it the next controller would enter the workload again.
            lambda found: (
                listed(found, "guards") and listed(found, "deployments") and not listed(found) and entered(found)
            ),
            saying="its pod has started and is listed no more",
        )
        await controller.stop()
        await steps.unlist(namespace, "shared", crew["metadata"]["uid"])
        await namespace.create(objects.pod("misfit", PodShape(claim="shared", spec=steps.on("node-001"))))
        await steps.pod_is(namespace, "misfit", steps.unschedulable, saying="the scheduler has given up on it")
        await controller.start()
        stamped = Feature.ALLOCATION_TIMESTAMP.among(kubernetes_version())
        await steps.told(namespace, "shared", "OwnerReleased" if stamped else "ReservationInDoubt")
        await steps.claim_is(
            namespace, "shared", lambda found: listed(found) == {"misfit"}, saying="we are at work again"
        )
        await namespace.delete(PODS, "misfit")
        await steps.end_pods(namespace, "runner")
        if stamped:
            await steps.freed(namespace, "shared")
    steps.assert_bound_to_allocation(runner, claim)
    released = [v.object for v in claim.versions if allocated(v.object) and not listed(v.object, "deployments")]
    assert any([each["resource"] for each in entries(version)] == ["guards"] for version in released)
