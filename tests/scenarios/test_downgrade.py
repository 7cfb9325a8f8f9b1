"""Back to stock Kubernetes and forth again: no pod notices, no device is lost or given twice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import pytest

from tests.scenarios import objects, plugin, steps
from tests.scenarios.api import Json
from tests.scenarios.audit import (
    assert_everybody_stays_listed,
    assert_no_device_was_doubled,
    assert_no_device_was_taken,
    first_with_all,
)
from tests.scenarios.claims import bound, condition, entries, listed, revision
from tests.scenarios.conftest import StartController, StartProxy
from tests.scenarios.eventually import eventually
from tests.scenarios.faults import Fault, Kind
from tests.scenarios.history import WatchHistory
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.plugin import Run
from tests.scenarios.resources import CLAIMS, JOBS, PODS
from tests.scenarios.shared_claim import SharedClaim, Size
from tests.scenarios.stock import StockController
from tests.scenarios.target import Capability, Mode, Target

pytestmark = pytest.mark.modes(Mode.REPLACE)

WORKLOAD: Final = "jobs"

PODS_OF_EACH: Final = 120
"""Of the two Jobs that go on while much else changes."""


@pytest.mark.needs(Capability.COMPONENTS)
@pytest.mark.parametrize("count", [pytest.param(40), pytest.param(200, marks=pytest.mark.long)])
async def test_pods_under_a_workload_entry_go_on_under_stock_rules(
    namespace: Namespace,
    start_controller: StartController,
    dra: Run,
    stock: StockController,
    remark: Callable[[str], None],
    count: int,
) -> None:
    controller = await start_controller()
    devices = await namespace.offer_devices(1)
    shared = SharedClaim(namespace=namespace, name="train", size=Size(gated=count, ungated=0))
    async with namespace.history("", resource=PODS) as pods, namespace.history("train") as claim:
        await shared.create(devices=devices)
        await shared.all_run(within=120)
        await steps.claim_is(namespace, "train", lambda it: listed(it, WORKLOAD), saying="it has the entry of its Job")
        before = {pod["metadata"]["uid"]: revision(pod) for pod in await namespace.all(PODS)}
        dry = await dra("downgrade")
        assert (dry.code, dry.left()) == (1, {"train": "convertible"}), dry.output

        began = time.monotonic()
        done = await dra("downgrade", "--apply")
        took = time.monotonic() - began
        assert done.left() == {}, done.output
        assert not controller.process.alive, "ordered to stand down, it ends; its pod would be started again, and wait"
        after = {pod["metadata"]["uid"]: revision(pod) for pod in await namespace.all(PODS)}
        assert after == before, "no pod was touched"
        now = await namespace.get(CLAIMS, "train")
        assert {entry["uid"] for entry in entries(now)} == set(before)
        assert {entry["resource"] for entry in entries(now)} == {"pods"}

        await stock.switch(on=True)
        assert (await dra("downgrade", "--probe")).missing() == []  # guards limit no stock component, and stay
        ended = time.monotonic()
        await shared.end()
        await shared.complete(within=120)
        await shared.freed(within=60)
        freed = time.monotonic() - ended
        remark(f"downgrade of {count} pods: {took:.1f} s; devices free {freed:.1f} s after their end began")
        assert await shared.served(claim, pods) == count
    assert_everybody_stays_listed(claim, pods, since=revision(now))


@pytest.mark.long
async def test_killed_at_every_write_and_started_again_it_comes_to_the_same_end(
    target: Target,
    namespace: Namespace,
    start_controller: StartController,
    start_proxy: StartProxy,
    dra: Run,
    remark: Callable[[str], None],
) -> None:
    await start_controller()
    devices = await namespace.offer_devices(2)
    shared = SharedClaim(namespace=namespace, name="train", size=Size(gated=60, ungated=0))
    proxy = await start_proxy()
    way = proxy.kubeconfig(target.folder.path / f"{namespace.name}-plugin.kubeconfig")
    async with namespace.history("", resource=PODS) as pods, namespace.history("train") as claim:
        await shared.create(devices=devices)
        await shared.all_run(within=90)
        await namespace.create(objects.pod("late", PodShape(claim="train", gated=True, spec=steps.UNSCHEDULABLE)))
        await orphaned(namespace, devices=devices)
        kills, alone = 0, ""
        while True:
            proxy.inject(Fault(kind=Kind.HELD, verbs=frozenset({"patch"}), path="/(resourceclaims|pods)/", times=1))
            process = await plugin.start(way, "downgrade", "--apply", f"--namespace={namespace.name}", "--output=json")
            held = asyncio.create_task(proxy.met(Kind.HELD, within=90))
            ended = asyncio.create_task(process.communicate())
            await asyncio.wait({held, ended}, return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                held.cancel()
                break
            process.kill()
            await ended
            kills += 1
            # A controller that has not ended yet may list all of them for a while, and take them off as they run.
            alone = alone or revision(await namespace.get(CLAIMS, "train"))
            if kills % 2:
                proxy.let_go()  # what was under way arrives after the end; else it never does, for now
            assert kills < 20
        proxy.let_go()
        proxy.inject()
        done = await dra("downgrade", "--apply")
        assert done.left() == {}, done.output
        assert "gates" not in done.missing(), done.output
        now = await namespace.get(CLAIMS, "train")
        running = {pod["metadata"]["uid"] for pod in await namespace.all(PODS) if bound(pod)}
        assert running <= {entry["uid"] for entry in entries(now)}
        assert {entry["resource"] for entry in entries(now)} == {"pods"}
        orphan = await namespace.get(CLAIMS, "orphan")
        assert steps.free(orphan), orphan
        remark(f"downgrade killed at each of {kills} writes, and started again")
        await claim.catch_up()
        await pods.catch_up()
        assert_everybody_stays_listed(claim, pods, since=first_with_all(claim, running, since=alone))
        await assert_no_device_was_taken(namespace, claim, pods, "train")


async def orphaned(namespace: Namespace, *, devices: str) -> None:
    """Make a claim that is reserved for a Job which is gone, while no controller is there to notice."""
    await namespace.create(objects.claim("orphan", device_class=devices, reserved_for="jobs.batch/gone", uid="of-gone"))
    pool = f"{namespace.name}-shared"
    await steps.allocate(namespace, "orphan", devices=devices, pool=pool, device="device-1")
    gone = {"apiGroup": "batch", "resource": "jobs", "name": "gone", "uid": "of-gone"}
    await steps.list_too(namespace, "orphan", gone)


@pytest.mark.long
async def test_400_pods_are_refused_by_the_name_of_their_claim_and_nothing_of_it_is_changed(
    namespace: Namespace, start_controller: StartController, dra: Run
) -> None:
    await start_controller()
    devices = await namespace.offer_devices(1)
    shared = SharedClaim(namespace=namespace, name="train", size=Size(gated=400, ungated=0))
    await shared.create(devices=devices)
    await shared.all_run(within=120)
    refused = await dra("downgrade", "--apply")
    assert refused.code == 1
    (told,) = refused.content["claims"]
    assert (told["name"], told["state"], told["pods"]) == ("train", "too many pods", 400)
    assert told["detail"] == "400 pods use the claim, and its list has room for 256"
    assert f"of jobs.batch/train in {namespace.name}" in told["decision"], "whose work ends is for a person to say"
    now = await namespace.get(CLAIMS, "train")
    assert listed(now, WORKLOAD) == {"train"}


def load(claim: str, *, completions: int, at_once: int, seconds: int) -> Json:
    """Return a Job whose pods come and go all the time, without our gate: they start with us and without us."""
    return objects.job(claim, PodShape(claim=claim, run_seconds=seconds), parallelism=at_once, completions=completions)


async def is_over(namespace: Namespace, job: str, *, within: float) -> None:
    await eventually(
        lambda: namespace.get(JOBS, job),
        until=lambda found: condition(found, "Complete") == "True",
        within=within,
        saying=f"job {job} is complete",
    )


@asynccontextmanager
async def both(namespace: Namespace) -> AsyncIterator[tuple[WatchHistory, WatchHistory, WatchHistory]]:
    """Yield the histories of all pods and of the two claims."""
    async with (
        namespace.history("", resource=PODS) as pods,
        namespace.history("train") as train,
        namespace.history("other") as other,
    ):
        yield pods, train, other


async def load_both(namespace: Namespace, devices: str) -> None:
    """Make the two claims, and a Job on each that has pods come and go."""
    for name in ("train", "other"):
        await namespace.create(objects.claim(name, device_class=devices, reserved_for=f"jobs.batch/{name}"))
        await namespace.create(load(name, completions=PODS_OF_EACH, at_once=12, seconds=8))


async def assert_both_were_served(
    namespace: Namespace, pods: WatchHistory, train: WatchHistory, other: WatchHistory
) -> None:
    """Wait for the end of both Jobs, and look at what was written all the time."""
    for name in ("train", "other"):
        await is_over(namespace, name, within=240)
        await steps.freed(namespace, name, within=300)  # GuardFound: 190 s from the start of a controller
    for history in (pods, train, other):
        await history.catch_up()
    claims = {"train": train, "other": other}
    served = [await assert_no_device_was_taken(namespace, it, pods, name) for name, it in claims.items()]
    assert served == [PODS_OF_EACH, PODS_OF_EACH]
    assert_no_device_was_doubled(train, other)


@pytest.mark.long
@pytest.mark.needs(Capability.COMPONENTS)
async def test_off_and_on_twice_under_load_loses_no_device_and_gives_none_twice(
    namespace: Namespace, start_controller: StartController, dra: Run, stock: StockController
) -> None:
    controller = await start_controller()
    devices = await namespace.offer_devices(2)
    async with both(namespace) as (pods, train, other):
        await load_both(namespace, devices)
        for _ in range(2):
            await steps.claim_is(namespace, "train", lambda it: listed(it, WORKLOAD), within=60, saying="it is entered")
            off = await dra("downgrade", "--apply")
            assert set(off.left().values()) <= {"waits for owner"}, off.output
            await stock.switch(on=True)
            await some_end(namespace, 6)
            await stock.switch(on=False)
            await controller.start()
            on = await dra("adopt")
            assert on.code == 0, on.output
            mixed = await namespace.get(CLAIMS, "train")
            assert listed(mixed, WORKLOAD)
            await some_end(namespace, 6)
        await assert_both_were_served(namespace, pods, train, other)


@pytest.mark.long
@pytest.mark.needs(Capability.COMPONENTS)
async def test_changing_the_mode_under_load_loses_no_device_and_gives_none_twice(
    namespace: Namespace, start_controller: StartController, stock: StockController
) -> None:
    replace = await start_controller(mode=Mode.REPLACE)
    alongside = await start_controller(mode=Mode.ALONGSIDE)  # stands by until the other one ends
    devices = await namespace.offer_devices(2)
    async with both(namespace) as (pods, train, other):
        await load_both(namespace, devices)
        await steps.claim_is(namespace, "train", lambda it: listed(it, WORKLOAD), within=60, saying="it is entered")
        for _ in range(2):
            await replace.stop()  # to alongside: first the mode, then the flag
            await some_end(namespace, 4)
            await stock.switch(on=True)
            await some_end(namespace, 6)
            await stock.switch(on=False)  # and back: first the flag, then the mode
            await alongside.stop()
            await replace.start()
            await some_end(namespace, 6)
            await alongside.start()
        await assert_both_were_served(namespace, pods, train, other)


async def some_end(namespace: Namespace, count: int) -> None:
    """Wait until so many more pods have ended: life goes on."""

    async def ended() -> int:
        return sum([job["status"].get("succeeded", 0) for job in await namespace.all(JOBS)])

    target = await ended() + count
    await eventually(ended, until=lambda now: now >= target, within=120, saying=f"{count} more pods have ended")
