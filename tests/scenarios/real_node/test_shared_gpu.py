"""A Job whose pods share one GPU of a real node: all run with it, and after the last of them it is free."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.cluster.node import RealNode
from tests.scenarios import objects, steps
from tests.scenarios.claims import condition
from tests.scenarios.eventually import eventually
from tests.scenarios.namespaces import Namespace
from tests.scenarios.real_node import cdi_folder, pods
from tests.scenarios.real_node.plugin import Plugin, cdi_file, cdi_files
from tests.scenarios.resources import JOBS, PODS
from tests.scenarios.target import Capability, Mode

pytestmark = pytest.mark.needs(Capability.KUBELET, Capability.COMPONENTS)

STOCK_PODS = 240
"""As many as a list has room for, all but a few."""


@pytest.mark.modes(Mode.REPLACE)
@pytest.mark.usefixtures("controller")
@pytest.mark.parametrize(
    ("count", "within"),
    [
        pytest.param(24, 60, id="24-pods"),
        pytest.param(320, 400, id="320-pods", marks=pytest.mark.long),
    ],
)
async def test_all_pods_of_a_job_run_on_one_gpu(
    plugin: Plugin,
    namespace: Namespace,
    real_node: RealNode,
    remark: Callable[[str], None],
    count: int,
    within: float,
) -> None:
    await pods.offer_gpus(namespace)
    async with namespace.history("train") as history, cdi_folder.watched(real_node) as files:
        claim = await pods.claim_gpu(namespace, "train", reserved_for="jobs.batch/train")
        began = time.monotonic()
        await namespace.create(objects.job("train", pods.shape("train", gated=True), parallelism=count))
        await eventually(
            lambda: namespace.get(JOBS, "train"),
            until=lambda job: job["status"].get("ready") == count,  # listing all pods would be a load of its own
            within=within,
            saying="all pods run",
        )
        took = time.monotonic() - began
        names = [pod["metadata"]["name"] for pod in await namespace.all(PODS)]
        assert len(names) == count
        heard = {name: pods.said(real_node, namespace, name) for name in names}
        (gpu,) = {line for lines in heard.values() for line in lines}
        assert all(lines == [gpu] for lines in heard.values())
        assert gpu.startswith("gpu=GPU-")
        assert gpu.endswith(" node=/dev/simgpu0")
        assert cdi_files(real_node) == {cdi_file(claim)}
        assert await plugin.calls("unprepare") == 0

        ended = time.monotonic()
        await pods.end_all(real_node, namespace)
        await eventually(
            lambda: namespace.get(JOBS, "train"),
            until=lambda job: condition(job, "Complete") == "True",
            within=within,
            saying="the job is complete",
        )
        ending = time.monotonic() - ended
        await steps.freed(namespace, "train")
        assert cdi_files(real_node) == set()
        assert plugin.prepared() == set()
        assert await plugin.calls("unprepare") == 1
    assert files.appeared[cdi_file(claim)] == 1
    assert files.gone[cdi_file(claim)] == 1
    assert history.longest_list() <= 256

    await pods.claim_gpu(namespace, "next")
    await pods.run(namespace, real_node, "next", pods.shape("next"))
    rate = f"all run after {took:.1f} s, {count / took:.1f} pods/s; complete {ending:.1f} s after their end"
    remark(f"{count} pods on one GPU of a real node: {rate}")


@pytest.mark.long
@pytest.mark.modes(Mode.ALONGSIDE)
@pytest.mark.usefixtures("plugin")
async def test_the_same_with_nothing_but_stock_kubernetes_for_comparison(
    namespace: Namespace, real_node: RealNode, remark: Callable[[str], None]
) -> None:
    await pods.offer_gpus(namespace)
    await pods.claim_gpu(namespace, "train")
    began = time.monotonic()
    await namespace.create(objects.job("train", pods.shape("train"), parallelism=STOCK_PODS))
    await eventually(
        lambda: namespace.get(JOBS, "train"),
        until=lambda job: job["status"].get("ready") == STOCK_PODS,
        within=1200,
        saying="all pods run",
    )
    took = time.monotonic() - began
    await pods.end_all(
        real_node, namespace
    )  # the claim is not waited for: its list is written twenty times a second by now
    await eventually(
        lambda: namespace.get(JOBS, "train"),
        until=lambda job: condition(job, "Complete") == "True",
        within=400,
        saying="the job is complete",
    )
    rate = f"{STOCK_PODS / took:.1f} pods/s"
    remark(f"{STOCK_PODS} pods on one GPU of a real node, stock: all run after {took:.1f} s, {rate}")
