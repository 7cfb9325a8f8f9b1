"""Rule 9: an allocation is taken back when it is itself what keeps pods waiting, and nobody consumes.

Its nodes are not ready, cordoned, or full while others would fit. The waiting pods are taken off the list behind a
guard; only when no scheduling cycle that saw them listed can still bind one, the allocation goes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import pytest

from tests.cluster.processes import Process
from tests.scenarios import namespaces, objects, steps
from tests.scenarios.api import Api, Json
from tests.scenarios.claims import allocated, bound, listed
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.history import WatchHistory
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, PODS
from tests.scenarios.target import Capability, Mode, Target

pytestmark = [pytest.mark.modes(Mode.REPLACE), pytest.mark.usefixtures("controller"), pytest.mark.long]

BIND_HORIZON = 60.0
"""Seconds, as in the rule: the scheduler may go on for so long with what it knew."""

OTHERS = 400
"""Pods without claims: at the scheduler's 100 requests at once and 50 a second it needs six seconds to bind them."""

ELSEWHERE = "node-001"
WORKERS = ("worker-0", "worker-1")


@dataclass(frozen=True)
class Case:
    """A claim that is reserved for a workload and allocated on a node of its own, while another node would fit too."""

    namespace: Namespace
    node: str
    claim: WatchHistory
    workers: tuple[WatchHistory, ...]

    async def workers_wait(self, **spec: object) -> None:
        """Create the workers, gated as usual, and wait until the scheduler has given up on them."""
        for name in WORKERS:
            await self.namespace.create(objects.pod(name, PodShape(claim="shared", gated=True, spec=spec)))
        for name in WORKERS:
            await steps.pod_is(self.namespace, name, steps.unschedulable, saying="no node takes it")

    async def unlisted(self) -> None:
        """Wait until taking back has begun."""
        await steps.claim_is(
            self.namespace,
            "shared",
            lambda claim: listed(claim, "guards") and not listed(claim),
            within=60,
            saying="no waiting pod is listed any more, and a guard is",
        )

    async def workers_run(self, *, within: float) -> None:
        await steps.pods_run(self.namespace, *WORKERS, within=within)

    async def assert_nothing_was_bound_to_a_lost_allocation(self) -> None:
        for history in (self.claim, *self.workers):
            await history.catch_up()
        for worker in self.workers:
            steps.assert_bound_to_allocation(worker, self.claim)
        told = [await steps.reasons(self.namespace, name) for name in WORKERS]
        assert not {"AllocationLost", "BoundWithoutAllocation", "PodOffAllocation"} & set().union(*told)

    async def assert_taken_back_once_and_late_enough(self) -> None:
        await self.claim.catch_up()
        versions = self.claim.versions
        taken = [
            i for i in range(1, len(versions)) if allocated(versions[i - 1].object) > allocated(versions[i].object)
        ]
        assert len(taken) == 1
        last_listed = max(i for i in range(taken[0]) if listed(versions[i].object))
        between = versions[last_listed + 1 : taken[0]]
        assert all(listed(version.object, "guards") for version in between)
        assert versions[taken[0]].received - between[0].received >= BIND_HORIZON - 1
        await steps.told(self.namespace, "shared", "AllocationStuck")


async def test_an_allocation_on_nodes_that_are_cordoned_or_full_is_taken_back(api: Api) -> None:
    """Beside them a pod that fits nowhere by its own fault: its claim keeps its allocation all the while."""
    async with _case(api, "lost") as lost, _case(api, "full") as full, _case(api, "innocent") as innocent:
        await steps.cordon(lost.namespace, lost.node)
        await full.namespace.create(objects.pod("filler", PodShape(spec=_cpus(64) | steps.on(full.node))))
        await steps.pods_run(full.namespace, "filler")
        await asyncio.gather(
            lost.workers_wait(),
            full.workers_wait(**_cpus(1)),
            innocent.workers_wait(**steps.UNSCHEDULABLE),
        )
        await asyncio.gather(lost.workers_run(within=90), full.workers_run(within=120))
        for case in (lost, full):
            await case.assert_nothing_was_bound_to_a_lost_allocation()
            await case.assert_taken_back_once_and_late_enough()
            assert {pod["spec"]["nodeName"] for pod in await _workers(case)} == {ELSEWHERE}
            await steps.claim_is(
                case.namespace, "shared", lambda claim: listed(claim, "deployments"), saying="it is reserved anew"
            )
        assert "AllocationStuck" not in await steps.reasons(innocent.namespace, "shared")
        await innocent.claim.catch_up()
        assert _once_allocated_always(innocent.claim)


@pytest.fixture
def scheduler(target: Target) -> Iterator[Process]:
    """The scheduler, which goes on in the end whatever a test has done to it."""
    yield target.cluster.scheduler
    target.cluster.scheduler.thaw()


@pytest.mark.needs(Capability.COMPONENTS)
async def test_a_binding_cycle_that_takes_almost_too_long_still_finds_the_allocation(
    api: Api, scheduler: Process
) -> None:
    """The scheduler has found the pods listed, will bind them without another look at the claim, and stands still.

    It gets that far, and no farther: many other pods go first, and their binding uses up its requests per second.
    Meanwhile the claim's node is cordoned and the pods still look unschedulable, so the allocation is taken back, and
    not too early.
    """
    async with _case(api, "slow") as case:
        await case.namespace.create(objects.pod("filler", PodShape(spec=_cpus(64) | steps.on(case.node))))
        await steps.pods_run(case.namespace, "filler")
        await case.workers_wait(**_cpus(1))
        urgent = await case.namespace.create(objects.priority_class(f"{case.namespace.name}-urgent"))

        scheduler.freeze()
        others = PodShape(labels={"app": "other"}, spec={"priorityClassName": urgent["metadata"]["name"]})
        await case.namespace.create_all(objects.pods("other", OTHERS, others))
        await case.namespace.delete(PODS, "filler", grace_seconds=1)  # now there is room, but the others are first
        scheduler.thaw()
        await eventually(lambda: _bound_others(case), until=lambda count: count >= OTHERS // 2, saying="half are bound")
        scheduler.freeze()
        await steps.cordon(case.namespace, case.node)
        await case.unlisted()
        await steadily(
            lambda: _allocated_and_unbound(case), lasting=BIND_HORIZON - 8, saying="the allocation is still there"
        )
        scheduler.thaw()
        await case.workers_run(within=30)
        await case.assert_nothing_was_bound_to_a_lost_allocation()
        assert {pod["spec"]["nodeName"] for pod in await _workers(case)} == {case.node}, "no cycle was under way"


@asynccontextmanager
async def _case(api: Api, name: str) -> AsyncIterator[Case]:
    """Yield a case: its claim was used by a pod, which is gone; what keeps it is its workload, scaled to zero."""
    async with AsyncExitStack() as stack:
        namespace = await stack.enter_async_context(namespaces.temporary(api, purpose=f"stuck-{name}"))
        node = await steps.add_node(namespace, "own")
        devices = await namespace.offer_devices(node=node)
        claim = await stack.enter_async_context(namespace.history("shared"))
        workers = [await stack.enter_async_context(namespace.history(each, resource=PODS)) for each in WORKERS]
        await namespace.create(objects.deployment("crew", PodShape(), replicas=0))
        await namespace.create(objects.claim("shared", device_class=devices, reserved_for="deployments.apps/crew"))
        await namespace.create(objects.pod("first", PodShape(claim="shared")))
        await steps.pods_run(namespace, "first")
        await steps.claim_is(namespace, "shared", lambda found: listed(found, "deployments"), saying="it is reserved")
        await steps.end_pods(namespace, "first")  # not by force: then nobody could tell when its containers end
        await steps.pod_is(namespace, "first", lambda pod: pod["status"]["phase"] == "Succeeded", saying="it has ended")
        await namespace.offer_devices(node=ELSEWHERE)
        yield Case(namespace, node, claim, tuple(workers))


def _cpus(count: int) -> Json:
    """Return what `PodShape.spec` needs for a pod that asks for CPUs; a fake node has 64."""
    container = {"name": "main", "image": objects.IMAGE, "resources": {"requests": {"cpu": str(count)}}}
    return {"containers": [container]}


async def _workers(case: Case) -> list[Json]:
    return [await case.namespace.get(PODS, name) for name in WORKERS]


async def _allocated_and_unbound(case: Case) -> bool:
    return allocated(await case.namespace.get(CLAIMS, "shared")) and not any(map(bound, await _workers(case)))


async def _bound_others(case: Case) -> int:
    return sum(map(bound, await case.namespace.all(PODS, labelSelector="app=other")))


def _once_allocated_always(history: WatchHistory) -> bool:
    found = [allocated(version.object) for version in history.versions]
    return all(found[found.index(True) :])
