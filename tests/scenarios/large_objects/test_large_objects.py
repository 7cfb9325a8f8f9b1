"""One tenant creates objects as large as an API server stores; the processes of the installation live on.

Each process runs in a cgroup with the limit that it ships with, and may need little more than without the objects. The
tenant creates 12 to 60 of the largest objects of each kind, not 500: API server, scheduler and etcd of the machine that
runs the tests keep all of them, and need seconds for each. LARGE_OBJECTS=500 creates as many. Kept as plain data, 60
claims would take 450 MiB, and 12 Reservations 130. Reservations and PodMigrationJobs of that size are refused by the
policies; those of the test are from before the policies.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import aiohttp
import pytest

from tests.cluster import memory
from tests.cluster.kubectl import kubectl
from tests.cluster.memory import NoCgroupError
from tests.scenarios import accounts, installation, metrics, namespaces, objects, steps
from tests.scenarios.api import Api, ApiError, Json
from tests.scenarios.eventually import INTERVAL, eventually
from tests.scenarios.large_objects import fat
from tests.scenarios.large_objects.conftest import Installed
from tests.scenarios.large_objects.fat import FatKind
from tests.scenarios.large_objects.shipped import READY_WITHIN, Lease, Shipped, drop_leases, leases, shipped
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.reservations.test_manual import reservation
from tests.scenarios.resources import EVENTS, PODS, RESERVATIONS
from tests.scenarios.target import Capability, Target

pytestmark = [pytest.mark.needs(Capability.COMPONENTS, Capability.POLICIES), pytest.mark.long]

SERVED_WITHIN: Final = 10.0
"""Seconds until the honest tenant is served, without the time of the API server, which also has to bear the objects."""

REQUESTS: Final = 4
"""Requests in turn until a Reservation is available: itself, its placeholder, the binding, the status."""

PEAK_MAX: Final = 150 << 20
"""Bytes that a process may need; without the objects it is 40 to 70 MiB."""

DEVICES: Final = 128
AT_ONCE: Final = 2
PATIENT: Final = aiohttp.ClientTimeout(total=300)
PATCHES: Final = 20
NAMED_WITHIN: Final = 120.0

WRITES: Final = [
    {"apiGroups": [group], "resources": resources, "verbs": ["get", "list", "create", "update", "patch", "delete"]}
    for group, resources in {
        "scheduling.koordinator.sh": ["reservations", "podmigrationjobs"],
        "scheduling.k8s.io": ["podgroups"],
    }.items()
]
POLICIES: Final = ("reservations", "descheduler")
TOO_LARGE: Final = "ObjectTooLarge"
REFUSED: Final = "dra_reserve_objects_too_large"


class ProcessEndedError(Exception):
    """A process of the installation has ended."""


@dataclass
class Stage:
    """A tenant who creates fat objects, an honest one, and the processes of the installation."""

    api: Api
    tenant: Api
    own: Namespace
    other: Namespace
    devices: str
    processes: dict[str, Shipped]
    held: dict[str, Lease]
    pids: dict[str, int]
    number: int = 0
    answered: list[float] = field(default_factory=list)
    """Seconds that the API server took for each request of the honest tenant."""

    async def served(self) -> dict[str, float]:
        """Let the honest tenant create a claim with a gated pod, and a Reservation; return the seconds of each."""
        self.number += 1
        name = f"{self.other.name}-{self.number}"  # Reservations are in no namespace
        await self.other.create(objects.claim(name, device_class=self.devices))
        began = time.monotonic()
        await self.other.create(objects.pod(name, PodShape(claim=name, gated=True)))
        self.answered.append(time.monotonic() - began)

        async def let_go() -> bool:
            self.raise_if_ended()
            return not (await self.other.get(PODS, name))["spec"].get("schedulingGates")

        await eventually(let_go, within=60, longest=INTERVAL, saying=f"pod {name} is let go")
        claimed = time.monotonic() - began
        began = time.monotonic()
        await self.api.create(reservation(name, cpu="1"))
        self.answered.append(time.monotonic() - began)

        async def available() -> bool:
            self.raise_if_ended()
            return (await self.api.get(RESERVATIONS, name)).get("status", {}).get("phase") == "Available"

        await eventually(available, within=60, longest=INTERVAL, saying=f"reservation {name} is available")
        reserved = time.monotonic() - began
        await self.api.delete(RESERVATIONS, name)
        await steps.pods_run(self.other, name)
        await self.other.delete(PODS, name)
        return {"claim": claimed, "reservation": reserved}

    def peaks(self) -> str:
        """Return the most memory of each process, and its limit."""
        return ", ".join(
            f"{name} {each.memory.peak >> 20} of {memory.installed(name)} MiB" for name, each in self.processes.items()
        )

    def raise_if_ended(self) -> None:
        """Raise ProcessEndedError if a process has ended, for whatever reason."""
        ended = [name for name, each in self.processes.items() if not each.process.alive or each.memory.kills]
        if ended:
            logs = "\n".join(self.processes[name].process.tail() for name in ended)
            raise ProcessEndedError(f"{', '.join(ended)} ended; peaks: {self.peaks()}; logs:\n{logs}")

    async def live_on(self) -> None:
        """Assert that no process has been started again, and that each kept its lease."""
        self.raise_if_ended()
        assert {name: each.process.pid for name, each in self.processes.items()} == self.pids
        assert await leases(self.api) == self.held


@asynccontextmanager
async def staged(installed: Installed, api: Api, kind: FatKind) -> AsyncIterator[Stage]:
    """Yield the stage; objects from before are there when the processes start."""
    target = installed.target
    async with (
        namespaces.temporary(api, purpose="honest") as other,
        namespaces.temporary(api, purpose="fat") as own,
    ):
        path = await accounts.create(target, own, "tenant", in_namespace=[accounts.EDIT], rules=WRITES)
        async with accounts.acting(path, own) as tenant:
            try:
                if kind.stored_before:
                    await store_before(target, api, kind)
                devices = await other.offer_devices(DEVICES)
                await drop_leases(api)
                with shipped(installed.cluster, serve=installed.serve, tls=installed.tls) as processes:
                    held = await eventually(
                        partial(leases, api), until=bool, within=READY_WITHIN, saying="each process has its lease"
                    )
                    pids = {name: each.process.pid for name, each in processes.items()}
                    yield Stage(api, tenant, own, other, devices, processes, held, pids)
            finally:
                for number in range(kind.count):
                    namespace = own.name if kind.resource.namespaced else None
                    await api.delete(kind.resource, f"fat-{number}", namespace=namespace, grace_seconds=0)


async def store_before(target: Target, api: Api, kind: FatKind) -> None:
    """Create the objects of a kind while the policies of the installation are not in force."""
    bindings = [
        obj["metadata"]["name"]
        for component in POLICIES
        for obj in installation.rendered(installation.DEPLOY / component, admin=target.admin)
        if obj["kind"] == "ValidatingAdmissionPolicyBinding"
    ]
    await asyncio.to_thread(
        kubectl,
        *("delete", "validatingadmissionpolicybindings", "--ignore-not-found", *bindings),
        kubeconfig=target.admin,
    )

    async def stored() -> bool:
        try:
            await create(api, kind, 0)
        except ApiError as error:
            return error.status == 409
        return True

    await eventually(stored, within=60, saying="the policies are out of force")
    for number in range(1, kind.count):
        await create(api, kind, number)
    for component in POLICIES:
        await asyncio.to_thread(installation.install, target.admin, kustomization=installation.DEPLOY / component)

    async def refused() -> bool:
        try:
            await api.request("POST", f"{kind.resource.path()}?dryRun=All", kind.make("another"))
        except ApiError:
            return True
        return False

    await eventually(refused, within=60, saying="the policies are in force again")


async def create(api: Api, kind: FatKind, number: int, *, namespace: str | None = None) -> None:
    """Create one object, however long the API server takes."""
    path = kind.resource.path(namespace=namespace)
    await api.request("POST", path, kind.make(f"fat-{number}"), limit=PATIENT)


async def create_all(stage: Stage, kind: FatKind) -> None:
    """Have the tenant create the objects, then change one of them again and again."""
    turn = asyncio.Semaphore(AT_ONCE)
    namespace = stage.own.name if kind.resource.namespaced else None

    async def one(number: int) -> None:
        async with turn:
            await create(stage.tenant, kind, number, namespace=namespace)

    if not kind.stored_before:
        await asyncio.gather(*map(one, range(kind.count)))
    changes = stage.api if kind.stored_before else stage.tenant  # the tenant may not do it any more
    for number in range(PATCHES):
        await changes.patch(kind.resource, "fat-0", fat.patch(number), namespace=namespace)


@pytest.mark.parametrize("name", fat.KINDS)
async def test_the_installation_lives_on_and_serves_others(
    installed: Installed, target: Target, api: Api, name: str, remark: Callable[[str], None]
) -> None:
    del target
    kind = fat.KINDS[name]
    try:
        async with staged(installed, api, kind) as stage:
            before = await stage.served()
            took = []
            async with asyncio.TaskGroup() as group:
                attacking = group.create_task(create_all(stage, kind))
                while not attacking.done():
                    took.append(await stage.served())
                    await stage.live_on()
            took.append(await stage.served())
            slowest = {part: max(each[part] for each in took) for part in before}
            remark(
                f"{name}: {kind.count} objects, {len(took)} times served, slowest {_text(slowest)} (before: "
                f"{_text(before)}; API server {max(stage.answered):.2f} s); peaks: {stage.peaks()}"
            )
            await stage.live_on()
            assert max(each.memory.peak for each in stage.processes.values()) <= PEAK_MAX
            assert max(slowest.values()) <= SERVED_WITHIN + REQUESTS * max(stage.answered)
            if kind.named:
                await named_too_large(stage, kind)
    except NoCgroupError as error:
        pytest.skip(f"no memory limit can be set here: {error}")


def _text(seconds: dict[str, float]) -> str:
    return ", ".join(f"{part} {value:.2f} s" for part, value in seconds.items())


async def named_too_large(stage: Stage, kind: FatKind) -> None:
    """Wait for an Event on one of the objects, and for the metric of a process."""
    namespace = stage.own.name if kind.resource.namespaced else "default"

    async def told() -> list[Json]:
        found = await stage.api.all(EVENTS, namespace=namespace, fieldSelector=f"reason={TOO_LARGE}")
        return [each for each in found if each["involvedObject"]["name"].startswith("fat-")]

    await eventually(told, within=NAMED_WITHIN, saying=f"an Event {TOO_LARGE} names an object")
    counts = [metrics.total(await each.metrics(), REFUSED) for each in stage.processes.values()]
    assert sum(counts) > 0


@pytest.mark.parametrize("name", ["reservations", "migration-jobs"])
async def test_the_policies_refuse_new_objects_of_that_size(target: Target, api: Api, name: str) -> None:
    del target
    kind = fat.KINDS[name]

    async def refused() -> str:
        try:
            await api.request("POST", f"{kind.resource.path()}?dryRun=All", kind.make("new"))
        except ApiError as error:
            return str(error)
        return ""

    await eventually(
        refused, until=lambda text: "more than 1024 entries" in text, within=60, saying="the policies are in force"
    )
