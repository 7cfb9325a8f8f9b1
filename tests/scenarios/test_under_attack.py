"""One tenant tries to end the controller, or to keep it from others: real processes, under the limit they ship with.

Whatever the tenant does, a claim of somebody else is served within two seconds meanwhile, and its Events come. What is
bounded, and what happens at each bound: docs/reference/limits.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.cluster.memory import Limited, NoCgroupError, limited
from tests.scenarios import accounts, namespaces, objects, steps
from tests.scenarios.api import Api, ApiError, Json
from tests.scenarios.controller import Controller, Settings
from tests.scenarios.eventually import eventually
from tests.scenarios.installation import DEPLOY
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import RESERVED_FOR, PodShape
from tests.scenarios.resources import CRDS, PODS, Resource
from tests.scenarios.target import Capability, Mode, Place, Target, capabilities
from tests.scenarios.uses_of_rights import crd_of_jobsets

pytestmark = [pytest.mark.modes(Mode.REPLACE), pytest.mark.long]

SERVED_WITHIN: Final = 2.0
"""Seconds from the creation of somebody else's pod until its gate is gone: then its claim is allocated and listed."""

KINDS: Final = 8_000
EVENTFUL: Final = 3_000
LEVELS: Final = 6_500
ITEMS: Final = 20_000
BULKY: Final = 400
BULK: Final = "x" * 250_000

JOBSETS: Final = Resource("jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets")
AT_ONCE: Final = 32
DEVICES: Final = 120
"""One for each pod that is served: devices of pods that were deleted are kept for a while."""

QUICK: Final = {"leaderElection": {"enabled": True, "leaseSeconds": 15, "renewSeconds": 10, "retrySeconds": 2}}


def memory_limit() -> int:
    """Return the mebibytes that the controller is installed with."""
    manifests = yaml.safe_load_all((DEPLOY / "kustomize" / "base" / "deployment.yaml").read_text())
    (deployment,) = (obj for obj in manifests if obj["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return int(container["resources"]["limits"]["memory"].removesuffix("Mi"))


@dataclass
class Stage:
    """A tenant with `edit` in one namespace, a victim in another, and the controller under its limit."""

    api: Api
    tenant: Api
    own: Namespace
    other: Namespace
    devices: str
    controller: Controller
    cgroup: Limited
    number: int = 0

    async def served(self) -> float:
        """Let the victim create a claim and a gated pod; return the seconds until the pod is let go."""
        self.number += 1
        name = f"served-{self.number}"
        await self.other.create(objects.claim(name, device_class=self.devices))
        began = time.monotonic()
        await self.other.create(objects.pod(name, PodShape(claim=name, gated=True)))

        async def let_go() -> bool:
            pod = await self.other.get(PODS, name)
            return not pod["spec"].get("schedulingGates")

        await eventually(let_go, within=30, saying=f"{name} is let go")
        took = time.monotonic() - began
        await steps.pods_run(self.other, name)
        await self.other.delete(PODS, name)
        return took

    async def all_of_it(self, things: list[Json]) -> list[float]:
        """Have the tenant create objects; return how long the victim's pods took meanwhile, and right after."""
        turn = asyncio.Semaphore(AT_ONCE)

        async def one(obj: Json) -> None:
            async with turn:
                await self.tenant.create(obj, namespace=self.own.name)

        creating = asyncio.gather(*map(one, things))
        took = []
        while not creating.done():
            took.append(await self.served())
        await creating
        return [*took, *[await self.served() for _ in range(5)]]

    def alive(self) -> str:
        """Return what the controller costs; raises if it has ended."""
        self.controller.process.raise_if_dead()
        descriptors = len(list(Path(f"/proc/{self.controller.process.pid}/fd").iterdir()))
        return f"peak {self.cgroup.peak >> 20} MiB of {memory_limit()}, {descriptors} descriptors"


@asynccontextmanager
async def tenant_of(target: Target, api: Api, own: Namespace) -> AsyncIterator[Api]:
    """Yield a client with `edit` in the namespace; a plane of ours knows one account."""
    if Capability.RIGHTS not in capabilities(Place.chosen()):
        yield api
        return
    path = await accounts.create(target, own, "tenant", in_namespace=[accounts.EDIT])
    async with accounts.acting(path, own) as tenant:
        yield tenant


@pytest.fixture
async def stage(target: Target, api: Api) -> AsyncIterator[Stage]:
    try:
        group = limited(mebibytes=memory_limit())
        with group as cgroup:
            settings = Settings(kubeconfig=target.controller, mode=target.mode, configuration=QUICK)
            controller = Controller(target.folder, settings, name="under-attack")
            async with (
                namespaces.temporary(api, purpose="victim") as other,
                namespaces.temporary(api, purpose="tenant") as own,
            ):
                controller.spawn()
                cgroup.take_in(controller.process.pid)
                try:
                    await controller.is_ready(within=40)
                    devices = await other.offer_devices(DEVICES)
                    async with tenant_of(target, api, own) as tenant:
                        yield Stage(api, tenant, own, other, devices, controller, cgroup)
                    await controller.stop()
                finally:
                    controller.process.kill()
    except NoCgroupError as error:
        pytest.skip(f"no memory limit can be set here: {error}")


def named(number: int, *, reference: str, **more: str) -> Json:
    claim = objects.claim(f"claim-{number}", device_class="any")
    claim["metadata"]["annotations"] = {RESERVED_FOR: reference, **more}
    return claim


Told = Callable[[str], None]


async def _withstands(stage: Stage, things: list[Json], remark: Told, what: str) -> None:
    before = await stage.served()
    took = await stage.all_of_it(things)
    remark(
        f"{what}: {len(things)} objects, {len(took)} pods of others served, the slowest in {max(took):.2f} s "
        f"(before: {before:.2f} s); {stage.alive()}"
    )
    assert max(took) <= SERVED_WITHIN


async def test_8000_claims_of_as_many_kinds(stage: Stage, remark: Told) -> None:
    things = [named(n, reference=f"things.g{n}.example.com/x") for n in range(KINDS)]
    await _withstands(stage, things, remark, "S1, kinds")
    await steps.told(stage.own, f"claim-{KINDS - 1}", "WorkloadKindsExceeded", within=900)


async def test_3000_claims_that_are_each_worth_an_event(stage: Stage, remark: Told) -> None:
    things = [named(n, reference="jobs.batch/none", **{"reserve.dra/force-release": "x"}) for n in range(EVENTFUL)]
    await _withstands(stage, things, remark, "S8, Events")
    began = time.monotonic()
    claim = objects.claim("told", device_class=stage.devices, reserved_for="things.nowhere.example.com/x")
    await stage.other.create(claim)
    await steps.told(stage.other, "told", "WorkloadKindUnknown", within=30)
    remark(f"S8, Events: another namespace's Event came after {time.monotonic() - began:.2f} s")
    assert time.monotonic() - began <= 2 * SERVED_WITHIN


async def test_400_claims_of_250_kilobytes_of_annotations(stage: Stage, remark: Told) -> None:
    things = [named(n, reference="jobs.batch/none", **{"mallory.example.com/bulk": BULK}) for n in range(BULKY)]
    await _withstands(stage, things, remark, "S19, annotations")


@pytest.fixture
async def jobsets(api: Api) -> AsyncIterator[None]:
    crd = crd_of_jobsets()
    name = crd["metadata"]["name"]
    ours = await api.find(CRDS, name) is None
    if ours:
        await api.create(crd)

    async def served() -> bool:
        try:
            await api.request("GET", JOBSETS.path())
        except ApiError:
            return False
        return True

    await eventually(served, saying="JobSets are served")
    yield
    if ours:
        await api.delete(CRDS, name)


def jobset(name: str, **content: Any) -> Json:
    return {"apiVersion": JOBSETS.api_version, "kind": JOBSETS.kind, "metadata": {"name": name}, **content}


def nested(levels: int) -> Any:
    """Lists in lists, as text: Python's encoder recurses."""
    return "[" * levels + "]" * levels


@pytest.mark.parametrize("attack", ["deep", "long"])
async def test_an_object_that_no_release_rule_can_be_evaluated_for(
    stage: Stage, jobsets: None, remark: Told, attack: str
) -> None:
    del jobsets
    if attack == "deep" and Place.chosen().api:
        pytest.skip("a plane of ours takes no object that is nested as deep")
    other, own = stage.other, stage.own
    train = await stage.api.request("POST", JOBSETS.path(namespace=other.name), jobset("train"))
    uid = train["metadata"]["uid"]
    await other.create(
        objects.claim("shared", device_class=stage.devices, reserved_for="jobsets.jobset.x-k8s.io/train", uid=uid)
    )
    await other.create(objects.pod("worker", PodShape(claim="shared", gated=True)))
    await steps.pods_run(other, "worker")
    conditions = [{"type": str(n), "status": "x"} for n in range(ITEMS)]
    body: Any = (
        b'{"apiVersion":"%s","kind":"JobSet","metadata":{"name":"mallory"},"spec":{"deep":%s}}'
        % (JOBSETS.api_version.encode(), nested(LEVELS).encode())
        if attack == "deep"
        else jobset("mallory", status={"conditions": conditions})
    )
    with contextlib.suppress(RecursionError):  # the answer is as deep, and this client reads it with Python's decoder
        await stage.api.request("POST", JOBSETS.path(namespace=own.name), body)
    claim = named(0, reference="jobsets.jobset.x-k8s.io/mallory")
    await stage.tenant.create(claim, namespace=own.name)
    await steps.told(own, "claim-0", "ReleaseRuleFailed", within=30)
    await other.patch(JOBSETS, "train", {"status": {"conditions": [{"type": "Completed", "status": "True"}]}})
    began = time.monotonic()
    await steps.end_pods(other, "worker")
    await steps.told(other, "shared", "WorkloadReleased", within=30)
    remark(f"S4/S5, {attack}: the other's claim is released after {time.monotonic() - began:.2f} s; {stage.alive()}")
    assert await stage.served() <= SERVED_WITHIN
