"""One device for the CPUs of a node, on a real kubelet: the masks of LSE, LSR, LS and BE containers, as they read them.

The machine has two CPUs of one thread: CPU 0 is the system's, CPU 1 is given to an LSR and to an LSE pod in turn.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from dra.api.koordinator.well_known import NUMA_NODE_TAINT
from tests.scenarios import installation, objects, steps
from tests.scenarios.eventually import eventually
from tests.scenarios.features import Feature
from tests.scenarios.real_node import plugin as gpus
from tests.scenarios.real_node.cpus import (
    DRIVER,
    STATIC,
    WITHIN,
    Sight,
    StartCpus,
    device_class,
    kill,
    run,
    sees,
    shape,
    sights,
)
from tests.scenarios.resources import CLAIMS, PODS
from tests.scenarios.target import Capability, Mode

if TYPE_CHECKING:
    from tests.cluster.node import RealNode
    from tests.scenarios.api import Json
    from tests.scenarios.namespaces import Namespace
    from tests.scenarios.target import Target

pytestmark = [
    pytest.mark.needs(Capability.KUBELET, Capability.COMPONENTS, Feature.CONSUMABLE_CAPACITY),
    pytest.mark.modes(Mode.ALONGSIDE),
]

CHURN: Final = 30.0
"""Seconds during which LS and BE pods come and go."""

MOST_CHURNED: Final = 8
"""Pods of each kind that run at once: the node has room for twenty."""

WHOLE_CPU: Final[Json] = {"requests": {"cpu": "1", "memory": "16Mi"}, "limits": {"cpu": "1", "memory": "16Mi"}}

TOPOLOGY: Final = installation.DEPLOY / "node-topology"

LS, BE = "burstable", "besteffort"


@pytest.fixture
def namespace(cpu_namespace: Namespace) -> Namespace:
    """One with a class of CPUs."""
    return cpu_namespace


@pytest.fixture
def account(target: Target, plugin_installed: None, real_node: RealNode) -> Path:
    """The plugin's account, with the rights to report."""
    del plugin_installed
    installation.install(target.admin, kustomization=TOPOLOGY)
    return installation.plugin_kubeconfig(target.admin, real_node.folder.path, node=real_node.name)


async def end_oldest(node: RealNode, namespace: Namespace, pods: list[str]) -> list[Sight]:
    """Delete the oldest pods beyond those that run at once; return what their containers have seen."""
    found: list[Sight] = []
    while len(pods) > MOST_CHURNED:
        oldest = pods.pop(0)
        found += sights(node, namespace, oldest)
        await namespace.delete(PODS, oldest)
    return found


def seen_since(first: Sight, node: RealNode, namespace: Namespace, *pods: str) -> list[Sight]:
    """Return what the containers of some pods have seen since then."""
    return [each for pod in pods for each in sights(node, namespace, pod) if each.at >= first.at]


async def bound(namespace: Namespace, name: str, *, shared: bool) -> None:
    """Create a pod of one CPU as the policy makes it of an LSR pod, whose CPUs are shared, or of an LSE pod."""
    claim = objects.claim(name, device_class=device_class(namespace))
    (request,) = claim["spec"]["devices"]["requests"]
    request["exactly"]["capacity"] = {"requests": {"dra.cpu/cpu": "1"}}
    parameters = {"apiVersion": "reserve.dra/v1alpha1", "kind": "CpuConfig"}
    parameters |= {"sharedWith": "BestEffort"} if shared else {}
    claim["spec"]["devices"]["config"] = [{"opaque": {"driver": DRIVER, "parameters": parameters}}]
    await namespace.create(claim)
    body = objects.pod(name, shape(name))
    body["spec"]["containers"][0].setdefault("resources", {}).update(WHOLE_CPU)
    await namespace.create(body)


def quotas(node: RealNode, namespace: Namespace, pod: str) -> list[str]:
    """Return the CPU quotas of a pod's container and of the pod."""
    (pid,) = [each.pid for each in node.containers(namespace.name, pod) if each.name]
    lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text(encoding="ascii").splitlines()]
    (at,) = [path for _, controllers, path in lines if "cpu" in controllers.split(",")] or [""]
    if not at:
        pytest.skip("quotas are looked at with cgroup v1")
    container = Path("/sys/fs/cgroup/cpu") / at.strip("/")
    return [(each / "cpu.cfs_quota_us").read_text(encoding="ascii").strip() for each in (container, container.parent)]


async def ends(namespace: Namespace, node: RealNode, *pods: str) -> None:
    for each in pods:
        await namespace.delete(PODS, each)
    await eventually(
        lambda: gpus.cdi_files(node), until=lambda left: not left, within=WITHIN, saying="nothing is prepared"
    )


@pytest.mark.long
async def test_best_effort_runs_beside_lsr_and_nobody_beside_lse_through_churn_and_restarts(
    start_cpus: StartCpus,
    namespace: Namespace,
    real_node: RealNode,
    account: Path,
    remark: Callable[[str], None],
) -> None:
    plugin = start_cpus("one", devices="node", kubeconfig=account)
    await plugin.start()
    await run(namespace, "ls", quality=LS)
    await run(namespace, "be", quality=BE)
    for each in ("ls", "be"):
        await sees(real_node, namespace, each, "0-1")
    await bound(namespace, "lsr", shared=True)
    first = await sees(real_node, namespace, "lsr", "1")
    await sees(real_node, namespace, "ls", "0")
    assert (await sees(real_node, namespace, "be", "0-1")).mask == "0-1"
    assert quotas(real_node, namespace, "lsr") == ["-1", "-1"]
    (reported,) = (
        await eventually(
            lambda: namespace.get(CLAIMS, "lsr"),
            until=lambda claim: claim["status"].get("devices"),
            saying="the claim shows its CPUs",
        )
    )["status"]["devices"]
    assert (reported["driver"], reported["device"], reported["data"]) == (DRIVER, "cpus", {"cpuset": "1"})

    until, number = time.monotonic() + CHURN, 0
    churned: dict[str, list[str]] = {LS: [], BE: []}
    ended: dict[str, list[Sight]] = {LS: [], BE: []}
    while time.monotonic() < until:
        for quality, mask in ((LS, "0"), (BE, "0-1")):
            pod = f"{quality}-{number}"
            await run(namespace, pod, quality=quality)
            await sees(real_node, namespace, pod, mask)
            churned[quality].append(pod)
            ended[quality] += await end_oldest(real_node, namespace, churned[quality])
        if number in (0, 3):
            kill(namespace, real_node, "lsr")
        if number == 1:
            plugin.crash()
            plugin = start_cpus("two", devices="node", kubeconfig=account)
            await plugin.start()
        if number == 2:
            real_node.restart_kubelet()
        number += 1
    await sees(real_node, namespace, "lsr", "1")
    seen = {
        "lsr": sights(real_node, namespace, "lsr"),
        LS: ended[LS] + seen_since(first, real_node, namespace, "ls", *churned[LS]),
        BE: ended[BE] + seen_since(first, real_node, namespace, "be", *churned[BE]),
    }
    assert {quality: {each.mask for each in found} for quality, found in seen.items()} == {
        "lsr": {"1"},
        LS: {"0"},
        BE: {"0-1"},
    }
    assert quotas(real_node, namespace, "lsr") == ["-1", "-1"]
    for pod in (*churned[LS], *churned[BE]):
        await namespace.delete(PODS, pod)
    await ends(namespace, real_node, "lsr")
    await sees(real_node, namespace, "ls", "0-1")

    await bound(namespace, "lse", shared=False)
    await sees(real_node, namespace, "lse", "1")
    for each in ("ls", "be"):
        await sees(real_node, namespace, each, "0")
    await ends(namespace, real_node, "lse")
    for each in ("ls", "be"):
        await sees(real_node, namespace, each, "0-1")
    remark(
        f"CPUs of a node: {len(seen['lsr'])} lines of LSR on CPU 1, {len(seen[LS])} of LS on CPU 0, {len(seen[BE])} of "
        f"BE on both, in {number} rounds with plugin killed and kubelet restarted"
    )


async def test_a_container_of_any_request_of_an_aligned_claim_runs_on_its_cpus(
    start_cpus: StartCpus, namespace: Namespace, real_node: RealNode, account: Path
) -> None:
    plugin = start_cpus("one", devices="node", kubeconfig=account)
    await plugin.start()
    claim = objects.claim("aligned", device_class=device_class(namespace))
    toleration = {"key": NUMA_NODE_TAINT, "operator": "Exists", "effect": "NoSchedule"}
    claim["spec"]["devices"]["requests"] = [
        {
            "name": name,
            "exactly": {
                "deviceClassName": device_class(namespace),
                "capacity": {"requests": {capacity: "1"}},
                "tolerations": [toleration] if name == "numa" else [],
            },
        }
        for name, capacity in (("cpus", "dra.cpu/cpu"), ("numa", "numaCPUs"))
    ]
    await namespace.create(claim)
    body = objects.pod("aligned", shape("aligned"))
    (container,) = body["spec"]["containers"]
    container["resources"]["claims"][0]["request"] = "numa"  # as a container with GPUs refers to its request
    container["resources"].update(WHOLE_CPU)
    await namespace.create(body)
    await sees(real_node, namespace, "aligned", "1")


async def test_beside_the_static_policy_the_kubelet_binds_and_the_driver_counts_and_reports(
    start_cpus: StartCpus,
    namespace: Namespace,
    real_node: RealNode,
    account: Path,
    kubelet_again: Callable[[Json], None],
) -> None:
    await asyncio.to_thread(kubelet_again, STATIC)
    plugin = start_cpus("one", devices="node", kubeconfig=account)
    await plugin.start()
    await run(namespace, "be", quality=BE)  # requests nothing: the kubelet leaves one CPU to requests
    await sees(real_node, namespace, "be", "0-1")
    await bound(namespace, "lsr", shared=True)
    await sees(real_node, namespace, "lsr", "1")
    await sees(real_node, namespace, "be", "0")
    claim = await eventually(
        lambda: namespace.get(CLAIMS, "lsr"),
        until=lambda claim: claim["status"].get("devices"),
        saying="the claim shows the CPUs that the kubelet has given",
    )
    (reported,) = claim["status"]["devices"]
    assert reported["data"] == {"cpuset": "1", "managedByKubelet": True}
    assert not (plugin.folder / "demand.json").exists()
    await bound(namespace, "next", shared=True)
    await steps.pod_is(namespace, "next", steps.unschedulable, saying="the kubelet has no CPU left")

    await namespace.delete(PODS, "lsr")
    await sees(real_node, namespace, "next", "1")
    await ends(namespace, real_node, "next")
    await sees(real_node, namespace, "be", "0-1")
