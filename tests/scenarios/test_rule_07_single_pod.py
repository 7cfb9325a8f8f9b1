"""Rule 7, claims that were generated for one pod: nobody else can use them, so no workload keeps them.

Kept for the workload, the devices of the pods that have ended would be missing for the next ones, for ever.
"""

from __future__ import annotations

import pytest

from tests.scenarios import objects, steps
from tests.scenarios.claims import finished, listed, started
from tests.scenarios.eventually import eventually
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import Json, PodShape
from tests.scenarios.resources import CLAIMS, JOBS, PODS

DEVICES = 6
COMPLETIONS = 100
SWEEP = "jobs.batch/sweep"


def template(devices: str) -> Json:
    """A template whose claims say that they are reserved for the Job whose pods name it."""
    made = objects.claim_template("gpu", device_class=devices)
    made["spec"]["metadata"] = {"annotations": {objects.RESERVED_FOR: SWEEP}}
    return made


@pytest.mark.usefixtures("controller")
async def test_a_job_with_more_completions_than_devices_ends_though_its_template_is_reserved_for_it(
    namespace: Namespace,
) -> None:
    devices = await namespace.offer_devices(DEVICES)
    await namespace.create(template(devices))
    shape = PodShape(claim_template="gpu", run_seconds=0)
    await namespace.create(objects.job("sweep", shape, parallelism=2 * DEVICES, completions=COMPLETIONS))
    await eventually(
        lambda: namespace.get(JOBS, "sweep"),
        until=lambda job: job["status"].get("succeeded") == COMPLETIONS,
        within=240,
        saying=f"all {COMPLETIONS} pods have ended, {DEVICES} at a time",
    )


@pytest.mark.usefixtures("controller")
async def test_an_entry_of_the_workload_from_an_earlier_build_goes_with_the_pod(namespace: Namespace) -> None:
    devices = await namespace.offer_devices()
    await namespace.create(template(devices))
    job = await namespace.create(objects.job("sweep", PodShape(claim_template="gpu"), completions=2))
    await steps.pods_run(namespace)
    (pod,) = await namespace.all(PODS)
    (claim,) = await namespace.all(CLAIMS)
    name = claim["metadata"]["name"]
    await steps.told(namespace, name, "ReservationIgnored")
    await steps.list_too(namespace, name, steps.entry(job, "jobs", group="batch"))
    assert listed(await namespace.get(CLAIMS, name), "jobs") == {"sweep"}
    await steps.end_pods(namespace, pod["metadata"]["name"])
    await eventually(
        lambda: namespace.all(PODS),
        until=lambda pods: any(started(each) and not finished(each) for each in pods),
        within=steps.FREED_WITHIN,
        saying="the next pod of the Job has got the device",
    )
