"""Pods leave hot nodes for receivers alone: kube-scheduler would move them from one hot node to the next."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pytest

from dra.kube.clock import SYSTEM, rfc3339
from tests.cluster.kubectl import kubectl
from tests.scenarios import accounts
from tests.scenarios.api import Api, ApiError, Json
from tests.scenarios.descheduling.conftest import RunProfile
from tests.scenarios.descheduling.test_rounds import WITHIN, hosts, jobs, moved, start_on
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.namespaces import Namespace
from tests.scenarios.reservations.conftest import NODES, ROOT
from tests.scenarios.reservations.migrations import pods_of
from tests.scenarios.resources import NODE_METRICS, PODS
from tests.scenarios.resources import NODES as NODE_RESOURCE
from tests.scenarios.target import Capability, Target

THRESHOLDS: Final = {
    "lowThresholds": {"cpu": 30},
    "highThresholds": {"cpu": 60},
    "anomalyCondition": {"consecutiveAbnormalities": 1},
    "nodeMetricExpirationSeconds": 3600,
}


async def report(
    api: Api,
    node: str,
    *,
    cpu: int,
    pods: Iterable[Json] = (),
    each: int = 0,
    pressure: float = 0.0,
    at_floor: bool = False,
) -> None:
    """Have a node report its use in CPUs, of its system and of each of its pods.

    ``pressure``: percent of the last minute in which the pods waited for CPUs; ``at_floor``: whether batch pods are
    held back as far as they can be.
    """
    if await api.find(NODE_METRICS, node) is None:
        await api.create(metric(node))
    status = usage(cpu=cpu, pods=pods, each=each, pressure=pressure, at_floor=at_floor)
    await api.patch(NODE_METRICS, node, {"status": status}, kind="merge-patch", subresource="status")


def metric(node: str) -> Json:
    """Return the NodeMetric of a node that has reported nothing."""
    head = {"apiVersion": NODE_METRICS.api_version, "kind": NODE_METRICS.kind, "metadata": {"name": node}}
    return {**head, "spec": {}}


def usage(*, cpu: int, pods: Iterable[Json], each: int, pressure: float = 0.0, at_floor: bool = False) -> Json:
    """Return what a node reports, as `report` has it."""
    of_pods = [
        {
            "namespace": pod["metadata"]["namespace"],
            "name": pod["metadata"]["name"],
            "uid": pod["metadata"]["uid"],
            "psi": {"cpu": {"some": {"avg60": pressure}}},
            "podUsage": {"resources": {"cpu": str(each), "memory": "64Mi"}},
        }
        for pod in pods
    ]
    system = {"resources": {"cpu": str(cpu), "memory": "1Gi"}}
    total = {"resources": {"cpu": str(cpu + each * len(of_pods)), "memory": "2Gi"}}
    return {
        "updateTime": rfc3339(SYSTEM.wall()),
        "nodeMetric": {"nodeUsage": total, "systemUsage": system},
        "podsMetric": of_pods,
        "suppression": {"atFloor": at_floor},
    }


async def served(api: Api) -> bool:
    """Return whether NodeMetrics can be listed: a new kind is not there at once."""
    try:
        return await api.all(NODE_METRICS) is not None
    except ApiError:
        return False


async def offer_metrics(api: Api, target: Target) -> int:
    """Have the cluster serve NodeMetrics; return the CPUs of a node."""
    kubectl("apply", f"--filename={ROOT}/crds/nodemetrics.slo.koordinator.sh.yaml", kubeconfig=target.admin)
    await eventually(lambda: served(api), saying="the kind is served")
    return int((await api.get(NODE_RESOURCE, "node-0"))["status"]["allocatable"]["cpu"])


async def test_of_three_nodes_two_are_hot_and_every_migration_lands_on_the_third(
    moving: Api, target: Target, profile: RunProfile
) -> None:
    tenth = await offer_metrics(moving, target) // 10
    await start_on(moving, "node-0", "web", replicas=4)
    await start_on(moving, "node-1", "api", replicas=4)
    for node, app in zip(NODES, ("web", "api", ""), strict=True):
        pods = await pods_of(moving, app) if app else []
        await report(moving, node, cpu=4 * tenth if app else 0, pods=pods, each=tenth)
    with profile("balance", "LowNodeLoad", THRESHOLDS):
        await eventually(lambda: jobs(moving), within=WITHIN, saying="a migration is made")
        made = await moved(moving, trigger="LowNodeLoad")
    assert {job["status"]["nodeName"] for job in made} == {"node-2"}
    assert {"node-0", "node-1"} >= set(await hosts(moving)) - {"node-2"}


@pytest.mark.needs(Capability.RIGHTS)
async def test_what_a_tenant_writes_makes_no_pods_of_others_go_before_the_node_itself_is_hot(
    moving: Api, target: Target, profile: RunProfile, namespace: Namespace
) -> None:
    """NodeMetrics are refused to tenants; pods that copy the name, labels and owners of others count as their own."""
    tenth = await offer_metrics(moving, target) // 10
    victims = await start_on(moving, "node-0", "web", replicas=4)
    for node in NODES:
        await report(moving, node, cpu=0, pods=victims if node == "node-0" else (), each=0)
    account = await accounts.create(target, namespace, "tenant", in_namespace=[accounts.EDIT])
    async with accounts.acting(account, namespace) as tenant:
        with profile("balance", "LowNodeLoad", THRESHOLDS):
            hot = usage(cpu=4 * tenth, pods=victims, each=tenth)
            assert set(await answers(tenant, "node-0", hot)) == {403}
            for pod in victims:
                await tenant.create(copied(pod), namespace=namespace.name)

            async def stay() -> bool:
                uids = {pod["metadata"]["uid"] for pod in await pods_of(moving, "web")}
                touched = {job["spec"]["podRef"]["namespace"] for job in await jobs(moving)}
                return uids == {pod["metadata"]["uid"] for pod in victims} and touched <= {namespace.name}

            await steadily(stay, lasting=8.0, saying="the pods of the other tenant stay")
            await report(moving, "node-0", cpu=4 * tenth, pods=victims, each=tenth)
            await eventually(lambda: jobs(moving), within=WITHIN, saying="with the same report of the node pods go")
            await moved(moving, trigger="LowNodeLoad")


async def answers(tenant: Api, node: str, status: Json) -> list[int]:
    """Return the HTTP statuses of all that a tenant may try with NodeMetrics; 200 for what is not refused."""
    path, own = NODE_METRICS.path(name=node), NODE_METRICS.path(name=node, subresource="status")
    statuses = []
    for method, at, body in (
        ("POST", NODE_METRICS.path(), metric("node-3")),
        ("PATCH", own, {"status": status}),
        ("PATCH", path, {"status": status}),
        ("PATCH", path, {"metadata": {"labels": {"pool": "a"}, "ownerReferences": None}}),
        ("DELETE", path, None),
        ("DELETE", NODE_METRICS.path(), None),
    ):
        kind = "application/json" if method == "POST" else "application/merge-patch+json"
        try:
            await tenant.request(method, at, body, content_type=kind)
        except ApiError as error:
            statuses.append(error.status)
        else:
            statuses.append(200)
    return statuses


def copied(pod: Json) -> Json:
    """Return a pod with the name, labels, owners and node of another one, which says that it is latency-sensitive."""
    metadata, spec = pod["metadata"], pod["spec"]
    labels = metadata["labels"] | {"koordinator.sh/qosClass": "LSR"}
    container = {name: spec["containers"][0][name] for name in ("name", "image", "resources")}
    return {
        "apiVersion": PODS.api_version,
        "kind": PODS.kind,
        "metadata": {"name": metadata["name"], "labels": labels, "ownerReferences": metadata["ownerReferences"]},
        "spec": {"nodeName": spec["nodeName"], "schedulerName": spec["schedulerName"], "containers": [container]},
    }
