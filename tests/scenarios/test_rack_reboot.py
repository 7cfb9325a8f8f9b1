"""Rule 5 at its worst: a rack, or all of them, loses power and comes back, with more pods on a claim than a list takes.

No pod of theirs is listed, and each kubelet refuses its pods until they are. So all of them want into the list at once,
240 at a time, and leave it as soon as they have started. Nobody schedules anything: the pods have their nodes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import pytest

from tests.cluster import fake_nodes
from tests.cluster.cluster import Cluster
from tests.cluster.options import WITHOUT_CLAIM_CONTROLLER, Component, Options
from tests.scenarios import api as kubernetes
from tests.scenarios import installation, namespaces, objects, steps
from tests.scenarios.api import ApiError
from tests.scenarios.claims import entries, listed, started
from tests.scenarios.conftest import ALONE, SOUND_NODES
from tests.scenarios.controller import Controller, Settings
from tests.scenarios.eventually import eventually
from tests.scenarios.history import WatchHistory
from tests.scenarios.metrics import total
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, NODES, PODS
from tests.scenarios.target import Mode, Place, Target

pytestmark = [pytest.mark.modes(Mode.REPLACE)]

WRITES: Final = "dra_reserve_claim_writes_total"

AT_ONCE: Final = 16

WINDOW: Final = 240
"""Pods that a list has room for."""

WRITES_PER_WINDOW: Final = 16
"""Writes of the claim for each window of pods: those that start early leave before the others."""


@dataclass
class Kubelets:
    """All of them: a pod gets a new sandbox when its kubelet finds it in the list, and not before."""

    namespace: Namespace
    claim: str
    since: str
    started: set[str] = field(default_factory=set)

    async def run(self) -> None:
        """Until cancelled."""
        turn = asyncio.Semaphore(AT_ONCE)

        async def start(name: str) -> None:
            ready = {"type": "PodReadyToStartContainers", "status": "True", "lastTransitionTime": self.since}
            async with turn:
                try:
                    await self.namespace.patch_status(PODS, name, {"conditions": [ready]}, kind="strategic-merge-patch")
                except (ApiError, TimeoutError) as error:
                    print(f"pod {name}: {error!r}; its kubelet looks again")
                else:
                    self.started.add(name)

        while True:
            names = listed(await self.namespace.get(CLAIMS, self.claim)) - self.started
            await asyncio.gather(*map(start, names))
            await asyncio.sleep(0.1)


@dataclass(frozen=True)
class Size:
    """How many nodes reboot, and how many pods run on them."""

    nodes: int
    pods: int
    within: float
    """Seconds until all of them have started again."""


async def all_reboot(
    namespace: Namespace, controller: Controller, size: Size, *, remark: Callable[[str], None]
) -> None:
    """Let pods run on nodes, reboot the nodes, and count what comes of it."""
    devices = await namespace.offer_devices()
    await namespace.create(objects.deployment("crew", PodShape(), replicas=0))
    await namespace.create(objects.claim("shared", device_class=devices, reserved_for="deployments.apps/crew"))
    await steps.allocate(namespace, "shared", devices=devices, pool=f"{namespace.name}-shared")
    nodes = fake_nodes.names(size.nodes)
    shapes = [PodShape(claim="shared", spec={"nodeName": node}) for node in nodes]
    pods = [objects.pod(f"pod-{number:04}", shapes[number % len(nodes)]) for number in range(size.pods)]
    await namespace.create_all(pods)
    await eventually(lambda: _nobody_is_listed(namespace), within=size.within, saying="all run, and no pod is listed")

    writes = total(await controller.metrics(), WRITES)
    kubelets = Kubelets(namespace, "shared", since="2030-01-01T00:00:00Z")
    async with namespace.history("shared") as history:
        began = time.monotonic()
        await asyncio.gather(*(_reboot(namespace, node) for node in nodes))
        starting = asyncio.create_task(kubelets.run())
        try:
            await eventually(
                lambda: _progress(kubelets, starting),
                until=lambda n: n == size.pods,
                within=size.within,
                saying="all were listed",
            )
            took = time.monotonic() - began
            await eventually(lambda: _nobody_is_listed(namespace), within=60, saying="no pod is listed any more")
        finally:
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
    writes = total(await controller.metrics(), WRITES) - writes
    remark(
        f"{size.nodes} nodes reboot under {size.pods} unlisted pods: all listed again after {took:.1f} s, "
        f"{writes:.0f} writes of the claim, {history.longest_list()} entries at most"
    )
    steps.assert_bounded(history)
    assert _never_unkept(history)
    assert writes <= WRITES_PER_WINDOW * (1 + size.pods / WINDOW)


def _progress(kubelets: Kubelets, running: asyncio.Task[None]) -> int:
    """How many pods were listed; what their kubelets ran into is raised."""
    if running.done():
        running.result()
    return len(kubelets.started)


async def _reboot(namespace: Namespace, node: str) -> None:
    """It does not report in, then it does, with another bootID: kwok makes it Ready again."""
    lost = {"type": "Ready", "status": "False", "reason": "KubeletNotReady"}
    status = {"status": {"nodeInfo": {"bootID": f"next-of-{node}-{namespace.name}"}, "conditions": [lost]}}
    await namespace.api.patch(NODES, node, status, subresource="status", kind="strategic-merge-patch")


async def _nobody_is_listed(namespace: Namespace) -> bool:
    claim = await namespace.get(CLAIMS, "shared")
    if listed(claim) or not listed(claim, "deployments"):
        return False
    return all(map(started, await namespace.all(PODS)))


def _never_unkept(history: WatchHistory) -> bool:
    """Whether the workload and its guard were in the list at every version."""
    kept = {"deployments", "guards"}
    return all(kept <= {entry["resource"] for entry in entries(version.object)} for version in history.versions)


async def test_all_pods_of_a_small_rack_are_listed_again(
    namespace: Namespace, controller: Controller, remark: Callable[[str], None]
) -> None:
    await all_reboot(namespace, controller, Size(nodes=SOUND_NODES, pods=60, within=30), remark=remark)


@asynccontextmanager
async def _hall(size: Size) -> AsyncIterator[tuple[Namespace, Controller]]:
    """A cluster with many nodes, and a controller."""
    options = Options(
        controllers=WITHOUT_CLAIM_CONTROLLER,
        nodes=size.nodes,
        node_lease_seconds=400,
        without=frozenset({Component.SCHEDULER}),
    )
    with Cluster(options) as cluster:
        admin, folder = cluster.admin_kubeconfig, cluster.folder
        installation.install(admin)
        installation.guard(admin)
        account = installation.controller_kubeconfig(admin, folder.path)
        controller = Controller(folder, Settings(kubeconfig=account, mode=Mode.REPLACE, configuration=ALONE))
        async with kubernetes.connect(admin) as api, namespaces.temporary(api, purpose="hall") as namespace:
            await controller.start()
            yield namespace, controller
            await controller.stop()


@pytest.mark.long
async def test_all_pods_of_a_whole_hall_are_listed_again(target: Target, remark: Callable[[str], None]) -> None:
    del target  # only where there are such clusters
    if Place.chosen() is not Place.LOCAL:
        pytest.skip("a cluster with hundreds of nodes is made for it")
    size = Size(nodes=500, pods=2000, within=180)
    async with _hall(size) as (namespace, controller):
        await all_reboot(namespace, controller, size, remark=remark)
