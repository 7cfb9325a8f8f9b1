"""Two pods race for the last whole cores of a node: the one that loses is evicted, and waits or runs elsewhere."""

from __future__ import annotations

import contextlib
import json
import re
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from kubeletplugin.drivers.cpu.driver import DRIVER_NAME
from tests.cluster.kubectl import kubectl
from tests.dra.engine.translation.examples import RESOURCE_SPEC
from tests.scenarios import installation, metrics, objects, plugin_of_kubectl, steps
from tests.scenarios.api import ApiError, Json
from tests.scenarios.conftest import ALONE, StartController
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.features import Feature
from tests.scenarios.koordinator.conftest import create_class
from tests.scenarios.koordinator.cpu_node import CpuNode
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, PODS
from tests.scenarios.target import Capability, Mode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.scenarios.controller import Controller
    from tests.scenarios.namespaces import Namespace
    from tests.scenarios.target import Target

pytestmark = [
    pytest.mark.modes(Mode.REPLACE),
    pytest.mark.needs(Capability.RIGHTS, Feature.GATE_POLICY, Feature.CONSUMABLE_CAPACITY),
]

FULL: Final = {RESOURCE_SPEC: '{"requiredCPUBindPolicy":"FullPCPUs"}'}
SPREAD: Final = {RESOURCE_SPEC: '{"preferredCPUBindPolicy":"SpreadByPCPUs"}'}
LSR: Final = {"koordinator.sh/qosClass": "LSR", "koordinator.sh/priority-class": "koord-prod"}
EVICTED_WITHIN: Final = 75.0
"""Seconds: a refusal is reported after five, and the controller waits for thirty more."""


def asking(shape: PodShape, *, cpus: int) -> Any:
    """Return the spec of a pod of a shape that asks for CPUs as LSR pods do."""
    found = objects.pod("p", shape)
    amounts = {"cpu": str(cpus)}
    found["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    return found


def shape_of(annotations: Json) -> PodShape:
    return PodShape(hold=True, labels=LSR, annotations=annotations)


def pod(name: str, annotations: Json, *, cpus: int) -> Json:
    found: Json = asking(shape_of(annotations), cpus=cpus)
    found["metadata"]["name"] = name
    return found


def deployment(name: str, annotations: Json, *, cpus: int) -> Json:
    made = objects.deployment(name, shape_of(annotations))
    made["spec"]["template"]["spec"]["containers"] = asking(shape_of(annotations), cpus=cpus)["spec"]["containers"]
    return made


async def pod_of(namespace: Namespace, app: str, *, but: str = "") -> Json:
    """Return the pod of a Deployment, another one than `but`."""

    async def others() -> list[Json]:
        pods = await namespace.all(PODS, labelSelector=f"app={app}")
        return [each for each in pods if each["metadata"]["name"] != but]

    (found,) = await eventually(others, until=lambda pods: len(pods) == 1, saying=f"deployment {app} has a pod")
    return found


async def node_of(namespace: Namespace, name: str) -> str:
    async def node() -> str:
        found: str = (await namespace.get(PODS, name))["spec"].get("nodeName", "")
        return found

    return await eventually(node, saying=f"pod {name} is bound")


async def phase(namespace: Namespace, name: str) -> str:
    found: str = (await namespace.get(PODS, name))["status"].get("phase", "")
    return found


async def events(namespace: Namespace, pod: str, reason: str) -> list[str]:
    """Return the texts of the Events of a reason on a pod."""
    return [each["message"] for each in await namespace.events(pod) if each["reason"] == reason]


async def not_ready(namespace: Namespace, node: str) -> list[str]:
    """Return the reasons of the refusals that are reported of a node's claims."""
    return [
        condition["reason"]
        for claim in await namespace.all(CLAIMS)
        for device in claim.get("status", {}).get("devices", [])
        for condition in device.get("conditions") or ()
        if device["pool"] == node and (condition["type"], condition["status"]) == ("Ready", "False")
    ]


@pytest.fixture
async def place(place: Namespace, installed: None, target: Target) -> Namespace:
    """A namespace that has opted in, with the class of CPUs, and with the rights of controller and plugins."""
    del installed
    await create_class(place, objects.device_class(DRIVER_NAME, driver=DRIVER_NAME))
    plugin = [
        each
        for each in installation.rendered(installation.PLUGIN_KUSTOMIZATION, admin=target.admin)
        if each["kind"] not in {"DeviceClass", "DaemonSet"}  # tests make their own classes
    ]
    kubectl("apply", "--filename=-", kubeconfig=target.admin, stdin=yaml.safe_dump_all(plugin))
    installation.install(target.admin, kustomization=installation.DEPLOY / "claim-status")
    return place


@pytest.fixture
async def first(place: Namespace, tmp_path: Path) -> CpuNode:
    """A node with two cores for claims."""
    return await added(place, "first", folder=tmp_path)


async def added(place: Namespace, name: str, *, folder: Path) -> CpuNode:
    node = await steps.add_node(place, name)
    (folder / name).mkdir(mode=0o700)
    found = CpuNode(place, node, cores=3, folder=folder / name)
    await found.publish()
    return found


@contextlib.asynccontextmanager
async def serving(target: Target, node: CpuNode) -> AsyncIterator[None]:
    account = installation.plugin_kubeconfig(target.admin, target.folder.path, node=node.name)
    async with node.running(account):
        yield


@pytest.fixture
async def controller(start_controller: StartController) -> Controller:
    return await start_controller(configuration={**ALONE, "koordinator": True})


async def test_the_pod_that_loses_the_last_whole_core_waits_unbound_and_then_runs_elsewhere(
    place: Namespace, first: CpuNode, target: Target, controller: Controller, tmp_path: Path
) -> None:
    await place.create(pod("spread", SPREAD, cpus=2))  # prepared first, by its name
    assert await node_of(place, "spread") == first.name
    await place.create(deployment("whole", FULL, cpus=2))
    loser = (await pod_of(place, "whole"))["metadata"]["name"]
    assert await node_of(place, loser) == first.name  # the scheduler knows of two whole cores
    async with serving(target, first):
        await eventually(lambda: phase(place, "spread"), until="Running".__eq__, saying="the first pod runs")
        assert await eventually(lambda: not_ready(place, first.name), saying="it is reported") == ["CPUsInUse"]
        assert "2 CPUs wanted, 0 usable of 2 free" in first.refusals[0]
        _, told = await plugin_of_kubectl.dra(target.admin, "explain", "pod", loser, f"--namespace={place.name}")
        assert f"cannot start on node {first.name}, which refuses to prepare claim" in " ".join(told.split())
        await place.create(pod("late", {}, cpus=1))
        await steps.pod_is(place, "late", steps.unschedulable, saying="what is left is kept for the pod that waits")

        (text,) = await eventually(
            lambda: events(place, loser, "EvictedUnprepared"), within=EVICTED_WITHIN, saying="it is evicted"
        )
        assert f"was evicted: node {first.name} had refused claim" in text
        await eventually(lambda: phase(place, "late"), until="Running".__eq__, saying="CPUs are given to others again")
        successor = (await pod_of(place, "whole", but=loser))["metadata"]["name"]
        await steps.pod_is(place, successor, steps.unschedulable, saying="the scheduler knows that no core is free")
        _, told = await plugin_of_kubectl.dra(target.admin, "explain", "pod", successor, f"--namespace={place.name}")
        assert "wholeCoreCPUs: 2 requested, 0 of 0 free" in told
        await eventually(lambda: not_ready(place, first.name), until=lambda left: not left, saying="nobody is refused")

        second = await added(place, "second", folder=tmp_path)
        async with serving(target, second):
            await eventually(lambda: phase(place, successor), until="Running".__eq__, saying="it runs elsewhere")
        assert await node_of(place, successor) == second.name
    assert metrics.total(await controller.metrics(), "dra_reserve_unprepared_pods_evicted_total") == 1


@pytest.mark.long
async def test_a_pod_that_nothing_replaces_stays_and_is_told_why(
    place: Namespace, first: CpuNode, target: Target, controller: Controller
) -> None:
    del controller
    await place.create(pod("spread", SPREAD, cpus=2))
    assert await node_of(place, "spread") == first.name
    await place.create(pod("whole", FULL, cpus=2))
    assert await node_of(place, "whole") == first.name
    async with serving(target, first):
        (text,) = await eventually(
            lambda: events(place, "whole", "PrepareRefused"), within=EVICTED_WITHIN, saying="it is told why it stays"
        )
        assert "It is not evicted, since the pod has no controller" in text
        await place.delete(PODS, "spread")  # what it waits for: it is still there, and runs then
        await eventually(lambda: phase(place, "whole"), until="Running".__eq__, saying="it has its cores")
        await eventually(lambda: not_ready(place, first.name), until=lambda left: not left, saying="nobody is refused")


ROLE: Final = "clusterrole/dra-reserve-koordinator"


@pytest.mark.long
async def test_without_the_right_the_pod_stays_until_it_is_granted(
    place: Namespace, first: CpuNode, target: Target, start_controller: StartController
) -> None:
    granted = json.loads(kubectl("get", ROLE, "--output=json", kubeconfig=target.admin))["rules"]
    lacking = [rule for rule in granted if rule["resources"] != ["pods/eviction"]]
    assert len(lacking) == len(granted) - 1

    def grant(rules: list[Json]) -> None:
        patch = json.dumps({"rules": rules})
        kubectl("patch", ROLE, "--type=merge", f"--patch={patch}", kubeconfig=target.admin)

    grant(lacking)
    try:
        controller = await start_controller(configuration={**ALONE, "koordinator": True})
        await place.create(pod("spread", SPREAD, cpus=2))
        await node_of(place, "spread")
        await place.create(deployment("whole", FULL, cpus=2))
        loser = (await pod_of(place, "whole"))["metadata"]["name"]
        async with serving(target, first):
            await eventually(
                lambda: re.search(r"eviction for claim .*: not reconciled, .*pods/eviction", controller.log),
                within=EVICTED_WITHIN,
                saying="the log names the right",
            )
            await steadily(lambda: still_there(place, loser), lasting=1.0, saying="it stays")
            grant(granted)
            await eventually(
                lambda: events(place, loser, "EvictedUnprepared"), within=EVICTED_WITHIN, saying="it is evicted"
            )
    finally:
        grant(granted)


async def still_there(namespace: Namespace, name: str) -> bool:
    with contextlib.suppress(ApiError):
        return "deletionTimestamp" not in (await namespace.get(PODS, name))["metadata"]
    return False
