"""The main job: one claim shared by more pods than a list can hold, from its first pod to its devices being free."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import pairwise

import pytest

from tests.scenarios import installation, objects
from tests.scenarios.api import Json
from tests.scenarios.claims import allocated, condition, listed, started
from tests.scenarios.controller import Controller
from tests.scenarios.eventually import eventually
from tests.scenarios.history import WatchHistory
from tests.scenarios.metrics import Metrics, total
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, JOBS, LEASES, PODS
from tests.scenarios.target import Mode

pytestmark = pytest.mark.modes(Mode.REPLACE)

StartController = Callable[..., Awaitable[Controller]]

RELEASED_WITHIN = 5.0

LISTED_WITHIN = "10.0"
"""Seconds, a bucket of the metric: what the alert on late entries allows, also on a machine that is busy."""


@dataclass(frozen=True)
class Case:
    pods: int
    gated: bool
    reserved_for: str | None
    within: float


CASES = [
    pytest.param(Case(pods=1000, gated=True, reserved_for="jobs.batch/train", within=120), id="gated"),
    pytest.param(
        Case(pods=1000, gated=False, reserved_for="jobs.batch/train", within=600), id="ungated", marks=pytest.mark.long
    ),
    pytest.param(Case(pods=400, gated=True, reserved_for=None, within=120), id="without-workload"),
    pytest.param(
        Case(pods=600, gated=True, reserved_for=None, within=120), id="many-without-workload", marks=pytest.mark.long
    ),
]


@pytest.mark.parametrize("case", CASES)
async def test_a_job_of_many_pods_shares_one_claim(
    namespace: Namespace, start_controller: StartController, case: Case
) -> None:
    # The leader before it may have been killed, in another test: nothing would be freed while writes of it may arrive.
    await namespace.api.delete(LEASES, installation.LEASE, namespace=installation.NAMESPACE)
    controller = await start_controller()
    devices = await namespace.offer_devices(1)
    async with namespace.history("train") as history:
        await namespace.create(objects.claim("train", device_class=devices, reserved_for=case.reserved_for))
        shape = PodShape(claim="train", gated=case.gated)
        began = time.monotonic()
        await namespace.create(objects.job("train", shape, parallelism=case.pods))
        await eventually(
            lambda: namespace.get(JOBS, "train"),
            until=lambda job: job["status"].get("ready") == case.pods,  # listing all pods would be a load of its own
            within=case.within,
            saying="all pods run",
        )
        joined = time.monotonic() - began
        await namespace.create(objects.claim("next", device_class=devices))
        await namespace.create(objects.pod("next", PodShape(claim="next")))

        await _end_all(namespace)
        await eventually(
            lambda: namespace.get(JOBS, "train"),
            until=lambda job: condition(job, "Complete") == "True",
            within=60,
            saying="the job is complete",
        )
        completed = time.monotonic()
        freed = await eventually(
            lambda: namespace.get(CLAIMS, "train"),
            until=_free,
            within=RELEASED_WITHIN,
            saying="the claim is deallocated, its finalizer and our annotations are gone",
        )
        released = time.monotonic() - completed
        await eventually(lambda: namespace.get(PODS, "next"), until=started, saying="the second claim got the device")
        assert freed["metadata"]["uid"] == history.versions[0].object["metadata"]["uid"]
        assert await namespace.find(JOBS, "train") is not None
    await _check(history, await controller.metrics(), case)
    print(f"\n{case}: joined in {joined:.1f} s, released {released:.2f} s after Complete")


async def _end_all(namespace: Namespace) -> None:
    names = [pod["metadata"]["name"] for pod in await namespace.all(PODS, labelSelector="job-name=train")]
    ending = {"metadata": {"labels": {objects.RUN_SECONDS: "0", objects.EXIT_CODE: "0"}}}
    slots = asyncio.Semaphore(16)

    async def end(name: str) -> None:
        async with slots:
            await namespace.patch(PODS, name, ending)

    await asyncio.gather(*map(end, names))


def _free(claim: Json) -> bool:
    ours = {key for key in claim["metadata"].get("annotations", {}) if key.startswith("reserve.dra/")}
    return not allocated(claim) and not claim["metadata"].get("finalizers") and ours <= {objects.RESERVED_FOR}


async def _check(history: WatchHistory, after: Metrics, case: Case) -> None:
    reserved = [version for version in history.versions if allocated(version.object)]
    assert history.longest_list() <= 256
    assert all(a.object["status"]["allocation"] == b.object["status"]["allocation"] for a, b in pairwise(reserved))
    if case.reserved_for:
        first = next(v for v in reserved if listed(v.object, "jobs"))
        assert not case.gated or reserved.index(first) <= 1, "the first write after the allocation enters the job"
        since = reserved[reserved.index(first) :]
        assert all(listed(version.object, "jobs") == {"train"} for version in since)
    else:
        guarded = [version for version in reserved if listed(version.object, "guards")]
        assert guarded, "more pods than slots: a guard entry must hold the claim"
    writes = total(after, "dra_reserve_claim_writes_total")
    late, listed_with_room = slower_than(after, LISTED_WITHIN)
    print(f"{len(history.versions)} versions, {writes:.0f} writes of ours ({writes / case.pods:.3f} a pod)")
    print(f"{listed_with_room:.0f} pods listed while there was room, {late:.0f} after more than {LISTED_WITHIN} s")
    assert writes <= 0.1 * case.pods
    assert late <= 0.01 * listed_with_room


def slower_than(samples: Metrics, seconds: str) -> tuple[float, float]:
    """Return how many pods got their entry later than that, and how many there were, while the list had room."""
    name = "dra_reserve_pod_listing_seconds"
    count = samples.get(f'{name}_count{{room="free"}}', 0.0)  # a scheduler may have filled the list by itself
    return count - samples.get(f'{name}_bucket{{le="{seconds}",room="free"}}', 0.0), count
