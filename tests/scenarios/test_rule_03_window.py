"""Rule 3: waiting pods are listed before the scheduler binds them, in a window of the list.

Only for claims with a workload reference and for pods that carry our gate or ask for it; never for pods behind somebody
else's gate. What is not started comes first, then what waits, by priority, then age. Some slots stay free for the
scheduler, and pods that make no progress for a minute hold none of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.scenarios import objects, steps
from tests.scenarios.api import Json
from tests.scenarios.claims import bound, entries, listed, started
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, PODS
from tests.scenarios.target import Capability, Mode, Target

pytestmark = [pytest.mark.modes(Mode.REPLACE), pytest.mark.usefixtures("controller")]

SLOTS = 240
FOREIGN_GATE = "example.com/other"


@pytest.fixture
def scheduler_stands_still(target: Target) -> Iterator[None]:
    """From the moment a test thaws it, it goes on."""
    yield
    target.cluster.scheduler.thaw()


@pytest.mark.needs(Capability.COMPONENTS)
@pytest.mark.usefixtures("scheduler_stands_still")
async def test_more_pods_than_slots_are_listed_by_priority(namespace: Namespace, target: Target) -> None:
    await _open(namespace, "shared")
    urgent = await namespace.create(objects.priority_class(f"{namespace.name}-urgent"))
    async with namespace.history("shared") as history:
        target.cluster.scheduler.freeze()
        await namespace.create_all(objects.pods("common", 290, PodShape(claim="shared", gated=True)))
        await steps.claim_is(
            namespace, "shared", lambda claim: len(entries(claim)) == SLOTS, saying="its window is full"
        )
        spec = {"priorityClassName": urgent["metadata"]["name"]}
        await namespace.create_all(objects.pods("urgent", 10, PodShape(claim="shared", gated=True, spec=spec)))
        await steps.claim_is(
            namespace,
            "shared",
            lambda claim: sum(name.startswith("urgent-") for name in listed(claim)) == 10,
            saying="the urgent ones are listed, though they came last",
        )
        let_go = [pod for pod in await namespace.all(PODS) if not bound(pod) and not steps.gates(pod)]
        target.cluster.scheduler.thaw()
        await steps.pods_run(namespace, within=60)
    assert 200 <= len(let_go) <= 256
    steps.assert_bounded(history)


@pytest.mark.needs(Capability.COMPONENTS)
@pytest.mark.usefixtures("scheduler_stands_still")
async def test_without_a_workload_only_pods_that_ask_for_it_are_listed_early(
    namespace: Namespace, target: Target
) -> None:
    await _open(namespace, "shared", reserved_for=None)
    target.cluster.scheduler.freeze()
    await namespace.create(objects.pod("plain", PodShape(claim="shared")))
    await namespace.create(objects.pod("asking", PodShape(claim="shared", annotations={objects.PRE_LIST: "true"})))
    await namespace.create(objects.pod("gated", PodShape(claim="shared", gated=True)))
    await steps.claim_is(
        namespace, "shared", lambda claim: {"asking", "gated"} <= listed(claim), saying="who asks for it is listed"
    )
    await steadily(lambda: _not_listed(namespace, "plain"), lasting=1.5, saying="the other one is the scheduler's")
    target.cluster.scheduler.thaw()
    await steps.pods_run(namespace)


async def test_a_pod_behind_a_foreign_gate_is_neither_listed_nor_let_go(namespace: Namespace) -> None:
    await _open(namespace, "shared")
    both = {"schedulingGates": [{"name": objects.GATE}, {"name": FOREIGN_GATE}]}
    async with namespace.history("shared") as history:
        await namespace.create(objects.pod("held-back", PodShape(claim="shared", spec=both)))
        await namespace.create(objects.pod("next", PodShape(claim="shared", gated=True)))
        await steps.pods_run(namespace, "next")
        await steadily(lambda: _gated_by_both(namespace), lasting=1.5, saying="it waits for the foreign gate")
        await history.catch_up()
        assert not any("held-back" in listed(version.object) for version in history.versions)

        await namespace.patch(PODS, "held-back", {"spec": {"schedulingGates": [{"name": objects.GATE}]}})
        await steps.pods_run(namespace, "held-back")


@pytest.mark.long
async def test_pods_without_progress_do_not_hold_the_window(namespace: Namespace) -> None:
    """Two claims at once, since each takes more than a minute."""
    devices = await namespace.offer_devices(2)
    await asyncio.gather(
        _crowded_out(namespace, "broken", devices, where=objects.ON_BROKEN_NODES),
        _crowded_out(namespace, "homeless", devices, where=steps.UNSCHEDULABLE),
    )
    await steps.told(namespace, "broken-0", "SandboxNotReady")


async def _crowded_out(namespace: Namespace, claim: str, devices: str, *, where: Json) -> None:
    """More stuck pods than slots, then some that could run: they do, as soon as the first have had their minute."""
    await namespace.create(objects.claim(claim, device_class=devices, reserved_for="deployments.apps/nobody"))
    await namespace.create(objects.pod(f"{claim}-opener", PodShape(claim=claim)))
    await steps.pods_run(namespace, f"{claim}-opener")
    shape = PodShape(claim=claim, gated=True)
    async with namespace.history(claim) as history:
        await namespace.create_all(objects.pods(claim, 250, replace(shape, spec=where)))
        await steps.claim_is(
            namespace, claim, lambda found: len(listed(found)) >= SLOTS - 2, saying="stuck pods fill its window"
        )
        await namespace.create_all(objects.pods(f"{claim}-late", 5, shape))
        await eventually(
            lambda: _started(namespace, f"{claim}-late-"),
            until=lambda count: count == 5,
            within=100,
            saying="the pods that came late run",
        )
    steps.assert_bounded(history)


async def _open(namespace: Namespace, name: str, *, reserved_for: str | None = "deployments.apps/crowd") -> None:
    """Make a claim that is allocated, since one pod runs; and reserved, if so wished."""
    devices = await namespace.offer_devices()
    await namespace.create(objects.deployment("crowd", PodShape(), replicas=0))
    await namespace.create(objects.claim(name, device_class=devices, reserved_for=reserved_for))
    await namespace.create(objects.pod("opener", PodShape(claim=name)))
    await steps.pods_run(namespace, "opener")
    if reserved_for:
        await steps.claim_is(namespace, name, lambda claim: listed(claim, "deployments"), saying="it is reserved")


async def _started(namespace: Namespace, prefix: str) -> int:
    pods = await namespace.all(PODS)
    return sum(started(pod) for pod in pods if pod["metadata"]["name"].startswith(prefix))


async def _not_listed(namespace: Namespace, name: str) -> bool:
    return name not in listed(await namespace.get(CLAIMS, "shared"))


async def _gated_by_both(namespace: Namespace) -> bool:
    return steps.gates(await namespace.get(PODS, "held-back")) == [objects.GATE, FOREIGN_GATE]
