"""docs/how-to/switching-off.md: what stays safe while the controller is off, and how mixed lists heal."""

from __future__ import annotations

import pytest

from tests.scenarios import objects, steps
from tests.scenarios.api import Json
from tests.scenarios.claims import allocated, condition, entries, listed
from tests.scenarios.conftest import ALONE, StartController
from tests.scenarios.controller import IMPATIENT
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, JOBS
from tests.scenarios.target import Mode

pytestmark = pytest.mark.modes(Mode.REPLACE)

PODS = 4


async def test_pods_that_joined_while_it_was_off_make_way_for_the_workload(
    namespace: Namespace, start_controller: StartController
) -> None:
    await _claim_and_job(namespace)
    await steps.pods_run(namespace, count=PODS, within=60)
    assert len(listed(await namespace.get(CLAIMS, "train"))) == PODS, "the scheduler has listed each"
    async with namespace.history("train") as history:
        await start_controller(configuration=ALONE)
        await _reserved_for_the_job_alone(namespace)
    assert all(allocated(version.object) and entries(version.object) for version in history.versions)


async def test_nothing_is_given_away_while_it_is_off_and_what_ended_meanwhile_is_freed_then(
    namespace: Namespace, start_controller: StartController
) -> None:
    await _claim_and_job(namespace)
    first = await start_controller(configuration=ALONE)
    await steps.pods_run(namespace, count=PODS, within=60)
    await _reserved_for_the_job_alone(namespace)
    await first.stop()
    await steps.end_pods(namespace)
    await eventually(
        lambda: namespace.get(JOBS, "train"),
        until=lambda job: condition(job, "Complete") == "True",
        saying="it is over",
    )

    async def kept() -> bool:
        return bool(listed(await namespace.get(CLAIMS, "train"), "jobs"))

    await steadily(kept, lasting=2.0, saying="its reference dangles, and keeps the claim")
    await start_controller(configuration=ALONE, program=IMPATIENT)
    await steps.freed(namespace, "train")


@pytest.mark.long
async def test_an_owner_that_released_while_it_was_off_is_believed(
    namespace: Namespace, start_controller: StartController
) -> None:
    await _claim_and_job(namespace)
    first = await start_controller(configuration=ALONE)
    await steps.pods_run(namespace, count=PODS, within=60)
    await _reserved_for_the_job_alone(namespace)
    # The mark comes after the entry. Without it nobody knows who took the entry off, and it is made anew.
    await steps.claim_is(namespace, "train", _knows_its_entry, saying="it says that its entry was made")
    await first.stop()
    job = await namespace.get(JOBS, "train")
    await steps.unlist(namespace, "train", job["metadata"]["uid"])
    await start_controller(configuration=ALONE, program=IMPATIENT)
    await steps.told(namespace, "train", "OwnerReleased")
    assert not listed(await namespace.get(CLAIMS, "train"), "jobs")
    await steps.end_pods(namespace)
    await steps.freed(namespace, "train")


def _knows_its_entry(claim: Json) -> bool:
    return "reservedFor" in claim["spec"] or "reserve.dra/entered-allocation" in claim["metadata"]["annotations"]


async def _claim_and_job(namespace: Namespace) -> None:
    devices = await namespace.offer_devices()
    await namespace.create(objects.claim("train", device_class=devices, reserved_for="jobs.batch/train"))
    await namespace.create(objects.job("train", PodShape(claim="train"), parallelism=PODS))


async def _reserved_for_the_job_alone(namespace: Namespace) -> None:
    await steps.claim_is(
        namespace,
        "train",
        lambda claim: listed(claim, "jobs") == {"train"} and not listed(claim),
        within=60,
        saying="it is reserved for the Job, and no pod is listed",
    )
