"""Whatever goes wrong between the controller and the API server: all pods run, all devices come back, nobody storms.

A proxy makes things go wrong while pods come and go; the server is killed, and etcd stands still. One trouble after the
other, each from the first pod of a shared claim until the claim is free, and several with one controller: what one
leaves behind, the next one meets. In the end all of them at once, while 300 pods come and go.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import pytest

from tests.scenarios.conftest import StartController, StartProxy
from tests.scenarios.controller import Controller
from tests.scenarios.faults import WRITES, Fault, Kind
from tests.scenarios.metrics import total
from tests.scenarios.namespaces import Namespace
from tests.scenarios.proxy import Proxy
from tests.scenarios.resources import CLAIMS, PODS
from tests.scenarios.shared_claim import SharedClaim, Size
from tests.scenarios.target import Capability, Mode, Target

pytestmark = [pytest.mark.modes(Mode.REPLACE), pytest.mark.needs(Capability.COMPONENTS), pytest.mark.long]

PATCHES: Final = frozenset({"patch"})
WATCHES: Final = frozenset({"watch"})
BUT_THE_LEASE: Final = r"^((?!/leases/).)*$"
"""A leader that cannot renew for ten seconds ends, as it should; test_kill.py is about that."""

FREED_WITHIN: Final = 30.0
"""Seconds from the last pod to free devices, with everything going wrong; five without."""

WRITES_PER_POD: Final = 4.0
"""What a pod may cost us with everything going wrong; a little more than one where nothing does."""

READS_PER_SECOND: Final = 10.0
"""How often we may look, list and watch anew, on the average."""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What a disturbance may get its hands on."""

    shared: SharedClaim
    proxy: Proxy
    target: Target


async def nothing(scene: Scene) -> None:
    """The faults are enough."""
    del scene


async def somebody_writes_the_claim_all_the_time(scene: Scene) -> None:
    namespace, name = scene.shared.namespace, scene.shared.name
    while True:
        noted = {"metadata": {"annotations": {"scenario.dra/noted": str(time.monotonic_ns())}}}
        await namespace.patch(CLAIMS, name, noted)
        await asyncio.sleep(0.05)


async def the_line_freezes(scene: Scene) -> None:
    await scene.shared.done(5, within=60)
    scene.proxy.freeze()
    await asyncio.sleep(3.0)
    scene.proxy.thaw()


async def the_server_restarts(scene: Scene) -> None:
    await scene.shared.done(5, within=60)
    server = scene.target.cluster.apiserver
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)


async def etcd_stands_still(scene: Scene) -> None:
    await scene.shared.done(5, within=60)
    scene.target.cluster.etcd.freeze()
    await asyncio.sleep(6.0)  # less than it takes a leader to give up
    scene.target.cluster.etcd.thaw()


GROUP: Final = Size(gated=26, ungated=4, side_by_side=15, run_seconds=1)
CROWD: Final = Size(gated=260, ungated=40, side_by_side=150, run_seconds=1)


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """What goes wrong while the pods of one claim come and go."""

    name: str
    faults: tuple[Fault, ...] = ()
    disturb: Callable[[Scene], Awaitable[None]] = nothing
    size: Size = GROUP
    complete_within: float = 60.0


OVERLOAD = Fault(kind=Kind.OVERLOAD, share=0.1, seconds=1)
LOST_ANSWERS = Fault(kind=Kind.LOST_ANSWER, verbs=WRITES, path=BUT_THE_LEASE, share=0.3)
CONFLICTS = Fault(kind=Kind.CONFLICT, verbs=PATCHES, path=BUT_THE_LEASE, share=0.3)
LOST_RENEWALS = Fault(kind=Kind.LOST_ANSWER, verbs=PATCHES, path="/leases/", share=0.1)
CUT_WATCHES = Fault(kind=Kind.CUT, verbs=WATCHES, share=0.5, seconds=0.5)
ENDED_WATCHES = Fault(kind=Kind.ENDED, verbs=WATCHES, seconds=1)
TOO_OLD = Fault(kind=Kind.EXPIRED, share=0.5)
STALLS = Fault(kind=Kind.STALL, share=0.1, seconds=2)

ANSWERS: Final = (
    Trouble(name="none"),
    Trouble(name="overload", faults=(OVERLOAD,)),
    Trouble(name="lost-answers", faults=(LOST_ANSWERS, LOST_RENEWALS)),
    Trouble(name="conflicts", faults=(CONFLICTS,), disturb=somebody_writes_the_claim_all_the_time),
)
STREAMS: Final = (
    Trouble(name="dropped-watches", faults=(CUT_WATCHES, ENDED_WATCHES)),
    Trouble(name="too-old", faults=(TOO_OLD, ENDED_WATCHES)),
    Trouble(name="stalls", faults=(STALLS,), disturb=the_line_freezes),
)
SERVERS: Final = (
    Trouble(name="server-restart", disturb=the_server_restarts),
    Trouble(name="etcd-stall", disturb=etcd_stands_still),
)
ALL: Final = (
    Trouble(
        name="all-at-once",
        faults=(OVERLOAD, LOST_ANSWERS, CONFLICTS, TOO_OLD, STALLS, CUT_WATCHES, ENDED_WATCHES),
        disturb=the_server_restarts,
        size=CROWD,
        complete_within=300.0,
    ),
)


@pytest.mark.parametrize("troubles", [ANSWERS, STREAMS, SERVERS, ALL], ids=["answers", "streams", "servers", "all"])
async def test_pods_come_and_go_whatever_goes_wrong(
    namespace: Namespace,
    start_proxy: StartProxy,
    start_controller: StartController,
    target: Target,
    troubles: tuple[Trouble, ...],
) -> None:
    proxy = await start_proxy(seed=1)
    controller = await start_controller(via=proxy)
    devices = await namespace.offer_devices(1)
    async with namespace.history("", resource=PODS) as pods:
        for trouble in troubles:
            shared = SharedClaim(namespace=namespace, name=trouble.name, size=trouble.size)
            scene = Scene(shared=shared, proxy=proxy, target=target)
            async with namespace.history(shared.name) as claim:
                await come_and_go(scene, trouble, devices=devices)
                assert await shared.served(claim, pods) == trouble.size.pods
    await nothing_is_wrong_any_more(controller)


async def come_and_go(scene: Scene, trouble: Trouble, *, devices: str) -> None:
    """Let pods come and go while something is wrong; print and check what that cost."""
    shared, proxy, pods = scene.shared, scene.proxy, scene.shared.size.pods
    before, met, began = len(proxy.exchanges), proxy.faults.met.copy(), time.monotonic()
    proxy.inject(*trouble.faults)
    async with meanwhile(trouble.disturb(scene)):
        await shared.create(devices=devices)
        await shared.complete(within=trouble.complete_within)
        complete = time.monotonic()
        await shared.freed(within=FREED_WITHIN)
    proxy.inject()
    freed = time.monotonic()
    requests = Counter(each.call.verb for each in proxy.exchanges[before:] if each.call.resource != "leases")
    writes = sum(count for verb, count in requests.items() if verb in WRITES)
    print(
        f"\n{trouble.name:15} {requests.total() / pods:5.2f} requests a pod, {writes / pods:.2f} writes ("
        + ", ".join(f"{count} {verb}" for verb, count in requests.most_common())
        + f"), {complete - began:4.1f} s, free {freed - complete:4.1f} s later; "
        + ", ".join(f"{count} × {kind}" for kind, count in (proxy.faults.met - met).items()),
        end="",
    )
    assert writes <= WRITES_PER_POD * pods
    assert requests.total() - writes <= READS_PER_SECOND * (freed - began)


async def nothing_is_wrong_any_more(controller: Controller) -> None:
    print()
    assert total(await controller.metrics(), "dra_reserve_decision_failures_total") == 0
    await controller.is_ready()


@asynccontextmanager
async def meanwhile(happens: Awaitable[None]) -> AsyncIterator[None]:
    """Let something happen beside the body; it ends with it, at the latest."""
    task = asyncio.ensure_future(happens)
    try:
        yield
        if task.done():
            task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
