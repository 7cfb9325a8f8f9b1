"""What a node keeps from pods (``node.koordinator.sh/reservation``), through whole schedulers: koordinator.md B."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.scenarios.api import Api, Json
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.reservations.test_manual import reaches, reservation, running, stranger, waits
from tests.scenarios.resources import EVENTS, NODES, PODS, Resource
from tests.scenarios.target import Target

pytestmark = pytest.mark.long

NODE = "node-2"
KEPT = "node.koordinator.sh/reservation"
CONFIG_MAPS = Resource("v1", "ConfigMap", "configmaps")
MEMORY = "dra-reserve-node-reservations"


@pytest.fixture
async def keeping(emptied: Api) -> AsyncIterator[Api]:
    yield emptied
    await keep(emptied, None)


async def keep(api: Api, text: str | None) -> None:
    await api.patch(NODES, NODE, {"metadata": {"annotations": {KEPT: text}}})


async def test_what_a_node_keeps_is_nobodys_until_it_says_otherwise(
    keeping: Api, target: Target, request: pytest.FixtureRequest
) -> None:
    """B.2 (1), live changes, and an invalid annotation: 60 of 64 CPUs are kept."""
    await keep(keeping, '{"resources": {"cpu": "60"}}')
    await keeping.create(stranger("small", cpu="3", node=NODE), namespace="default")
    await running(keeping, 1)
    await keeping.create(stranger("big", cpu="8", node=NODE), namespace="default")
    await waits(keeping, "big", because="Insufficient cpu")
    held = reservation("held", cpu="8")
    held["spec"]["template"]["spec"]["nodeName"] = NODE
    await keeping.create(held)

    await keep(keeping, '{"resources": {"cpu": "-60"}}')
    (told,) = await eventually(
        lambda: about_node(keeping), until=lambda found: len(found) == 1, saying="an Event says what is wrong"
    )
    assert "resources.cpu: -60 is negative" in str(told.get("message") or told.get("note"))
    namespace = "kube-system" if target.own is None else "dra-reserve"
    await eventually(
        lambda: keeping.find(CONFIG_MAPS, MEMORY, namespace=namespace),
        until=lambda found: bool(found and found.get("data") == {NODE: '{"resources": {"cpu": "60"}}'}),
        saying="what counts is written down",
    )
    if target.own is not None:
        extender = request.getfixturevalue("extender")
        await asyncio.to_thread(extender.kill)
        await asyncio.to_thread(extender.start, within=40)
    await keeping.create(stranger("another", cpu="2", node=NODE), namespace="default")
    await waits(keeping, "another", because="Insufficient cpu")

    async def unbound() -> bool:
        pods = await keeping.all(PODS, namespace="default", labelSelector="app=stranger")
        return sum(bool(pod["spec"].get("nodeName")) for pod in pods) == 1

    await steadily(unbound, lasting=1.0, saying="what it kept last stays kept")
    await keep(keeping, '{"reservedCPUs": "0-39"}')
    await running(keeping, 3, labelSelector="app=stranger")
    assert (await reaches(keeping, "held", "Available", within=60.0))["status"]["nodeName"] == NODE


async def about_node(api: Api) -> list[Json]:
    found = await api.all(EVENTS, namespace="default")
    return [each for each in found if each["reason"] == "InvalidNodeReservation"]
