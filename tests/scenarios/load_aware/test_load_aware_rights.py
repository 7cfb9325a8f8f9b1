"""Least privilege of load-aware scheduling: each permission of deploy/reservations-load-aware is needed, and its lack
is told and keeps no pod from a node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.scenarios.eventually import eventually
from tests.scenarios.load_aware.conftest import RIGHTS
from tests.scenarios.load_aware.test_load_aware import HOT, pod, report
from tests.scenarios.reservations.conftest import NODES
from tests.scenarios.resources import CLUSTER_ROLES, NODE_METRICS, PODS
from tests.scenarios.rights import granted
from tests.scenarios.target import Capability

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.cluster.processes import Process
    from tests.scenarios.api import Api

pytestmark = [pytest.mark.needs(Capability.RIGHTS)]

ROLE: Final = "dra-reserve-load-aware"
VERBS: Final = ("list", "watch")
SOON: Final = 60.0


def test_every_right_that_is_granted_is_taken_away_here() -> None:
    assert {(right.group, right.resource, right.verb) for right in granted(RIGHTS)} == {
        ("slo.koordinator.sh", "nodemetrics", verb) for verb in VERBS
    }


async def permit(api: Api, *verbs: str) -> None:
    """Leave the extender these verbs on NodeMetrics."""
    rules = [{"apiGroups": ["slo.koordinator.sh"], "resources": ["nodemetrics"], "verbs": verbs}]
    await api.patch(CLUSTER_ROLES, ROLE, {"rules": rules if verbs else []}, kind="merge-patch")


@pytest.fixture
async def permitted(api_with_metrics: Api, extender: Process) -> AsyncIterator[Api]:
    """The API, with three hot nodes; at the end the extender has its rights."""
    for node in NODES:
        await report(api_with_metrics, node, HOT)
    yield api_with_metrics
    await permit(api_with_metrics, *VERBS)
    extender.restart()


async def test_without_the_right_to_list_hot_nodes_get_pods_until_it_is_granted(
    permitted: Api, extender: Process
) -> None:
    await permit(permitted, "watch")
    extender.restart()
    await permitted.create(pod("before"), namespace="default")
    await eventually(lambda: _node(permitted, "before"), saying="a node gets the pod although all are hot")
    await eventually(lambda: _told(extender, "list"), within=SOON, saying="the refused list is told")
    await permit(permitted, *VERBS)

    async def refused() -> bool:
        """Place one more pod: the extender lists again after a pause."""
        name = f"p{len(await permitted.all(PODS, namespace='default'))}"
        await permitted.create(pod(name), namespace="default")
        return "cpu usage exceed threshold" in await eventually(
            lambda: _verdict(permitted, name), saying="the scheduler has looked at the pod"
        )

    await eventually(refused, within=SOON, saying="no hot node gets a pod")


@pytest.mark.long
async def test_a_watch_that_is_refused_is_told(permitted: Api, extender: Process) -> None:
    await permit(permitted, "list")
    extender.restart()
    await eventually(lambda: _told(extender, "watch"), within=SOON, saying="the refused watch is told")


def _told(extender: Process, verb: str) -> bool:
    log = extender.log.read_text(encoding="utf-8", errors="replace")
    return f'cannot {verb} resource "{NODE_METRICS.plural}"' in log


async def _node(api: Api, name: str) -> str:
    return str((await api.get(PODS, name, namespace="default"))["spec"].get("nodeName", ""))


async def _verdict(api: Api, name: str) -> str:
    """Return the node of a pod, or why there is none; empty before the scheduler has looked."""
    given = await api.get(PODS, name, namespace="default")
    conditions = given.get("status", {}).get("conditions", [])
    told = next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")
    return str(given["spec"].get("nodeName", "") or told)
