"""One extended resource that a device plugin serves on one node and DRA on another, with the extender in between."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import pytest

from tests.scenarios import objects
from tests.scenarios.api import Api, Json
from tests.scenarios.features import Feature
from tests.scenarios.reservations.test_manual import running, stranger, waits
from tests.scenarios.resources import DEVICE_CLASSES, NODES, RESOURCE_SLICES

pytestmark = pytest.mark.needs(Feature.EXTENDED_RESOURCES)

CARD: Final = "cards.example.com/card"
DRIVER: Final = "cards.example.com"


def wanting_a_card(name: str) -> Json:
    found = stranger(name, cpu="1")
    found["spec"]["containers"][0]["resources"]["limits"] = {CARD: "1"}
    return found


async def publish(api: Api, node: str, count: str | None) -> None:
    """Publish the resource as a device plugin does, or remove it with None."""
    amounts = {"capacity": {CARD: count}, "allocatable": {CARD: count}}
    await api.patch(NODES, node, {"status": amounts}, subresource="status")


@pytest.fixture
async def cards(emptied: Api) -> AsyncIterator[Api]:
    """One card of a device plugin on node-1, and one of a DRA driver on node-2."""
    device_class = objects.device_class(DRIVER, driver=DRIVER)
    device_class["spec"]["extendedResourceName"] = CARD
    await emptied.create(device_class)
    await emptied.create(objects.resource_slice(DRIVER, driver=DRIVER, devices=["card-0"], node="node-2"))
    await publish(emptied, "node-1", "1")
    yield emptied
    await publish(emptied, "node-1", None)
    await emptied.delete(RESOURCE_SLICES, DRIVER)
    await emptied.delete(DEVICE_CLASSES, DRIVER)


async def test_pods_run_where_dra_serves_what_a_device_plugin_serves_elsewhere(cards: Api) -> None:
    for name in ("one", "two"):
        await cards.create(wanting_a_card(name), namespace="default")
    pods = await running(cards, 2)
    assert {pod["spec"]["nodeName"] for pod in pods} == {"node-1", "node-2"}
    await cards.create(wanting_a_card("three"), namespace="default")
    await waits(cards, "three", because=f"Insufficient {CARD}")
