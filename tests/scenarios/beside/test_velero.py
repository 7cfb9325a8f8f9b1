"""A restore by Velero: new objects with the old names and the old notes, pods before the claims that they name.

Old uids stand in annotations of ours, and nobody has them any more. Whoever trusted them would reserve devices for a
Job that is gone, or keep them from the one that is there. Generated claims come back without owner: nobody uses them,
and nobody deletes them. With `restoreStatus: resourceclaims` allocations come back, of devices that others may hold.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from dra.engine.diagnosis.problem_codes import ProblemCode
from tests.scenarios import objects, plugin_of_kubectl, steps
from tests.scenarios.audit import assert_no_device_was_doubled, assert_no_device_was_taken, deallocations
from tests.scenarios.beside.velero import LEFT_OUT, Backup, lose
from tests.scenarios.claims import allocated, bound, entries, finished, listed, revision, started
from tests.scenarios.conftest import ALONE, StartController
from tests.scenarios.controller import Controller
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, JOBS, PODS
from tests.scenarios.target import Mode, Target

if TYPE_CHECKING:
    from tests.scenarios.history import WatchHistory

Json = dict[str, Any]

DEVICES: Final = 6
LASTING: Final = 3.0
"""Seconds for which nothing changes of which no change is expected."""

POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"


async def in_use(namespace: Namespace) -> str:
    """Let a Job, a pod with a claim of its own and a pod without a workload use devices; return the class."""
    devices = await namespace.offer_devices(DEVICES)
    await namespace.create(objects.claim("train", device_class=devices, reserved_for="jobs.batch/train"))
    await namespace.create(objects.claim("shared", device_class=devices))
    await namespace.create(objects.claim_template("own", device_class=devices))
    left_out = objects.claim_template("left-out", device_class=devices)
    left_out["spec"]["metadata"] = {"labels": {LEFT_OUT: "true"}}
    await namespace.create(left_out)
    await namespace.create(objects.job("train", PodShape(claim="train", gated=True), parallelism=2))
    await namespace.create(objects.pod("worker", PodShape(claim="shared", gated=True)))
    await namespace.create(objects.pod("lone", PodShape(claim_template="own")))
    await namespace.create(objects.pod("tidy", PodShape(claim_template="left-out")))
    await steps.pods_run(namespace, count=5)
    await steps.claim_is(namespace, "train", lambda claim: listed(claim, "jobs"), saying="it is reserved")
    return devices


async def disaster(namespace: Namespace, controller: Controller) -> Backup:
    """Save everything, and lose it; no controller of ours runs at the end."""
    backup = Backup(namespace)
    await backup.take()
    await controller.stop()
    await lose(namespace)
    # A restore takes minutes, and the API has whole seconds: allocations before and after must differ in theirs.
    began = int(time.time())
    await eventually(lambda: int(time.time()) > began + 1, saying="another second has begun")
    return backup


async def test_nothing_is_adopted_by_old_uids_and_no_pod_starts_unlisted(
    namespace: Namespace, start_controller: StartController, target: Target
) -> None:
    controller = await start_controller(configuration=ALONE)
    await in_use(namespace)
    generated = {claim["metadata"]["name"] for claim in await namespace.all(CLAIMS) if made_from_template(claim)}
    (orphan,) = {name for name in generated if name.startswith("lone-")}
    backup = await disaster(namespace, controller)

    async with namespace.history("") as claims, namespace.history("", resource=PODS) as pods:
        await backup.restore()
        back = await namespace.get(PODS, "worker")
        assert objects.GATE not in steps.gates(back), "it was saved after our gate had gone"
        await start_controller(configuration=ALONE)
        await steps.pods_run(namespace, "worker", "lone", "tidy")
        job = await namespace.get(JOBS, "train")
        assert job["metadata"]["uid"] not in backup.uids
        await eventually(
            lambda: of_job(namespace, job),
            until=lambda found: len(found) == 2 and all(map(started, found)),
            saying="the pods of the restored Job run",
        )
        await steps.claim_is(
            namespace,
            "train",
            lambda claim: job["metadata"]["uid"] in steps.uids(claim),
            saying="the claim is reserved for the restored Job",
        )
        await steps.claim_is(  # another write than that of the status
            namespace,
            "train",
            lambda claim: not backup.uids & set(notes(claim).values()),
            saying="no annotation has a uid of the backup",
        )
        assert {claim["metadata"]["name"] for claim in await namespace.all(CLAIMS)} & generated == {orphan}
        await steadily(lambda: unused(namespace, orphan), lasting=LASTING, saying="the orphan is nobody's")

    for claim in ("train", "shared"):
        assert not deallocations(claims.only(claim)), f"claim {claim} was in use from its allocation on"
        assert await assert_no_device_was_taken(namespace, claims.only(claim), pods, claim)
    assert_no_device_was_doubled(claims)
    assert_bound_only_while_listed(claims, pods)
    assert not backup.uids & {uid for version in claims.versions for uid in steps.uids(version.object)}

    _, text = await plugin_of_kubectl.dra(target.admin, "audit", f"--namespace={namespace.name}")
    told = " ".join(text.split())
    assert ProblemCode.OWNERLESS in told
    assert f"claim {namespace.name}/{orphan}" in told
    explained = await plugin_of_kubectl.explained(target.admin, f"claim/{orphan}", namespace.name)
    (problem,) = [each for each in explained["problems"] if each["trouble"] == ProblemCode.OWNERLESS]
    assert "command" not in problem, "a person decides, and nothing is there to be pasted"


async def test_an_old_uid_that_a_person_wrote_is_told_and_not_obeyed(
    namespace: Namespace, start_controller: StartController, target: Target
) -> None:
    controller = await start_controller(configuration=ALONE)
    devices = await namespace.offer_devices(DEVICES)
    job = await namespace.create(objects.job("train", PodShape(claim="train", gated=True), parallelism=1))
    uid = job["metadata"]["uid"]
    claim = objects.claim("train", device_class=devices, reserved_for="jobs.batch/train", uid=uid)
    await namespace.create(claim)
    await steps.pods_run(namespace, count=1)
    await steps.claim_is(namespace, "train", lambda found: listed(found, "jobs"), saying="it is reserved")
    backup = await disaster(namespace, controller)

    await backup.restore()
    await start_controller(configuration=ALONE)
    job = await namespace.get(JOBS, "train")
    await eventually(
        lambda: of_job(namespace, job),
        until=lambda found: len(found) == 1 and all(map(started, found)),
        saying="the pod of the restored Job runs",
    )
    await eventually(
        lambda: plugin_of_kubectl.explained(target.admin, "claim/train", namespace.name),
        until=lambda told: (
            {ProblemCode.WRONG_UID, ProblemCode.RELEASE_WAITS} & {each["trouble"] for each in told["problems"]}
        ),
        saying="explain says that the workload with the old uid is gone",
    )
    without = {"metadata": {"annotations": {objects.RESERVED_FOR_UID: None}}}
    await namespace.patch(CLAIMS, "train", without)
    await steps.claim_is(
        namespace,
        "train",
        lambda found: job["metadata"]["uid"] in steps.uids(found),
        saying="without the old uid it is reserved for the restored Job",
    )


async def test_a_restored_allocation_of_a_device_that_is_in_use_is_told(
    namespace: Namespace, start_controller: StartController, target: Target
) -> None:
    controller = await start_controller(configuration=ALONE)
    devices = await namespace.offer_devices()
    await namespace.create(objects.claim("old", device_class=devices))
    await namespace.create(objects.pod("before", PodShape(claim="old", gated=True)))
    await steps.pods_run(namespace, "before")
    backup = await disaster(namespace, controller)

    async with namespace.history("") as claims, namespace.history("", resource=PODS) as pods:
        await start_controller(configuration=ALONE)
        await namespace.create(objects.claim("new", device_class=devices))
        await namespace.create(objects.pod("after", PodShape(claim="new", gated=True)))
        await steps.pods_run(namespace, "after")
        await backup.restore(status_of=(CLAIMS,), without=(PODS,))
        if target.mode is Mode.ALONGSIDE:  # the stock controller knows that the listed pod is gone
            await steps.claim_is(namespace, "old", lambda claim: not allocated(claim), saying="it is deallocated")
        else:
            await steps.told(namespace, "old", "DeviceHeldTwice")
            told = await plugin_of_kubectl.explained(target.admin, "claim/old", namespace.name)
            assert ProblemCode.HELD_TWICE in {each["trouble"] for each in told["problems"]}, told
        after = await namespace.get(PODS, "after")
        assert started(after)
        assert not finished(after)
    assert allocated(await namespace.get(CLAIMS, "new"))
    assert await assert_no_device_was_taken(namespace, claims.only("new"), pods, "new") == 1


def made_from_template(claim: Json) -> bool:
    return POD_CLAIM_NAME in claim["metadata"].get("annotations", {})


def notes(claim: Json) -> dict[str, str]:
    """Return the annotations of ours."""
    found = claim["metadata"].get("annotations", {})
    return {key: value for key, value in found.items() if key.startswith("reserve.dra/")}


async def of_job(namespace: Namespace, job: Json) -> list[Json]:
    found = await namespace.all(PODS)
    return [
        pod
        for pod in found
        if any(each["uid"] == job["metadata"]["uid"] for each in pod["metadata"].get("ownerReferences", ()))
    ]


async def unused(namespace: Namespace, orphan: str) -> bool:
    claim = await namespace.get(CLAIMS, orphan)
    return not allocated(claim) and not entries(claim) and not claim["metadata"].get("ownerReferences")


def assert_bound_only_while_listed(claims: WatchHistory, pods: WatchHistory) -> None:
    """Assert of each bound pod that its claim was allocated when it was bound, and had its entry."""
    for versions in pods.by_object().values():
        first = next((version.object for version in versions if bound(version.object)), None)
        if first is None:
            continue
        for named in (*first["spec"].get("resourceClaims", ()), *first["status"].get("resourceClaimStatuses", ())):
            if name := named.get("resourceClaimName"):
                claim = steps.in_force(claims.only(name), revision(first))
                assert claim is not None, f"pod {first['metadata']['name']} was bound without claim {name}"
                assert allocated(claim)
                assert first["metadata"]["uid"] in steps.uids(claim), f"pod {first['metadata']['name']} is not listed"
