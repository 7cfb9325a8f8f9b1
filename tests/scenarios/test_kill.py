"""Controllers that are killed at any moment cost nobody a device, leave nothing behind, and are replaced in time.

What they had under way when they died arrives later, or never: a proxy sees to that.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from random import Random

import pytest

from tests.scenarios import objects, steps
from tests.scenarios.conftest import ALONE, StartController, StartProxy
from tests.scenarios.controller import IMPATIENT, INSTALLED, Controller
from tests.scenarios.eventually import eventually
from tests.scenarios.faults import Fault, Kind
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.proxy import Proxy
from tests.scenarios.replicas import JUMPING, TAKEOVER, Replica, roles, taken_over
from tests.scenarios.resources import JOBS, PODS
from tests.scenarios.shared_claim import SharedClaim, Size
from tests.scenarios.target import Mode

pytestmark = pytest.mark.modes(Mode.REPLACE)

PATCHES = frozenset({"patch"})
ROUND = Size(gated=100, ungated=40)


@pytest.mark.parametrize("kills", [12, pytest.param(20, marks=pytest.mark.long)])
async def test_a_controller_that_is_killed_again_and_again_loses_nothing(
    namespace: Namespace, start_proxy: StartProxy, start_controller: StartController, kills: int
) -> None:
    proxy = await start_proxy(seed=3)
    controller = await start_controller(configuration=ALONE, via=proxy, program=IMPATIENT)
    devices = await namespace.offer_devices(1)
    killing = asyncio.create_task(kill(controller, proxy, times=kills, chance=Random(3)))  # noqa: S311 - is to be repeatable
    rounds = 0
    async with namespace.history("", resource=PODS) as pods:
        while not killing.done():
            shared = SharedClaim(namespace=namespace, name=f"train-{rounds}", size=ROUND)
            async with namespace.history(shared.name) as claim:
                began = time.monotonic()
                await shared.create(devices=devices)
                await shared.all_run(within=90)
                joined = time.monotonic()
                await shared.end()
                await shared.complete(within=60)
                await shared.freed(within=30)
                print(f"\nround {rounds}: joined {joined - began:.1f} s, over {time.monotonic() - joined:.1f} s later")
                assert await shared.served(claim, pods) == ROUND.pods
            rounds += 1
    await killing
    under_way = proxy.faults.met[Kind.HELD]
    print(f"{kills} kills in {rounds} rounds of {ROUND.pods} pods, {under_way} of them with a write under way")


async def kill(controller: Controller, proxy: Proxy, *, times: int, chance: Random) -> None:
    """Kill it at random moments, mostly with a write under way: done and unknown to it, or arriving when it is back."""
    for _ in range(times):
        proxy.inject(Fault(kind=Kind.HELD, verbs=PATCHES, share=chance.choice((1.0, 0.2, 0.05)), times=1))
        await proxy.met(Kind.HELD, within=chance.uniform(0.2, 3.0))
        controller.crash()
        if chance.random() < 0.5:
            proxy.let_go()
        await controller.start()
        proxy.let_go()


@pytest.fixture
async def replicas(start_proxy: StartProxy, start_controller: StartController) -> list[Replica]:
    """Two of them; to the second one the time of day jumps."""
    proxies = [await start_proxy(seed=number) for number in range(2)]
    programs = (INSTALLED, JUMPING)
    return [
        Replica(controller=await start_controller(via=proxy, program=program), proxy=proxy)
        for proxy, program in zip(proxies, programs, strict=True)
    ]


@pytest.mark.long
async def test_the_leader_of_two_is_replaced_in_time_and_what_it_had_under_way_spoils_nothing(
    namespace: Namespace, replicas: list[Replica]
) -> None:
    devices = await namespace.offer_devices(2)
    shared = SharedClaim(namespace=namespace, name="train", size=Size(gated=90, ungated=30))
    async with namespace.history("", resource=PODS) as pods, namespace.history("train") as claim:
        await killed_while_pods_come(replicas, shared, devices=devices)
        late = await killed_while_it_gives_back(replicas, shared)
        assert await shared.served(claim, pods) == shared.size.pods + late
    await stopped_short_while_pods_come(replicas, namespace, devices=devices)


async def killed_while_pods_come(replicas: list[Replica], shared: SharedClaim, *, devices: str) -> None:
    old, new = await roles(replicas)
    old.proxy.inject(Fault(kind=Kind.HELD, verbs=PATCHES, path="/pods/", share=0.2))
    await shared.create(devices=devices)
    assert await old.proxy.met(Kind.HELD, times=4, within=60)
    await killed(old, new)
    await arrived(old)
    await shared.all_run(within=60)
    await old.controller.start()


async def killed_while_it_gives_back(replicas: list[Replica], shared: SharedClaim) -> int:
    """New pods come to rely on the allocation before the dead leader's deallocation arrives; return how many."""
    old, new = await roles(replicas)
    old.proxy.inject(Fault(kind=Kind.HELD, verbs=PATCHES, path="resourceclaims", body='"allocation":null'))
    await shared.end()
    assert await old.proxy.met(Kind.HELD, within=30)
    await killed(old, new)
    namespace, late = shared.namespace, [f"late-{number}" for number in range(5)]
    await namespace.create_all(objects.pod(name, PodShape(claim=shared.name)) for name in late)
    await steps.pods_run(namespace, *late)
    assert await arrived(old) == Counter({409: 1})
    await steps.told(namespace, shared.name, "DeallocationWaitsForLeader")
    await steps.end_pods(namespace, *late)
    # Ten seconds after the takeover; the new leader had found a guard when it was started, within the last minutes.
    await shared.freed(within=200)
    await old.controller.start()
    return len(late)


async def stopped_short_while_pods_come(replicas: list[Replica], namespace: Namespace, *, devices: str) -> None:
    """A leader that stood still for longer than its lease writes nothing when it goes on, and ends."""
    old, new = await roles(replicas)
    began = time.monotonic()
    old.controller.freeze()
    await namespace.create(objects.claim("other", device_class=devices, reserved_for="jobs.batch/other"))
    await namespace.create(objects.job("other", PodShape(claim="other", gated=True), parallelism=20))
    print(f"frozen: the other one led after {await taken_over(new, since=began):.1f} s")
    await eventually(
        lambda: namespace.get(JOBS, "other"), until=lambda job: job["status"].get("ready") == 20, saying="its pods run"
    )
    thawed = time.monotonic()
    old.controller.thaw()
    await eventually(lambda: not old.controller.process.alive, saying="it has seen that it leads no more")
    assert "Error: lease dra-reserve/dra-reserve-controller: " in old.controller.process.tail()
    assert not old.writes(since=thawed)


async def killed(old: Replica, new: Replica) -> None:
    """Kill the leader and see how long it takes until the other one leads."""
    began = time.monotonic()
    old.controller.crash()
    print(f"killed: the other one led after {await taken_over(new, since=began):.1f} s (at most {TAKEOVER:g})")


async def arrived(old: Replica) -> Counter[int | None]:
    """Let arrive what the dead leader had under way; return what the server said to it."""
    old.proxy.inject()
    held = old.proxy.let_go()
    await eventually(lambda: all(each.answer for each in held), saying="all of it has arrived")
    answers = Counter(each.answer for each in held)
    print(f"then arrived what it had under way: {len(held)} writes, {answers[409]} of them refused")
    return answers
