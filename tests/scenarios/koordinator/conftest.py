"""A cluster with published cards, and pods that ask for shares of them."""

from __future__ import annotations

import pytest

from kubeletplugin.drivers.gpu.devices import DRIVER_NAME
from tests.scenarios import objects
from tests.scenarios.koordinator.cards import NODES, Cards, resource_slice
from tests.scenarios.namespaces import Namespace


@pytest.fixture
async def cards(namespace: Namespace) -> Cards:
    """The cards, with a class that also serves the extended resource of whole cards."""
    made = objects.device_class(DRIVER_NAME, driver=DRIVER_NAME)
    made["spec"]["extendedResourceName"] = "nvidia.com/gpu"
    await namespace.create(made)
    for node, sizes in NODES.items():
        await namespace.create(resource_slice(node, sizes))
    return Cards(namespace)
