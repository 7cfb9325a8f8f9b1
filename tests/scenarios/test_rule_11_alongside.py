"""Rule 11: beside the stock claim controller, which puts back what we take away and rewrites what has finished.

So pods stay listed as long as they are there, a tombstone takes the place of one that has finished, and who finds no
slot waits behind our gate, not in the scheduler. What the stock controller does not do is ours: free a claim whose list
somebody else has emptied. In mode replace it must be off; where it is not, we notice, say so and act as alongside.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from tests.scenarios import installation, objects, steps
from tests.scenarios.changes import Changes
from tests.scenarios.claims import allocated, bound, condition, entries, finished, listed, started
from tests.scenarios.conftest import ALONE, StartController
from tests.scenarios.controller import Controller
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.metrics import total
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, JOBS, PODS
from tests.scenarios.target import Mode, Target

pytestmark = pytest.mark.modes(Mode.ALONGSIDE)

IDLE = 30.0
"""Seconds; the stock controller alone writes a claim with a finished and a running pod twenty times a second."""

SHORTLY_IDLE = 4.0

BATCH = 6.0
"""Seconds: what nobody waits for is written every five at most."""

SLOTS = 255
"""Pods without a workload: of 256 entries one is kept for a guard."""


@pytest.mark.long
async def test_a_job_with_finished_pods_costs_at_most_a_write_for_each_pod_event_and_none_at_rest(
    namespace: Namespace, controller: Controller
) -> None:
    pods = 240
    devices = await namespace.offer_devices()
    async with (
        namespace.history("train") as claim,
        Changes(namespace.api, PODS, namespace=namespace.name) as pod_changes,
        Changes(namespace.api, CLAIMS, namespace=namespace.name) as claim_changes,
    ):
        await namespace.create(objects.claim("train", device_class=devices, reserved_for="jobs.batch/train"))
        await namespace.create(objects.job("train", PodShape(claim="train", gated=True), parallelism=pods))
        await _ready(namespace, "train", pods, within=60)
        names = [pod["metadata"]["name"] for pod in await namespace.all(PODS)]
        await steps.end_pods(namespace, *names[:60])
        await eventually(lambda: _ended(namespace), until=lambda ended: ended == 60, within=60, saying="60 have ended")
        await steps.claim_is(
            namespace,
            "train",
            lambda found: listed(found) == set(names[60:]) and 0 < len(listed(found, "finishedpods")) <= 60,
            saying="tombstones stand for those that have ended and that the stock controller put back",
        )
        assert len(claim.versions) <= len(pod_changes.seen)
        print(f"\n{len(claim.versions)} versions of the claim, {len(pod_changes.seen)} pod events")

        await pod_changes.quiet(lasting=2, within=30)
        await claim_changes.quiet(lasting=BATCH, within=30)
        idle = time.monotonic()
        await steadily(lambda: not claim.writes_since(idle), lasting=IDLE, saying="the claim is left alone")

        await steps.end_pods(namespace, *names[60:])
        await eventually(
            lambda: namespace.get(JOBS, "train"),
            until=lambda job: condition(job, "Complete") == "True",
            within=60,
            saying="the job is complete",
        )
        await steps.freed(namespace, "train")
    steps.assert_bounded(claim)
    print(f"{total(await controller.metrics(), 'dra_reserve_claim_writes_total'):.0f} writes of ours")


@pytest.mark.usefixtures("controller")
async def test_a_finished_pod_beside_a_running_one_makes_no_loop_without_a_workload_either(
    namespace: Namespace,
) -> None:
    await _two_of_which_one_has_ended(namespace)
    await steps.claim_is(namespace, "shared", lambda found: listed(found, "finishedpods"), saying="a tombstone is set")
    await _assert_idle(namespace)
    await steps.end_pods(namespace, "long")
    await steps.freed(namespace, "shared")


@pytest.mark.usefixtures("controller")
async def test_a_tombstone_goes_with_its_pod(namespace: Namespace) -> None:
    await _two_of_which_one_has_ended(namespace)
    await steps.claim_is(namespace, "shared", lambda found: listed(found, "finishedpods"), saying="a tombstone is set")
    await namespace.delete(PODS, "short")
    await steps.claim_is(
        namespace, "shared", lambda found: [each["name"] for each in entries(found)] == ["long"], saying="it is gone"
    )


@pytest.mark.long
@pytest.mark.usefixtures("controller")
async def test_who_finds_no_slot_waits_behind_the_gate_is_told_and_runs_when_one_is_free(namespace: Namespace) -> None:
    devices = await namespace.offer_devices()
    async with namespace.history("shared") as history:
        await namespace.create(objects.claim("shared", device_class=devices))
        await namespace.create_all(objects.pods("worker", SLOTS + 3, PodShape(claim="shared", gated=True)))
        await eventually(
            lambda: namespace.all(PODS),
            until=lambda pods: sum(map(started, pods)) == SLOTS,
            within=90,
            saying="as many run as there are slots",
        )
        waiting = [pod["metadata"]["name"] for pod in await namespace.all(PODS) if not bound(pod)]
        assert len(waiting) == 3
        await eventually(
            lambda: steps.note(namespace, "shared", "ConsumerLimit"),
            until=lambda text: "3 pods wait for an entry: " in text,
            saying="the claim says how many wait, and for what",
        )
        for name in waiting:
            await steps.told(namespace, name, "WaitsForSlot")
            assert "FailedScheduling" not in await steps.reasons(namespace, name), "the scheduler does not try it"
            assert steps.gates(await namespace.get(PODS, name)) == [objects.GATE]
        idle = time.monotonic()
        await steadily(lambda: not history.writes_since(idle), lasting=SHORTLY_IDLE, saying="the claim is left alone")

        running = next(pod["metadata"]["name"] for pod in await namespace.all(PODS) if bound(pod))
        await namespace.delete(PODS, running)
        await eventually(
            lambda: _running(namespace, waiting), until=lambda found: len(found) == 1, saying="one more runs"
        )
    steps.assert_bounded(history)


@pytest.mark.usefixtures("controller")
async def test_a_claim_whose_list_somebody_else_has_emptied_is_freed(namespace: Namespace) -> None:
    devices = await namespace.offer_devices()
    crew = await namespace.create(objects.deployment("crew", PodShape(), replicas=0))
    await namespace.create(objects.claim("shared", device_class=devices, reserved_for="deployments.apps/crew"))
    await namespace.create(objects.pod("worker", PodShape(claim="shared", gated=True)))
    await steps.pods_run(namespace, "worker")
    await steps.end_pods(namespace, "worker")
    await steps.pod_is(namespace, "worker", finished, saying="it has ended")
    await namespace.delete(PODS, "worker")
    await steps.claim_is(
        namespace, "shared", lambda found: [each["name"] for each in entries(found)] == ["crew"], saying="none is left"
    )
    await steps.unlist(namespace, "shared", crew["metadata"]["uid"])
    await steps.freed(namespace, "shared")


@pytest.fixture
def rights_of_replace(target: Target) -> Iterator[None]:
    """What whoever meant to go to mode replace has installed, before kube-controller-manager has its flag."""
    installation.install(target.admin, kustomization=installation.OVERLAYS[Mode.REPLACE])
    yield
    installation.change_over(target.admin, mode=Mode.ALONGSIDE, way=installation.way(Mode.ALONGSIDE))


@pytest.mark.usefixtures("rights_of_replace")
async def test_in_mode_replace_the_stock_controller_is_noticed_and_then_heeded(
    namespace: Namespace, start_controller: StartController
) -> None:
    controller = await start_controller(configuration=ALONE, mode=Mode.REPLACE)
    devices = await namespace.offer_devices()
    await namespace.create(objects.claim("shared", device_class=devices, reserved_for="deployments.apps/crew"))
    await namespace.create(objects.deployment("crew", PodShape(claim="shared", gated=True), replicas=6))
    await steps.pods_run(namespace, count=6)
    assert "--mode alongside" in await steps.note(namespace, "shared", "StockControllerActive")
    await steps.claim_is(
        namespace, "shared", lambda found: len(listed(found)) == 6, saying="all pods stay listed, as alongside"
    )
    async with Changes(namespace.api, CLAIMS, namespace=namespace.name) as changes:
        await changes.quiet(lasting=SHORTLY_IDLE, within=30)
    found = await namespace.get(CLAIMS, "shared")
    assert allocated(found)
    assert controller.process.alive


async def _two_of_which_one_has_ended(namespace: Namespace) -> None:
    devices = await namespace.offer_devices()
    await namespace.create(objects.claim("shared", device_class=devices))
    await asyncio.gather(
        namespace.create(objects.pod("long", PodShape(claim="shared"))),
        namespace.create(objects.pod("short", PodShape(claim="shared", run_seconds=1))),
    )
    await steps.pod_is(namespace, "short", finished, saying="it has ended")
    await steps.pods_run(namespace, "long")


async def _assert_idle(namespace: Namespace) -> None:
    async with Changes(namespace.api, CLAIMS, namespace=namespace.name) as changes:
        await changes.quiet(lasting=SHORTLY_IDLE, within=SHORTLY_IDLE + 1)


async def _ready(namespace: Namespace, job: str, pods: int, *, within: float) -> None:
    await eventually(
        lambda: namespace.get(JOBS, job),
        until=lambda found: found["status"].get("ready") == pods,
        within=within,
        saying=f"{pods} pods run",
    )


async def _ended(namespace: Namespace) -> int:
    return sum(map(finished, await namespace.all(PODS)))


async def _running(namespace: Namespace, names: list[str]) -> set[str]:
    return {p["metadata"]["name"] for p in await namespace.all(PODS) if started(p)} & set(names)
