"""Whatever goes wrong between the controller and the API server: all pods run, all devices come back, nobody storms.

A proxy makes things go wrong while pods come and go; the server itself is killed, and etcd stands still. The faults are
in force from the first pod until the claim is free.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from tests.scenarios.conftest import StartController, StartProxy
from tests.scenarios.faults import WRITES, Fault, Kind
from tests.scenarios.namespaces import Namespace
from tests.scenarios.proxy import Proxy
from tests.scenarios.resources import CLAIMS, PODS
from tests.scenarios.shared_claim import SharedClaim, Size
from tests.scenarios.target import Capability, Mode, Target

pytestmark = pytest.mark.modes(Mode.REPLACE)

CROWD = Size(gated=84, ungated=16, side_by_side=40, run_seconds=1)
LARGE_CROWD = Size(gated=260, ungated=40, side_by_side=80, run_seconds=1)

REQUESTS_PER_POD = 4.0
"""What a pod may cost us, all requests counted but those for the lease; without faults it is about one and a half."""

Disturbance = Callable[[SharedClaim, Proxy, Target], Awaitable[None]]
WATCHES = frozenset({"watch"})


async def nothing(shared: SharedClaim, proxy: Proxy, target: Target) -> None:
    """Leave it to the faults."""


async def somebody_writes_the_claim_all_the_time(shared: SharedClaim, proxy: Proxy, target: Target) -> None:
    while True:
        noted = {"metadata": {"annotations": {"scenario.dra/noted": str(time.monotonic())}}}
        await shared.namespace.patch(CLAIMS, shared.name, noted)
        await asyncio.sleep(0.02)


async def the_line_freezes(shared: SharedClaim, proxy: Proxy, target: Target) -> None:
    await shared.done(shared.size.pods // 3, within=60)
    proxy.freeze()
    await asyncio.sleep(5.0)
    proxy.thaw()


async def the_server_restarts(shared: SharedClaim, proxy: Proxy, target: Target) -> None:
    await shared.done(shared.size.pods // 3, within=60)
    server = target.cluster.apiserver
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)


async def etcd_stands_still(shared: SharedClaim, proxy: Proxy, target: Target) -> None:
    await shared.done(shared.size.pods // 3, within=60)
    target.cluster.etcd.freeze()
    await asyncio.sleep(7.0)  # less than it takes a leader to give up
    target.cluster.etcd.thaw()


@dataclass(frozen=True, kw_only=True)
class Case:
    faults: tuple[Fault, ...] = ()
    disturb: Disturbance = nothing
    size: Size = CROWD
    within: float = 60


OVERLOAD = Fault(kind=Kind.OVERLOAD, share=0.1, seconds=1)
LOST_ANSWERS = Fault(kind=Kind.LOST_ANSWER, verbs=WRITES, share=0.3)
CONFLICTS = Fault(kind=Kind.FORESTALLED, verbs=frozenset({"patch"}), share=0.3)
CUT_WATCHES = Fault(kind=Kind.CUT, verbs=WATCHES, seconds=1)
ENDED_WATCHES = Fault(kind=Kind.ENDED, verbs=WATCHES, seconds=1)
TOO_OLD = Fault(kind=Kind.EXPIRED, share=0.5)
STALLS = Fault(kind=Kind.STALL, share=0.05, seconds=3)

components = pytest.mark.needs(Capability.COMPONENTS)

CASES = [
    pytest.param(Case(), id="none"),
    pytest.param(Case(faults=(OVERLOAD,)), id="overload"),
    pytest.param(Case(faults=(LOST_ANSWERS,)), id="lost-answers"),
    pytest.param(Case(faults=(CONFLICTS,)), id="conflicts"),
    pytest.param(Case(disturb=somebody_writes_the_claim_all_the_time), id="conflict-storm"),
    pytest.param(Case(faults=(CUT_WATCHES,)), id="cut-watches"),
    pytest.param(Case(faults=(ENDED_WATCHES,)), id="ended-watches"),
    pytest.param(Case(faults=(TOO_OLD, ENDED_WATCHES)), id="too-old"),
    pytest.param(Case(faults=(STALLS,), disturb=the_line_freezes), id="stalls"),
    pytest.param(Case(disturb=the_server_restarts), id="server-restart", marks=components),
    pytest.param(Case(disturb=etcd_stands_still), id="etcd-stall", marks=components),
]


@pytest.mark.parametrize("case", CASES)
async def test_pods_come_and_go_whatever_goes_wrong(
    namespace: Namespace, start_proxy: StartProxy, start_controller: StartController, target: Target, case: Case
) -> None:
    proxy = await start_proxy(seed=1)
    await start_controller(via=proxy)
    devices = await namespace.offer_devices(1)
    shared = SharedClaim(namespace=namespace, name="train", size=case.size)
    async with namespace.history("", resource=PODS) as pods, namespace.history("train") as claim:
        before = len(proxy.exchanges)
        proxy.inject(*case.faults)
        await shared.create(devices=devices)
        began = time.monotonic()
        async with disturbed(case.disturb(shared, proxy, target)):
            await shared.complete(within=case.within)
            completed = time.monotonic()
            await shared.freed(within=30)
        freed = time.monotonic()
        proxy.inject()
        assert await shared.served(claim, pods) == case.size.pods
    asked = Counter(e.call.verb for e in proxy.exchanges[before:] if e.call.resource != "leases")
    per_pod = sum(asked.values()) / case.size.pods
    print(
        f"\n{case.size.pods} pods came and went in {completed - began:.1f} s, free {freed - completed:.1f} s later; "
        f"{per_pod:.2f} requests of ours a pod ({dict(asked)}); {len(claim.versions)} versions of the claim; "
        f"faults met: {dict(proxy.faults.met)}"
    )
    assert per_pod <= REQUESTS_PER_POD


@asynccontextmanager
async def disturbed(by: Awaitable[None]) -> AsyncIterator[None]:
    """Let something happen meanwhile, to its end if it has one."""
    task = asyncio.ensure_future(by)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
