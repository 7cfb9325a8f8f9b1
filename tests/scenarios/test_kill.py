"""A controller that is killed at any moment, and the leader of two, cost nobody a device and leave nothing behind."""

from __future__ import annotations

import asyncio
import time
from random import Random

import pytest

from tests.scenarios.conftest import ALONE, StartController, StartProxy
from tests.scenarios.controller import Controller
from tests.scenarios.faults import Fault, Kind
from tests.scenarios.namespaces import Namespace
from tests.scenarios.proxy import Proxy
from tests.scenarios.resources import PODS
from tests.scenarios.shared_claim import SharedClaim, Size
from tests.scenarios.target import Mode

pytestmark = pytest.mark.modes(Mode.REPLACE)

KILLS = 20
ROUND = Size(gated=100, ungated=40)


async def test_a_controller_that_is_killed_again_and_again_loses_nothing(
    namespace: Namespace, start_proxy: StartProxy, start_controller: StartController
) -> None:
    proxy = await start_proxy(seed=3)
    controller = await start_controller(configuration=ALONE, via=proxy)
    devices = await namespace.offer_devices(1)
    killing = asyncio.create_task(kill(controller, proxy, chance=Random(3)))
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
                await shared.check(claim, pods)
            rounds += 1
    await killing
    print(f"{KILLS} kills in {rounds} rounds of {ROUND.pods} pods, {len(proxy.exchanges)} requests")


async def kill(controller: Controller, proxy: Proxy, *, chance: Random) -> None:
    """Kill it at random moments, mostly with a write under way: done and unknown to it, or arriving when it is back."""
    for _ in range(KILLS):
        proxy.inject(Fault(kind=Kind.HELD, verbs=frozenset({"patch"}), share=chance.choice((1.0, 0.2, 0.05)), times=1))
        await proxy.met(Kind.HELD, within=chance.uniform(0.5, 4.0))
        controller.crash()
        if chance.random() < 0.5:
            proxy.let_go()
        await controller.start()
        proxy.let_go()
