"""A whole plane runs rounds of descheduling, in virtual time, with all processes of real clusters."""

import asyncio
import contextlib

import pytest

from dra.api.descheduler.configuration import DeschedulerProcessConfiguration
from dra.cli.local.plane_descheduler import DESCHEDULER_COMPONENT, add_descheduler
from localplane.fault_injection import Fault, FaultRule
from tests.dra.cli.local import test_plane_extender

VIRTUAL_TIME = True

JOBS = "/apis/scheduling.koordinator.sh/v1alpha1/podmigrationjobs"
NODES = "/api/v1/nodes"
PODS = test_plane_extender.PODS
RESERVATIONS = test_plane_extender.RESERVATIONS
REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"
SPOT = {"key": "spot", "effect": "NoSchedule"}


def configured(plugin, *, args=None, point="deschedule", **more):
    """Return a configuration with one plugin; migrations are not slowed down."""
    given = [] if args is None else [{"name": plugin, "args": args}]
    profile = {"name": "p", "plugins": {point: {"enabled": [{"name": plugin}]}}, "pluginConfig": given}
    migration = {
        "objectLimiters": {"workload": {"duration": "0s"}},
        "maxMigratingPerWorkload": 1,
        "maxMigratingPerNode": None,
        "skipCheckExpectedReplicas": True,
        **more.pop("migration", {}),
    }
    return DeschedulerProcessConfiguration.model_validate(
        {"profiles": [profile], "migration": migration, "deschedulingInterval": "20s", **more}
    )


class Site(test_plane_extender.Site):
    """A plane of two nodes whose descheduler has a profile."""

    def __init__(self, configuration):
        super().__init__()
        add_descheduler(self.plane, configuration)

    @contextlib.asynccontextmanager
    async def running(self):
        task = asyncio.ensure_future(self.plane.run())
        await self.plane.wait_ready()
        await self.extender.wait_ready()
        try:
            yield self
            if task.done():
                task.result()
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def workload(self, replicas, *, cpu="1"):
        labels = {"app": "web"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [test_plane_extender.container(cpu)]}}
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        await self.ask("POST", REPLICA_SETS, {"metadata": {"name": "web"}, "spec": spec})
        return await self.until(lambda: self.ready(replicas))

    async def until(self, look, *, within=300):
        async with asyncio.timeout(within):
            while True:
                if answer := await look():
                    return answer
                await asyncio.sleep(0.5)

    async def ready(self, replicas):
        pods = (await self.ask("GET", PODS))["items"]
        ready = [pod for pod in pods if pod["status"].get("phase") == "Running"]
        return ready if len(ready) == replicas == len(pods) else []

    async def nodes_of_pods(self):
        return [pod["spec"].get("nodeName") for pod in (await self.ask("GET", PODS))["items"]]

    async def jobs(self):
        return (await self.ask("GET", JOBS))["items"]

    async def taint(self, node):
        await self.ask("PATCH", f"{NODES}/{node}", {"spec": {"taints": [SPOT]}})

    async def all_left(self, node):
        return node not in await self.nodes_of_pods() and all(
            job.get("status", {}).get("phase") == "Succeeded" for job in await self.jobs()
        )


TAINTS = configured("RemovePodsViolatingNodeTaints")


async def check_pods_leave(site, *, replicas=3):
    """Taint the node of a pod, and wait until all its pods are elsewhere, each by a migration."""
    pods = await site.workload(replicas)
    node = pods[0]["spec"]["nodeName"]
    leaving = {pod["metadata"]["uid"] for pod in pods if pod["spec"]["nodeName"] == node}
    await site.taint(node)
    await site.until(lambda: site.all_left(node))
    jobs = await site.jobs()
    assert {job["spec"]["podRef"]["uid"] for job in jobs} == leaving
    assert {job["spec"]["mode"] for job in jobs} == {"ReservationFirst"}
    assert all(job["status"]["nodeName"] not in ("", node) for job in jobs)


async def test_pods_leave_a_tainted_node_once_their_places_are_held():
    async with Site(TAINTS).running() as site:
        await check_pods_leave(site)


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(
            FaultRule(fault=Fault.LOST, component="descheduler", resource="podmigrationjobs*", times=3, after=True),
            id="no-answer",
        ),
        pytest.param(
            FaultRule(fault=Fault.CRASH, component="descheduler", resource="podmigrationjobs*", times=2), id="crash"
        ),
        pytest.param(
            FaultRule(fault=Fault.LOST, component="descheduler", resource="pods/eviction", times=2), id="lost-eviction"
        ),
    ],
)
async def test_rounds_survive_faults_of_their_writes_and_no_pod_has_two_jobs(rule):
    async with Site(TAINTS).running() as site:
        site.plane.faults.set([rule])
        await check_pods_leave(site)


async def test_a_descheduler_that_is_killed_in_the_middle_goes_on():
    async with Site(TAINTS).running() as site:
        pods = await site.workload(4)
        node = pods[0]["spec"]["nodeName"]
        await site.taint(node)
        await site.until(site.jobs)
        assert site.plane.supervisor.crash(DESCHEDULER_COMPONENT)
        await site.until(lambda: site.all_left(node))
        uids = [job["spec"]["podRef"]["uid"] for job in await site.jobs()]
        assert len(uids) == len(set(uids))


async def test_a_dry_run_writes_nothing():
    async with Site(configured("RemovePodsViolatingNodeTaints", dryRun=True)).running() as site:
        pods = await site.workload(3)
        before = await site.nodes_of_pods()
        await site.taint(pods[0]["spec"]["nodeName"])
        await asyncio.sleep(120)
        assert await site.jobs() == []
        assert await site.nodes_of_pods() == before
        assert (await site.ask("GET", RESERVATIONS))["items"] == []


async def test_a_job_that_needs_approval_moves_nothing_before():
    needs = configured("RemovePodsViolatingNodeTaints", migration={"approval": "Required", "defaultJobTTL": "1h"})
    async with Site(needs).running() as site:
        pods = await site.workload(2)
        node = pods[0]["spec"]["nodeName"]
        await site.taint(node)
        jobs = await site.until(site.jobs)
        await asyncio.sleep(60)
        assert node in await site.nodes_of_pods()
        assert (await site.ask("GET", RESERVATIONS))["items"] == []
        for job in jobs:
            await site.ask("PATCH", f"{JOBS}/{job['metadata']['name']}", {"spec": {"paused": False}})
        await site.until(lambda: site.all_left(node))


async def test_a_node_reservation_under_running_pods_moves_those_that_no_longer_fit():
    async with Site(configured("RemovePodsViolatingNodeReservation")).running() as site:
        pods = await site.workload(4)
        node = pods[0]["spec"]["nodeName"]
        allocatable = (await site.ask("GET", f"{NODES}/{node}"))["status"]["allocatable"]["cpu"]
        reserved = str(int(allocatable) - 1)
        annotations = {"node.koordinator.sh/reservation": f'{{"resources": {{"cpu": "{reserved}"}}}}'}
        await site.ask("PATCH", f"{NODES}/{node}", {"metadata": {"annotations": annotations}})

        async def fits():
            return (await site.nodes_of_pods()).count(node) <= 1 and await site.ready(4)

        await site.until(fits)
        assert all(job["spec"]["mode"] == "ReservationFirst" for job in await site.jobs())
