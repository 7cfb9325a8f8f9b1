"""CPUs of one's own on a real kubelet: what containers may run on, as they read it themselves, from the first line on.

A machine of two CPUs has one to give: three containers share a claim on it, three and more run beside it.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.cluster import keeper
from tests.cluster.node import RealNode
from tests.cluster.ports import LOOPBACK, free
from tests.scenarios import namespaces, objects
from tests.scenarios.api import Api
from tests.scenarios.eventually import eventually
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.real_node import plugin as gpus
from tests.scenarios.resources import NODES, PODS
from tests.scenarios.target import Capability, Mode

pytestmark = [pytest.mark.needs(Capability.KUBELET, Capability.COMPONENTS), pytest.mark.modes(Mode.ALONGSIDE)]

DRIVER: Final = "cpu.reserve.dra"
OWNERS: Final = ("owner-0", "owner-1", "owner-2")
OTHERS: Final = ("other-0", "other-1", "other-2")

WITHIN: Final = 40.0
"""Seconds for what the kubelet does."""

CHURN: Final = 30.0
"""Seconds during which others come and go."""

WIDE_AGAIN: Final = 1.0
"""Seconds from a claim's end on the node to containers that have its CPUs again."""

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

    def __init__(self, node: RealNode, instance: str, *, devices: str = "individual") -> None:
        self.node = node
        self.folder = node.plugins / DRIVER
        self._probes, self._metrics = free(2)
        pods = f"{keeper.cgroup_of(node.folder.path)}/kubepods"
        self.process = node.folder.process(
            f"cpu-plugin-{instance}",
            [
                *gpus.COMMAND,
                "--drivers=cpu",
                "--reserved-cpus=0",
                f"--cpu-devices={devices}",
                f"--kubepods-cgroup={pods}",
                f"--kubelet={node.plugins.parent}",
                f"--node-name={node.name}",
                f"--kubeconfig={node.kubeconfig}",
                f"--plugins={node.plugins}",
                f"--registry={node.plugins_registry}",
                f"--cdi={node.cdi}",
                f"--probes={LOOPBACK}:{self._probes}",
                "--log-format=text",
                f"--pod-uid={instance}",
            ],
        )


class Sight(NamedTuple):
    """A line of a container."""

    at: float
    """Seconds since the machine's start."""
    mask: str


def sights(node: RealNode, namespace: Namespace, pod: str) -> list[Sight]:
    """Return what a pod's container has seen so far, over all its restarts."""
    lines = (line.split(" ") for line in node.output(namespace.name, pod).splitlines())
    return [Sight(float(at), mask) for at, mask in lines]


async def sees(node: RealNode, namespace: Namespace, pod: str, mask: str, *, within: float = WITHIN) -> Sight:
    """Wait until a container sees a mask, and return the sight."""
    found = await eventually(
        lambda: [each for each in sights(node, namespace, pod)[-1:] if each.mask == mask],
        within=within,
        saying=f"pod {pod} runs on CPUs {mask}",
    )
    return found[0]


@pytest.fixture
async def start_cpus(real_node: RealNode) -> AsyncIterator[StartCpus]:
    """Makes plugins; they end after the namespace."""
    plugins: list[CpuPlugin] = []

    def make(instance: str, **settings: str) -> CpuPlugin:
        plugins.append(CpuPlugin(real_node, instance, **settings))
        return plugins[-1]

    yield make
    for each in plugins:
        each.process.stop()
    shutil.rmtree(real_node.plugins / DRIVER, ignore_errors=True)
    for file in (*real_node.cdi.glob(f"{DRIVER}*"), *real_node.plugins_registry.glob(f"{DRIVER}*")):
        file.unlink(missing_ok=True)


@pytest.fixture
async def namespace(start_cpus: StartCpus, api: Api, request: pytest.FixtureRequest) -> AsyncIterator[Namespace]:
    """As everywhere, but it ends before the plugins do."""
    del start_cpus
    async with namespaces.temporary(api, purpose=request.node.originalname.removeprefix("test_")) as found:
        await found.create(objects.device_class(device_class(found), driver=DRIVER))
        yield found


def device_class(namespace: Namespace) -> str:
    return f"{namespace.name}-cpus"


def shape(claim: str | None = None) -> PodShape:
    return PodShape(spec=objects.ON_REAL_NODE | {"restartPolicy": "Always"}, script=TELL, claim=claim)


async def run(namespace: Namespace, *pods: str, claim: str | None = None) -> None:
    for each in pods:
        await namespace.create(objects.pod(each, shape(claim)))


async def test_owners_and_others_are_apart_from_their_first_line_through_churn_and_restarts(
    start_cpus: StartCpus,
    namespace: Namespace,
    real_node: RealNode,
    remark: Callable[[str], None],
) -> None:
    everything = "0-1"
    plugin = start_cpus("one")
    await plugin.start()
    await namespace.create(objects.claim("cpus", device_class=device_class(namespace)))
    await run(namespace, *OTHERS)
    for each in OTHERS:
        await sees(real_node, namespace, each, everything)

    await run(namespace, *OWNERS, claim="cpus")
    first = min([await sees(real_node, namespace, each, "1") for each in OWNERS])
    for each in OTHERS:
        await sees(real_node, namespace, each, "0")

    ends, number = time.monotonic() + CHURN, 0
    churned = []
    second = start_cpus("two")
    while time.monotonic() < ends:
        pod = f"churn-{number}"
        await run(namespace, pod)
        await sees(real_node, namespace, pod, "0")
        churned.append(pod)
        if number < len(OWNERS):
            kill(namespace, real_node, OWNERS[number])
        if number == 4:
            await second.start()  # a rolling update
            plugin.stop()
        if number == 8:
            real_node.restart_kubelet()
        number += 1
    owned = [each for pod in OWNERS for each in sights(real_node, namespace, pod)]
    beside = [each for pod in (*OTHERS, *churned) for each in sights(real_node, namespace, pod) if each.at >= first.at]
    assert {each.mask for each in owned} == {"1"}
    assert {each.mask for each in beside} == {"0"}
    assert max(each.at for each in beside) - first.at > CHURN - 1

    for each in (*OWNERS, *churned):
        await namespace.delete(PODS, each)
    await eventually(
        lambda: gpus.cdi_files(real_node), until=lambda left: not left, within=WITHIN, saying="nothing is prepared"
    )
    released = uptime()
    for each in OTHERS:
        await sees(real_node, namespace, each, everything)
    took = max(wide_from(sights(real_node, namespace, each), first.at) for each in OTHERS) - released
    assert took < WIDE_AGAIN
    remark(
        f"CPUs: {len(owned)} lines of owners and {len(beside)} of {len(churned) + len(OTHERS)} others, none overlaps; "
        f"wide again {max(took, 0):.2f} s after the last CDI file went"
    )


async def test_cpus_of_a_numa_node_are_taken_by_number(
    start_cpus: StartCpus, namespace: Namespace, real_node: RealNode
) -> None:
    await start_cpus("grouped", devices="grouped").start()
    claim = objects.claim("cpus", device_class=device_class(namespace))
    (request,) = claim["spec"]["devices"]["requests"]
    request["exactly"]["capacity"] = {"requests": {"dra.cpu/cpu": "1"}}
    parameters = {"apiVersion": "reserve.dra/v1alpha1", "kind": "CpuConfig", "requiredCPUBindPolicy": "SpreadByPCPUs"}
    claim["spec"]["devices"]["config"] = [{"opaque": {"driver": DRIVER, "parameters": parameters}}]
    await namespace.create(claim)
    await run(namespace, "other")
    await run(namespace, "owner", claim="cpus")
    await sees(real_node, namespace, "owner", "1")
    await sees(real_node, namespace, "other", "0")
    assert {each.mask for each in sights(real_node, namespace, "owner")} == {"1"}

    await namespace.delete(PODS, "owner")
    await sees(real_node, namespace, "other", "0-1")


@pytest.mark.long
async def test_a_cpu_that_the_node_keeps_is_no_containers_over_a_restart_and_an_annotation_that_is_invalid(
    start_cpus: StartCpus, namespace: Namespace, real_node: RealNode
) -> None:
    async def keeps(text: str | None) -> None:
        await namespace.api.patch(NODES, real_node.name, {"metadata": {"annotations": {KEPT: text}}})

    first = start_cpus("before")
    await first.start()
    await run(namespace, "other")
    await sees(real_node, namespace, "other", "0-1")
    try:
        await keeps('{"reservedCPUs": "1", "applyPolicy": "ReservedCPUsOnly"}')
        await sees(real_node, namespace, "other", "0")
        await keeps('{"reservedCPUs": "1-0"}')
        first.stop()
        second = start_cpus("after")
        await second.start()
        await run(namespace, "later")
        await sees(real_node, namespace, "later", "0")
        assert {each.mask for each in sights(real_node, namespace, "later")} == {"0"}
        assert sights(real_node, namespace, "other")[-1].mask == "0"
    finally:
        await keeps(None)
    for each in ("other", "later"):
        await sees(real_node, namespace, each, "0-1")


KEPT: Final = "node.koordinator.sh/reservation"


def kill(namespace: Namespace, node: RealNode, pod: str) -> None:
    """Kill a pod's container; the kubelet starts it again."""
    for each in node.containers(namespace.name, pod):
        if each.name:
            os.kill(each.pid, signal.SIGKILL)


def wide_from(seen: list[Sight], since: float) -> float:
    """Return when a container saw more than one CPU for the first time since then."""
    return next(each.at for each in seen if each.at > since and each.mask != "0")


def uptime() -> float:
    return float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
