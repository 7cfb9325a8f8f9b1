"""Who may create pods and reservations gets no more by them: real processes, under the limits they ship with.

Whatever the tenant tries, pods of others are bound within two seconds meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import pytest

from tests.cluster.processes import Process
from tests.scenarios import accounts, namespaces
from tests.scenarios.api import Api, ApiError, Json
from tests.scenarios.eventually import eventually
from tests.scenarios.namespaces import Namespace
from tests.scenarios.reservations.conftest import PEAKS
from tests.scenarios.reservations.test_manual import reservation, stranger
from tests.scenarios.resources import PODS, RESERVATIONS
from tests.scenarios.target import Capability, Target

pytestmark = [pytest.mark.needs(Capability.RIGHTS)]

SERVED_WITHIN: Final = 10.0
"""Seconds from the creation of somebody else's pod until it is bound.

Far more than on a machine that is free, and far less than behind all that the attack asks for.
"""

ATTEMPTS: Final = 100
FORBIDDEN: Final = 403

SHIELD: Final = "scheduling.koordinator.sh/disable-preemptible"
RESERVES: Final = {"apiGroups": ["scheduling.koordinator.sh"], "resources": ["reservations"], "verbs": ["*"]}


@dataclass
class Stage:
    """A tenant who may create pods in one namespace, and reservations."""

    api: Api
    tenant: Api
    own: Namespace
    processes: tuple[Process, ...]
    number: int = 0
    refused: int = 0

    async def refuse(self, obj: Json, because: str) -> None:
        """Have the tenant try to create an object."""
        with pytest.raises(ApiError, match=because) as error:
            await self.tenant.create(obj, namespace=self.own.name)
        assert error.value.status == FORBIDDEN
        self.refused += 1

    async def served(self) -> float:
        """Let somebody else create a pod; return the seconds until it is bound."""
        self.number += 1
        name = f"served-{self.number}"
        began = time.monotonic()
        await self.api.create(stranger(name, cpu="1"), namespace="default")

        async def bound() -> bool:
            return "nodeName" in (await self.api.get(PODS, name, namespace="default"))["spec"]

        await eventually(bound, within=30, saying=f"{name} is bound")
        took = time.monotonic() - began
        await self.api.delete(PODS, name, namespace="default", grace_seconds=0)
        return took

    async def withstands(self, attack: Awaitable[object]) -> str:
        """Let an attack go on beside others; return what it came to."""
        before = await self.served()
        attacking = asyncio.ensure_future(attack)
        took = []
        while not attacking.done():
            took.append(await self.served())
        await attacking
        assert all(each.alive for each in self.processes)
        assert max(took) <= SERVED_WITHIN
        memory = ", ".join(f"{name} {each.peak >> 20} MiB" for name, each in PEAKS.items())
        return (
            f"{self.refused} objects refused, {len(took)} pods of others bound, the slowest after {max(took):.2f} s "
            f"(before: {before:.2f} s); peaks: {memory or 'not known'}"
        )


@pytest.fixture
async def stage(emptied: Api, target: Target, extender: Process, reserving: Process) -> AsyncIterator[Stage]:
    async with namespaces.temporary(emptied, purpose="tenant") as own:
        path = await accounts.create(target, own, "tenant", in_namespace=[accounts.EDIT], rules=[RESERVES])
        async with accounts.acting(path, own) as tenant:

            async def in_force() -> bool:
                try:
                    await tenant.request("POST", f"{RESERVATIONS.path()}?dryRun=All", placed("kube-system"))
                except ApiError as error:
                    return "may not create pods" in str(error)
                return False

            await eventually(in_force, within=30, saying="the policies are in force")
            yield Stage(emptied, tenant, own, (extender, reserving))


def placed(namespace: str, name: str = "r", **spec: Any) -> Json:
    """Return a reservation whose placeholder is made in a namespace."""
    made = reservation(name, cpu="1", **spec)
    template = made["spec"]["template"]
    template["metadata"] = {"namespace": namespace}
    template["spec"]["priorityClassName"] = "system-node-critical"
    return made


async def test_pods_that_shield_themselves_from_preemption(stage: Stage, remark: Callable[[str], None]) -> None:
    why = "which namespace .* is not allowed to"

    def shielded(name: str) -> Json:
        pod = stranger(name, cpu="1")
        pod["metadata"]["labels"][SHIELD] = "true"
        return pod

    patch = {"metadata": {"labels": {SHIELD: "true"}}}

    async def attack() -> None:
        await stage.tenant.create(stranger("plain", cpu="1"), namespace=stage.own.name)
        for number in range(ATTEMPTS):
            await stage.refuse(shielded(f"shielded-{number}"), why)
            with pytest.raises(ApiError, match=why):
                await stage.tenant.patch(PODS, "plain", patch, namespace=stage.own.name)
        job: Json = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "shielded"}}
        template = shielded("by-a-job")
        template["spec"]["restartPolicy"] = "Never"
        job["spec"] = {"template": {"metadata": template["metadata"], "spec": template["spec"]}}
        await stage.tenant.create(job, namespace=stage.own.name)

    said = await stage.withstands(attack())
    remark(f"S7, shielded pods: {said}")
    found = {pod["metadata"]["name"]: pod["metadata"].get("labels", {}) for pod in await stage.own.all(PODS)}
    assert set(found) == {"plain"}
    assert SHIELD not in found["plain"]


async def test_reservations_in_namespaces_of_others(stage: Stage, remark: Callable[[str], None]) -> None:
    why = "may not create pods"
    elsewhere = placed("kube-system")
    unnamed = placed("", name="unnamed")
    default = reservation("default", cpu="1")

    async def attack() -> None:
        for _ in range(ATTEMPTS):
            for each in (elsewhere, unnamed, default):
                await stage.refuse(each, why)
        own = placed(stage.own.name, name=f"{stage.own.name}-own")
        del own["spec"]["template"]["spec"]["priorityClassName"]
        await stage.tenant.create(own)
        moved = {"spec": {"template": elsewhere["spec"]["template"]}}
        with pytest.raises(ApiError, match=why):
            await stage.tenant.patch(RESERVATIONS, own["metadata"]["name"], moved)

    said = await stage.withstands(attack())
    remark(f"S9, reservations in other namespaces: {said}")
    assert [each["metadata"]["name"] for each in await stage.api.all(RESERVATIONS)] == [f"{stage.own.name}-own"]
    assert not [pod for pod in await stage.api.all(PODS, namespace="kube-system") if "reserve" in str(pod["metadata"])]
