"""A live cluster goes to the next version of Kubernetes and back while 300 pods share a claim and devices are held.

In the order that Kubernetes asks for: the API server, then kube-controller-manager and kube-scheduler, then the
kubelet; back the other way round. Everything else stays: etcd's data, ports, pods, our controller and kubelet plugin.
Pods join and leave the claims all the time. The watch histories tell afterwards whether a device was ever taken from a
pod, or used twice, or given back by its Reservation.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from tests.cluster import binaries, stored
from tests.cluster.node import RealNode
from tests.cluster.processes import Process
from tests.cluster.versions import Kind
from tests.scenarios import installation, namespaces, objects, steps
from tests.scenarios import plugin as commands
from tests.scenarios.api import Api
from tests.scenarios.audit import assert_no_device_was_doubled, assert_pods_kept_their_devices, deallocations
from tests.scenarios.claims import allocated, bound, finished
from tests.scenarios.conftest import StartController
from tests.scenarios.eventually import eventually
from tests.scenarios.history import WatchHistory
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.real_node import pods as on_node
from tests.scenarios.real_node.plugin import Plugin
from tests.scenarios.reservations import test_devices as held
from tests.scenarios.resources import CLAIMS, JOBS, PODS, RESERVATIONS
from tests.scenarios.shared_claim import SharedClaim, Size
from tests.scenarios.target import Capability, Mode, Target

pytestmark = [pytest.mark.long, pytest.mark.needs(Capability.COMPONENTS, Capability.KUBELET)]

Json = dict[str, Any]

NEWER, OLDER = (program.version for program in binaries.controlplanes()[:2])

SHARING: Final = {Mode.REPLACE: Size(gated=200, ungated=100), Mode.ALONGSIDE: Size(gated=140, ungated=60)}
"""Beside the stock claim controller every pod keeps its entry, of which there are 256."""

VISITORS: Final = {Mode.REPLACE: 6, Mode.ALONGSIDE: 0}
"""Pods at a time that join the claim for a moment, one after the other, as long as all of it lasts."""

HOLDER: Final = "node-001"
HELD: Final = 2
STAYS: Final = "stays"

RULES: Final = f"/apis/{Kind.DEVICE_TAINT_RULE.api_version(NEWER)}/devicetaintrules"
RULE: Final = {
    "metadata": {"name": "of-the-newer-version"},
    "spec": {
        "deviceSelector": {"driver": "nobody.scenario.dra"},
        "taint": {"key": "scenario.dra/broken", "effect": "NoSchedule"},
    },
}
"""Made on the newer version; the older one does not serve rules by default."""

JOINS_WITHIN: Final = 60.0
"""Seconds for a pod that comes right after a component was replaced: schedulers wait longer for a pod that failed."""


@dataclass(kw_only=True)
class Kept:
    """Processes that are started again whenever they end, as a Deployment does it."""

    processes: tuple[Process, ...]
    restarts: Counter[str] = field(default_factory=Counter)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep them running as long as the context lasts."""

        async def keep() -> None:
            while True:
                for each in self.processes:
                    if not each.alive:
                        self.restarts[each.name] += 1
                        each.spawn()
                await asyncio.sleep(0.2)

        keeping = asyncio.create_task(keep())
        try:
            yield
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)


class Sharing:
    """300 pods that share one claim and stay, and others that come and go."""

    def __init__(self, namespace: Namespace, mode: Mode) -> None:
        self._namespace: Final = namespace
        self._shared: Final = SharedClaim(namespace=namespace, name="train", size=SHARING[mode])
        self._visitors: Final = VISITORS[mode]
        self._staying: dict[str, str] = {}
        self._joined: Final[list[str]] = []

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        """Run the pods as long as the context lasts; at its end all have kept the claim, and its device is free."""
        namespace, shared = self._namespace, self._shared
        async with namespace.history("") as claims, namespace.history("", resource=PODS) as pods:
            await shared.create(devices=await namespace.offer_devices(1))
            await shared.all_run(within=120)
            self._staying = await self._uids()
            assert len(self._staying) == shared.size.pods
            visiting = PodShape(claim=shared.name, run_seconds=1)
            await namespace.create(objects.job("visit", visiting, parallelism=self._visitors, completions=100_000))
            yield
            await claims.catch_up()
            assert deallocations(claims.only(shared.name)) == [], "the claim was allocated again"
            await namespace.patch(JOBS, "visit", {"spec": {"suspend": True}})
            await eventually(
                lambda: namespace.all(PODS, labelSelector="job-name=visit"),
                until=lambda found: all(map(finished, found)),
                within=60,
                saying="all visitors have ended",
            )
            await self.is_well("")
            await shared.end()
            await steps.end_pods(namespace, *self._joined)
            await shared.complete(within=120)
            await shared.freed(within=60)
        assert_no_device_was_doubled(claims)
        served = assert_pods_kept_their_devices(claims.only(shared.name), pods, shared.name)
        assert served == len(pods.by_object()) - _never_bound(pods)
        assert served >= shared.size.pods + len(self._joined) + self._visitors
        print(f"\n{served} pods have shared the claim, {len(claims.versions)} versions of it", end="")

    async def is_well(self, after: str) -> None:
        """Assert that the pods are the same ones and run, and that one more can join, unless `after` is empty."""
        assert await self._uids() == self._staying
        claim = await self._namespace.get(CLAIMS, self._shared.name)
        assert allocated(claim)
        if after:
            name = f"after-{len(self._joined)}"
            self._joined.append(name)
            await self._namespace.create(objects.pod(name, PodShape(claim=self._shared.name)))
            await steps.pods_run(self._namespace, name, within=JOINS_WITHIN)

    async def _uids(self) -> dict[str, str]:
        """Return the uids of the pods that stay and run, by name."""
        found = [
            pod for job in self._shared.jobs for pod in await self._namespace.all(PODS, labelSelector=f"job-name={job}")
        ]
        return {
            pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in found if pod["status"].get("phase") == "Running"
        }


class Holding:
    """A Reservation that holds devices, owners that get them in turn, and a pod that must wait for them."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace: Final = namespace
        self._claim: Json = {}
        self._owners = 0

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        """Hold the devices as long as the context lasts; at its end there never was a gap."""
        namespace = self._namespace
        of = await namespace.offer_devices(HELD, node=HOLDER)
        await namespace.create(objects.claim_template("pair", device_class=of, devices=HELD))
        await held.reserve(namespace, "held", where=objects.ON_SOUND_NODES)
        self._claim = await held.kept_by(namespace, "held")
        name = held.rsv(namespace, "held")
        async with (
            namespace.history("") as claims,
            WatchHistory(namespace.api, RESERVATIONS, name) as reservation,
            WatchHistory(namespace.api, PODS, "stranger", namespace=namespace.name) as stranger,
        ):
            await namespace.create(held.pod("stranger", app="stranger"))
            await held.waits(namespace, "stranger")
            yield
            await self.is_well("")
        kept = claims.only(self._claim["metadata"]["name"])
        assert all(held.without_a_gap(version) for version in kept.versions)
        assert deallocations(kept) == []
        assert_no_device_was_doubled(claims)
        assert {version.object["status"]["phase"] for version in reservation.versions} == {"Available"}
        assert not any(bound(version.object) for version in stranger.versions)
        await namespace.api.delete(RESERVATIONS, name)
        given = await held.claim_of(namespace, "stranger", within=60.0)
        assert held.device_ids(given) == held.device_ids(self._claim)
        print(f"\n{self._owners} owners, {len(reservation.versions)} versions of the Reservation", end="")

    async def is_well(self, after: str) -> None:
        """Assert that the Reservation is Available with its devices, and gives them to an owner and takes them back."""
        namespace = self._namespace
        kept = await held.kept_by(namespace, "held")
        assert kept["status"]["allocation"] == self._claim["status"]["allocation"]
        if after:
            owner = f"owner-{self._owners}"
            self._owners += 1
            await namespace.create(held.pod(owner, app="held"))
            given = await held.claim_of(namespace, owner, within=JOINS_WITHIN)
            assert given["metadata"]["uid"] == kept["metadata"]["uid"]
            await namespace.delete(PODS, owner, grace_seconds=1)
            await held.kept_by(namespace, "held")


class OnNode:
    """A pod with a GPU of our kubelet plugin on a real node; others join it, and a second holder is refused."""

    def __init__(self, namespace: Namespace, node: RealNode, plugin: Plugin) -> None:
        self._namespace: Final = namespace
        self._node: Final = node
        self._plugin: Final = plugin
        self._pid = 0
        self._joined = 0

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        """Run the pod as long as the context lasts; at its end nothing is left on the node."""
        namespace, node = self._namespace, self._node
        await on_node.offer_gpus(namespace)
        await on_node.claim_gpu(namespace)
        async with namespace.history("") as claims, namespace.history("", resource=PODS) as pods:
            await on_node.run(namespace, node, STAYS, on_node.shape())
            self._pid = await on_node.has_gpu(namespace, node, STAYS)
            yield
            await on_node.refuses_second_holder(namespace, node)
            await claims.catch_up()
            assert deallocations(claims.only("gpu")) == []
            await on_node.end_all(node, namespace)
            await steps.freed(namespace, "gpu", within=60)
            await eventually(self._plugin.prepared, until=lambda left: not left, within=60, saying="all is unprepared")
        assert assert_pods_kept_their_devices(claims.only("gpu"), pods, "gpu") == 1 + self._joined
        print(f"\n{1 + self._joined} pods on the real node", end="")

    async def is_well(self, after: str) -> None:
        """Assert that the container was not touched and has its GPU, and that one more pod can join."""
        assert await on_node.has_gpu(self._namespace, self._node, STAYS) == self._pid
        if after:
            await on_node.run(self._namespace, self._node, f"joined-{self._joined}", on_node.shape())
            self._joined += 1


async def test_claims_stay_reserved_through_an_upgrade_and_back(
    target: Target,
    namespace: Namespace,
    real_node: RealNode,
    extender: Process | None,
    start_controller: StartController,
    remark: Callable[[str], None],
) -> None:
    api = namespace.api
    installation.install(target.admin, kustomization=installation.PLUGIN_KUSTOMIZATION)
    account = installation.plugin_kubeconfig(target.admin, real_node.folder.path, node=real_node.name)
    plugin = Plugin(real_node, kubeconfig=account)
    await plugin.start()
    controller = await start_controller(configuration={"reservations": True} if extender else {})
    kept = Kept(processes=(controller.process, plugin.process, *([extender] if extender else [])))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(kept.running())
        of_node = await stack.enter_async_context(namespaces.temporary(api, purpose="node"))
        loads: list[Any] = [Sharing(namespace, target.mode), OnNode(of_node, real_node, plugin)]
        if target.mode is Mode.REPLACE:
            loads.append(Holding(await stack.enter_async_context(namespaces.temporary(api, purpose="held"))))
        async with AsyncExitStack() as going_on:
            for each in loads:
                await going_on.enter_async_context(each.going_on())
            before = kinds_stored(target)
            for step, take in the_way(target, real_node):
                await take()
                for each in loads:
                    await each.is_well(after=step)
                if step == f"kubelet {NEWER}":
                    await api.request("POST", RULES, RULE)
                print(f"\n{step}: well", end="")
            assert (await api.request("GET", "/version"))["gitVersion"] == OLDER
            audit = await commands.run(target.admin, "audit")
            assert audit.code == 0, audit.output
            new = kinds_stored(target) - before
            assert await unread(api, new) <= {"devicetaintrules"}
    plugin.stop()
    remark(f"{target.mode}: {OLDER} to {NEWER} and back; stored anew: {new}, started again: {dict(kept.restarts)}")


def the_way(target: Target, node: RealNode) -> Iterator[tuple[str, Callable[[], Awaitable[None]]]]:
    """Yield each step and what takes it: there in the order that Kubernetes asks for, back in the opposite one."""
    cluster = target.cluster

    def components(version: str, *which: Process) -> Callable[[], Awaitable[None]]:
        return lambda: asyncio.to_thread(cluster.exchange, *which, kubernetes=version)

    def kubelet(version: str) -> Callable[[], Awaitable[None]]:
        return lambda: asyncio.to_thread(node.exchange_kubelet, kubernetes=version)

    controllers = (cluster.controller_manager, cluster.scheduler)
    yield f"API server {NEWER}", components(NEWER, cluster.apiserver)
    yield f"controllers and scheduler {NEWER}", components(NEWER, *controllers)
    yield f"kubelet {NEWER}", kubelet(NEWER)
    yield f"kubelet {OLDER}", kubelet(OLDER)
    yield f"controllers and scheduler {OLDER}", components(OLDER, *controllers)
    yield f"API server {OLDER}", components(OLDER, cluster.apiserver)


def kinds_stored(target: Target) -> set[tuple[str, str]]:
    """Return the resources of which etcd has objects, each with the versions that they are stored in."""
    found = stored.versions(target.cluster.ports.etcd)
    return {(key.partition("/")[0], version) for key, version in found.items()}


async def unread(api: Api, kinds: set[tuple[str, str]]) -> set[str]:
    """Assert that the API server can list all that it serves; return which of these resources it does not serve."""
    collections = await _collections(api)
    for path in collections:
        await api.request("GET", path)
    return {resource for resource, _ in kinds} - {path.rpartition("/")[2] for path in collections}


async def _collections(api: Api) -> list[str]:
    """Return the path of every resource that can be listed."""
    groups = (await api.request("GET", "/apis"))["groups"]
    roots = ["/api/v1", *(f"/apis/{version['groupVersion']}" for group in groups for version in group["versions"])]
    found = []
    for root in roots:
        listed = (await api.request("GET", root))["resources"]
        found += [f"{root}/{each['name']}" for each in listed if "list" in each["verbs"]]
    return found


def _never_bound(pods: WatchHistory) -> int:
    return sum(not any(bound(v.object) for v in versions) for versions in pods.by_object().values())
