"""Claims that require a bind policy, on nodes of which the CPU driver publishes one device (``--cpu-devices node``).

The scheduler adds up amounts and knows no CPUs: what the driver publishes of whole cores has to be enough for it. The
driver is the real one, of a machine that is not there; the slice and the prepared claims are carried over by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest

from dra.engine.cpus.cpusets import parse
from dra.model.claims import DeviceRequestAllocationResult
from kubeletplugin.contract import ClaimIdentity, DevicesInUseError, OpaqueParameters, PreparedClaim, PrepareRequest
from kubeletplugin.drivers.cpu.devices import CpuDeviceMode
from kubeletplugin.drivers.cpu.driver import CpuDriver
from tests.dra.engine.cpus.uniform import uniform_topology
from tests.kubeletplugin.drivers.cpu.test_driver import Source
from tests.scenarios import objects, steps
from tests.scenarios.claims import allocated
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.features import Feature
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, DEVICE_CLASSES, PODS, RESOURCE_SLICES
from tests.scenarios.target import Mode

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.scenarios.controller import Controller
    from tests.scenarios.namespaces import Namespace

pytestmark = [pytest.mark.modes(Mode.REPLACE), pytest.mark.needs(Feature.CONSUMABLE_CAPACITY)]

Json = dict[str, Any]

FULL: Final = {"requiredCPUBindPolicy": "FullPCPUs"}
REQUIRED_SPREAD: Final = {"requiredCPUBindPolicy": "SpreadByPCPUs"}
SPREAD: Final = {"preferredCPUBindPolicy": "SpreadByPCPUs"}


class Machine:
    """A machine of four cores with two threads, of which the first core is the system's: three cores for claims."""

    def __init__(self, namespace: Namespace, folder: Path, node: str) -> None:
        self.namespace = namespace
        self.node = node
        self.name = f"{namespace.name}.scenario.dra"
        self.driver = CpuDriver(
            Source(uniform_topology(cores=4, threads=2)),
            node=node,
            folder=folder,
            kubelet=folder,
            mode=CpuDeviceMode.NODE,
            find_cgroups=None,
        )
        self.prepared: dict[str, PreparedClaim] = {}

    async def publish(self) -> None:
        """Publish what the driver has now, as the plugin does."""
        await self.driver.enforce(self.prepared.values())
        (pool,) = self.driver.pools()
        devices = [msgspec.to_builtins(pool.devices[0])]  # without the NUMA nodes, which no claim here requests
        found = await self.namespace.api.find(RESOURCE_SLICES, self.node)
        if found is None:
            await self.namespace.create(objects.device_class(self.name, driver=self.name))
            body = objects.resource_slice(self.node, driver=self.name, devices=[], node=self.node)
            await self.namespace.create({**body, "spec": {**body["spec"], "devices": devices}})
        else:
            await self.namespace.api.patch(RESOURCE_SLICES, self.node, {"spec": {"devices": devices}})

    async def prepare(self, name: str) -> str:
        """Prepare a claim as the kubelet would once the pod is bound; return its CPUs."""
        claim = await steps.claim_is(self.namespace, name, allocated, saying="it is allocated")
        devices = claim["status"]["allocation"]["devices"]
        request = PrepareRequest(
            claim=ClaimIdentity(key=(self.namespace.name, name), uid=claim["metadata"]["uid"]),
            results=tuple(msgspec.convert(devices["results"], list[DeviceRequestAllocationResult])),
            configuration=tuple(
                OpaqueParameters(requests=(), parameters=each["opaque"]["parameters"])
                for each in devices.get("config", [])
            ),
        )
        self.prepared[name] = self.driver.prepare(request, self.prepared.values())
        await self.publish()
        return str(self.prepared[name].state["requests"]["cpus"])

    async def release(self, name: str) -> None:
        """Unprepare a claim whose pod is deleted."""
        await self.namespace.delete(PODS, name)
        del self.prepared[name]
        await self.publish()

    async def ask(self, name: str, cpus: int, config: Json, *, selector: str = "") -> None:
        """Create a pod with a claim of some CPUs."""
        amounts = {"dra.cpu/cpu": str(cpus)}
        if config in (FULL, REQUIRED_SPREAD):
            amounts["wholeCoreCPUs" if config is FULL else "distinctCoreCPUs"] = str(cpus)
        exactly: Json = {"deviceClassName": self.name, "capacity": {"requests": amounts}}
        if selector:
            exactly["selectors"] = [{"cel": {"expression": f'device.attributes["{self.name}"].{selector}'}}]
        parameters = {"apiVersion": "reserve.dra/v1alpha1", "kind": "CpuConfig"} | config
        spec = {
            "requests": [{"name": "cpus", "exactly": exactly}],
            "config": [{"opaque": {"driver": self.name, "parameters": parameters}}],
        }
        body = objects.claim(name, device_class=self.name)
        await self.namespace.create({**body, "spec": {"devices": spec}})
        await self.namespace.create(objects.pod(name, PodShape(claim=name)))

    async def waits(self, name: str) -> None:
        await steps.pod_is(self.namespace, name, steps.unschedulable, saying="there is no node for it")

    async def placed(self, names: Iterable[str]) -> list[str]:
        """Return which of these claims are allocated."""
        found = [await self.namespace.get(CLAIMS, name) for name in names]
        return [each["metadata"]["name"] for each in found if allocated(each)]


@pytest.fixture
async def machine(namespace: Namespace, controller: Controller, tmp_path: Path) -> Machine:  # noqa: ARG001
    it = Machine(namespace, tmp_path, await steps.add_node(namespace, "cpus"))
    await it.publish()
    assert await namespace.api.find(DEVICE_CLASSES, it.name) is not None
    return it


async def test_whole_cores_that_are_not_there_are_waited_for_and_no_pod_is_bound(machine: Machine) -> None:
    await machine.ask("spread", 3, SPREAD)
    assert parse(await machine.prepare("spread")) == parse("2,4,6")  # three CPUs are free, and no core
    await machine.ask("full", 2, FULL)
    await machine.waits("full")
    await machine.ask("any", 1, {})  # what requires no whole core is placed all the same
    await machine.prepare("any")

    await machine.release("spread")
    assert parse(await machine.prepare("full")) <= parse("2-7")


async def test_claims_that_wait_to_be_prepared_count(machine: Machine) -> None:
    await machine.ask("spread", 1, SPREAD)
    await machine.prepare("spread")  # five CPUs are free, of these two cores
    names = [f"full-{number}" for number in range(4)]
    for name in names:
        await machine.ask(name, 2, FULL)

    async def both() -> list[str]:
        return await machine.placed(names)

    await eventually(both, until=lambda found: len(found) == 2, saying="there are two whole cores")
    await steadily(lambda: _as_many(machine, names, 2), lasting=2.0, saying="and no third one")
    for name in await both():
        await machine.prepare(name)
    await steadily(lambda: _as_many(machine, names, 2), lasting=1.0, saying="nor when these are prepared")


async def _as_many(machine: Machine, names: list[str], count: int) -> bool:
    return len(await machine.placed(names)) == count


async def test_who_loses_a_race_for_whole_cores_is_served_before_newcomers(machine: Machine) -> None:
    await machine.ask("full", 2, FULL)
    await steps.claim_is(machine.namespace, "full", allocated, saying="there are three whole cores")
    await machine.ask("spread", 3, SPREAD)
    await machine.prepare("spread")  # first: the driver knows nothing of the other claim yet
    with pytest.raises(DevicesInUseError, match=r"usable of 3 free.*the pod starts when pods of these claims .* ended"):
        await machine.prepare("full")
    await machine.ask("late", 1, {})
    await machine.waits("late")  # what is left is kept for the pod that waits on the node

    await machine.release("spread")
    await machine.prepare("full")
    await machine.prepare("late")


async def test_a_required_spread_needs_as_many_cores_as_cpus(machine: Machine) -> None:
    await machine.ask("wide", 4, REQUIRED_SPREAD)
    await machine.waits("wide")
    await machine.ask("narrow", 3, REQUIRED_SPREAD)
    assert await machine.prepare("narrow") == "2,4,6"


async def test_claims_of_distinct_cores_wait_for_each_other_and_share_cores_in_the_end(machine: Machine) -> None:
    names = ["spread-0", "spread-1", "spread-2"]
    for name in names:
        await machine.ask(name, 2, REQUIRED_SPREAD)

    async def placed() -> list[str]:
        return await machine.placed(names)

    (first,) = await eventually(placed, until=lambda found: len(found) == 1, saying="one is placed")
    await steadily(lambda: _as_many(machine, names, 1), lasting=1.0, saying="a second one might find no two cores")
    assert await machine.prepare(first) == "2,4"
    found = await eventually(placed, until=lambda found: len(found) == 2, saying="three cores have a free CPU again")
    (second,) = set(found) - {first}
    assert await machine.prepare(second) == "3,5"
    await steadily(lambda: _as_many(machine, names, 2), lasting=2.0, saying="two CPUs are left, of one core")


async def test_a_node_of_whole_cores_never_splits_one_and_follows_its_label(machine: Machine) -> None:
    assert machine.driver.apply_node_labels({"node.koordinator.sh/cpu-bind-policy": "FullPCPUsOnly"}) == ()
    await machine.publish()
    odd = 'bindPolicy != "FullPCPUsOnly"'
    await machine.ask("odd", 3, {}, selector=odd)
    await machine.waits("odd")
    await machine.ask("rounded", 3, {})
    assert parse(await machine.prepare("rounded")) == parse("2-5")

    machine.driver.apply_node_labels({})
    await machine.publish()
    await machine.waits("odd")  # two CPUs are left
    await machine.release("rounded")
    await machine.prepare("odd")
