"""A started pod that is not listed any more loses its sandbox, on a node whose kubelet looks once a minute."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.cluster.components import REAL_NODES
from tests.cluster.node import RealNode
from tests.scenarios import objects, steps
from tests.scenarios.api import Json
from tests.scenarios.claims import entries, started
from tests.scenarios.conftest import NODE
from tests.scenarios.eventually import eventually
from tests.scenarios.namespaces import Namespace
from tests.scenarios.real_node import pods
from tests.scenarios.resources import CLAIMS, JOBS, PODS
from tests.scenarios.target import Capability, Mode, Target

pytestmark = [pytest.mark.needs(Capability.KUBELET, Capability.COMPONENTS), pytest.mark.modes(Mode.REPLACE)]

BACK_WITHIN = 30.0
"""Seconds from the loss of the sandbox to a running container; a kubelet that is refused retries after 60 to 90."""


@pytest.fixture(scope="module")
def real_node(target: Target, request: pytest.FixtureRequest) -> Iterator[RealNode]:
    """A node with the kubelet's own sync frequency; then another one than that of the other scenarios."""
    with RealNode(target.cluster, REAL_NODES[1], configuration={"syncFrequency": "1m0s"}) as node:
        request.config.stash[NODE] = node
        yield node


@pytest.mark.usefixtures("plugin", "controller")
async def test_an_unlisted_pod_is_listed_again_and_runs(
    namespace: Namespace, real_node: RealNode, remark: Callable[[str], None]
) -> None:
    await pods.offer_gpus(namespace)
    async with namespace.history("train") as history:
        await pods.claim_gpu(namespace, "train", reserved_for="jobs.batch/train")
        shape = pods.shape("train", gated=True)
        here = replace(shape, spec=shape.spec | steps.on(real_node.name))
        job = objects.job("train", here, parallelism=3)
        job["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
        await namespace.create(job)
        await eventually(
            lambda: namespace.get(JOBS, "train"),
            until=lambda job: job["status"].get("ready") == 3,
            within=120,
            saying="all pods run",
        )
        pod = (await namespace.all(PODS))[0]
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        before = await pods.has_gpu(namespace, real_node, name)
        await eventually(
            lambda: namespace.get(CLAIMS, "train"),
            until=lambda claim: not is_listed(claim, uid),
            within=120,
            saying="pods that have started are not listed",
        )
        lost = time.monotonic()
        real_node.kill_sandbox(namespace.name, name)
        await eventually(
            lambda: [each.pid for each in real_node.containers(namespace.name, name) if each.name],
            until=lambda pids: any(pid != before and pods.sees_gpu(pid) for pid in pids),
            within=120,
            saying="its container runs again, with the GPU",
        )
        took = time.monotonic() - lost
        await eventually(lambda: namespace.get(PODS, name), until=started, saying="its sandbox is ready")
    again = [each for each in history.versions if each.received > lost and is_listed(each.object, uid)]
    assert again, "without its entry the kubelet would not have let it start"
    relisted = again[0].received - lost
    remark(f"sandbox of an unlisted pod lost: listed again after {relisted:.2f} s, running after {took:.2f} s")
    assert took <= BACK_WITHIN


def is_listed(claim: Json, uid: str) -> bool:
    return any(entry["uid"] == uid for entry in entries(claim))
