"""Back to stock Kubernetes and forth again: no pod notices, no device is lost or given twice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.options import ALL_CONTROLLERS, WITHOUT_CLAIM_CONTROLLER
from tests.scenarios import objects, plugin, steps
from tests.scenarios.api import Api, Json
from tests.scenarios.audit import assert_no_device_was_taken
from tests.scenarios.claims import bound, condition, entries, finished, listed, revision
from tests.scenarios.conftest import StartController, StartProxy
from tests.scenarios.eventually import eventually
from tests.scenarios.faults import Fault, Kind
from tests.scenarios.history import WatchHistory
from tests.scenarios.installation import LEASE, NAMESPACE
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.plugin import Answer
from tests.scenarios.resources import CLAIMS, JOBS, LEASES, PODS
from tests.scenarios.shared_claim import SharedClaim, Size
from tests.scenarios.target import Capability, Mode, Target

pytestmark = pytest.mark.modes(Mode.REPLACE)

STAND_DOWN: Final = "reserve.dra/stand-down"
WORKLOAD: Final = "jobs"

RunPlugin = Callable[..., Awaitable[Answer]]


@pytest.fixture
async def dra(target: Target, api: Api, namespace: Namespace) -> AsyncIterator[RunPlugin]:
    """Runs `kubectl dra COMMAND` as an administrator, for this namespace; at the end controllers may act again."""

    async def run(command: str, *arguments: str) -> Answer:
        here = () if command == "adopt" else (f"--namespace={namespace.name}",)
        return await plugin.run(target.admin, command, *here, "--output=json", *arguments)

    yield run
    if await api.find(LEASES, LEASE, namespace=NAMESPACE) is not None:
        await api.patch(LEASES, LEASE, {"metadata": {"annotations": {STAND_DOWN: None}}}, namespace=NAMESPACE)


class StockController:
    """The resourceclaim-controller of kube-controller-manager."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster: Final = cluster

    async def switch(self, *, on: bool) -> None:
        """Restart kube-controller-manager with it, or without."""
        controllers = ALL_CONTROLLERS if on else WITHOUT_CLAIM_CONTROLLER
        await asyncio.to_thread(self._cluster.run_controllers, controllers)


@pytest.fixture
async def stock(target: Target) -> AsyncIterator[StockController]:
    """The stock claim controller; at the end it is off, as before."""
    controller = StockController(target.cluster)
    yield controller
    await controller.switch(on=False)


def assert_everybody_stays_listed(claim: WatchHistory, pods: WatchHistory, *, since: str) -> None:
    """Assert that from a version of the claim on each of its versions lists all pods that use it then."""
    spans = []
    for versions in pods.by_object().values():
        using = [int(revision(v.object)) for v in versions if bound(v.object)]
        ends = [int(revision(v.object)) for v in versions if finished(v.object) or v.change == "DELETED"]
        if using:
            spans.append((versions[-1].object["metadata"]["uid"], using[0], min(ends, default=2**63)))
    for version in claim.versions:
        at = int(revision(version.object))
        if at < int(since) or version.change == "DELETED":
            continue
        present = {entry["uid"] for entry in entries(version.object)}
        unlisted = [uid for uid, first, last in spans if first <= at < last and uid not in present]
        assert not unlisted, f"at {at} {len(unlisted)} pods use the claim and are not listed"


def first_with_all(claim: WatchHistory, uids: set[str]) -> str:
    """Return the first version of the claim that lists them all."""
    found = (revision(v.object) for v in claim.versions if uids <= {entry["uid"] for entry in entries(v.object)})
    version = next(found, None)
    assert version is not None, "no version lists all pods"
    return version


@pytest.mark.needs(Capability.COMPONENTS)
@pytest.mark.parametrize("count", [pytest.param(40), pytest.param(200, marks=pytest.mark.long)])
async def test_pods_under_a_workload_entry_go_on_under_stock_rules(
    namespace: Namespace,
    start_controller: StartController,
    dra: RunPlugin,
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
        assert not controller.process.alive, "told to stand down, it ends; its pod would be started again, and wait"
        after = {pod["metadata"]["uid"]: revision(pod) for pod in await namespace.all(PODS)}
        assert after == before, "no pod was touched"
        now = await namespace.get(CLAIMS, "train")
        assert {entry["uid"] for entry in entries(now)} == set(before)
        assert {entry["resource"] for entry in entries(now)} == {"pods"}

        await stock.switch(on=True)
        assert (await dra("downgrade", "--probe")).missing() == []
        ended = time.monotonic()
        await shared.end()
        await shared.complete(within=120)
        await shared.freed(within=60)
        freed = time.monotonic() - ended
        remark(f"downgrade of {count} pods: {took:.1f} s; devices free {freed:.1f} s after their end began")
        assert await shared.served(claim, pods) == count
    assert_everybody_stays_listed(claim, pods, since=first_with_all(claim, set(before)))


@pytest.mark.long
async def test_killed_at_every_write_and_started_again_it_comes_to_the_same_end(
    target: Target,
    namespace: Namespace,
    start_controller: StartController,
    start_proxy: StartProxy,
    dra: RunPlugin,
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
        kills = 0
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
        assert_everybody_stays_listed(claim, pods, since=first_with_all(claim, running))
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
    namespace: Namespace, start_controller: StartController, dra: RunPlugin
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
    assert told["detail"] == "400 pods use it, a list has room for 256"
    assert told["command"].startswith(f"kubectl patch jobs.batch train -n {namespace.name} ")
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


@pytest.mark.long
@pytest.mark.needs(Capability.COMPONENTS)
async def test_off_and_on_twice_under_load_loses_no_device_and_gives_none_twice(
    namespace: Namespace, start_controller: StartController, dra: RunPlugin, stock: StockController
) -> None:
    controller = await start_controller()
    devices = await namespace.offer_devices(2)
    async with namespace.history("", resource=PODS) as pods, namespace.history("", resource=CLAIMS) as claims:
        for name in ("train", "other"):
            claim = objects.claim(name, device_class=devices, reserved_for=f"jobs.batch/{name}")
            await namespace.create(claim)
            await namespace.create(load(name, completions=120, at_once=12, seconds=8))
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
        for name in ("train", "other"):
            await is_over(namespace, name, within=240)
            await steps.freed(namespace, name, within=60)
        await claims.catch_up()
        await pods.catch_up()
    assert_no_device_was_doubled(claims)


@pytest.mark.long
@pytest.mark.needs(Capability.COMPONENTS)
async def test_changing_the_mode_under_load_loses_no_device_and_gives_none_twice(
    namespace: Namespace, start_controller: StartController, stock: StockController
) -> None:
    replace = await start_controller(mode=Mode.REPLACE)
    alongside = await start_controller(mode=Mode.ALONGSIDE)  # stands by until the other one ends
    devices = await namespace.offer_devices(2)
    async with namespace.history("", resource=PODS) as pods, namespace.history("", resource=CLAIMS) as claims:
        for name in ("train", "other"):
            await namespace.create(objects.claim(name, device_class=devices, reserved_for=f"jobs.batch/{name}"))
            await namespace.create(load(name, completions=120, at_once=12, seconds=8))
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
        for name in ("train", "other"):
            await is_over(namespace, name, within=240)
            await steps.freed(namespace, name, within=60)
        await claims.catch_up()
        await pods.catch_up()
    assert_no_device_was_doubled(claims)


async def some_end(namespace: Namespace, count: int) -> None:
    """Wait until so many more pods have ended: life goes on."""

    async def ended() -> int:
        return sum([job["status"].get("succeeded", 0) for job in await namespace.all(JOBS)])

    target = await ended() + count
    await eventually(ended, until=lambda now: now >= target, within=120, saying=f"{count} more pods have ended")


def assert_no_device_was_doubled(claims: WatchHistory) -> None:
    """Assert that at no moment two claims had the same device."""
    held: dict[str, set[str]] = {}
    for version in sorted(claims.versions, key=lambda each: int(revision(each.object))):
        name = version.object["metadata"]["name"]
        allocation = version.object.get("status", {}).get("allocation") if version.change != "DELETED" else None
        results = allocation["devices"]["results"] if allocation else []
        held[name] = {f"{each['driver']}/{each['pool']}/{each['device']}" for each in results}
        for other, theirs in held.items():
            assert other == name or not held[name] & theirs, f"{name} and {other} have the same device"
