"""kube-scheduler asks the extender's second entry, and keeps pods from nodes that are hot by their NodeMetrics."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from dra.kube.clock import SYSTEM, rfc3339
from tests.scenarios.api import Api
from tests.scenarios.eventually import eventually
from tests.scenarios.reservations.conftest import NODES
from tests.scenarios.resources import NODE_METRICS, PODS
from tests.scenarios.resources import NODES as NODE_RESOURCE

HOT, COOL = 90, 10
"""Percent of the CPUs of a node in use."""


async def report(api: Api, node: str, percent: int, *, age: float = 0.0) -> None:
    """Report that a node uses so many percent of its CPUs for what runs in no pod."""
    milli = int((await api.get(NODE_RESOURCE, node))["status"]["allocatable"]["cpu"]) * 10 * percent
    if await api.find(NODE_METRICS, node) is None:
        head = {"apiVersion": NODE_METRICS.api_version, "kind": NODE_METRICS.kind, "metadata": {"name": node}}
        await api.request("POST", NODE_METRICS.path(), head)
    status = {
        "updateTime": rfc3339(SYSTEM.wall() - timedelta(seconds=age)),
        "nodeMetric": {"systemUsage": {"resources": {"cpu": f"{milli}m", "memory": "1Gi"}}},
        "podsMetric": [],
    }
    await api.patch(NODE_METRICS, node, {"status": status}, kind="merge-patch", subresource="status")


def pod(name: str) -> dict[str, Any]:
    containers = [{"name": "c", "image": "pause", "resources": {"requests": {"cpu": "100m"}}}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers}}


async def placed(api: Api, name: str) -> str:
    """Create a pod, and return its node."""
    await api.create(pod(name), namespace="default")

    async def node() -> str:
        return str((await api.get(PODS, name, namespace="default"))["spec"].get("nodeName", ""))

    return await eventually(node, saying=f"pod {name} has a node")


async def test_pods_keep_away_from_hot_nodes_and_a_missing_report_keeps_nobody_away(api_with_metrics: Api) -> None:
    api = api_with_metrics
    hot, cool, unknown = NODES
    for node in (hot, cool):
        await report(api, node, HOT)
    number = 0

    async def next_is_on(*nodes: str) -> bool:
        """Place one more pod: the extender sees reports through its watch, a moment later."""
        nonlocal number
        number += 1
        return await placed(api, f"p{number}") in nodes

    await eventually(lambda: next_is_on(unknown), saying="the node without a report gets the pod")
    assert all([await next_is_on(unknown) for _ in range(3)]), "both others are hot"
    await report(api, cool, COOL)
    await report(api, unknown, HOT)
    await eventually(lambda: next_is_on(cool), saying="the cool node gets the pod")
    assert all([await next_is_on(cool) for _ in range(3)])
    for node in NODES:
        await report(api, node, HOT, age=600)
    await eventually(lambda: next_is_on(hot, cool, unknown), saying="expired reports keep nobody away")
    assert all([await next_is_on(*NODES) for _ in range(3)])
