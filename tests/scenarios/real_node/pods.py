"""Pods with a GPU on a real node: what they say of it, what is seen of them, and their end."""

from __future__ import annotations

import itertools
import os
import re
import signal
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.scenarios import objects, steps
from tests.scenarios.eventually import eventually
from tests.scenarios.objects import PodShape
from tests.scenarios.real_node.plugin import DRIVER
from tests.scenarios.resources import CLAIMS, EVENTS, PODS

if TYPE_CHECKING:
    from tests.cluster.node import RealNode
    from tests.scenarios.api import Json
    from tests.scenarios.namespaces import Namespace

WITHIN: Final = 40.0
"""Seconds for a pod to run: the kubelet tries again, after something has failed, within fifteen."""

TELL: Final = "gpu=$(env | sed -n 's/^GPU_DEVICE_[0-9]*=//p') node=$(find /dev -name 'simgpu*' -type c)"
"""For a shell's echo: what the CDI file has brought into the container."""

_VARIABLE: Final = re.compile(rb"GPU_DEVICE_\d+=GPU-")


def shape(claim: str = "gpu", *, restart: bool = False, gated: bool = False, node: str = "") -> PodShape:
    """Return a pod that runs on the real node, says what GPU it has, and goes on until it is told to end.

    `restart`: its container is started again whenever it ends; `node`: bound already, without the scheduler.
    """
    spec: Json = dict(objects.ON_REAL_NODE)
    if restart:
        spec["restartPolicy"] = "Always"
    if node:
        spec["nodeName"] = node
    return PodShape(spec=spec, script=f"echo {TELL}", claim=claim, gated=gated)


async def offer_gpus(namespace: Namespace) -> str:
    """Create a class of the plugin's GPUs, and return its name."""
    name = f"{namespace.name}-gpus"
    await namespace.create(objects.device_class(name, driver=DRIVER))
    return name


async def claim_gpu(namespace: Namespace, name: str = "gpu", *, reserved_for: str | None = None) -> Json:
    """Create a claim for a GPU of the plugin."""
    return await namespace.create(objects.claim(name, device_class=f"{namespace.name}-gpus", reserved_for=reserved_for))


async def run(namespace: Namespace, node: RealNode, pod: str, shape: PodShape) -> None:
    """Create a pod and wait until it has its GPU."""
    await namespace.create(objects.pod(pod, shape))
    await has_gpu(namespace, node, pod)


async def has_gpu(namespace: Namespace, node: RealNode, pod: str, *, within: float = WITHIN) -> int:
    """Wait until the pod's container runs with the GPU; return the pid of its first process."""

    def found() -> int | None:
        pids = [each.pid for each in node.containers(namespace.name, pod) if each.name]
        return next((pid for pid in pids if sees_gpu(pid)), None)

    return await eventually(found, within=within, saying=f"pod {pod} runs with a GPU")


def sees_gpu(pid: int) -> bool:
    """Tell whether the process has the device node and the variable of the CDI file."""
    process = Path(f"/proc/{pid}")
    try:
        nodes = [each.stat().st_mode for each in (process / "root" / "dev").glob("simgpu*")]
        variables = (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return any(map(stat.S_ISCHR, nodes)) and any(map(_VARIABLE.match, variables))


def said(node: RealNode, namespace: Namespace, pod: str) -> list[str]:
    """Return what the container said of its GPU, once for each of its starts."""
    return [line for line in node.output(namespace.name, pod).splitlines() if line.startswith("gpu=")]


async def restart_container(namespace: Namespace, node: RealNode, pod: str) -> None:
    """Kill a pod's container and wait for the next one, which must have the GPU as well."""
    before = await has_gpu(namespace, node, pod)
    os.kill(before, signal.SIGKILL)
    await eventually(
        lambda: [each.pid for each in node.containers(namespace.name, pod) if each.name and each.pid != before],
        until=lambda pids: any(map(sees_gpu, pids)),
        within=WITHIN,
        saying=f"the container of pod {pod} runs again, with its GPU",
    )


async def kill(namespace: Namespace, node: RealNode, pod: str) -> None:
    """Kill all processes of a pod, as the end of its machine does.

    A container may have ended already: containerd ends one whose start a kubelet that stops did not wait for.
    """
    for each in node.containers(namespace.name, pod):
        with suppress(ProcessLookupError):
            os.kill(each.pid, signal.SIGKILL)
    await eventually(
        lambda: node.containers(namespace.name, pod), until=lambda left: not left, saying=f"pod {pod} has been killed"
    )


async def end_all(node: RealNode, namespace: Namespace) -> None:
    """Let all pods run to their end, well: their shells wait for a sleep, and leave when that is over."""
    shells = [each.pid for each in node.containerd.containers() if each.name and each.namespace == namespace.name]

    def sleeps() -> list[int]:
        return [pid for pid in itertools.chain(*map(_children, shells)) if _program(pid) == "sleep"]

    # A container that has just started looks for its GPU first: what it runs for that is a child of its shell, too.
    for pid in await eventually(sleeps, until=lambda them: len(them) == len(shells), saying="all sleep"):
        os.kill(pid, signal.SIGTERM)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


async def refuses_second_holder(namespace: Namespace, node: RealNode, *, device: str = "gpu-0") -> None:
    """Assert that the node gives a GPU to nobody else while somebody has it, whatever the API says."""
    name = "intruder"
    await claim_gpu(namespace, name)
    await steps.allocate(namespace, name, devices=DRIVER, pool=node.name, device=device)
    await namespace.create(objects.pod(name, shape(name, node=node.name)))

    async def refusals() -> list[str]:
        found = [each for each in await namespace.events(name) if each["reason"] == "FailedPrepareDynamicResources"]
        return [each["message"] for each in found if "held by" in each["message"]]

    await eventually(refusals, within=WITHIN, saying="the node refuses the second holder, naming the first")
    assert not [each for each in node.containers(namespace.name, name) if each.name]
    await namespace.delete(PODS, name)
    await eventually(lambda: namespace.find(PODS, name), until=lambda pod: pod is None, saying="the intruder is gone")
    await namespace.delete(CLAIMS, name)


async def failures(namespace: Namespace) -> list[str]:
    """Return what the kubelet said of claims that no plugin could prepare, or none was there to prepare.

    Not of those that it could not read itself: the node authorizer may see a new pod later than the kubelet does.
    """
    said = [
        each["message"] for each in await namespace.all(EVENTS) if each["reason"] == "FailedPrepareDynamicResources"
    ]
    return [each for each in said if "no relationship found between node" not in each]
