"""A pod that needs all cards of a node gets its node: the pod in the way moves, and its new card is held first."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import pytest

from tests.scenarios import objects
from tests.scenarios.api import Api, Json
from tests.scenarios.descheduling.conftest import RunProfile
from tests.scenarios.descheduling.test_rounds import change_node, moved
from tests.scenarios.eventually import eventually
from tests.scenarios.namespaces import Namespace
from tests.scenarios.reservations.conftest import NODES
from tests.scenarios.reservations.migrations import deployment, ready_pods
from tests.scenarios.resources import DEPLOYMENTS, PODS

OFFERING: Final = ("node-0", "node-1")
CARDS: Final = 8
EVICTION_COST: Final = "scheduling.koordinator.sh/eviction-cost"
WITHIN: Final = 90.0


@pytest.fixture
async def cards(moving: Api, namespace: Namespace) -> AsyncIterator[Namespace]:
    """A namespace with eight cards on each of two nodes, and templates for claims of one and of eight."""
    assert moving is namespace.api
    driver = f"gpu.{namespace.name}.scenario.dra"
    await namespace.create(objects.device_class(driver, driver=driver))
    for node in OFFERING:
        devices = [f"gpu-{number}" for number in range(CARDS)]
        await namespace.create(
            objects.resource_slice(f"{namespace.name}-{node}", driver=driver, devices=devices, node=node)
        )
    for name, count in (("one", 1), ("eight", CARDS)):
        await namespace.create(objects.claim_template(name, device_class=driver, devices=count))
    yield namespace
    for each in await namespace.all(DEPLOYMENTS):
        await namespace.delete(DEPLOYMENTS, each["metadata"]["name"])
    await eventually(lambda: _no_pods(namespace), saying="the pods have ended")


async def test_a_pod_of_eight_cards_gets_its_node(cards: Namespace, profile: RunProfile) -> None:
    cheap = await _on(cards, "node-0", "cheap")
    await _on(cards, "node-1", "dear", cost=5)
    claims = [{"name": "gpus", "resourceClaimTemplateName": "eight"}]
    await cards.create(deployment("train", replicas=1, resourceClaims=claims))
    with profile("balance", "DeviceDefragmentation", {"minPendingSeconds": 0}):
        (job,) = await moved(cards.api, trigger="DeviceDefragmentation", count=1)
        (train,) = await ready_pods(cards.api, "train", 1, namespace=cards.name, within=WITHIN)
    assert train["spec"]["nodeName"] == cheap["spec"]["nodeName"] == "node-0"
    assert job["status"]["nodeName"] == "node-1"
    reason = job["metadata"]["annotations"]["koordinator.sh/evict-reason"]
    assert f"makes room for pod {cards.name}/train" in reason
    assert "needs 8 devices of one node: node node-0 has 7 free" in reason


async def _on(cards: Namespace, node: str, app: str, *, cost: int = 0) -> Json:
    """Return the pod of a Deployment that has one card of a node."""
    claims = [{"name": "gpus", "resourceClaimTemplateName": "one"}]
    given = deployment(app, replicas=1, resourceClaims=claims)
    given["spec"]["template"]["metadata"]["annotations"] = {EVICTION_COST: str(cost)}
    others = [other for other in NODES if other != node]
    for other in others:
        await change_node(cards.api, other, spec={"unschedulable": True})
    await cards.create(given)
    (pod,) = await ready_pods(cards.api, app, 1, namespace=cards.name)
    for other in others:
        await change_node(cards.api, other, spec={"unschedulable": None})
    return pod


async def _no_pods(cards: Namespace) -> bool:
    return not await cards.all(PODS)
