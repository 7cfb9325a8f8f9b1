"""Rule 10: once a claim is being deleted its list can only shrink, and a live pod's entry is never removed.

Ours go once nobody consumes; then the claim is freed, and with the finalizer it is gone.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.scenarios import namespaces, objects, steps
from tests.scenarios.api import Api
from tests.scenarios.claims import allocated, listed
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.history import WatchHistory
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, NAMESPACES, PODS
from tests.scenarios.target import Mode

pytestmark = [pytest.mark.modes(Mode.REPLACE), pytest.mark.usefixtures("controller")]


async def test_a_claim_deleted_in_the_middle_serves_its_pods_to_their_end(namespace: Namespace) -> None:
    devices = await namespace.offer_devices()
    async with namespace.history("shared") as history:
        await namespace.create(objects.claim("shared", device_class=devices))
        await namespace.create_all(objects.pods("worker", 3, PodShape(claim="shared")))
        await steps.pods_run(namespace)
        await namespace.delete(CLAIMS, "shared")
        await steps.told(namespace, "shared", "DeletionWaitsForPods")
        await namespace.create(objects.pod("late", PodShape(claim="shared", gated=True)))
        await steadily(lambda: _serves(namespace, 3), lasting=1.5, saying="its pods keep it, and nobody joins them")
        await steps.end_pods(namespace, "worker-0", "worker-1")
        await steps.claim_is(namespace, "shared", lambda claim: listed(claim) == {"worker-2"}, saying="one is left")
        await steps.end_pods(namespace, "worker-2")
        await _gone(namespace, "shared")
    _assert_only_shrinking(history)
    assert "late" not in {name for version in history.versions for name in listed(version.object)}


async def test_a_claim_deleted_while_its_list_is_windowed_is_held_by_the_guard(namespace: Namespace) -> None:
    devices = await namespace.offer_devices()
    await namespace.create(objects.deployment("crew", PodShape(), replicas=0))
    async with namespace.history("shared") as claim, namespace.history("worker-0", resource=PODS) as worker:
        await namespace.create(objects.claim("shared", device_class=devices, reserved_for="deployments.apps/crew"))
        await namespace.create_all(objects.pods("worker", 2, PodShape(claim="shared", gated=True)))
        await steps.claim_is(
            namespace, "shared", lambda found: listed(found, "guards") and not listed(found), saying="none is listed"
        )
        await namespace.delete(CLAIMS, "shared")
        await steps.end_pods(namespace, "worker-1")
        await steadily(lambda: _is_allocated(namespace), lasting=1.5, saying="a pod still uses it")
        await steps.end_pods(namespace, "worker-0")
        await _gone(namespace, "shared")
    _assert_only_shrinking(claim)
    steps.assert_bound_to_allocation(worker, claim)


async def test_an_unused_claim_that_is_deleted_is_gone_at_once(namespace: Namespace) -> None:
    devices = await namespace.offer_devices()
    await namespace.create(objects.claim("unused", device_class=devices))
    await steps.allocate(namespace, "unused", devices=devices, pool=f"{namespace.name}-shared")
    await namespace.delete(CLAIMS, "unused")
    await _gone(namespace, "unused")


async def test_a_namespace_deleted_in_the_middle_is_gone_and_its_device_is_free(api: Api, namespace: Namespace) -> None:
    devices = await namespace.offer_devices()
    await namespace.create(objects.claim("heir", device_class=devices))
    async with namespaces.temporary(api, purpose="doomed") as doomed:
        await doomed.create(objects.claim("shared", device_class=devices, reserved_for="jobs.batch/train"))
        await doomed.create(objects.job("train", PodShape(claim="shared", gated=True), parallelism=20))
        await steps.pods_run(doomed, count=5)
        await namespace.create(objects.pod("heir", PodShape(claim="heir")))
        await steps.pod_is(namespace, "heir", steps.unschedulable, saying="the device is in use")
        await api.delete(NAMESPACES, doomed.name)
        await eventually(
            lambda: api.find(NAMESPACES, doomed.name),
            until=lambda found: found is None,
            within=30,
            saying="the namespace is gone",
        )
        await steps.pods_run(namespace, "heir")


async def _gone(namespace: Namespace, claim: str) -> None:
    await eventually(
        lambda: namespace.find(CLAIMS, claim),
        until=lambda found: found is None,
        within=steps.FREED_WITHIN,
        saying=f"claim {claim} is gone",
    )


async def _serves(namespace: Namespace, count: int) -> bool:
    claim = await namespace.get(CLAIMS, "shared")
    return allocated(claim) and len(listed(claim)) == count


async def _is_allocated(namespace: Namespace) -> bool:
    return allocated(await namespace.get(CLAIMS, "shared"))


def _assert_only_shrinking(history: WatchHistory) -> None:
    deleting = [v.object for v in history.versions if "deletionTimestamp" in v.object["metadata"]]
    assert deleting
    assert all(steps.uids(after) <= steps.uids(before) for before, after in pairwise(deleting))
