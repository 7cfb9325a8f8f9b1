"""A whole plane migrates pods, in virtual time, with the descheduler, extender and controller of real clusters."""

import asyncio
import contextlib

import pytest

from dra.cli.local.plane_descheduler import DESCHEDULER_COMPONENT, add_descheduler
from localplane.fault_injection import Fault, FaultRule
from tests.dra.cli.local import test_plane_extender

VIRTUAL_TIME = True

JOBS = "/apis/scheduling.koordinator.sh/v1alpha1/podmigrationjobs"
PODS = test_plane_extender.PODS
RESERVATIONS = test_plane_extender.RESERVATIONS
REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"


class Site(test_plane_extender.Site):
    """A plane of two nodes with a descheduler."""

    def __init__(self):
        super().__init__()
        add_descheduler(self.plane)

    async def workload(self):
        """Create a workload of two pods, and return one that runs."""
        labels = {"app": "web"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [test_plane_extender.container("1")]}}
        spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
        await self.ask("POST", REPLICA_SETS, {"metadata": {"name": "web"}, "spec": spec})
        async with asyncio.timeout(60):
            while True:
                for pod in (await self.ask("GET", PODS))["items"]:
                    if pod["status"].get("phase") == "Running":
                        return pod
                await asyncio.sleep(0.5)

    async def migrate(self, pod, name="m"):
        given = {"namespace": "default", "name": pod["metadata"]["name"]}
        head = {"kind": "PodMigrationJob", "apiVersion": "scheduling.koordinator.sh/v1alpha1"}
        body = {**head, "metadata": {"name": name}, "spec": {"podRef": given, "mode": "ReservationFirst"}}
        await self.ask("POST", JOBS, body)

    async def ended(self, name="m", *, seconds=120):
        """Return the status of a job once it has ended."""
        async with asyncio.timeout(seconds):
            while True:
                status = (await self.ask("GET", f"{JOBS}/{name}")).get("status", {})
                if status.get("phase") in ("Succeeded", "Failed"):
                    return status
                await asyncio.sleep(0.5)


@pytest.fixture
async def site():
    made = Site()
    running = asyncio.ensure_future(made.plane.run())
    await made.plane.wait_ready()
    await made.extender.wait_ready()
    try:
        yield made
        if running.done():
            running.result()
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def check_moved(site, pod):
    status = await site.ended()
    assert status["phase"] == "Succeeded", status
    assert status["nodeName"] != pod["spec"]["nodeName"]
    assert await site.node(status["podRef"]["name"]) == status["nodeName"]


async def test_a_pod_moves_to_capacity_that_was_reserved_before(site):
    pod = await site.workload()
    await site.migrate(pod)
    await check_moved(site, pod)


async def test_a_descheduler_that_crashes_goes_on_with_the_migration(site):
    pod = await site.workload()
    await site.migrate(pod)
    await asyncio.sleep(0.3)
    assert site.plane.supervisor.crash(DESCHEDULER_COMPONENT)
    await check_moved(site, pod)


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(
            FaultRule(fault=Fault.LOST, component="descheduler", resource="pods/eviction", times=2), id="lost"
        ),
        pytest.param(
            FaultRule(fault=Fault.LOST, component="descheduler", resource="reservations*", times=1, after=True),
            id="no-answer",
        ),
        pytest.param(
            FaultRule(fault=Fault.CONFLICT, component="descheduler", resource="podmigrationjobs*", times=3),
            id="somebody-faster",
        ),
        pytest.param(
            FaultRule(fault=Fault.CRASH, component="descheduler", resource="pods/eviction", times=1), id="crash"
        ),
    ],
)
async def test_a_migration_survives_faults_of_its_requests(site, rule):
    pod = await site.workload()
    site.plane.faults.set([rule])
    await site.migrate(pod)
    await check_moved(site, pod)


async def test_a_restored_plane_starts_the_descheduler_anew(site):
    pod = await site.workload()
    raw = site.plane.snapshot()
    await site.migrate(pod, "lost")
    await asyncio.sleep(1)
    site.plane.restore(raw)
    await asyncio.sleep(30)
    pods = (await site.ask("GET", PODS))["items"]
    running = next(each for each in pods if each["status"].get("phase") == "Running")
    await site.migrate(running)
    await check_moved(site, running)
