"""Rule 8: devices are given back in the write that removes the last entry of a finished consumer, or after a release.

An edge, not a state: "allocated and unused" is legal. And only if nobody consumes, and no pod that waits was listed so
lately that the scheduler may still be binding it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.scenarios import objects, steps
from tests.scenarios.claims import allocated, entries, listed, started
from tests.scenarios.controller import Controller
from tests.scenarios.eventually import steadily
from tests.scenarios.history import WatchHistory
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, PODS
from tests.scenarios.target import Capability, Mode, Target

pytestmark = pytest.mark.modes(Mode.REPLACE)


async def test_an_allocation_that_nobody_uses_stays(namespace: Namespace, controller: Controller) -> None:
    devices = await namespace.offer_devices()
    await namespace.create(objects.claim("kept", device_class=devices))
    await steps.allocate(namespace, "kept", devices=devices, pool=f"{namespace.name}-shared")
    await namespace.create(objects.claim("other", device_class=devices))
    await namespace.create(objects.pod("other", PodShape(claim="other")))
    await steps.pod_is(namespace, "other", steps.unschedulable, saying="there is no device for it")
    await steadily(lambda: _unused(namespace), lasting=1.5, saying="allocated and unused is legal")
    await controller.stop()
    await controller.start()
    await steadily(lambda: _unused(namespace), lasting=1.5, saying="allocated and unused is legal")

    await namespace.create(objects.pod("user", PodShape(claim="kept", run_seconds=0)))
    await steps.freed(namespace, "kept")
    await steps.pods_run(namespace, "other")


@pytest.mark.usefixtures("controller")
async def test_the_last_entry_and_the_allocation_go_in_one_write_and_the_next_claim_gets_the_device(
    namespace: Namespace,
) -> None:
    devices = await namespace.offer_devices()
    async with namespace.history("first") as first:
        await namespace.create(objects.claim("first", device_class=devices))
        await namespace.create_all(objects.pods("worker", 2, PodShape(claim="first")))
        await steps.pods_run(namespace)
        in_use = await namespace.get(CLAIMS, "first")
        (result,) = in_use["status"]["allocation"]["devices"]["results"]
        device = {key: result[key] for key in ("driver", "pool", "device")}
        await namespace.patch_status(CLAIMS, "first", {"devices": [device]})
        await namespace.create(objects.claim("second", device_class=devices))
        await namespace.create(objects.pod("next", PodShape(claim="second")))
        await steps.pod_is(namespace, "next", steps.unschedulable, saying="the device is in use")

        await steps.end_pods(namespace, "worker-0")
        await steps.claim_is(namespace, "first", lambda claim: listed(claim) == {"worker-1"}, saying="one is left")
        await steps.end_pods(namespace, "worker-1")
        freed = await steps.freed(namespace, "first")
        await steps.pods_run(namespace, "next")
        assert result == (await namespace.get(CLAIMS, "second"))["status"]["allocation"]["devices"]["results"][0]
    assert "devices" not in freed.get("status", {})
    used = [version.object for version in first.versions if allocated(version.object)]
    assert all(entries(claim) for claim in used), "the list was never empty while the claim was allocated"


@pytest.mark.usefixtures("controller")
async def test_a_running_pod_whose_entry_somebody_removed_keeps_its_devices(namespace: Namespace) -> None:
    devices = await namespace.offer_devices()
    async with namespace.history("shared") as claim, namespace.history("worker", resource=PODS) as worker:
        await namespace.create(objects.claim("shared", device_class=devices))
        pod = await namespace.create(objects.pod("worker", PodShape(claim="shared")))
        await steps.pods_run(namespace, "worker")
        await steps.unlist(namespace, "shared", pod["metadata"]["uid"])
        await steps.claim_is(
            namespace, "shared", lambda found: listed(found) == {"worker"}, saying="it is listed again"
        )
        await steps.end_pods(namespace, "worker")
        await steps.freed(namespace, "shared")
    steps.assert_bound_to_allocation(worker, claim)


@pytest.fixture
def scheduler_stands_still(target: Target) -> Iterator[None]:
    """From the moment a test freezes it to its end."""
    yield
    target.cluster.scheduler.thaw()


@pytest.mark.needs(Capability.COMPONENTS)
@pytest.mark.usefixtures("controller", "scheduler_stands_still")
async def test_a_pod_that_may_still_be_bound_keeps_the_allocation(namespace: Namespace, target: Target) -> None:
    """It was listed, the scheduler took it off, and before it is listed again the last consumer ends."""
    devices = await namespace.offer_devices()
    async with namespace.history("shared") as claim, namespace.history("second", resource=PODS) as second:
        await namespace.create(objects.claim("shared", device_class=devices))
        await namespace.create(objects.pod("first", PodShape(claim="shared")))
        await steps.pods_run(namespace, "first")
        target.cluster.scheduler.freeze()
        pod = await namespace.create(objects.pod("second", PodShape(claim="shared", gated=True)))
        for _ in range(2):  # the second pause is longer than the end of a pod takes
            await steps.claim_is(namespace, "shared", lambda found: "second" in listed(found), saying="it is listed")
            await steps.unlist(namespace, "shared", pod["metadata"]["uid"])
        await namespace.delete(PODS, "first", grace_seconds=1)
        await steps.told(namespace, "shared", "DeallocationWaits")
        await steps.claim_is(
            namespace, "shared", lambda found: listed(found) == {"second"}, saying="it is listed again"
        )
        target.cluster.scheduler.thaw()
        await steps.pods_run(namespace, "second")
        await steps.end_pods(namespace, "second")
        await steps.freed(namespace, "shared")
    steps.assert_bound_to_allocation(second, claim)
    assert _allocations(claim) == 1


@pytest.mark.needs(Capability.COMPONENTS)
@pytest.mark.usefixtures("controller", "scheduler_stands_still")
async def test_a_pod_that_is_deleted_before_it_is_bound_keeps_nothing(namespace: Namespace, target: Target) -> None:
    devices = await namespace.offer_devices()
    await namespace.create(objects.claim("shared", device_class=devices))
    await namespace.create(objects.pod("first", PodShape(claim="shared")))
    await steps.pods_run(namespace, "first")
    target.cluster.scheduler.freeze()
    await namespace.create(objects.pod("second", PodShape(claim="shared", gated=True)))
    await steps.pod_is(namespace, "second", lambda pod: not steps.gates(pod), saying="it is listed and let go")
    await namespace.delete(PODS, "first", grace_seconds=1)
    await namespace.delete(PODS, "second", grace_seconds=1)
    await steps.freed(namespace, "shared")


def _allocations(history: WatchHistory) -> int:
    found = [version.object["status"]["allocation"] for version in history.versions if allocated(version.object)]
    return len({str(allocation) for allocation in found})


async def _unused(namespace: Namespace) -> bool:
    claim = await namespace.get(CLAIMS, "kept")
    return allocated(claim) and not entries(claim) and not started(await namespace.get(PODS, "other"))
