"""CPUs of one's own on a real node: the plugin with its CPU driver, and containers that say what they may run on."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.cluster import keeper
from tests.cluster.ports import LOOPBACK, free
from tests.scenarios import objects
from tests.scenarios.eventually import eventually
from tests.scenarios.objects import PodShape
from tests.scenarios.real_node import plugin as gpus

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.node import RealNode
    from tests.scenarios.api import Json
    from tests.scenarios.namespaces import Namespace

DRIVER: Final = "cpu.reserve.dra"
STATE: Final = "cpu_manager_state"

STATIC: Final[Json] = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}
"""Configuration of a kubelet that gives CPU 1 to containers itself."""

WITHIN: Final = 40.0
"""Seconds for what the kubelet does."""

_MOUNTING: Final = (
    "unshare",
    "--mount",
    "sh",
    "-ec",
    f'mkdir -p "$1"; touch "$1/{STATE}"; mount --bind "$0" "$1/{STATE}"; shift; exec "$@"',
)
"""Before the state file, the folder in which it shall be seen alone, and a command: a mount as a container has it."""

QUALITIES: Final[Json] = {
    "guaranteed": {"requests": {"cpu": "50m", "memory": "16Mi"}, "limits": {"cpu": "50m", "memory": "16Mi"}},
    "burstable": {"requests": {"cpu": "50m"}},
    "besteffort": {},
}
"""QoS class → what a container asks for to be of it."""

TELL: Final = """
while :; do
  while read -r key mask; do [ "$key" = Cpus_allowed_list: ] && break; done </proc/self/status
  read -r now _ </proc/uptime
  echo "$now $mask"
  sleep 0.05
done
"""

StartCpus = Callable[..., "CpuPlugin"]


class CpuPlugin(gpus.Plugin):
    """The plugin with its CPU driver alone."""

    def __init__(
        self,
        node: RealNode,
        instance: str,
        *,
        devices: str = "individual",
        reserved: str = "0",
        mounted: bool = False,
        kubeconfig: Path | None = None,
    ) -> None:
        """`reserved`: the CPUs that are no claim's.

        `mounted`: it sees the kubelet's state file alone, as its DaemonSet mounts it, and not the folder.
        Without a kubeconfig it has the kubelet's account.
        """
        self.node = node
        self.folder = node.plugins / DRIVER
        self._probes, self._metrics = free(2)
        pods = f"{keeper.cgroup_of(node.folder.path)}/kubepods"
        kubelet = node.plugins.parent
        host = node.folder.path / f"host-{instance}"
        command = [
            *gpus.COMMAND,
            "--drivers=cpu",
            f"--reserved-cpus={reserved}",
            f"--cpu-devices={devices}",
            f"--kubepods-cgroup={pods}",
            f"--kubelet={host if mounted else kubelet}",
            f"--node-name={node.name}",
            f"--kubeconfig={kubeconfig or node.kubeconfig}",
            f"--plugins={node.plugins}",
            f"--registry={node.plugins_registry}",
            f"--cdi={node.cdi}",
            f"--probes={LOOPBACK}:{self._probes}",
            "--log-format=text",
            f"--pod-uid={instance}",
        ]
        if mounted:
            command = [*_MOUNTING, str(kubelet / STATE), str(host), *command]
        self.process = node.folder.process(f"cpu-plugin-{instance}", command)

    async def readiness(self) -> tuple[int, str]:
        """Return what its probe says."""
        return await self._get(self._probes, "/readyz")


class Sight(NamedTuple):
    """A line of a container."""

    at: float
    """Seconds since the machine's start."""
    mask: str


def sights(node: RealNode, namespace: Namespace, pod: str) -> list[Sight]:
    """Return what a pod's container has seen so far, over all its restarts."""
    return sights_in(node.output(namespace.name, pod))


def sights_in(output: str) -> list[Sight]:
    """Return what a container that wrote this has seen."""
    return [Sight(float(at), mask) for at, mask in (line.split(" ") for line in output.splitlines())]


async def sees(node: RealNode, namespace: Namespace, pod: str, mask: str, *, within: float = WITHIN) -> Sight:
    """Wait until a container sees a mask, and return the sight."""
    found = await eventually(
        lambda: [each for each in sights(node, namespace, pod)[-1:] if each.mask == mask],
        within=within,
        saying=f"pod {pod} runs on CPUs {mask}",
    )
    return found[0]


def device_class(namespace: Namespace) -> str:
    return f"{namespace.name}-cpus"


def shape(claim: str | None = None, *, runtime: str | None = None) -> PodShape:
    spec = objects.ON_REAL_NODE | {"restartPolicy": "Always"} | ({"runtimeClassName": runtime} if runtime else {})
    return PodShape(spec=spec, script=TELL, claim=claim)


async def run(
    namespace: Namespace,
    *pods: str,
    claim: str | None = None,
    quality: str = "besteffort",
    runtime: str | None = None,
) -> None:
    """Create pods that say all the time what they may run on; `runtime` is the name of a RuntimeClass."""
    for each in pods:
        body = objects.pod(each, shape(claim, runtime=runtime))
        body["spec"]["containers"][0].setdefault("resources", {}).update(QUALITIES[quality])
        await namespace.create(body)


def kill(namespace: Namespace, node: RealNode, pod: str) -> None:
    """Kill a pod's container; the kubelet starts it again."""
    for each in node.containers(namespace.name, pod):
        if each.name:
            os.kill(each.pid, signal.SIGKILL)
