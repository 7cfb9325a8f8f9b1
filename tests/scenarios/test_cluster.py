"""The cluster itself, without dra-reserve: what every scenario takes for granted."""

from __future__ import annotations

import pytest

from tests.scenarios import objects
from tests.scenarios.api import Json
from tests.scenarios.claims import allocated, finished, listed, revision, started
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, JOBS, PODS
from tests.scenarios.target import Capability, Mode, Target

pytestmark = pytest.mark.modes(Mode.ALONGSIDE)


async def test_two_pods_share_a_claim_run_and_complete(namespace: Namespace) -> None:
    devices = await namespace.offer_devices()
    async with namespace.history("shared") as history:
        await namespace.create(objects.claim("shared", device_class=devices))
        await namespace.create_all(objects.pods("worker", 2, PodShape(claim="shared", run_seconds=1)))

        await eventually(
            lambda: namespace.all(PODS),
            until=lambda pods: len(pods) == 2 and all(map(finished, pods)),
            saying="both pods have run to their end",
        )
        await eventually(
            lambda: namespace.get(CLAIMS, "shared"),
            until=lambda claim: not allocated(claim),
            saying="the stock claim controller has freed the claim",
        )
    assert history.versions[0].change == "ADDED"
    assert history.longest_list() == 2
    assert any(listed(version.object) == {"worker-0", "worker-1"} for version in history.versions)


async def test_the_job_controller_counts_what_kwok_ends(namespace: Namespace) -> None:
    await namespace.create(objects.job("good", PodShape(run_seconds=0), parallelism=2))
    await namespace.create(objects.job("bad", PodShape(run_seconds=0, exit_code=1)))

    await eventually(
        lambda: namespace.get(JOBS, "good"),
        until=lambda job: job["status"].get("succeeded") == 2,
        saying="the job is complete",
    )
    await eventually(
        lambda: namespace.get(JOBS, "bad"),
        until=lambda job: job["status"].get("failed") == 1,
        saying="the job has failed",
    )


async def test_a_held_pod_gets_its_sandbox_when_the_label_is_taken_away(namespace: Namespace) -> None:
    await namespace.create(objects.pod("held", PodShape(hold=True)))
    await eventually(
        lambda: namespace.get(PODS, "held"), until=lambda pod: "startTime" in pod["status"], saying="its node has it"
    )
    assert not started(await namespace.get(PODS, "held"))

    await namespace.patch(PODS, "held", {"metadata": {"labels": {objects.HOLD: None}}})
    await eventually(lambda: namespace.get(PODS, "held"), until=started, saying="the pod has started")


async def test_no_pod_starts_on_a_broken_node(namespace: Namespace) -> None:
    await namespace.create(objects.pod("unlucky", PodShape(spec=objects.ON_BROKEN_NODES)))
    await eventually(
        lambda: namespace.get(PODS, "unlucky"), until=lambda pod: "startTime" in pod["status"], saying="its node has it"
    )
    assert not started(await namespace.get(PODS, "unlucky"))


async def test_a_status_that_a_test_wrote_stays(namespace: Namespace) -> None:
    await namespace.create(objects.pod("sandboxless", PodShape()))
    await eventually(lambda: namespace.get(PODS, "sandboxless"), until=started, saying="the pod has started")

    lost = {"conditions": [{"type": "PodReadyToStartContainers", "status": "False"}]}
    patched = await namespace.patch_status(PODS, "sandboxless", lost, kind="strategic-merge-patch")
    assert patched["status"]["phase"] == "Running"
    assert not started(patched)
    await steadily(
        lambda: unchanged(namespace, patched), lasting=0.5, saying="kwok leaves the pod as the test wrote it"
    )


@pytest.mark.needs(Capability.COMPONENTS)
async def test_a_frozen_scheduler_binds_nothing_until_it_is_thawed(namespace: Namespace, target: Target) -> None:
    target.cluster.scheduler.freeze()
    try:
        await namespace.create(objects.pod("waiting", PodShape()))
    finally:
        target.cluster.scheduler.thaw()
    await eventually(lambda: namespace.get(PODS, "waiting"), until=started, saying="the pod has started")


async def unchanged(namespace: Namespace, pod: Json) -> bool:
    return revision(await namespace.get(PODS, pod["metadata"]["name"])) == revision(pod)
