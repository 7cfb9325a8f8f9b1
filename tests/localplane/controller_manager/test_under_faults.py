"""Kubelets and controllers behind an unreliable network: whatever happens on the way, things end well."""

import asyncio
import contextlib

import pytest

from dra.kube.client import Client
from dra.kube.rate_limiter import RateLimiter
from localplane.controller_manager.manager import ControllerManager
from localplane.fault_injection import Fault, FaultInjector, FaultRule, FaultyHandler
from localplane.nodes.kubelets import Kubelets
from localplane.nodes.node_objects import EmulatedNode
from localplane.transport import LocalTransport
from tests.dra.kube.virtual import seeded
from tests.localplane.components import Plane, running
from tests.localplane.controller_manager.test_deployments import deployment, images, template
from tests.localplane.controller_manager.test_jobs import job

VIRTUAL_TIME = True

TROUBLE = (
    FaultRule(fault=Fault.DELAY, probability=0.1, seconds=3.0),
    FaultRule(fault=Fault.DELAY, probability=0.1, seconds=3.0, after=True),
    FaultRule(fault=Fault.DELAY, probability=0.02, seconds=30.0),
    FaultRule(fault=Fault.CONFLICT, probability=0.05),
    FaultRule(fault=Fault.BUSY, probability=0.05),
    FaultRule(fault=Fault.ERROR, probability=0.05),
    FaultRule(fault=Fault.ERROR, probability=0.05, after=True),
    FaultRule(fault=Fault.REFUSED, probability=0.05),
    FaultRule(fault=Fault.LOST, probability=0.05, after=True),
    FaultRule(fault=Fault.BREAK, probability=0.05),
    FaultRule(fault=Fault.EXPIRED, probability=0.05),
    FaultRule(fault=Fault.SILENCE, probability=0.01),
)


async def run_with_crashes(start_component, faults, *, random):
    """Run a component, and for the first minutes end and restart it now and then, as a crash does."""
    for _ in range(12):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(random.uniform(5.0, 60.0)):
                await start_component().run()
    faults.set(())
    await start_component().run()


async def test_somebody_who_is_always_faster_stops_nothing_but_the_write():
    plane = Plane()
    rules = [FaultRule(fault=Fault.CONFLICT, lasting=300.0)]
    faults = FaultInjector(clock=plane.clock, random=seeded(1), rules=rules)
    way = Client(
        LocalTransport(FaultyHandler(plane.server, faults, component="x")),
        RateLimiter(1e6, 1e6, clock=plane.clock),
        clock=plane.clock,
    )
    kubelets = Kubelets(way, nodes=[EmulatedNode(name="n1")], clock=plane.clock, random=seeded(2))
    workloads = ControllerManager(way, clock=plane.clock, random=seeded(3))
    async with running(kubelets, workloads):
        await plane.user.create("jobs", job("train", parallelism=10, completions=20))
        await plane.user.create("deployments", deployment("web"))
        await asyncio.sleep(300)
        assert faults.counts[Fault.CONFLICT] < 3000
        await asyncio.sleep(100)
        found = await plane.user.get("jobs", "train")
    assert found["status"]["succeeded"] == 20


@pytest.mark.parametrize("seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(5, 12))])
async def test_all_ends_well(seed):
    plane = Plane(seed=seed)
    random = seeded(seed)
    faults = FaultInjector(clock=plane.clock, random=random)

    def client(name):
        transport = LocalTransport(FaultyHandler(plane.server, faults, component=name))
        return Client(transport, RateLimiter(1e6, 1e6, clock=plane.clock), clock=plane.clock)

    def kubelets():
        return Kubelets(client("kubelets"), nodes=[EmulatedNode(name="n1")], clock=plane.clock, random=random)

    def workloads():
        return ControllerManager(client("workloads"), clock=plane.clock, random=random)

    tasks = [asyncio.create_task(run_with_crashes(make, faults, random=random)) for make in (kubelets, workloads)]
    await asyncio.sleep(2)  # pods of a node that is missing for long are removed: rightly, but they count as failed
    faults.set(TROUBLE)
    await plane.user.create("jobs", job("train", command=("sleep", "7"), parallelism=10, completions=20))
    indexed = {"parallelism": 10, "completions": 10, "completionMode": "Indexed"}
    await plane.user.create("jobs", job("indexed", command=("sleep", "7"), **indexed))
    await plane.user.create("deployments", deployment("web"))
    await asyncio.sleep(60)
    await plane.user.patch("deployments", "web", {"spec": {"template": template("web", "busybox:2")}})
    await asyncio.sleep(900)
    try:
        assert not any(task.done() for task in tasks)
        for name, wanted in (("train", 20), ("indexed", 10)):
            found = await plane.user.get("jobs", name)
            kinds = [c["type"] for c in found["status"]["conditions"] if c["status"] == "True"]
            assert kinds == ["SuccessCriteriaMet", "Complete"]
            assert found["status"]["succeeded"] >= wanted
            # A pod made twice, since an answer was lost, ends with the Job and may be seen as failed before.
            assert found["status"].get("failed", 0) < 3
        pods = await plane.user.list("pods")
        assert not any(pod["metadata"].get("finalizers") for pod in pods)
        assert not any("deletionTimestamp" in pod["metadata"] for pod in pods)
        assert [image for image in await images(plane) if image.startswith("busybox:")] == ["busybox:2"] * 3
        revision = plane.server.store.revision
        await asyncio.sleep(120)
        written = {
            event.object.key.collection
            for c in ("pods", "jobs.batch", "replicasets.apps", "deployments.apps")
            for event in plane.server.store.events_since(c, revision)
        }
        assert not written
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
