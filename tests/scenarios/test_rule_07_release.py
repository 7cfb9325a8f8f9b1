"""Rule 7: a reservation ends when the owner removes the entry, or the workload has finished for good or is gone.

The object with that uid, that is: names prove nothing. Our own release waits while an unfinished pod references the
claim. "There are no pods right now" is never a reason, and an entry that its owner removed is never put back.
"""

from __future__ import annotations

import pytest

from tests.scenarios import objects, steps
from tests.scenarios.api import Json
from tests.scenarios.claims import allocated, entries, finished, listed
from tests.scenarios.conftest import ALONE, StartController
from tests.scenarios.controller import IMPATIENT, INSTALLED
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.history import WatchHistory
from tests.scenarios.kinds import Kind
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, DEPLOYMENTS, JOBS, PODS
from tests.scenarios.target import Mode

pytestmark = pytest.mark.modes(Mode.REPLACE)

WORKER = PodShape(claim="shared", gated=True)


@pytest.mark.usefixtures("controller")
async def test_a_deployment_scaled_to_zero_keeps_its_claim(namespace: Namespace) -> None:
    async with namespace.history("shared") as history:
        await _deployment_running(namespace, replicas=2)
        await _scale(namespace, 0)
        await eventually(lambda: namespace.all(PODS), until=lambda pods: not pods, saying="its pods are gone")
        await steadily(lambda: _reserved_for_crew(namespace), lasting=3, saying="the claim is still reserved")
        await _scale(namespace, 2)
        await steps.pods_run(namespace, count=2)
        await history.catch_up()
        since = _first_entered(history)
        assert all(listed(version.object, "deployments") for version in history.versions[since:])
        _assert_one_allocation(history)

        await namespace.delete(DEPLOYMENTS, "crew")
        await steps.freed(namespace, "shared")
        await steps.told(namespace, "shared", "WorkloadReleased")


@pytest.mark.usefixtures("controller")
async def test_an_owner_that_releases_on_time_frees_the_devices(namespace: Namespace) -> None:
    crew = await _deployment_running(namespace, replicas=1)
    await _scale(namespace, 0)
    await eventually(lambda: namespace.all(PODS), until=lambda pods: not pods, saying="its pods are gone")
    await steps.unlist(namespace, "shared", crew["metadata"]["uid"])
    await steps.freed(namespace, "shared")
    await steps.told(namespace, "shared", "Deallocated")


@pytest.mark.usefixtures("controller")
async def test_an_owner_that_releases_early_frees_the_devices_when_the_last_pod_ends(namespace: Namespace) -> None:
    async with namespace.history("shared") as history:
        crew = await _deployment_running(namespace, replicas=2)
        await steps.unlist(namespace, "shared", crew["metadata"]["uid"])
        await steps.told(namespace, "shared", "OwnerReleased")
        await _scale(namespace, 1)
        await steadily(lambda: _allocated(namespace), lasting=2, saying="a pod still uses it")
        await _scale(namespace, 0)
        await steps.freed(namespace, "shared")
    reserved = [bool(listed(version.object, "deployments")) for version in history.versions[_first_entered(history) :]]
    assert not any(reserved[reserved.index(False) :]), "what the owner has removed is not put back"
    _assert_one_allocation(history)


@pytest.mark.usefixtures("controller")
async def test_a_released_claim_is_entered_anew_with_its_next_allocation(namespace: Namespace) -> None:
    crew = await _deployment_running(namespace, replicas=1)
    await steps.unlist(namespace, "shared", crew["metadata"]["uid"])
    await _scale(namespace, 0)
    await steps.freed(namespace, "shared")
    await _scale(namespace, 1)
    await steps.claim_is(namespace, "shared", lambda claim: listed(claim, "deployments"), saying="it is entered anew")
    await steps.pods_run(namespace)


@pytest.mark.usefixtures("controller")
async def test_a_failed_job_gives_its_claim_back(namespace: Namespace) -> None:
    devices = await namespace.offer_devices()
    await namespace.create(objects.claim("shared", device_class=devices, reserved_for="jobs.batch/train"))
    await _job_entered(namespace)
    await steps.end_pods(namespace, exit_code=1)
    await steps.told(namespace, "shared", "WorkloadReleased")
    await steps.freed(namespace, "shared")
    assert (await namespace.get(JOBS, "train"))["status"]["failed"] == 1


@pytest.mark.usefixtures("controller")
async def test_the_release_of_a_finished_job_waits_for_other_pods(namespace: Namespace) -> None:
    devices = await namespace.offer_devices()
    async with namespace.history("shared") as history:
        await namespace.create(objects.claim("shared", device_class=devices, reserved_for="jobs.batch/train"))
        await _job_entered(namespace)
        (worker,) = await namespace.all(PODS)
        await namespace.create(objects.pod("visitor", PodShape(claim="shared")))
        await steps.pods_run(namespace, count=2)
        await steps.end_pods(namespace, worker["metadata"]["name"])
        await steps.told(namespace, "shared", "ReleaseWaitsForPods")
        await steadily(lambda: _allocated(namespace), lasting=1, saying="the visitor uses it")
        await history.catch_up()
        assert all(listed(version.object, "jobs") for version in history.versions[_first_entered(history) :])
        await steps.end_pods(namespace, "visitor")
        await steps.freed(namespace, "shared")


async def test_it_can_be_left_to_the_owners_alone(namespace: Namespace, start_controller: StartController) -> None:
    await start_controller(configuration=ALONE | {"releaseFinished": False})
    devices = await namespace.offer_devices()
    await namespace.create(objects.claim("shared", device_class=devices, reserved_for="jobs.batch/train"))
    job = await _job_entered(namespace)
    await steps.end_pods(namespace)
    await eventually(
        lambda: namespace.all(PODS), until=lambda pods: pods and all(map(finished, pods)), saying="its pod has ended"
    )
    await steps.claim_is(namespace, "shared", lambda claim: not listed(claim), saying="no pod uses it")
    await steadily(lambda: _allocated(namespace), lasting=2, saying="it stays reserved for the finished Job")
    await steps.unlist(namespace, "shared", job["metadata"]["uid"])
    await steps.freed(namespace, "shared")


async def test_a_rule_of_the_configuration_tells_when_a_made_up_kind_has_finished(
    namespace: Namespace, start_controller: StartController
) -> None:
    shoals = Kind(namespace)
    rule = {"resource": f"shoals.{shoals.group}", "expression": "object.phase == 'Caught'"}
    await start_controller(configuration=ALONE | {"releaseRules": [rule]})
    await shoals.define()
    await shoals.let_controller_read()
    devices = await namespace.offer_devices()
    await shoals.create("herring", phase="Swimming")
    await namespace.create(objects.claim("shared", device_class=devices, reserved_for=shoals.reference("herring")))
    await namespace.create(objects.pod("fish", WORKER))
    await steps.claim_is(namespace, "shared", lambda claim: listed(claim, "shoals"), saying="it is reserved")
    await steps.end_pods(namespace, "fish")
    await steps.claim_is(namespace, "shared", lambda claim: not listed(claim), saying="no pod uses it")
    await steadily(lambda: _allocated(namespace), lasting=1, saying="more fish may come")
    await namespace.patch(shoals.resource, "herring", {"phase": "Caught"})
    await steps.freed(namespace, "shared")


@pytest.mark.usefixtures("controller")
async def test_the_same_name_with_another_uid_is_another_workload(namespace: Namespace) -> None:
    """The first Job is gone, its pod still runs: the claim stays its until then, and becomes the second one's after."""
    devices = await namespace.offer_devices()
    shape = PodShape(claim="shared", gated=True)
    async with namespace.history("shared") as history:
        await namespace.create(objects.claim("shared", device_class=devices, reserved_for="jobs.batch/train"))
        first = await namespace.create(objects.job("train", shape))
        await steps.pods_run(namespace)
        await steps.claim_is(namespace, "shared", lambda claim: listed(claim, "jobs"), saying="it is reserved")
        await namespace.create(objects.pod("visitor", shape))
        await steps.pods_run(namespace, "visitor")
        await namespace.delete(JOBS, "train")
        await steps.told(namespace, "shared", "ReleaseWaitsForPods")
        await eventually(lambda: namespace.find(JOBS, "train"), until=lambda job: job is None, saying="it is gone")
        second = await namespace.create(objects.job("train", PodShape(), parallelism=1))
        await steadily(
            lambda: _has_entry_of(namespace, first), lasting=1.5, saying="it is still reserved for the first one"
        )
        await namespace.delete(PODS, "visitor")
        await steps.freed(namespace, "shared")
        await namespace.create(objects.pod("successor", shape))
        await steps.claim_is(
            namespace,
            "shared",
            lambda claim: steps.entry(second, "jobs", group="batch") in entries(claim),
            saying="it is reserved for the second one",
        )
    both = {first["metadata"]["uid"], second["metadata"]["uid"]}
    assert not any(both <= steps.uids(version.object) for version in history.versions)


@pytest.mark.usefixtures("controller")
async def test_a_uid_given_by_the_creator_is_never_replaced(namespace: Namespace) -> None:
    devices = await namespace.offer_devices()
    first = await namespace.create(objects.job("train", PodShape()))
    await namespace.delete(JOBS, "train")
    await eventually(lambda: namespace.find(JOBS, "train"), until=lambda job: job is None, saying="it is gone")
    second = await namespace.create(objects.job("train", PodShape()))
    async with namespace.history("shared") as history:
        claim = objects.claim(
            "shared", device_class=devices, reserved_for="jobs.batch/train", uid=first["metadata"]["uid"]
        )
        await namespace.create(claim)
        await namespace.create(objects.pod("worker", WORKER))
        await steps.pods_run(namespace, "worker")
        await steadily(lambda: _allocated(namespace), lasting=1, saying="its pod uses it")
        await steps.end_pods(namespace, "worker")
        freed = await steps.freed(namespace, "shared")
    assert freed["metadata"]["annotations"][objects.RESERVED_FOR_UID] == first["metadata"]["uid"]
    assert not any(second["metadata"]["uid"] in steps.uids(version.object) for version in history.versions)


@pytest.mark.parametrize(
    ("program", "within"),
    [
        pytest.param(IMPATIENT, 60.0, id="without-pods-that-may-have-vanished"),
        pytest.param(INSTALLED, 200.0, id="when-no-pod-can-have-vanished", marks=pytest.mark.long),
    ],
)
async def test_a_workload_deleted_while_we_are_down_is_released(
    namespace: Namespace, start_controller: StartController, program: tuple[str, ...], within: float
) -> None:
    """One of its pods may have been deleted by force: nobody could tell, and the guard is all that is left of it."""
    controller = await start_controller(program=program)
    await _deployment_running(namespace, replicas=1)
    await controller.stop()
    await namespace.delete(DEPLOYMENTS, "crew")
    await eventually(lambda: namespace.all(PODS), until=lambda pods: not pods, saying="its pods are gone")
    assert await _reserved_for_crew(namespace)
    await controller.start()
    if program is INSTALLED:  # the other one has nothing to wait for
        await steps.told(namespace, "shared", "GuardFound")
    await steps.freed(namespace, "shared", within=within)


async def _deployment_running(namespace: Namespace, *, replicas: int) -> Json:
    """Make a Deployment whose pods share a claim that is reserved for it; return when all is in place."""
    devices = await namespace.offer_devices()
    await namespace.create(objects.claim("shared", device_class=devices, reserved_for="deployments.apps/crew"))
    crew = await namespace.create(objects.deployment("crew", WORKER, replicas=replicas))
    await steps.pods_run(namespace, count=replicas)
    await steps.claim_is(
        namespace,
        "shared",
        lambda claim: listed(claim, "deployments") and listed(claim, "guards"),
        saying="it is reserved, and guarded since its pods run unlisted",
    )
    return crew


async def _job_entered(namespace: Namespace) -> Json:
    """Make a Job with one pod, which runs until somebody ends it; return once the claim is reserved for the Job.

    The claim of a Job that is over before is free with its last pod, and was never reserved for the Job.
    """
    job = await namespace.create(objects.job("train", PodShape(claim="shared")))
    await steps.claim_is(namespace, "shared", lambda claim: listed(claim, "jobs"), saying="it is reserved for the Job")
    await steps.pods_run(namespace)
    return job


async def _scale(namespace: Namespace, replicas: int) -> None:
    await namespace.patch(DEPLOYMENTS, "crew", {"spec": {"replicas": replicas}})


async def _allocated(namespace: Namespace) -> bool:
    return allocated(await namespace.get(CLAIMS, "shared"))


async def _reserved_for_crew(namespace: Namespace) -> bool:
    return listed(await namespace.get(CLAIMS, "shared"), "deployments") == {"crew"}


async def _has_entry_of(namespace: Namespace, job: Json) -> bool:
    return steps.entry(job, "jobs", group="batch") in entries(await namespace.get(CLAIMS, "shared"))


def _first_entered(history: WatchHistory) -> int:
    return next(i for i, version in enumerate(history.versions) if {"deployments", "jobs"} & _resources(version.object))


def _resources(claim: Json) -> set[str]:
    return {each["resource"] for each in entries(claim)}


def _assert_one_allocation(history: WatchHistory) -> None:
    found = [version.object["status"]["allocation"] for version in history.versions if allocated(version.object)]
    assert all(allocation == found[0] for allocation in found)
