"""Rule 2: a claim is entered for its workload once it is allocated and has a pod that waits or runs.

Never for "allocated, empty, no pods", which a scheduler's Unreserve leaves behind. A note on the claim, written after
the list, remembers for which allocation the entry was made.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from tests.scenarios import objects, steps
from tests.scenarios.claims import allocated, entries, listed
from tests.scenarios.eventually import steadily
from tests.scenarios.kinds import Kind
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, DEPLOYMENTS, JOBS
from tests.scenarios.target import Mode

pytestmark = [pytest.mark.modes(Mode.REPLACE), pytest.mark.usefixtures("controller")]

ENTERED = "reserve.dra/entered-allocation"


async def test_the_workload_is_entered_and_noted_after_that(
    namespace: Namespace, remark: Callable[[str], None]
) -> None:
    devices = await namespace.offer_devices()
    async with namespace.history("train") as history:
        await namespace.create(objects.claim("train", device_class=devices, reserved_for="jobs.batch/train"))
        job = await namespace.create(objects.job("train", PodShape(claim="train", gated=True), parallelism=3))
        await steps.pods_run(namespace, count=3)
        entered = await steps.claim_is(namespace, "train", lambda claim: _note(claim, ENTERED), saying="it is noted")
    assert steps.entry(job, "jobs", group="batch") in entries(entered)
    first_allocated = next(version for version in history.versions if allocated(version.object))
    first_entered = next(version for version in history.versions if listed(version.object, "jobs"))
    first_noted = next(version for version in history.versions if _note(version.object, ENTERED))
    remark(f"the workload was entered {first_entered.received - first_allocated.received:.2f} s after the allocation")
    assert history.versions.index(first_entered) < history.versions.index(first_noted)


async def test_the_reference_may_come_before_the_workload(namespace: Namespace) -> None:
    devices = await namespace.offer_devices()
    await namespace.create(objects.claim("early", device_class=devices, reserved_for="jobs.batch/late"))
    await namespace.create(objects.pod("scout", PodShape(claim="early")))
    await steps.pods_run(namespace, "scout")
    await steps.told(namespace, "early", "WorkloadNotFound")
    assert listed(await namespace.get(CLAIMS, "early"), "jobs") == set()

    job = await namespace.create(objects.job("late", PodShape(claim="early", gated=True)))
    claim = await steps.claim_is(
        namespace, "early", lambda claim: listed(claim, "jobs"), saying="it is reserved for the latecomer"
    )
    assert steps.entry(job, "jobs", group="batch") in entries(claim)
    await steps.claim_is(
        namespace,
        "early",
        lambda claim: _note(claim, objects.RESERVED_FOR_UID) == job["metadata"]["uid"],
        saying="the uid that was found is written down",
    )
    await steps.end_pods(namespace)
    freed = await steps.freed(namespace, "early")
    assert _note(freed, objects.RESERVED_FOR_UID) is None, "a uid that we had found is forgotten with the workload"
    assert await namespace.find(JOBS, "late") is not None


async def test_an_allocation_without_pods_is_not_entered(namespace: Namespace) -> None:
    devices = await namespace.offer_devices()
    await namespace.create(objects.deployment("idle", PodShape(claim="spare"), replicas=0))
    await namespace.create(objects.claim("spare", device_class=devices, reserved_for="deployments.apps/idle"))
    await steps.allocate(namespace, "spare", devices=devices, pool=f"{namespace.name}-shared")
    await steadily(lambda: _unused(namespace), lasting=2, saying="nobody is entered while there are no pods")

    await namespace.patch(DEPLOYMENTS, "idle", {"spec": {"replicas": 1}})
    await steps.claim_is(namespace, "spare", lambda claim: listed(claim, "deployments"), saying="it is reserved")
    await steps.pods_run(namespace)


async def test_any_kind_may_be_the_workload(namespace: Namespace) -> None:
    shoals = Kind(namespace)
    await shoals.define()
    await shoals.let_controller_read()
    devices = await namespace.offer_devices()
    shoal = await shoals.create("herring")
    async with namespace.history("shared") as history:
        claim = objects.claim("shared", device_class=devices, reserved_for=shoals.reference("herring"))
        await namespace.create(claim)
        await namespace.create_all(objects.pods("fish", 3, PodShape(claim="shared", gated=True)))
        await steps.pods_run(namespace)
        await steps.claim_is(
            namespace,
            "shared",
            lambda claim: steps.entry(shoal, "shoals", group=shoals.group) in entries(claim),
            saying="it is reserved for the shoal",
        )
        await shoals.delete("herring")
        await steps.told(namespace, "shared", "ReleaseWaitsForPods")
        await steps.end_pods(namespace)
        await steps.freed(namespace, "shared")
    assert sum(allocated(a.object) < allocated(b.object) for a, b in pairwise(history.versions)) == 1


def _note(claim: objects.Json, key: str) -> str | None:
    found: str | None = claim["metadata"].get("annotations", {}).get(key)
    return found


async def _unused(namespace: Namespace) -> bool:
    claim = await namespace.get(CLAIMS, "spare")
    return allocated(claim) and not entries(claim)
