"""Pods behind Kueue's gates, seen late: no device is taken from a pod that uses it, whatever order watches have.

A pod that the pods watch still shows behind a foreign gate may already be listed and bound. Whoever takes it for one
that waits frees its devices, and the next claim gets them, too. Both write the same list of gates, each with a version
that it has read: no write of ours may put a gate back, or take away another one than ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest

from tests.cluster import fake_nodes
from tests.scenarios import objects
from tests.scenarios.audit import assert_no_device_was_doubled, assert_pods_kept_their_devices
from tests.scenarios.beside.gates import assert_gates_only_leave
from tests.scenarios.beside.kueue import Kueue, queued
from tests.scenarios.claims import allocated, finished
from tests.scenarios.conftest import ALONE, SOUND_NODES, StartController, StartProxy
from tests.scenarios.eventually import eventually
from tests.scenarios.faults import Fault, Kind
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, PODS
from tests.scenarios.target import Capability, Target

pytestmark = [pytest.mark.needs(Capability.COMPONENTS)]

PODS_PER_SHARED_CLAIM: Final = 5
DEVICES: Final = 24
QUOTA: Final = 60
LATE: Final = Fault(kind=Kind.LATE, verbs=frozenset({"watch"}), path=r"/pods$", seconds=5.0)
READERS: Final = 2


@asynccontextmanager
async def busy(namespace: Namespace) -> AsyncIterator[None]:
    """Keep the API server busy: lists of all pods, as fast as it answers."""

    async def read() -> None:
        while True:
            await namespace.api.all(PODS)

    reading = [asyncio.create_task(read()) for _ in range(READERS)]
    try:
        yield
    finally:
        for each in reading:
            each.cancel()
        await asyncio.gather(*reading, return_exceptions=True)


@pytest.mark.parametrize("pods_of_each_sort", [30, pytest.param(250, marks=pytest.mark.long)])
async def test_no_device_is_used_twice_behind_foreign_gates(
    target: Target,
    namespace: Namespace,
    start_proxy: StartProxy,
    start_controller: StartController,
    pods_of_each_sort: int,
) -> None:
    proxy = await start_proxy(seed=1)
    proxy.inject(LATE)
    controller = await start_controller(configuration=ALONE, via=proxy)
    devices = await namespace.offer_devices(DEVICES)
    await namespace.create(objects.claim_template("own", device_class=devices))
    shared = [f"shared-{number}" for number in range(pods_of_each_sort // PODS_PER_SHARED_CLAIM)]
    await namespace.create_all(objects.claim(name, device_class=devices) for name in shared)
    pods = []
    for number in range(pods_of_each_sort):
        ours_too = number % 5 == 0
        one = PodShape(claim=shared[number % len(shared)], run_seconds=number % 3, gated=ours_too)
        other = PodShape(claim_template="own", run_seconds=number % 3, gated=ours_too)
        pods += [queued(f"s-{number}", one, queue="team"), queued(f"t-{number}", other, queue="team")]

    kueue = Kueue(namespace, quota=QUOTA, nodes=fake_nodes.names(SOUND_NODES))
    async with namespace.history("") as claims, namespace.history("", resource=PODS) as seen:
        async with busy(namespace), kueue.running():
            await namespace.create_all(pods)
            await eventually(
                lambda: namespace.all(PODS),
                until=lambda found: sum(map(finished, found)) == len(pods),
                within=480,
                saying="all pods have run and ended",
            )
        await eventually(
            lambda: namespace.all(CLAIMS),
            until=lambda found: not any(map(allocated, found)),
            within=60,
            saying="all devices are free",
        )

    assert_gates_only_leave(seen)
    assert_no_device_was_doubled(claims)
    served = sum(assert_pods_kept_their_devices(claims.only(name), seen, name) for name in sorted(claims.names()))
    assert served == len(pods)
    assert proxy.faults.met[Kind.LATE] > 0
    print(
        f"\n{target.mode}: {served} pods, {len(claims.names())} claims, {kueue.patches.conflicts} conflicts of Kueue",
        end="",
    )
    ours = await controller.metrics()
    assert not {series for series in ours if 'resource="pods"' in series and 'status="422"' in series}, ours
    await controller.is_ready()
