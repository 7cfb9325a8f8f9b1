"""Beside an autoscaler: nodes that it deletes by force, and nodes that it adds for the pods that it can see."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.scenarios import objects, plugin_of_kubectl, steps
from tests.scenarios.beside.autoscaler import Autoscaler
from tests.scenarios.claims import allocated, bound, finished, listed
from tests.scenarios.eventually import eventually
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import PODS
from tests.scenarios.target import Mode, Target

pytestmark = pytest.mark.usefixtures("controller")

Json = dict[str, Any]

FREED_WITHIN: Final = 120.0
"""Seconds: a minute for binding cycles that chose the deleted node, live reads, and some for a busy machine."""

RELEASED_WITHIN: Final = 120.0
"""Seconds: a minute for binding cycles that saw the entries, and some for a busy machine."""

SMALL: Final = 8
LARGE: Final = 64
"""CPUs of the nodes that the autoscaler can add."""

TEAM: Final = 9
TEAM_WITHIN: Final = 30.0
"""Seconds until the autoscaler sees the whole team: ten for the first pod alone, and some for a busy machine."""


def asking(cpus: int, **known: Any) -> PodShape:
    """Return the shape of a pod that shares the claim and asks for CPUs."""
    container = {"name": "main", "image": objects.IMAGE, "resources": {"requests": {"cpu": str(cpus)}}}
    return PodShape(claim="shared", spec={"containers": [container]}, **known)


async def test_a_claim_of_a_running_and_a_waiting_pod_moves_once_their_node_is_deleted_by_force(
    namespace: Namespace,
) -> None:
    node = await steps.add_node(namespace, "own")
    devices = await namespace.offer_devices(node=node)
    await namespace.create(objects.claim("shared", device_class=devices))
    await namespace.create(objects.pod("runs", asking(60)))
    await steps.pods_run(namespace, "runs")
    await namespace.create(objects.pod("waits", asking(10, gated=True)))
    await steps.pod_is(namespace, "waits", steps.unschedulable, saying="its node is full")
    await steps.claim_is(namespace, "shared", lambda claim: {"runs", "waits"} <= listed(claim), saying="lists both")
    autoscaler = Autoscaler(namespace)
    async with autoscaler.running():
        await autoscaler.delete_node(node)
        await steps.claim_is(
            namespace, "shared", lambda claim: _not_on(claim, node), within=FREED_WITHIN, saying="it has left the node"
        )
        await steps.pods_run(namespace, "waits")
    (added,) = autoscaler.nodes
    assert (await namespace.get(PODS, "waits"))["spec"]["nodeName"] == added


async def test_it_sees_all_pods_of_a_claim_once_no_node_has_taken_the_first(namespace: Namespace) -> None:
    await namespace.create(objects.device_class(_devices(namespace), driver=_devices(namespace)))
    await namespace.create(objects.claim("shared", device_class=_devices(namespace)))
    await namespace.create_all(objects.pods("member", TEAM, asking(4, gated=True)))
    await eventually(
        lambda: namespace.all(PODS),
        until=lambda pods: all(map(steps.unschedulable, pods)),
        within=TEAM_WITHIN,
        saying="the whole team asks for a node",
    )
    autoscaler = Autoscaler(namespace, cpus=(SMALL, LARGE))
    async with autoscaler.running():
        await steps.pods_run(namespace, count=TEAM)
    assert autoscaler.seen == [TEAM]


async def test_pods_that_the_node_of_the_first_has_no_room_for_are_explained_and_run_in_turn(
    namespace: Namespace, target: Target
) -> None:
    await namespace.create(objects.device_class(_devices(namespace), driver=_devices(namespace)))
    await namespace.create(objects.claim("shared", device_class=_devices(namespace)))
    autoscaler = Autoscaler(namespace, cpus=(SMALL, LARGE))
    async with autoscaler.running(nodes=2):
        await namespace.create_all(objects.pods("member", TEAM, asking(4, gated=True)))
        found = await eventually(
            lambda: namespace.all(PODS),
            until=lambda pods: sum(map(bound, pods)) == SMALL // 4 and sum(map(_refused, pods)) == TEAM - SMALL // 4,
            saying="two have a node, and the others are told that it is full",
        )
        waiting = next(pod["metadata"]["name"] for pod in found if not bound(pod))
        told = await plugin_of_kubectl.explained(target.admin, f"pod/{waiting}", namespace.name)
        assert "claim shared is allocated on node added-0-" in told["decision"]
        assert "the pod runs there once other pods of the node have ended" in told["decision"]
        assert autoscaler.seen == [1]
        await steps.end_pods(namespace)  # with the last pod of a node the claim may move, and a pod may get a new node
        await eventually(
            lambda: namespace.all(PODS), until=lambda pods: all(map(finished, pods)), saying="all have had their turn"
        )


@pytest.mark.long
@pytest.mark.modes(Mode.REPLACE)
async def test_a_claim_on_a_node_that_is_too_small_for_its_pods_moves_once_it_is_released(
    namespace: Namespace, target: Target
) -> None:
    """No other node has devices, so nothing proves that a revocation would help; and no node is added before."""
    await namespace.create(objects.device_class(_devices(namespace), driver=_devices(namespace)))
    await namespace.create(objects.claim("shared", device_class=_devices(namespace)))
    autoscaler = Autoscaler(namespace, cpus=(SMALL, LARGE))
    async with autoscaler.running(nodes=2):
        await namespace.create(objects.pod("first", asking(4, gated=True)))
        await steps.pods_run(namespace, "first")
        await namespace.create_all(objects.pods("larger", 2, asking(20, gated=True)))
        for name in ("larger-0", "larger-1"):
            await steps.pod_is(namespace, name, steps.unschedulable, saying="the node is too small for it")
        await steps.end_pods(namespace, "first")
        await steps.pod_is(namespace, "first", finished, saying="it has ended")
        await steps.told(namespace, "shared", "AllocationUnusable")
        told = await plugin_of_kubectl.explained(target.admin, "pod/larger-0", namespace.name)
        assert "release the claim once no pod uses it" in told["decision"]
        assert autoscaler.seen == [1]
        await steps.force_release(namespace, "shared")  # as `kubectl dra release` does where a controller runs
        await steps.pods_run(namespace, "larger-0", "larger-1", within=RELEASED_WITHIN)
    assert len(autoscaler.nodes) == 2


def _devices(namespace: Namespace) -> str:
    """Return the class of devices that the nodes of this namespace have."""
    return f"{namespace.name}.scenario.dra"


def _not_on(claim: Json, node: str) -> bool:
    return not allocated(claim) or node not in str(claim["status"]["allocation"])


def _refused(pod: Json) -> bool:
    return not bound(pod) and steps.unschedulable(pod) and "cannot allocate all claims" not in _message(pod)


def _message(pod: Json) -> str:
    found = (each for each in pod["status"]["conditions"] if each["type"] == "PodScheduled")
    message: str = next(found).get("message", "")
    return message
