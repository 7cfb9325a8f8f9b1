"""Batch pods on a real node: the plugin with --colocation, what it is configured with, and the kernel's files.

Other programs use the machine's CPUs while a scenario runs, as much as they like. So the plugin sees a /proc/stat in
which nothing but the node's own pods, and a tenth of a CPU, is in use: what is decided follows from the pods alone.
"""

from __future__ import annotations

import json
import os
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from tests.cluster import keeper
from tests.cluster.kubectl import kubectl
from tests.cluster.ports import LOOPBACK, free
from tests.scenarios import metrics, objects
from tests.scenarios.eventually import eventually
from tests.scenarios.objects import PodShape
from tests.scenarios.real_node import cpus
from tests.scenarios.real_node import plugin as gpus
from tests.scenarios.resources import NODES, PODS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.node import RealNode
    from tests.scenarios.api import Api, Json
    from tests.scenarios.namespaces import Namespace

SYSTEM_MILLI: Final = 100
"""CPUs that nobody's pod uses, in the /proc/stat of the plugin."""

CONFIG_MAP: Final = "slo-controller-config"
CONFIG_NAMESPACE: Final = "koordinator-system"
MANIFESTS: Final = (
    "crds/nodemetrics.slo.koordinator.sh.yaml",
    "deploy/colocation/node-rights.yaml",
    "deploy/colocation/own-node-metrics.yaml",
)
ON: Final[Json] = {"enable": True, "cpuSuppressThresholdPercent": 65, "cpuSuppressPolicy": "cfsQuota"}
OFF: Final[Json] = {"enable": False}

BUSY: Final = "while :; do :; done"
WITHIN: Final = 60.0
"""Seconds for what kubelet and plugin do; what takes a second on a machine with nothing else to do."""

_WRITE_INTERVAL: Final = 0.02
_LINE: Final = "{:<120}\n"
_MOUNTING: Final = ("unshare", "--mount", "sh", "-ec", 'mount --bind "$0" /proc/stat; exec "$@"')


class BatchPlugin(gpus.Plugin):
    """The plugin with its CPU driver and, unless told otherwise, with --colocation."""

    def __init__(self, node: RealNode, *, kubeconfig: Path, stat: Path) -> None:
        """`stat`: what it sees in place of /proc/stat."""
        self.node = node
        self.folder = node.plugins / cpus.DRIVER
        self._probes, self._metrics = free(2)
        self._command = [
            *(*_MOUNTING, str(stat)),
            *gpus.COMMAND,
            "--drivers=cpu",
            "--reserved-cpus=0",
            f"--kubepods-cgroup={keeper.cgroup_of(node.folder.path)}/kubepods",
            f"--kubelet={node.plugins.parent}",
            f"--node-name={node.name}",
            f"--kubeconfig={kubeconfig}",
            f"--plugins={node.plugins}",
            f"--registry={node.plugins_registry}",
            f"--cdi={node.cdi}",
            f"--probes={LOOPBACK}:{self._probes}",
            f"--metrics={LOOPBACK}:{self._metrics}",
            "--log-format=text",
            "--pod-uid=batch",
        ]
        self.process = node.folder.process("batch-plugin", [*self._command, "--colocation"])

    async def restart(self, *, colocation: bool) -> None:
        """Kill it and start it again."""
        self.crash()
        self.process.command = [*self._command, *(["--colocation"] if colocation else [])]
        await self.start()

    async def metric(self, name: str, labels: str = "") -> float | None:
        """Return one of its metrics."""
        _, text = await self._get(self._metrics, "/metrics")
        return metrics.parse(text).get(f"dra_reserve_node_{name}{labels}")


class BatchNode:
    """The cgroups of a node's pods, cgroup v1."""

    def __init__(self, node: RealNode) -> None:
        self._kubepods = f"{keeper.cgroup_of(node.folder.path)}/kubepods"

    def folder(self, controller: str, qos: str = "besteffort", pod: Json | None = None) -> Path:
        """Return the cgroup of a class, or of a pod in it."""
        folder = Path("/sys/fs/cgroup", controller, self._kubepods, qos)
        return folder if pod is None else folder / f"pod{pod['metadata']['uid']}"

    def values(self, pod: Json, *, container: bool = False) -> list[int]:
        """Return shares, quota and memory limit of a batch pod, or of its container."""
        found = []
        for controller, name in (
            ("cpu", "cpu.shares"),
            ("cpu", "cpu.cfs_quota_us"),
            ("memory", "memory.limit_in_bytes"),
        ):
            folder = self.folder(controller, pod=pod)
            if container:
                (status,) = pod["status"]["containerStatuses"]
                folder /= status["containerID"].rpartition("/")[2]
            found.append(int((folder / name).read_text()))
        return found

    @property
    def quota(self) -> int:
        """The quota of the class BestEffort."""
        return int((self.folder("cpu") / "cpu.cfs_quota_us").read_text())

    def used_seconds(self, qos: str = "besteffort", pod: Json | None = None) -> float:
        """Return the CPU time of a class, or of a pod in it."""
        return int((self.folder("cpuacct", qos, pod) / "cpuacct.usage").read_text()) / 1e9

    def periods(self) -> int:
        """Return how many periods of the class's quota have passed in which it wanted to run."""
        (line,) = (x for x in (self.folder("cpu") / "cpu.stat").read_text().splitlines() if x.startswith("nr_periods"))
        return int(line.split()[1])

    @contextmanager
    def own_stat(self, file: Path) -> Iterator[Path]:
        """Keep a file that is /proc/stat of a machine on which only the node's pods and a small system run."""
        began, done = time.monotonic(), threading.Event()
        counter = self.folder("cpuacct").parent / "cpuacct.usage"
        first = int(counter.read_text()) if counter.exists() else 0

        def write() -> None:
            pods = (int(counter.read_text()) if counter.exists() else first) - first
            ticks = round(pods / 1e7 + (time.monotonic() - began) * SYSTEM_MILLI / 10)
            os.pwrite(descriptor, _LINE.format(f"cpu  {ticks} 0 0 500 0 0 0 0 0 0").encode(), 0)

        def keep_writing() -> None:
            while not done.wait(_WRITE_INTERVAL):
                write()

        descriptor = os.open(file, os.O_RDWR | os.O_CREAT)
        write()
        thread = threading.Thread(target=keep_writing, name="own /proc/stat")
        thread.start()
        try:
            yield file
        finally:
            done.set()
            thread.join()
            os.close(descriptor)


def install(admin: Path, strategy: Json) -> None:
    """Install what colocation on nodes needs, with the strategy of all nodes."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": CONFIG_NAMESPACE}}
    manifests = [(gpus.TREE / name).read_text(encoding="utf-8") for name in MANIFESTS]
    everything = "\n---\n".join([yaml.safe_dump(namespace), *manifests, yaml.safe_dump(config_map(strategy))])
    kubectl("apply", "--filename=-", kubeconfig=admin, stdin=everything)


def configure(admin: Path, strategy: Json) -> None:
    """Change the strategy of all nodes."""
    kubectl("apply", "--filename=-", kubeconfig=admin, stdin=yaml.safe_dump(config_map(strategy)))


def config_map(strategy: Json) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP, "namespace": CONFIG_NAMESPACE},
        "data": {"resource-threshold-config": json.dumps({"clusterStrategy": strategy})},
    }


async def publish(api: Api, node: RealNode, *, cpu: int, memory: str = "1Gi") -> None:
    """Publish batch resources of a node, as the controller does."""
    amounts = {"kubernetes.io/batch-cpu": str(cpu), "kubernetes.io/batch-memory": memory}
    patch = {"status": {"capacity": amounts, "allocatable": amounts}}
    await api.patch(NODES, node.name, patch, subresource="status")


def batch_pod(name: str, *, cpu: str, request: str | None = None, memory: str = "64Mi", script: str = BUSY) -> Json:
    """Return a batch pod with one container."""
    limits = {"kubernetes.io/batch-cpu": cpu, "kubernetes.io/batch-memory": memory}
    labels = {"koordinator.sh/qosClass": "BE"}
    body = objects.pod(name, PodShape(spec=objects.ON_REAL_NODE, script=script, labels=labels))
    body["spec"]["containers"][0]["resources"] = {
        "requests": limits | ({"kubernetes.io/batch-cpu": request} if request else {}),
        "limits": limits,
    }
    return body


async def run(namespace: Namespace, body: Json) -> Json:
    """Create a pod, and return it when its container runs."""
    await namespace.create(body)
    return await running(namespace, body["metadata"]["name"])


async def running(namespace: Namespace, name: str) -> Json:
    """Return a pod when its container runs."""

    def runs(pod: Any) -> bool:
        return any("running" in each["state"] for each in pod["status"].get("containerStatuses", []))

    return await eventually(
        lambda: namespace.get(PODS, name), until=runs, within=WITHIN, saying=f"the container of pod {name} runs"
    )
