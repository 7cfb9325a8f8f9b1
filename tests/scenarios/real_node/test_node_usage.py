"""What a node reports of itself, its system and its pods, beside the counters that the kernel shows to anybody.

The pods' load changes every few seconds. All processes of this machine count as the node's, and what runs in no pod of
the node as its system's: the other components of the test, and whatever else runs here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from dra.engine.usage.kernel_files import NANOS_PER_TICK, parse_meminfo, parse_stat
from dra.model.quantities import parse
from tests.cluster import keeper
from tests.cluster.kubectl import kubectl
from tests.scenarios import api as kubernetes
from tests.scenarios import installation, objects
from tests.scenarios.api import ApiError
from tests.scenarios.eventually import eventually
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import NODE_METRICS, PODS, Resource
from tests.scenarios.target import Capability, Mode

if TYPE_CHECKING:
    from tests.cluster.node import RealNode
    from tests.scenarios.api import Api, Json
    from tests.scenarios.namespaces import Namespace
    from tests.scenarios.real_node.conftest import StartPlugin
    from tests.scenarios.target import Target

pytestmark = [pytest.mark.needs(Capability.KUBELET, Capability.COMPONENTS), pytest.mark.modes(Mode.ALONGSIDE)]

CLOSE: Final = 0.05
"""Share by which a report may differ from the counters."""

COARSE_MILLI: Final = 15.0
"""Milli-CPUs that the ticks of a hundredth of a second cannot tell."""

CHANGING: Final = """
dd if=/dev/zero of=/dev/shm/held bs=1M count=48 2>/dev/null
while :; do
  timeout 2 sh -c 'while :; do :; done'
  sleep 1
  timeout 1 sh -c 'while :; do :; done'
  sleep 2
done
"""
"""For a shell: 48 MiB of memory, and a CPU for three of six seconds."""

RIGHTS: Final = ("node-rights.yaml", "own-node-metrics.yaml")


@dataclass(frozen=True)
class Truth:
    """The counters at one moment."""

    at: float
    node_nanos: int
    node_bytes: int
    pod_nanos: int
    pod_bytes: int

    @property
    def beside_nanos(self) -> int:
        """CPU time of the node beside the pod."""
        return self.node_nanos - self.pod_nanos


class Witness:
    """Reads the counters each half second."""

    def __init__(self, pod: str) -> None:
        self.folders: Final = {each: Path("/sys/fs/cgroup", each, pod) for each in ("cpuacct", "memory")}
        self.seen: Final[list[Truth]] = []

    async def watch(self) -> None:
        while True:
            self.seen.append(self._read())
            await asyncio.sleep(0.5)

    def _read(self) -> Truth:
        memory = (self.folders["memory"] / "memory.stat").read_text()
        (inactive,) = (int(line.split()[1]) for line in memory.splitlines() if line.startswith("total_inactive_file "))
        return Truth(
            at=time.time(),
            node_nanos=parse_stat(Path("/proc/stat").read_bytes()).busy * NANOS_PER_TICK,
            node_bytes=parse_meminfo(Path("/proc/meminfo").read_bytes()).used_bytes,
            pod_nanos=int((self.folders["cpuacct"] / "cpuacct.usage").read_text()),
            pod_bytes=int((self.folders["memory"] / "memory.usage_in_bytes").read_text()) - inactive,
        )

    def nearest(self, reading: float, field: str, *, window: int, now: float) -> float:
        """Return the average that is nearest to a reading, of the windows that a report may be about.

        Pods are read each ten seconds, so the window of a report ends up to a round and an interval ago, and begins up
        to a round before its length. How busy the machine is may change meanwhile.
        """
        averages = [
            self.average(field, now - end - window - more, now - end) for end in range(17) for more in range(0, 12, 2)
        ]
        return min(averages, key=lambda average: abs(average - reading))

    def average(self, field: str, since: float, until: float) -> float:
        """Return what the counters say of a time: milli-CPUs of a counter of CPU time, bytes otherwise."""
        within = [each for each in self.seen if since <= each.at <= until]
        if field.endswith("_nanos"):
            first, last = within[0], within[-1]
            used: int = getattr(last, field) - getattr(first, field)
            return used / (last.at - first.at) / 1e6
        values: list[int] = [getattr(each, field) for each in within]
        return sum(values) / len(values)


@pytest.fixture
async def reporting(
    target: Target, plugin_installed: None, real_node: RealNode, api: Api
) -> AsyncIterator[CreateNodeMetric]:
    """Installs the rights, and creates the node's NodeMetric with the times that a test asks for."""
    del plugin_installed
    crd = installation.DEPLOY.parent / "crds" / "nodemetrics.slo.koordinator.sh.yaml"
    system = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "koordinator-system"}}
    files = [crd, *(installation.DEPLOY / "colocation" / name for name in RIGHTS)]
    kubectl("apply", "--filename=-", kubeconfig=target.admin, stdin=yaml.safe_dump(system))
    for file in files:
        kubectl("apply", f"--filename={file}", kubeconfig=target.admin)
    kubectl("wait", "--for=condition=Established", f"--filename={crd}", kubeconfig=target.admin)

    async def create(*, window: int, interval: int) -> None:
        policy = {"aggregateDurationSeconds": window, "reportIntervalSeconds": interval}
        identity = {"apiVersion": NODE_METRICS.api_version, "kind": NODE_METRICS.kind}
        metadata = {"name": real_node.name}
        await api.create({**identity, "metadata": metadata, "spec": {"metricCollectPolicy": policy}})

    yield create
    kubectl("delete", "nodemetrics", "--all", kubeconfig=target.admin)


CreateNodeMetric = Callable[..., Any]


def with_colocation(node: RealNode) -> dict[str, Any]:
    """Return the settings of a plugin that samples this node's kubelet, whatever others there are."""
    return {"arguments": ("--colocation", f"--kubepods-cgroup={keeper.cgroup_of(node.folder.path)}/kubepods")}


async def pod_cgroup(node: RealNode, namespace: Namespace, pod: str) -> str:
    """Return the path of a pod's cgroup, once its container runs."""
    pid = await eventually(
        lambda: next((each.pid for each in node.containers(namespace.name, pod) if each.name), None),
        within=40.0,
        saying=f"pod {pod} runs",
    )
    assert pid is not None
    if not (path := cpuacct_path(pid)):
        pytest.skip("counters are compared with cgroup v1")
    return str(Path(path.strip("/")).parent)


def cpuacct_path(pid: int) -> str:
    """Return the path of a process in the hierarchy of CPU time; empty without cgroup v1."""
    lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text(encoding="ascii").splitlines()]
    return next((at for _, controllers, at in lines if "cpuacct" in controllers.split(",")), "")


@pytest.mark.parametrize(
    "window", [pytest.param(40, id="forty-seconds"), pytest.param(300, id="five-minutes", marks=pytest.mark.long)]
)
async def test_a_report_is_close_to_the_counters_of_the_kernel_under_changing_load(
    window: int,
    start_plugin: StartPlugin,
    namespace: Namespace,
    real_node: RealNode,
    reporting: CreateNodeMetric,
    remark: Callable[[str], None],
) -> None:
    await reporting(window=window, interval=5)
    await namespace.create(objects.pod("web", PodShape(spec=objects.ON_REAL_NODE, script=CHANGING)))
    await start_plugin(**with_colocation(real_node))
    witness = Witness(await pod_cgroup(real_node, namespace, "web"))
    watching = asyncio.create_task(witness.watch())
    try:
        await asyncio.sleep(window + 15)
        seen_at = time.time()
        before = (await namespace.api.get(NODE_METRICS, real_node.name))["status"]["updateTime"]
        status = await eventually(
            lambda: reported(namespace, real_node),
            until=lambda found: found["updateTime"] != before,
            within=20.0,
            saying="the node reports again",
        )
        now = time.time()
    finally:
        watching.cancel()
    assert now - seen_at < 20
    (web,) = (each for each in status["podsMetric"] if each["name"] == "web")
    wanted = {
        ("node", "cpu"): ("node_nanos", status["nodeMetric"]["nodeUsage"]),
        ("node", "memory"): ("node_bytes", status["nodeMetric"]["nodeUsage"]),
        ("web", "cpu"): ("pod_nanos", web["podUsage"]),
        ("web", "memory"): ("pod_bytes", web["podUsage"]),
    }
    for (subject, resource), (field, usage) in wanted.items():
        reading = float(parse(usage["resources"][resource])) * (1000 if resource == "cpu" else 1)
        truth = witness.nearest(reading, field, window=window, now=now)
        slack = CLOSE * truth + (COARSE_MILLI if resource == "cpu" else 0)
        remark(f"{subject} {resource} over {window} s: reported {reading:.0f}, counted {truth:.0f}")
        assert abs(reading - truth) <= slack, f"{subject} {resource}: reported {reading:.0f}, counted {truth:.0f}"
    system = float(parse(status["nodeMetric"]["systemUsage"]["resources"]["cpu"])) * 1000
    beside = witness.nearest(system, "beside_nanos", window=window, now=now)
    node = float(parse(status["nodeMetric"]["nodeUsage"]["resources"]["cpu"])) * 1000
    remark(f"system cpu over {window} s: reported {system:.0f}, counted {beside:.0f}")
    assert abs(system - beside) <= 2 * CLOSE * node + COARSE_MILLI
    assert (web["uid"], web["qos"], web["priority"]) == (
        (await namespace.get(PODS, "web"))["metadata"]["uid"],
        "BE",
        "koord-batch",
    )


async def reported(namespace: Namespace, node: RealNode) -> Json:
    status: Json = (await namespace.api.get(NODE_METRICS, node.name))["status"]
    return status


async def test_the_account_of_a_node_writes_the_status_of_its_own_nodemetric_only(
    start_plugin: StartPlugin, namespace: Namespace, real_node: RealNode, reporting: CreateNodeMetric
) -> None:
    """A stolen token, that is: neither another node's use, nor how the own node measures."""
    await reporting(window=60, interval=5)
    plugin = await start_plugin(**with_colocation(real_node))
    other = {"apiVersion": NODE_METRICS.api_version, "kind": NODE_METRICS.kind, "metadata": {"name": "another"}}
    await namespace.api.create({**other, "spec": {}})
    status = {"status": {"updateTime": "2026-11-28T08:00:00Z"}}
    async with kubernetes.connect(plugin.kubeconfig) as account:
        await account.patch(NODE_METRICS, real_node.name, status, subresource="status")
        with pytest.raises(ApiError, match=f"on node {real_node.name} may not write the NodeMetric of node another"):
            await account.patch(NODE_METRICS, "another", status, subresource="status")
        for name in (real_node.name, "another"):
            with pytest.raises(ApiError, match='cannot patch resource "nodemetrics"'):
                await account.patch(NODE_METRICS, name, {"spec": {"metricCollectPolicy": None}})
        with pytest.raises(ApiError, match="cannot create resource"):
            await account.create({**other, "metadata": {"name": "made"}})
        with pytest.raises(ApiError, match="cannot delete resource"):
            await account.delete(NODE_METRICS, real_node.name)
        with pytest.raises(ApiError, match="cannot list resource"):
            await account.all(Resource("v1", "ConfigMap", "configmaps"), namespace="koordinator-system")
