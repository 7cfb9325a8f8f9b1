"""Batch pods on a real kubelet: the files of their cgroups, how far they are held back, and what they outlive."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from typing import Any, Final

import pytest

from tests.cluster.node import RealNode
from tests.scenarios import installation, objects
from tests.scenarios.eventually import eventually
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.real_node import batch
from tests.scenarios.real_node.batch import BUSY, OFF, ON, SYSTEM_MILLI, WITHIN, BatchNode, BatchPlugin
from tests.scenarios.resources import NODES, PODS
from tests.scenarios.target import Capability, Mode, Target

pytestmark = [pytest.mark.needs(Capability.KUBELET, Capability.COMPONENTS), pytest.mark.modes(Mode.ALONGSIDE)]

CAPACITY: Final = 2000
ALLOWED: Final = CAPACITY * 65 // 100
STEP: Final = 20_000
"""Microseconds by which the quota of the class grows at most in a second: 10 % of two CPUs."""

LS_LIMIT: Final = 700
PERIODS: Final = 30
"""Periods of the quota over which use is compared with it."""


@pytest.fixture
async def plugin(real_node: RealNode, target: Target, plugin_installed: None) -> AsyncIterator[BatchPlugin]:
    del plugin_installed
    batch.install(target.admin, ON)
    account = installation.plugin_kubeconfig(target.admin, real_node.folder.path, node=real_node.name)
    with BatchNode(real_node).own_stat(real_node.folder.path / "stat") as stat:
        made = BatchPlugin(real_node, kubeconfig=account, stat=stat)
        await made.start()
        yield made
        made.process.stop()


@pytest.fixture
async def namespace(cpu_namespace: Namespace, plugin: BatchPlugin) -> Namespace:
    """It ends before the plugin does."""
    del plugin
    return cpu_namespace


@pytest.fixture
def node(real_node: RealNode) -> BatchNode:
    return BatchNode(real_node)


async def test_limits_are_written_and_the_class_is_held_back_while_others_are_busy(
    plugin: BatchPlugin,
    namespace: Namespace,
    real_node: RealNode,
    node: BatchNode,
    target: Target,
    remark: Callable[[str], None],
) -> None:
    await batch.publish(namespace.api, real_node, cpu=2000)
    job = await batch.run(namespace, batch.batch_pod("job", cpu="2k", request="570", memory="64Mi"))
    # The whole of it needs two busy loops, since others on the machine may leave a CPU for neither.
    await batch.run(namespace, batch.batch_pod("second", cpu="400"))
    await eventually(
        lambda: [node.values(job)[0::2], node.values(job, container=True)[0::2]],
        until=lambda seen: seen == [[583, 64 * 2**20]] * 2,
        within=WITHIN,
        saying="pod and container have the shares of 570 milli-CPUs, and their memory limit",
    )
    await eventually(
        lambda: (node.quota, node.values(job)[1], node.values(job, container=True)[1]),
        until=lambda seen: seen[0] > 0 and set(seen[1:]) == {min(seen[0], 200_000)},
        within=WITHIN,
        saying="the class has a quota, and the pod has the smaller one of its limit and that",
    )
    idle = await eventually(
        lambda: node.quota,
        until=lambda quota: quota > (ALLOWED - SYSTEM_MILLI) * 100 * 0.9,
        within=WITHIN,
        saying="without other pods the class has what the threshold leaves",
    )

    ls = await busy_ls(namespace)
    began = await eventually(
        lambda: node.used_seconds("burstable", ls) > 0.02 and time.monotonic(), within=WITHIN, saying="the LS pod works"
    )
    await eventually(lambda: node.quota, until=lambda quota: quota < idle, within=WITHIN, saying="the quota shrinks")
    took = time.monotonic() - began
    held = await follows_the_budget(plugin, node, ls)
    used, quota, periods = await use_over_periods(node)
    assert used <= quota * (periods + 1) / 1e6 * 1.05, "the class uses no more than its quota"

    await namespace.delete(PODS, "ls")
    quotas = await recovery(node, until=idle * 0.95)
    assert max(after - before for before, after in pairwise(quotas)) <= STEP + CAPACITY, quotas

    await plugin.restart(colocation=True)
    assert node.quota > 0
    batch.configure(target.admin, OFF)
    await eventually(lambda: node.quota, until=lambda quota: quota == -1, within=WITHIN, saying="switched off")
    assert node.values(job) == [583, 200_000, 64 * 2**20]
    remark(
        f"batch pods: the class had {idle} µs of 100 ms, {took:.1f} s after the first 20 ms of a busy LS pod less, "
        f"then {held}, used {used:.2f} s in {periods} periods of {quota} µs, and grew back in {len(quotas) - 1} steps"
    )


@pytest.mark.long
async def test_a_plugin_without_colocation_lifts_the_quota_that_a_killed_one_left(
    plugin: BatchPlugin, namespace: Namespace, real_node: RealNode, node: BatchNode
) -> None:
    await batch.publish(namespace.api, real_node, cpu=2000)
    job = await batch.run(namespace, batch.batch_pod("job", cpu="1k"))
    await eventually(lambda: node.quota, until=lambda quota: quota > 0, within=WITHIN, saying="the class is held back")
    await plugin.restart(colocation=False)
    await eventually(lambda: node.quota, until=lambda quota: quota == -1, within=WITHIN, saying="nothing is held back")
    assert node.values(job)[1:] == [-1, 64 * 2**20]
    await plugin.restart(colocation=True)
    await eventually(
        lambda: (node.quota, node.values(job)[1]),
        until=lambda seen: seen[0] > 0 and seen[1] == min(seen[0], 100_000),
        within=WITHIN,
        saying="held back again",
    )


async def test_running_batch_pods_outlive_a_kubelet_that_starts_with_fewer_batch_resources(
    namespace: Namespace, real_node: RealNode
) -> None:
    """The controller never publishes less than batch pods there have asked for; here its patch is played.

    In the end one that publishes less is played as well, so that it is known that the kubelet does refuse then.
    """
    await batch.publish(namespace.api, real_node, cpu=4000)
    jobs = [("first", "1k"), ("second", "900")]
    for name, cpu in jobs:
        await batch.run(namespace, batch.batch_pod(name, cpu=cpu, script="sleep 600"))
    before = [each.pid for name, _ in jobs for each in real_node.containers(namespace.name, name)]
    await batch.publish(namespace.api, real_node, cpu=1900)
    await restarted(real_node, namespace, "after-a-restart")
    await namespace.create(batch.batch_pod("third", cpu="1k", script="sleep 600"))
    refusal = await eventually(
        lambda: scheduling_refusal(namespace, "third"), within=WITHIN, saying="there is no room for a third pod"
    )
    assert "Insufficient kubernetes.io/batch-cpu" in refusal
    phases = [(await namespace.get(PODS, name))["status"]["phase"] for name, _ in jobs]
    after = [each.pid for name, _ in jobs for each in real_node.containers(namespace.name, name)]
    assert (phases, after) == (["Running", "Running"], before)
    published = (await namespace.api.get(NODES, real_node.name))["status"]["allocatable"]
    assert published["kubernetes.io/batch-cpu"] == "1900"

    await batch.publish(namespace.api, real_node, cpu=1500)
    await restarted(real_node, namespace, "after-another")
    await eventually(
        lambda: namespace.get(PODS, "second"),
        until=lambda pod: pod["status"].get("reason") == "OutOfkubernetes.io/batch-cpu",
        within=WITHIN,
        saying="less than pods there hold fails them",
    )


async def restarted(node: RealNode, namespace: Namespace, pod: str) -> None:
    """Restart the kubelet, and return when it has admitted the pods that run and a new one after them."""
    node.restart_kubelet()
    shape = PodShape(spec=objects.ON_REAL_NODE, script="sleep 600")
    await batch.run(namespace, objects.pod(pod, shape))


async def busy_ls(namespace: Namespace) -> Any:
    """Run a pod of the class LS that leaves CPUs free: beside one that takes all, shares alone hold batch pods back."""
    body = objects.pod("ls", PodShape(spec=objects.ON_REAL_NODE, script=BUSY, labels={"koordinator.sh/qosClass": "LS"}))
    limits = {"cpu": f"{LS_LIMIT}m"}
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "500m"}, "limits": limits}
    return await batch.run(namespace, body)


async def follows_the_budget(plugin: BatchPlugin, node: BatchNode, ls: Any) -> int:
    """Wait until the quota is that of the LS pod's use, which others on the machine may make less than its limit."""

    async def look() -> tuple[int, float, float]:
        began, used = time.monotonic(), node.used_seconds("burstable", ls)
        await asyncio.sleep(2.0)
        milli = (node.used_seconds("burstable", ls) - used) / (time.monotonic() - began) * 1000
        return node.quota, await plugin.metric("best_effort_budget_cpus") or 0.0, milli

    quota, _, _ = await eventually(
        look,
        until=lambda seen: (
            abs(seen[1] * 1000 - (ALLOWED - SYSTEM_MILLI - seen[2])) <= 100
            and abs(seen[0] / 100 - seen[1] * 1000) <= CAPACITY / 100
        ),
        within=WITHIN,
        saying="budget and quota are what the LS pod leaves",
    )
    return quota


async def use_over_periods(node: BatchNode) -> tuple[float, int, int]:
    """Return what the class used, in seconds, under its greatest quota meanwhile, and in how many periods."""
    used, periods, quotas = node.used_seconds(), node.periods(), [node.quota]

    def look() -> int:
        quotas.append(node.quota)
        return node.periods() - periods

    count = await eventually(
        look, until=lambda passed: passed >= PERIODS, within=WITHIN, longest=0.05, saying="periods of the quota pass"
    )
    return node.used_seconds() - used, max(quotas), count


async def recovery(node: BatchNode, *, until: float) -> list[int]:
    """Return all quotas of the class until it has so much again."""
    quotas = [node.quota]

    def look() -> int:
        if node.quota != quotas[-1]:
            quotas.append(node.quota)
        return quotas[-1]

    await eventually(
        look, until=lambda quota: quota >= until, within=WITHIN, longest=0.05, saying="the class has its CPUs again"
    )
    return quotas


async def scheduling_refusal(namespace: Namespace, pod: str) -> str:
    conditions = (await namespace.get(PODS, pod))["status"].get("conditions", [])
    return next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")
