"""A new instance of the plugin takes over from the old one while pods come and go: none of them notices."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest

from tests.cluster.node import RealNode
from tests.scenarios.namespaces import Namespace
from tests.scenarios.real_node import churn, pods
from tests.scenarios.real_node.conftest import StartPlugin
from tests.scenarios.resources import JOBS
from tests.scenarios.target import Capability, Mode

pytestmark = [pytest.mark.needs(Capability.KUBELET, Capability.COMPONENTS), pytest.mark.modes(Mode.REPLACE)]

GPUS = 3


@pytest.mark.usefixtures("controller")
@pytest.mark.parametrize(
    ("in_all", "within"),
    [pytest.param(9, 60, id="9-pods"), pytest.param(60, 180, id="60-pods", marks=pytest.mark.long)],
)
async def test_no_prepare_fails_while_instances_overlap(
    start_plugin: StartPlugin,
    namespace: Namespace,
    real_node: RealNode,
    remark: Callable[[str], None],
    in_all: int,
    within: float,
) -> None:
    old = await start_plugin(gpus=GPUS, instance=str(uuid4()))
    await churn.start(namespace, at_once=GPUS, in_all=in_all)
    updates = 0
    while not churn.is_complete(await namespace.get(JOBS, churn.JOB)) and updates < in_all // 3:
        new = await start_plugin(gpus=GPUS, instance=str(uuid4()))
        old.stop()
        old, updates = new, updates + 1
    await churn.complete(namespace, within=within)
    assert await pods.failures(namespace) == []
    used = await churn.uses(namespace, real_node)
    assert len(used) == in_all
    churn.assert_one_holder(used)
    remark(f"{updates} rolling updates of the plugin under {in_all} pods that came and went: no prepare failed")
