"""What people see of colocation: two reports written by hand, the ConfigMap, and the same numbers everywhere."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pytest

from dra.api.colocation.node_metric_crd import custom_resource_definition
from dra.cli.cluster_flags import ClusterFlags
from dra.cli.kubectl.connection import connect
from dra.cli.page.own_feed import own_feed
from dra.cli.page.views import COLUMNS
from dra.kube.clock import SYSTEM
from tests.cluster.kubectl import kubectl
from tests.scenarios import plugin_of_kubectl
from tests.scenarios.eventually import eventually
from tests.scenarios.target import Mode

if TYPE_CHECKING:
    from tests.scenarios.target import Target

pytestmark = pytest.mark.modes(Mode.REPLACE)

Json = dict[str, Any]

NODES: Final = ("used-a", "used-b")
CRD: Final = "nodemetrics.slo.koordinator.sh"
SPACE: Final = "koordinator-system"
SIZES: Final = {"cpu": "16", "memory": "64Gi", "pods": "110"}
OFFERED: Final = {"kubernetes.io/batch-cpu": "4100", "kubernetes.io/batch-memory": "16Gi"}
STRATEGY: Final = {
    "enable": True,
    "cpuReclaimThresholdPercent": 65,
    "nodeConfigs": [
        {"name": "b", "nodeSelector": {"matchLabels": {"pool": "b"}}, "cpuReclaimThresholdPercent": 70, "enable": True}
    ],
}


def _use(cpu: str, memory: str) -> Json:
    return {"resources": {"cpu": cpu, "memory": memory}}


class ColocatedNodes:
    """Two nodes with NodeMetrics, and the ConfigMap; all are deleted at the end."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def make(self) -> None:
        """Create everything."""
        self._apply(custom_resource_definition())
        self._kubectl("wait", "--for=condition=Established", f"crd/{CRD}", "--timeout=60s")
        self._apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
        self.configure(json.dumps(STRATEGY))
        for name in NODES:
            labels = {"pool": name[-1], "kubernetes.io/hostname": name}
            self._apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
            sizes = {"capacity": SIZES | OFFERED, "allocatable": SIZES | OFFERED}
            self._patch_status("node", name, sizes)
            self._apply({"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": {"name": name}})
        self.report(NODES[0], SYSTEM.wall())
        self.report(NODES[1], datetime(2026, 1, 1, tzinfo=UTC))

    def report(self, name: str, at: datetime) -> None:
        """Write the report of a node."""
        info = {"nodeUsage": _use("6", "20Gi"), "systemUsage": _use("500m", "1Gi")}
        status = {"updateTime": at.strftime("%Y-%m-%dT%H:%M:%SZ"), "nodeMetric": info, "podsMetric": []}
        self._patch_status("nodemetric", name, status)

    def configure(self, text: str) -> None:
        """Write the key of colocation."""
        metadata = {"name": "slo-controller-config", "namespace": SPACE}
        self._apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"colocation-config": text}}
        )

    def remove(self) -> None:
        """Delete everything."""
        self._kubectl("delete", "node", *NODES, "--ignore-not-found")
        self._kubectl("delete", "configmap", "slo-controller-config", f"--namespace={SPACE}", "--ignore-not-found")
        self._kubectl("delete", "crd", CRD, "--ignore-not-found")

    def _apply(self, content: Json) -> None:
        self._kubectl("apply", "--filename=-", stdin=json.dumps(content))

    def _patch_status(self, kind: str, name: str, status: Json) -> None:
        body = json.dumps({"status": status})
        self._kubectl("patch", kind, name, "--subresource=status", "--type=merge", f"--patch={body}")

    def _kubectl(self, *words: str, stdin: str = "") -> None:
        kubectl(*words, kubeconfig=self._target.admin, stdin=stdin)


@pytest.fixture(scope="module")
def nodes(target: Target) -> Iterator[ColocatedNodes]:
    made = ColocatedNodes(target)
    made.make()
    yield made
    made.remove()


async def _rows(target: Target) -> dict[tuple[str, str], Json]:
    _, text = await plugin_of_kubectl.dra(target.admin, "usage", "--batch", "--output=json")
    items = json.loads(text)["items"]
    return {(each["node"], each["resource"].partition("-")[2]): each for each in items if each["node"] in NODES}


@pytest.mark.usefixtures("nodes")
async def test_usage_has_what_is_used_offered_and_left(target: Target) -> None:
    rows = await _rows(target)
    cpu = rows["used-a", "cpu"]
    assert {key: cpu[key] for key in ("capacity", "used", "offered", "held", "left", "sampling")} == {
        "capacity": 16000,
        "used": 6000,
        "offered": 4100,
        "held": 0,
        "left": 4100,
        "sampling": "fresh",
    }
    assert rows["used-b", "memory"]["sampling"] == "stale"


@pytest.mark.usefixtures("nodes")
async def test_explain_node_shows_the_sum_and_where_its_ratio_is_from(target: Target) -> None:
    _, text = await plugin_of_kubectl.dra(target.admin, "explain", "node", "used-a")
    assert "  - margin      5600m  65 % may be used (cpuReclaimThresholdPercent: cluster)" in text
    assert "  = sum         9900m" in text
    assert "  differs   4100m is offered until the controller writes 9900m" in text
    _, text = await plugin_of_kubectl.dra(target.admin, "explain", "node", "used-b")
    assert "cpuReclaimThresholdPercent 70 (nodeConfig b)" in text
    assert "NodeNotSampled: node used-b: its NodeMetric was last reported at 2026-01-01T00:00:00Z" in text


@pytest.mark.usefixtures("nodes")
async def test_the_page_has_the_same_numbers_in_the_rows_of_nodes(target: Target) -> None:
    at = {name: index for index, name in enumerate(COLUMNS["nodes"])}
    async with (
        connect(ClusterFlags(kubeconfig=str(target.admin))) as connection,
        own_feed(connection, namespace="default", lease_namespace="dra-reserve") as feed,
    ):

        def cells(name: str) -> tuple[str, ...]:
            row = feed.tables.views["nodes"].by_key.get(name, ("",) * len(at))
            return tuple(row[at[column]] for column in ("CPU", "BATCH-CPU", "SAMPLED"))

        await eventually(
            lambda: asyncio.sleep(0, (cells("used-a"), cells("used-b"))),
            until=lambda found: (
                found == (("6000/0/16000", "0/4100", "fresh"), ("6000/0/16000", "0/4100", "stale 2026-01-01T00:00:00Z"))
            ),
            saying="the page shows what both nodes use",
        )


async def test_a_broken_config_map_is_told_with_its_key_and_node_config(target: Target, nodes: ColocatedNodes) -> None:
    await asyncio.to_thread(nodes.configure, json.dumps(STRATEGY | {"degradeTimeMinutes": 0}))
    _, text = await plugin_of_kubectl.dra(target.admin, "preflight", "--output=json", "--self")
    (check,) = [each for each in json.loads(text)["checks"] if each["check"] == "colocation"]
    assert "colocation-config: degradeTimeMinutes: 0 is out of range" in check["detail"]
    _, text = await plugin_of_kubectl.dra(target.admin, "audit", "--output=json")
    assert "ColocationConfigInvalid" in {each["trouble"] for each in json.loads(text)["problems"]}
    await asyncio.to_thread(nodes.configure, json.dumps(STRATEGY))
