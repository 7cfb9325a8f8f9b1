"""Pods leave hot nodes for receivers alone: kube-scheduler would move them from one hot node to the next."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from dra.kube.clock import SYSTEM, rfc3339
from tests.cluster.kubectl import kubectl
from tests.scenarios.api import Api, ApiError, Json
from tests.scenarios.descheduling.conftest import RunProfile
from tests.scenarios.descheduling.test_rounds import WITHIN, hosts, jobs, moved, start_on
from tests.scenarios.eventually import eventually
from tests.scenarios.reservations.conftest import NODES, ROOT
from tests.scenarios.reservations.migrations import pods_of
from tests.scenarios.resources import NODE_METRICS
from tests.scenarios.resources import NODES as NODE_RESOURCE
from tests.scenarios.target import Target

THRESHOLDS: Final = {
    "lowThresholds": {"cpu": 30},
    "highThresholds": {"cpu": 60},
    "anomalyCondition": {"consecutiveAbnormalities": 1},
    "nodeMetricExpirationSeconds": 3600,
}


async def report(api: Api, node: str, *, cpu: int, pods: Iterable[Json] = (), each: int = 0) -> None:
    """Have a node report its use in CPUs: of its system, and of each of its pods."""
    if await api.find(NODE_METRICS, node) is None:
        head = {"apiVersion": NODE_METRICS.api_version, "kind": NODE_METRICS.kind, "metadata": {"name": node}}
        await api.create({**head, "spec": {}})
    of_pods = [
        {
            "namespace": pod["metadata"]["namespace"],
            "name": pod["metadata"]["name"],
            "podUsage": {"resources": {"cpu": str(each), "memory": "64Mi"}},
        }
        for pod in pods
    ]
    system = {"resources": {"cpu": str(cpu), "memory": "1Gi"}}
    total = {"resources": {"cpu": str(cpu + each * len(of_pods)), "memory": "2Gi"}}
    status = {
        "updateTime": rfc3339(SYSTEM.wall()),
        "nodeMetric": {"nodeUsage": total, "systemUsage": system},
        "podsMetric": of_pods,
    }
    await api.patch(NODE_METRICS, node, {"status": status}, kind="merge-patch", subresource="status")


async def served(api: Api) -> bool:
    """Return whether NodeMetrics can be listed: a new kind is not there at once."""
    try:
        return await api.all(NODE_METRICS) is not None
    except ApiError:
        return False


async def test_of_three_nodes_two_are_hot_and_every_migration_lands_on_the_third(
    moving: Api, target: Target, profile: RunProfile
) -> None:
    kubectl("apply", f"--filename={ROOT}/crds/nodemetrics.slo.koordinator.sh.yaml", kubeconfig=target.admin)
    await eventually(lambda: served(moving), saying="the kind is served")
    cpus = int((await moving.get(NODE_RESOURCE, "node-0"))["status"]["allocatable"]["cpu"])
    await start_on(moving, "node-0", "web", replicas=4)
    await start_on(moving, "node-1", "api", replicas=4)
    tenth = cpus // 10
    for node, app in zip(NODES, ("web", "api", ""), strict=True):
        pods = await pods_of(moving, app) if app else []
        await report(moving, node, cpu=4 * tenth if app else 0, pods=pods, each=tenth)
    with profile("balance", "LowNodeLoad", THRESHOLDS):
        await eventually(lambda: jobs(moving), within=WITHIN, saying="a migration is made")
        made = await moved(moving, trigger="LowNodeLoad")
    assert {job["status"]["nodeName"] for job in made} == {"node-2"}
    assert {"node-0", "node-1"} >= set(await hosts(moving)) - {"node-2"}
