"""Rule 7, suspended Jobs: Kueue evicts a Job by suspending it, and the Job's claim keeps its devices without quota.

The player of Kueue follows pkg/controller/jobs/job of Kueue 0.18 as ../shared/specs/kueue.md §1.2 records it: one patch
suspends the Job, the Job controller deletes its pods; another patch resumes the Job. Whoever wants suspended Jobs to
give back their devices replaces the built-in release rule of Jobs.
"""

from __future__ import annotations

import pytest

from tests.scenarios import objects, steps
from tests.scenarios.claims import allocated, listed
from tests.scenarios.conftest import ALONE, StartController
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, JOBS, PODS

RELEASE_SUSPENDED = {
    "resource": "jobs.batch",
    "expression": "object.status.conditions.exists(c, c.type in ['Complete', 'Failed'] && c.status == 'True')"
    " || object.spec.suspend",
}
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


async def two_jobs_for_one_device(namespace: Namespace) -> None:
    """Let a Job run on the only device, and create another Job that waits for the device."""
    devices = await namespace.offer_devices()
    for job in ("first", "second"):
        await namespace.create(objects.claim(job, device_class=devices, reserved_for=f"jobs.batch/{job}"))
    await namespace.create(objects.job("first", PodShape(claim="first", gated=True), parallelism=2))
    await steps.pods_run(namespace, count=2)
    await steps.claim_is(namespace, "first", lambda claim: listed(claim, "jobs"), saying="it is reserved")
    await namespace.create(objects.job("second", PodShape(claim="second", gated=True)))


@pytest.mark.usefixtures("controller")
async def test_a_suspended_job_keeps_its_devices(namespace: Namespace) -> None:
    await two_jobs_for_one_device(namespace)
    await evict(namespace, "first")
    await steadily(lambda: _is_kept(namespace), lasting=3, saying="the claim of the suspended Job is still reserved")
    await admit(namespace, "first")
    await eventually(
        lambda: namespace.all(PODS, labelSelector="job-name=first"),
        until=lambda pods: len(pods) == 2 and all(map(_runs, pods)),
        saying="the resumed Job runs on its devices",
    )


async def test_a_release_rule_lets_a_suspended_job_give_back_its_devices(
    namespace: Namespace, start_controller: StartController
) -> None:
    await start_controller(configuration=ALONE | {"releaseRules": [RELEASE_SUSPENDED]})
    await two_jobs_for_one_device(namespace)
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


async def _is_kept(namespace: Namespace) -> bool:
    claim = await namespace.get(CLAIMS, "first")
    return bool(allocated(claim) and listed(claim, "jobs"))


def _runs(pod: dict[str, object]) -> bool:
    status = pod["status"]
    return isinstance(status, dict) and status.get("phase") == "Running"
