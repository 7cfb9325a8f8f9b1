"""Back to stock Kubernetes on a real kubelet: containers go on, and a sandbox that is lost comes back by itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.cluster.node import RealNode
from tests.scenarios import objects, steps
from tests.scenarios.claims import condition, entries, finished, listed
from tests.scenarios.conftest import StartController
from tests.scenarios.eventually import eventually
from tests.scenarios.namespaces import Namespace
from tests.scenarios.plugin import Run
from tests.scenarios.real_node import pods
from tests.scenarios.resources import CLAIMS, JOBS, PODS
from tests.scenarios.stock import StockController
from tests.scenarios.target import Capability, Mode

pytestmark = [
    pytest.mark.needs(Capability.KUBELET, Capability.COMPONENTS),
    pytest.mark.modes(Mode.REPLACE),
    pytest.mark.long,
]

BACK_WITHIN = 120.0
"""Seconds from the loss of a sandbox to a running container: nobody makes the kubelet look before it does."""


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize("count", [20, 200])
async def test_containers_go_on_and_a_lost_sandbox_comes_back_under_stock_rules(  # noqa: PLR0917 - fixtures
    namespace: Namespace,
    real_node: RealNode,
    start_controller: StartController,
    stock: StockController,
    dra: Run,
    remark: Callable[[str], None],
    count: int,
) -> None:
    controller = await start_controller()
    await pods.offer_gpus(namespace)
    await pods.claim_gpu(namespace, "train", reserved_for="jobs.batch/train")
    shape = pods.shape("train", gated=True)
    job = objects.job("train", replace(shape, spec=shape.spec | steps.on(real_node.name)), parallelism=count)
    job["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    job["spec"]["backoffLimit"] = 6  # a lost sandbox counts
    await namespace.create(job)
    await eventually(
        lambda: namespace.get(JOBS, "train"),
        until=lambda job: job["status"].get("ready") == count,
        within=200,
        saying="all pods run",
    )
    before = processes(real_node, namespace)
    done = await dra("downgrade", "--apply")
    assert done.left() == {}, done.output
    assert not controller.process.alive
    await stock.switch(on=True)
    now = await namespace.get(CLAIMS, "train")
    assert len(listed(now)) == len(entries(now)) == count
    assert processes(real_node, namespace) == before, "no container was started anew"

    victim = (await namespace.all(PODS))[0]["metadata"]["name"]
    pid = await pods.has_gpu(namespace, real_node, victim)
    lost = time.monotonic()
    real_node.kill_sandbox(namespace.name, victim)
    await eventually(
        lambda: [each.pid for each in real_node.containers(namespace.name, victim) if each.name],
        until=lambda pids: any(each != pid and pods.sees_gpu(each) for each in pids),
        within=BACK_WITHIN,
        saying="its container runs again, with the GPU",
    )
    back = time.monotonic() - lost
    await pods.end_all(real_node, namespace)
    ended = time.monotonic()
    await eventually(
        lambda: namespace.get(JOBS, "train"),
        until=lambda job: condition(job, "Complete") == "True",
        within=200,
        saying="the job is complete",
    )
    await steps.freed(namespace, "train", within=60)
    assert all(finished(pod) for pod in await namespace.all(PODS))
    freed = time.monotonic() - ended
    told = f"lost sandbox back after {back:.1f} s, devices free {freed:.1f} s after the end"
    remark(f"downgrade on a real kubelet, {count} pods: {told}")


def processes(node: RealNode, namespace: Namespace) -> set[int]:
    """Return the first processes of all containers and sandboxes."""
    return {each.pid for each in node.containerd.containers() if each.namespace == namespace.name}
