"""Rule 1: the list is the workload entry, a guard where one is needed, a window of pods, and everybody else's entries.

What others wrote is never touched, and no write of ours goes past a version that we have not seen.
"""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from tests.scenarios import objects, steps
from tests.scenarios.claims import allocated, entries, finished, listed
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, PODS
from tests.scenarios.target import Mode

pytestmark = [pytest.mark.modes(Mode.REPLACE), pytest.mark.usefixtures("controller")]


async def test_a_foreign_entry_stays_until_its_owner_takes_it(namespace: Namespace) -> None:
    devices = await namespace.offer_devices()
    async with namespace.history("train") as history:
        await namespace.create(objects.claim("train", device_class=devices, reserved_for="jobs.batch/train"))
        await namespace.create(objects.job("train", PodShape(claim="train"), parallelism=2))
        await steps.claim_is(namespace, "train", lambda claim: listed(claim, "jobs"), saying="it is reserved")
        await steps.list_too(namespace, "train", steps.foreign_entry("dam"))

        await steps.pods_run(namespace, count=2)
        await steps.end_pods(namespace)
        await steps.told(namespace, "train", "WorkloadReleased")
        await steadily(lambda: _kept_for_dam_alone(namespace), lasting=1, saying="the foreign entry keeps the claim")
        assert "OwnerReleased" not in await steps.reasons(namespace, "train")
        await steps.unlist(namespace, "train", "uid-of-dam")
        await steps.freed(namespace, "train")

    with_dam = [bool(listed(version.object, "widgets")) for version in history.versions if allocated(version.object)]
    since = with_dam.index(True)
    assert sum(not there for there in with_dam[since:]) <= 1, "only its owner took the foreign entry away"


async def test_nobody_loses_an_entry_to_a_write_of_ours(namespace: Namespace) -> None:
    devices = await namespace.offer_devices()
    others = [steps.foreign_entry(f"dam-{number}") for number in range(30)]
    async with namespace.history("shared") as history:
        await namespace.create(objects.claim("shared", device_class=devices, reserved_for="deployments.apps/crowd"))
        await namespace.create(objects.deployment("crowd", PodShape(claim="shared")))
        await steps.claim_is(namespace, "shared", lambda claim: listed(claim, "deployments"), saying="it is reserved")
        await asyncio.gather(
            _one_by_one(namespace, others),
            namespace.create_all(objects.pods("worker", 20, PodShape(claim="shared", gated=True, run_seconds=1))),
        )
        await eventually(
            lambda: namespace.all(PODS),
            until=lambda pods: sum(map(finished, pods)) == 20,
            within=30,
            saying="all workers have come and gone",
        )
        await steps.claim_is(namespace, "shared", lambda claim: not listed(claim), saying="it lists no pod any more")
    for before, after in pairwise(history.versions):
        assert listed(before.object, "widgets") <= listed(after.object, "widgets")
    assert listed(history.versions[-1].object, "widgets") == {f"dam-{number}" for number in range(30)}


async def _one_by_one(namespace: Namespace, others: list[objects.Json]) -> None:
    for other in others:
        await steps.list_too(namespace, "shared", other)


async def _kept_for_dam_alone(namespace: Namespace) -> bool:
    claim = await namespace.get(CLAIMS, "train")
    return allocated(claim) and [each["name"] for each in entries(claim)] == ["dam"]
