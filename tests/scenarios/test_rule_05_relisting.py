"""Rule 5: a bound pod that is not started and not listed is listed at once, whatever the reason, and then touched.

Its kubelet has refused it or will, and looks again when the pod changes. A pod that is not bound and that the scheduler
took off the list comes back to it after a pause that grows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise

import pytest

from tests.scenarios import objects, steps
from tests.scenarios.api import Json
from tests.scenarios.claims import listed, started
from tests.scenarios.history import WatchHistory
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import NODES, PODS
from tests.scenarios.target import Capability, Mode, Target

pytestmark = [pytest.mark.modes(Mode.REPLACE), pytest.mark.usefixtures("controller")]

AT_ONCE = 10.0
"""Seconds: a decision and a write, on two cores that others use as well."""


async def test_a_pod_that_lost_its_sandbox_is_listed_again(namespace: Namespace) -> None:
    await _started_and_unlisted(namespace, objects.pods("worker", 2, PodShape(claim="shared")))
    await _lose_sandbox(namespace, "worker-0")
    await steps.claim_is(
        namespace,
        "shared",
        lambda claim: listed(claim) == {"worker-0"},
        within=AT_ONCE,
        saying="the pod without a sandbox is listed, and no other",
    )
    await steps.pod_is(namespace, "worker-0", _touched, saying="its kubelet has a reason to look again")
    assert not _touched(await namespace.get(PODS, "worker-1"))

    await _sandbox(namespace, "worker-0", ready="True", since="2030-01-01T00:00:00Z")
    await steps.claim_is(namespace, "shared", lambda claim: not listed(claim), saying="started, it leaves the list")


async def test_the_pods_of_a_node_that_rebooted_are_listed_again(namespace: Namespace) -> None:
    """The API says that their sandboxes are ready until the kubelet has looked once, and for that it needs the list."""
    on_0, on_1 = (PodShape(claim="shared", spec=steps.on(node)) for node in ("node-000", "node-001"))
    await _started_and_unlisted(namespace, [objects.pod("here", on_0), objects.pod("there", on_1)])
    await _boot(namespace, "node-000", f"after-{namespace.name}")
    await steps.claim_is(
        namespace,
        "shared",
        lambda claim: listed(claim) == {"here"},
        within=AT_ONCE,
        saying="the rebooted node's pod is listed, and no other",
    )
    await steps.pod_is(namespace, "here", _touched, saying="its kubelet has a reason to look again")
    assert started(await namespace.get(PODS, "here"))

    await _sandbox(namespace, "here", ready="True", since="2030-01-01T00:00:00Z")
    await steps.claim_is(namespace, "shared", lambda claim: not listed(claim), saying="started, it leaves the list")


async def test_a_pod_that_was_bound_past_the_scheduler_is_listed(namespace: Namespace) -> None:
    await _started_and_unlisted(namespace, [objects.pod("worker", PodShape(claim="shared"))])
    await namespace.create(objects.pod("static", PodShape(claim="shared", hold=True, spec={"nodeName": "node-001"})))
    await steps.claim_is(
        namespace, "shared", lambda claim: listed(claim) == {"static"}, within=AT_ONCE, saying="it is listed"
    )
    await steps.pod_is(namespace, "static", _touched, saying="its kubelet has a reason to look again")


async def test_an_entry_taken_from_a_bound_pod_comes_back_at_once(namespace: Namespace) -> None:
    await _started_and_unlisted(namespace, [objects.pod("worker", PodShape(claim="shared"))])
    pod = await namespace.create(objects.pod("starting", PodShape(claim="shared", hold=True)))
    await steps.pod_is(namespace, "starting", lambda found: "startTime" in found["status"], saying="its node has it")
    await steps.claim_is(namespace, "shared", lambda claim: listed(claim) == {"starting"}, saying="it is listed")
    await steps.unlist(namespace, "shared", pod["metadata"]["uid"])
    await steps.claim_is(
        namespace, "shared", lambda claim: listed(claim) == {"starting"}, within=AT_ONCE, saying="it is listed again"
    )


@pytest.fixture
def scheduler_stands_still(target: Target) -> Iterator[None]:
    """From the moment a test freezes it to its end."""
    yield
    target.cluster.scheduler.thaw()


@pytest.mark.needs(Capability.COMPONENTS)
@pytest.mark.usefixtures("scheduler_stands_still")
async def test_an_entry_that_the_scheduler_took_away_comes_back_after_a_growing_pause(
    namespace: Namespace, target: Target
) -> None:
    """The pod has no gate: while the controller does not know that its own gate is gone, it counts no removal."""
    await _started_and_unlisted(namespace, [objects.pod("worker", PodShape(claim="shared"))])
    target.cluster.scheduler.freeze()
    async with namespace.history("shared") as history:
        pod = await namespace.create(objects.pod("waiting", PodShape(claim="shared")))
        taken_off = []
        for _ in range(3):
            await steps.claim_is(namespace, "shared", lambda claim: listed(claim) == {"waiting"}, saying="it is listed")
            taken_off.append(time.monotonic())
            await steps.unlist(namespace, "shared", pod["metadata"]["uid"])
        target.cluster.scheduler.thaw()
        await steps.pods_run(namespace, "waiting")
    first, second, *_ = (back - off for off, back in zip(taken_off, _returns(history, "waiting"), strict=False))
    assert first > 0.9
    assert second > 1.8


async def _started_and_unlisted(namespace: Namespace, pods: list[Json]) -> None:
    """Pods that run and that the list does not name, since it names their workload."""
    devices = await namespace.offer_devices()
    await namespace.create(objects.deployment("crew", PodShape(), replicas=0))
    await namespace.create(objects.claim("shared", device_class=devices, reserved_for="deployments.apps/crew"))
    await namespace.create_all(pods)
    await steps.pods_run(namespace)
    await steps.claim_is(
        namespace, "shared", lambda claim: listed(claim, "deployments") and not listed(claim), saying="no pod is listed"
    )


async def _lose_sandbox(namespace: Namespace, pod: str) -> None:
    await _sandbox(namespace, pod, ready="False", since="2029-01-01T00:00:00Z")


async def _sandbox(namespace: Namespace, pod: str, *, ready: str, since: str) -> None:
    """Say what a kubelet says of a pod's sandbox."""
    told = {"type": "PodReadyToStartContainers", "status": ready, "lastTransitionTime": since}
    await namespace.patch_status(PODS, pod, {"conditions": [told]}, kind="strategic-merge-patch")


async def _boot(namespace: Namespace, node: str, boot_id: str) -> None:
    status = {"status": {"nodeInfo": {"bootID": boot_id}}}
    await namespace.api.patch(NODES, node, status, subresource="status", kind="strategic-merge-patch")


def _touched(pod: Json) -> bool:
    return "reserve.dra/listed-at" in pod["metadata"].get("annotations", {})


def _returns(history: WatchHistory, name: str) -> list[float]:
    """Return when the pod was seen in the list again, each time that it had been taken off.

    A watch may show late that it was taken off, and its return in time: so whoever took it off says when.
    """
    there = [(name in listed(version.object), version.received) for version in history.versions]
    first = next((at for at, (is_there, _) in enumerate(there) if is_there), len(there))
    return [received for (before, _), (now, received) in pairwise(there[first:]) if now and not before]
