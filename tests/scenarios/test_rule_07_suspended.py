"""Rule 7, suspended Jobs: Kueue evicts a Job by suspending it, and the Job's claim keeps its devices without quota.

The player of Kueue follows pkg/controller/jobs/job of Kueue 0.18 as ../shared/specs/kueue.md §1.2 records it: one patch
suspends the Job, the Job controller deletes its pods; another patch resumes the Job. The annotation of a claim, or else
the configuration, lets a suspended Job give back its devices; otherwise a Warning names the claim.
"""

from __future__ import annotations

import pytest

from tests.scenarios import objects, steps
from tests.scenarios.audit import assert_no_device_was_doubled, assert_pods_kept_their_devices
from tests.scenarios.claims import allocated, listed
from tests.scenarios.conftest import ALONE, StartController
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, JOBS, PODS

STOPPING = "kueue.x-k8s.io/stopping"


async def evict(namespace: Namespace, job: str) -> None:
    """Suspend a Job as Kueue does, and wait until the Job controller has deleted its pods."""
    stopping = {"metadata": {"annotations": {STOPPING: "true"}}, "spec": {"suspend": True}}
    await namespace.patch(JOBS, job, stopping)
    await eventually(
        lambda: namespace.all(PODS, labelSelector=f"job-name={job}"),
        until=lambda pods: not pods,
        saying=f"the pods of Job {job} are gone",
    )


async def admit(namespace: Namespace, job: str) -> None:
    await namespace.patch(JOBS, job, {"metadata": {"annotations": {STOPPING: None}}, "spec": {"suspend": False}})


async def two_jobs_for_one_device(namespace: Namespace, when_suspended: str | None = None) -> None:
    """Let a Job run on the only device, and create another Job that waits for the device."""
    devices = await namespace.offer_devices()
    for job in ("first", "second"):
        claim = objects.claim(job, device_class=devices, reserved_for=f"jobs.batch/{job}")
        if when_suspended is not None:
            claim["metadata"]["annotations"][objects.WHEN_SUSPENDED] = when_suspended
        await namespace.create(claim)
    await namespace.create(objects.job("first", PodShape(claim="first", gated=True), parallelism=2))
    await steps.pods_run(namespace, count=2)
    await steps.claim_is(namespace, "first", lambda claim: listed(claim, "jobs"), saying="it is reserved")
    await namespace.create(objects.job("second", PodShape(claim="second", gated=True)))


@pytest.mark.usefixtures("controller")
async def test_a_suspended_job_keeps_its_devices_and_a_warning_names_the_claim(namespace: Namespace) -> None:
    await two_jobs_for_one_device(namespace)
    await evict(namespace, "first")
    assert "jobs.batch/first, which is suspended" in await steps.note(namespace, "first", "KeptWhileSuspended")
    await steadily(lambda: _is_kept(namespace), lasting=3, saying="the claim of the suspended Job is still reserved")
    await admit(namespace, "first")
    await eventually(
        lambda: namespace.all(PODS, labelSelector="job-name=first"),
        until=lambda pods: len(pods) == 2 and all(map(_runs, pods)),
        saying="the resumed Job runs on its devices",
    )


@pytest.mark.parametrize(
    ("configuration", "when_suspended"),
    [
        pytest.param({}, "release", id="by-annotation"),
        pytest.param({"releaseSuspended": True}, None, id="by-configuration"),
    ],
)
async def test_a_suspended_job_gives_back_its_devices(
    namespace: Namespace,
    start_controller: StartController,
    configuration: dict[str, object],
    when_suspended: str | None,
) -> None:
    await start_controller(configuration=ALONE | configuration)
    await two_jobs_for_one_device(namespace, when_suspended)
    uid = (await namespace.get(JOBS, "first"))["metadata"]["uid"]
    await evict(namespace, "first")
    await steps.claim_is(namespace, "second", allocated, within=steps.FREED_WITHIN * 2, saying="it gets the device")
    await admit(namespace, "first")
    await steps.end_pods(
        namespace, *[pod["metadata"]["name"] for pod in await namespace.all(PODS, labelSelector="job-name=second")]
    )
    await steps.claim_is(
        namespace,
        "first",
        lambda claim: allocated(claim) and listed(claim, "jobs"),
        within=steps.FREED_WITHIN * 2,
        saying="the resumed Job has the device again",
    )
    entries = (await namespace.get(CLAIMS, "first"))["status"]["reservedFor"]
    assert [entry["uid"] for entry in entries if entry["resource"] == "jobs"] == [uid]


async def test_a_job_that_is_resumed_and_suspended_again_and_again_keeps_the_devices_of_its_pods(
    namespace: Namespace, start_controller: StartController
) -> None:
    """An operator that toggles: no claim is freed under a pod, and nothing is left in the end."""
    await start_controller(configuration=ALONE | {"releaseSuspended": True})
    devices = await namespace.offer_devices()
    await namespace.create(objects.claim("first", device_class=devices, reserved_for="jobs.batch/first"))
    async with namespace.history("") as claims, namespace.history("", resource=PODS) as pods:
        await namespace.create(objects.job("first", PodShape(claim="first"), parallelism=2))
        for _ in range(5):
            await steps.pods_run(namespace, count=2)
            await evict(namespace, "first")
            await admit(namespace, "first")
        await steps.pods_run(namespace, count=2)
        await evict(namespace, "first")
        await steps.claim_is(
            namespace,
            "first",
            lambda claim: not allocated(claim),
            within=steps.FREED_WITHIN * 2,
            saying="it is free while its Job is suspended",
        )
    assert_no_device_was_doubled(claims)
    assert assert_pods_kept_their_devices(claims.only("first"), pods, "first") == 12


async def _is_kept(namespace: Namespace) -> bool:
    claim = await namespace.get(CLAIMS, "first")
    return bool(allocated(claim) and listed(claim, "jobs"))


def _runs(pod: dict[str, object]) -> bool:
    status = pod["status"]
    return isinstance(status, dict) and status.get("phase") == "Running"
