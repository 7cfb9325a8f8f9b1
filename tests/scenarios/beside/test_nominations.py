"""Nominations that nobody clears: they count for a minute where no binding cycle can be under way.

Volcano never clears ``nominatedNodeName``, and neither autoscaler adds a node for a nominated pod.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import pytest

from tests.scenarios import namespaces, objects, steps
from tests.scenarios.api import Api
from tests.scenarios.beside import kept_claims
from tests.scenarios.beside.volcano import Volcano, member
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import PODS
from tests.scenarios.target import Mode

pytestmark = [pytest.mark.modes(Mode.REPLACE), pytest.mark.usefixtures("controller"), pytest.mark.long]

ELSEWHERE: Final = "node-001"
THIRD: Final = "node-002"

REVOKED_WITHIN: Final = 200.0
"""Seconds: a minute for the nomination, one for binding cycles, another one until the next live read; with the long
horizon the revocation takes 21 minutes."""


@asynccontextmanager
async def kept_on_its_own_node(api: Api, name: str) -> AsyncIterator[tuple[Namespace, str]]:
    """Yield a namespace whose claim is kept for a workload on a node of its own, while another node has devices too.

    Only Volcano schedules, and only to that other node.
    """
    async with AsyncExitStack() as stack:
        namespace = await stack.enter_async_context(namespaces.temporary(api, purpose=f"nominated-{name}"))
        node = await steps.add_node(namespace, "own")
        devices = await namespace.offer_devices(node=node)
        await namespace.offer_devices(node=ELSEWHERE)
        await kept_claims.keep(namespace, "shared", devices=devices, node=node)
        volcano = Volcano(namespace, node=ELSEWHERE, devices=devices, min_member=1)
        await stack.enter_async_context(volcano.running())
        yield namespace, node


async def wait_nominated(namespace: Namespace, node: str) -> None:
    """Create a pod that no node of the allocation takes, nominated to a node."""
    container = {"name": "main", "image": objects.IMAGE, "resources": {"requests": {"cpu": "10"}}}
    await namespace.create(member("worker", PodShape(claim="shared", gated=True, spec={"containers": [container]})))
    await steps.pod_is(namespace, "worker", steps.unschedulable, saying="Volcano has no node for it")
    await namespace.patch_status(PODS, "worker", {"nominatedNodeName": node})


async def test_a_nomination_ages_where_no_binding_cycle_is_possible(api: Api) -> None:
    async with (
        kept_on_its_own_node(api, "gone") as (gone, gone_node),
        kept_on_its_own_node(api, "full") as (full, full_node),
        kept_on_its_own_node(api, "elsewhere") as (elsewhere, elsewhere_node),
    ):
        await steps.cordon(gone, gone_node)
        await steps.cordon(elsewhere, elsewhere_node)
        container = {"name": "main", "image": objects.IMAGE, "resources": {"requests": {"cpu": "60"}}}
        await full.create(objects.pod("filler", PodShape(spec={"containers": [container], **steps.on(full_node)})))
        await steps.pods_run(full, "filler")
        await asyncio.gather(
            wait_nominated(gone, "no-such-node"), wait_nominated(full, full_node), wait_nominated(elsewhere, THIRD)
        )
        cases = (gone, full, elsewhere)
        await asyncio.gather(*(steps.pods_run(each, "worker", within=REVOKED_WITHIN) for each in cases))
        assert {(await each.get(PODS, "worker"))["spec"]["nodeName"] for each in cases} == {ELSEWHERE}
