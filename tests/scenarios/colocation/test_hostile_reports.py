"""A node that has been taken over lies about what it uses; the controller's token is stolen; a tenant names a node.

A real API server with the shipped roles, policies and definitions, and the controller under the limit that it ships
with. Nodes are objects without kubelets: nobody but the tests writes them.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, timedelta
from functools import cache
from typing import Any, Final

import pytest

from dra.kube.clock import SYSTEM
from dra.model import quantities
from tests.cluster.cluster import Cluster
from tests.cluster.memory import Limited, NoCgroupError, installed, limited
from tests.cluster.options import Component, Options
from tests.scenarios import api as kubernetes
from tests.scenarios import installation
from tests.scenarios.api import Api, ApiError
from tests.scenarios.controller import Controller, Settings
from tests.scenarios.eventually import eventually
from tests.scenarios.resources import CRDS, NODES, Resource
from tests.scenarios.target import Capability, Mode, Place

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.long,
    pytest.mark.needs(Capability.COMPONENTS, Capability.POLICIES, Capability.RIGHTS),
]

Json = dict[str, Any]

NODE_METRICS: Final = Resource("slo.koordinator.sh/v1alpha1", "NodeMetric", "nodemetrics", namespaced=False)
CONFIG_MAPS: Final = Resource("v1", "ConfigMap", "configmaps")
DEFINITION: Final = "nodemetrics.slo.koordinator.sh"

TAKEN_OVER: Final = "taken-over"
HONEST: Final = "honest"
BATCH: Final = ("kubernetes.io/batch-cpu", "kubernetes.io/batch-memory")
CAPACITY: Final = {"cpu": "16", "memory": "64Gi", "pods": "110"}
RECLAIM: Final = 65
MOST: Final = (16_000 * RECLAIM // 100, (64 << 30) * RECLAIM // 100)
"""The reclaim threshold of the capacity: milli-CPUs and bytes."""

MEMORY_MAX: Final = 150 << 20
"""Bytes that the controller may need beside all reports."""
WITHIN: Final = 30.0


@dataclass
class Stage:
    """The cluster, the controller, and the accounts that are tried."""

    cluster: Cluster
    controller: Controller
    memory: Limited
    api: Api
    plugin: Api
    """The kubelet plugin's account on the node that has been taken over."""
    thief: Api
    """The controller's account."""
    turn: int = 0

    async def offered(self, node: str) -> tuple[int, int]:
        """Return the batch resources of a node."""
        status = (await self.api.get(NODES, node))["status"]
        amounts = [status["allocatable"].get(name, "0") for name in BATCH]
        assert amounts == [status["capacity"].get(name, "0") for name in BATCH]
        cpu, memory = (int(quantities.parse(each)) for each in amounts)
        return cpu, memory

    async def report(self, status: Json, *, node: str = TAKEN_OVER, via: Api | None = None) -> str:
        """Write the status of a NodeMetric; return why the API server refuses, nothing if it does not."""
        try:
            await (via or self.plugin).patch(NODE_METRICS, node, {"status": status}, subresource="status")
        except ApiError as error:
            return str(error)
        return ""

    async def caught_up(self) -> None:
        """Return when the controller has seen everything until now: it offers what another node reports after it."""
        self.turn += 1
        cpu = 1000 + 500 * (self.turn % 8)
        assert await self.report(honest(cpu=cpu), node=HONEST, via=self.api) == ""
        await eventually(
            lambda: self.offered(HONEST),
            until=lambda found: found[0] == MOST[0] - cpu,
            within=WITHIN,
            saying="the controller serves the honest node",
        )
        self.controller.process.raise_if_dead()
        assert self.memory.kills == 0


def honest(*, cpu: int = 1000, memory: int = 1 << 30, ahead: timedelta = timedelta()) -> Json:
    """Return a report of a node whose system uses this much."""
    return {
        "updateTime": (SYSTEM.wall().astimezone(UTC) + ahead).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "nodeMetric": {
            "nodeUsage": usage(f"{cpu}m", str(memory)),
            "systemUsage": usage(f"{cpu}m", str(memory)),
        },
        "podsMetric": [],
    }


def usage(cpu: object, memory: object) -> Json:
    return {"resources": {"cpu": cpu, "memory": memory}}


def lying(system: object, *, pods: object = ()) -> Json:
    """Return a report whose system, or pods, are a lie."""
    report = honest()
    report["nodeMetric"]["systemUsage"] = system
    report["podsMetric"] = pods if isinstance(pods, str) else [*pods]  # type: ignore[misc]
    return report


def crowd(count: int, *, name: str = "p", amount: str = "-1") -> list[Json]:
    return [{"namespace": "default", "name": f"{name}{n}", "podUsage": usage(amount, amount)} for n in range(count)]


@cache
def lies() -> dict[str, Json]:
    """Return statuses that no sane node reports, by name; some are of many MiB.

    With all of them the node would have offered less before.
    """
    return {
        "negative": lying(usage("-64", "-256Gi")),
        "negative-pods": lying(usage("1", "1Gi"), pods=crowd(100)),
        "huge": lying(usage("1e30", "9223372036854775807")),
        "not-a-number": lying(usage("NaN", "Infinity")),
        "words": lying(usage("much", "")),
        "exponents": lying(usage("-1e3", "-1E18")),
        "large-exponents": lying(usage("1e999999999", "1e-999999999")),
        "many-digits": lying(usage("9" * 100_000, "-" + "9" * 100_000)),
        "numbers": lying(usage(-4, -(2**63))),
        "fractions": lying(usage(-0.5, 1.5)),
        "booleans": lying({"resources": {"cpu": False, "memory": True}}),
        "lists": lying(usage([], {})),
        "a-system-that-is-a-number": lying(0),
        "a-system-without-cpu": lying({"resources": {"memory": "1Gi"}}),
        "a-system-without-anything": lying({}),
        "no-system": lying(None),
        "pods-that-are-a-word": lying(usage("1", "1Gi"), pods="none"),
        "a-thousand-pods-that-give-back": lying(usage("1", "1Gi"), pods=crowd(1000, amount="-1000")),
        "5000-pods": lying(usage("-1", "-1"), pods=crowd(5000)),
        "100000-pods": lying(usage("1", "1Gi"), pods=crowd(100_000)),
        "a-megabyte-of-names": lying(usage("1", "1Gi"), pods=crowd(1000, name="x" * 1000)),
        "from-tomorrow": lying(usage("-1", "-1Gi")) | {"updateTime": "2126-01-01T00:00:00Z"},
        "from-the-year-9999": lying(usage("1", "1Gi")) | {"updateTime": "9999-12-31T23:59:59Z"},
        "of-no-time": lying(usage("1", "1Gi")) | {"updateTime": "yesterday"},
    }


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[Cluster]:
    if Place.chosen() is not Place.LOCAL:
        pytest.skip("limits the memory of a process, and loosens a definition: a cluster of its own")
    without = frozenset({Component.SCHEDULER, Component.NODES})
    with Cluster(Options(nodes=0, without=without)) as running:
        installation.install(running.admin_kubeconfig)
        installation.install(running.admin_kubeconfig, kustomization=installation.DEPLOY / "colocation")
        yield running


@pytest.fixture
async def stage(own_cluster: Cluster) -> AsyncIterator[Stage]:
    cluster = own_cluster
    admin, folder = cluster.admin_kubeconfig, cluster.folder.path
    try:
        with limited("controller", mebibytes=installed("controller")) as memory:
            async with kubernetes.connect(admin) as api:
                await _prepare(api)
                token = installation.controller_kubeconfig(admin, folder)
                own = {"colocation": True, "leaderElection": {"enabled": False}}
                controller = Controller(
                    cluster.folder,
                    Settings(kubeconfig=token, mode=Mode.ALONGSIDE, configuration=own),
                    name="hostile-reports",
                )
                controller.process.command = memory.within(controller.process.command)
                account = installation.plugin_kubeconfig(admin, folder, node=TAKEN_OVER)
                try:
                    await controller.start()
                    async with kubernetes.connect(account) as plugin, kubernetes.connect(token) as thief:
                        stage = Stage(cluster, controller, memory, api, plugin, thief)
                        await eventually(
                            lambda: api.find(NODE_METRICS, TAKEN_OVER), within=WITHIN, saying="there is a NodeMetric"
                        )
                        yield stage
                finally:
                    controller.process.kill()
    except NoCgroupError as error:
        pytest.skip(f"no memory limit can be set here: {error}")


async def _prepare(api: Api) -> None:
    """Create the nodes and the configuration, unless a test before has."""
    strategy = {
        "enable": True,
        "cpuReclaimThresholdPercent": RECLAIM,
        "memoryReclaimThresholdPercent": RECLAIM,
        "resourceDiffThreshold": 0.0001,
        "updateTimeThresholdSeconds": 1,
    }
    data = {"colocation-config": json.dumps(strategy)}
    metadata = {"name": "slo-controller-config", "namespace": "koordinator-system"}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    path = CONFIG_MAPS.path(namespace="koordinator-system")
    for node in (TAKEN_OVER, HONEST):
        if await api.find(NODES, node) is None:
            status = {"capacity": CAPACITY, "allocatable": CAPACITY}
            await api.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}, "status": status})
    if await api.find(CONFIG_MAPS, "slo-controller-config", namespace="koordinator-system") is None:
        await api.request("POST", path, config_map)


async def offers_honestly(stage: Stage) -> tuple[int, int]:
    """Let the node tell the truth; return what it offers then."""
    assert await stage.report(honest()) == ""
    wanted = (MOST[0] - 1000, MOST[1] - (1 << 30))
    return await eventually(
        lambda: stage.offered(TAKEN_OVER),
        until=lambda found: all(abs(one - other) <= 1 for one, other in zip(found, wanted, strict=True)),
        within=WITHIN,
        saying="the node offers what its report leaves",
    )


async def test_a_nodes_account_writes_the_status_of_its_own_report_alone(stage: Stage) -> None:
    before = await stage.offered(HONEST)
    assert await stage.report(honest()) == ""
    other = await stage.report(lying(usage("0", "0")), node=HONEST)
    assert "may not write the NodeMetric of node honest" in other
    path = NODE_METRICS.path(name=TAKEN_OVER)
    body = {"apiVersion": NODE_METRICS.api_version, "kind": "NodeMetric", "metadata": {"name": "another"}}
    for method, at, content in (
        ("PATCH", path, {"spec": {"metricCollectPolicy": {"reportIntervalSeconds": 3600}}}),
        ("PATCH", path, {"metadata": {"ownerReferences": None}}),
        ("DELETE", path, None),
        ("POST", NODE_METRICS.path(), body),
        ("PATCH", NODES.path(name=TAKEN_OVER, subresource="status"), {"status": {"capacity": {BATCH[0]: "99000"}}}),
    ):
        with pytest.raises(ApiError) as refused:
            await stage.plugin.request(method, at, content, content_type="application/merge-patch+json")
        assert refused.value.status in (403, 415), (method, at)
    assert await stage.offered(HONEST) == before


async def test_no_lie_of_a_node_raises_what_it_offers_or_stops_the_controller(stage: Stage, remark: Any) -> None:
    truth = await offers_honestly(stage)
    refused = []
    for lie, status in lies().items():
        if await stage.report(status):
            refused.append(lie)
        await stage.caught_up()
        found = await stage.offered(TAKEN_OVER)
        assert all(one <= other + 1 for one, other in zip(found, truth, strict=True)), lie
    count = f"{len(refused)} of {len(lies())} are refused by the definition"
    remark(f"hostile reports: {count}; peak {stage.memory.peak >> 20} MiB")
    assert stage.memory.peak < MEMORY_MAX
    assert await offers_honestly(stage) == truth


async def test_lies_that_a_looser_definition_stores_raise_nothing(stage: Stage, remark: Any) -> None:
    """Koordinator's own definition, and those of older versions, check less; here nothing is checked at all."""
    kept = await stage.api.get(CRDS, DEFINITION)
    loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    versions = [each | {"schema": {"openAPIV3Schema": loose}} for each in kept["spec"]["versions"]]
    truth = await offers_honestly(stage)
    try:
        await stage.api.patch(CRDS, DEFINITION, {"spec": {"versions": versions}})
        await eventually(
            lambda: stage.report(lies()["words"]), until=lambda text: not text, within=WITHIN, saying="it is in force"
        )
        refused = []
        for lie, status in lies().items():
            if await stage.report(status):
                refused.append(lie)
            await stage.caught_up()
            found = await stage.offered(TAKEN_OVER)
            assert all(one <= other + 1 for one, other in zip(found, truth, strict=True)), lie
    finally:
        await stage.api.patch(CRDS, DEFINITION, {"spec": {"versions": kept["spec"]["versions"]}})
    remark(f"hostile reports, unchecked: refused {refused}; peak {stage.memory.peak >> 20} MiB")
    assert stage.memory.peak < MEMORY_MAX
    assert await offers_honestly(stage) == truth


async def test_a_report_of_nothing_offers_no_more_than_the_reclaim_threshold(stage: Stage) -> None:
    """No cluster can tell that a node that says so is not idle."""
    await offers_honestly(stage)
    assert await stage.report(lying(usage("0", "0"))) == ""
    await stage.caught_up()
    found = await stage.offered(TAKEN_OVER)
    assert all(one <= other + 1 for one, other in zip(found, MOST, strict=True))


async def test_a_pod_that_names_its_node_itself_raises_nothing(stage: Stage) -> None:
    truth = await offers_honestly(stage)
    amounts = {BATCH[0]: "9000000000", BATCH[1]: "9000000000000000"}
    container = {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "greedy-"},
        "spec": {"nodeName": TAKEN_OVER, "automountServiceAccountToken": False, "containers": [container]},
    }
    for _ in range(3):
        await stage.api.create(pod, namespace="default")
    await stage.caught_up()
    assert await stage.offered(TAKEN_OVER) == truth


async def test_a_stolen_token_of_the_controller_writes_batch_resources_of_nodes_alone(stage: Stage) -> None:
    await offers_honestly(stage)
    status = NODES.path(name=TAKEN_OVER, subresource="status")
    node, metric = NODES.path(name=TAKEN_OVER), NODE_METRICS.path(name=TAKEN_OVER)
    own = {BATCH[0]: "5", BATCH[1]: "7"}
    ready = [{"type": "Ready", "status": "True"}]
    refused = {}
    for row, method, path, body in (
        ("cpu", "PATCH", status, {"status": {"capacity": {"cpu": "512"}}}),
        ("another-resource", "PATCH", status, {"status": {"allocatable": own | {"example.com/gpu": "8"}}}),
        ("resource-removed", "PATCH", status, {"status": {"capacity": {"memory": None}}}),
        ("conditions", "PATCH", status, {"status": {"conditions": ready}}),
        ("addresses", "PATCH", status, {"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.66"}]}}),
        ("kubelet-port", "PATCH", status, {"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 666}}}}),
        ("label-by-status", "PATCH", status, {"metadata": {"labels": {"evil": "1"}}, "status": {"capacity": own}}),
        ("annotation-by-status", "PATCH", status, {"metadata": {"annotations": {"evil": "1"}}}),
        ("finalizer-by-status", "PATCH", status, {"metadata": {"finalizers": ["evil.example.com/x"]}}),
        ("taints", "PATCH", node, {"spec": {"taints": []}}),
        ("unschedulable", "PATCH", node, {"spec": {"unschedulable": True}}),
        ("strategy", "PATCH", node, {"metadata": {"labels": {"node.koordinator.sh/cpu-reclaim-ratio": "9"}}}),
        ("delete-node", "DELETE", node, None),
        ("report", "PATCH", f"{metric}/status", {"status": honest(cpu=0)}),
        ("delete-report", "DELETE", metric, None),
        ("owner-of-a-report", "PATCH", metric, {"metadata": {"ownerReferences": None}}),
        ("labels-of-a-report", "PATCH", metric, {"metadata": {"labels": {"evil": "1"}}}),
        (
            "configuration",
            "PATCH",
            CONFIG_MAPS.path(namespace="koordinator-system", name="slo-controller-config"),
            {"data": {"colocation-config": "{}"}},
        ),
    ):
        try:
            await stage.thief.request(
                method, path, body, query={"dryRun": "All"}, content_type="application/merge-patch+json"
            )
        except ApiError as error:
            refused[row] = error.status
        else:
            refused[row] = 200
    assert {row: found in (403, 415, 422) for row, found in refused.items()} == dict.fromkeys(refused, True), refused
    allowed = {"status": {"capacity": own, "allocatable": own}}
    query = {"dryRun": "All"}
    await stage.thief.request("PATCH", status, allowed, query=query, content_type="application/merge-patch+json")
