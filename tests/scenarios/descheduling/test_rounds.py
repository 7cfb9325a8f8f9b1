"""Plugins end to end: what they want to move goes by PodMigrationJobs that hold the places first."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.scenarios.api import Api, Json
from tests.scenarios.descheduling.conftest import RunProfile
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.reservations.conftest import NODES
from tests.scenarios.reservations.migrations import deployment, is_ready, pods_of, ready_pods, reasons
from tests.scenarios.resources import NODES as NODE_RESOURCE
from tests.scenarios.resources import POD_MIGRATION_JOBS, PODS, RESERVATIONS

WITHIN: Final = 90.0
"""Seconds for some migrations one after the other, on a machine with other things to do."""

SPOT: Final = {"key": "spot", "effect": "NoSchedule"}


async def change_node(api: Api, node: str, **parts: Any) -> None:
    await api.patch(NODE_RESOURCE, node, parts, kind="merge-patch")


async def start_on(api: Api, node: str, app: str, *, replicas: int, **given: Any) -> list[Json]:
    """Have a Deployment start on one node, and open all nodes again; return its pods."""
    others = [other for other in NODES if other != node]
    for other in others:
        await change_node(api, other, spec={"unschedulable": True})
    await api.create(deployment(app, replicas=replicas, **given), namespace="default")
    pods = await ready_pods(api, app, replicas)
    for other in others:
        await change_node(api, other, spec={"unschedulable": None})
    return pods


async def hosts(api: Api, app: str = "web") -> list[str]:
    """Return the nodes of the ready pods of a Deployment."""
    return sorted(pod["spec"].get("nodeName", "") for pod in await pods_of(api, app) if is_ready(pod))


async def jobs(api: Api) -> list[Json]:
    return await api.all(POD_MIGRATION_JOBS)


async def moved(api: Api, *, trigger: str, count: int | None = None) -> list[Json]:
    """Wait until the migrations of a plugin have succeeded, and check that each held its place first.

    ``count``: the number of migrations; None: any, since a round makes one after the other.
    """

    async def look() -> list[Json]:
        made = await jobs(api)
        assert len(made) == (len(made) or 1 if count is None else count), [
            job["metadata"]["annotations"] for job in made
        ]
        assert {job.get("status", {}).get("phase") for job in made} == {"Succeeded"}, [
            job.get("status") for job in made
        ]
        return made

    made = await eventually(look, within=WITHIN, saying="all migrations have succeeded")
    for job in made:
        annotations = job["metadata"]["annotations"]
        assert annotations["koordinator.sh/evict-trigger"] == trigger
        assert annotations["koordinator.sh/job-created-by"] == "dra-reserve-descheduler"
        assert annotations["koordinator.sh/evict-reason"]
        told = await reasons(api, job)
        assert told.index("ReservationScheduled") < told.index("Evicting"), told
    return made


async def test_copies_on_one_node_spread(moving: Api, profile: RunProfile) -> None:
    await start_on(moving, "node-0", "web", replicas=3)
    with profile("balance", "RemoveDuplicates"):
        await moved(moving, trigger="RemoveDuplicates", count=2)
    assert (await hosts(moving)).count("node-0") == 1


@pytest.mark.long
async def test_pods_follow_the_label_that_they_require(moving: Api, profile: RunProfile) -> None:
    await change_node(moving, "node-0", metadata={"labels": {"pool": "a"}})
    expression = {"key": "pool", "operator": "In", "values": ["a"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    await moving.create(deployment("web", replicas=2, affinity=affinity), namespace="default")
    await ready_pods(moving, "web", 2)
    await change_node(moving, "node-0", metadata={"labels": {"pool": "b"}})
    await change_node(moving, "node-2", metadata={"labels": {"pool": "a"}})
    args = {"nodeAffinityType": ["requiredDuringSchedulingIgnoredDuringExecution"]}
    with profile("deschedule", "RemovePodsViolatingNodeAffinity", args):
        await moved(moving, trigger="RemovePodsViolatingNodeAffinity", count=2)
    assert await hosts(moving) == ["node-2", "node-2"]


@pytest.mark.long
async def test_an_overutilized_node_gives_pods_to_an_underutilized_one(moving: Api, profile: RunProfile) -> None:
    cpus = int((await moving.get(NODE_RESOURCE, "node-0"))["status"]["allocatable"]["cpu"])
    await start_on(moving, "node-0", "web", replicas=8, cpu=str(cpus // 10))
    args = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}
    with profile("balance", "LowNodeUtilization", args):
        await eventually(lambda: jobs(moving), within=WITHIN, saying="a migration is made")
        made = await moved(moving, trigger="LowNodeUtilization")
    assert {job["status"]["nodeName"] for job in made} <= {"node-1", "node-2"}


async def test_a_node_reservation_set_under_running_pods_moves_those_that_no_longer_fit(
    moving: Api, profile: RunProfile
) -> None:
    """Each place is held first, one after the other, and no more pods go than have to."""
    cpus = int((await moving.get(NODE_RESOURCE, "node-0"))["status"]["allocatable"]["cpu"])
    await start_on(moving, "node-0", "web", replicas=3, cpu="4")
    with profile("deschedule", "RemovePodsViolatingNodeReservation", maxNoOfPodsToEvictPerNode=1):
        reserved = f'{{"resources": {{"cpu": "{cpus - 6}"}}}}'
        await change_node(moving, "node-0", metadata={"annotations": {"node.koordinator.sh/reservation": reserved}})

        async def at_most_one() -> int:
            made = await jobs(moving)
            under_way = [job for job in made if job.get("status", {}).get("phase") not in ("Succeeded", "Failed")]
            assert len(under_way) <= 1
            return len(made)

        await eventually(at_most_one, until=lambda count: count == 2, within=WITHIN, saying="two migrations are made")
        await moved(moving, trigger="RemovePodsViolatingNodeReservation", count=2)
    assert (await hosts(moving)).count("node-0") == 1


async def test_a_dry_run_writes_nothing(moving: Api, profile: RunProfile) -> None:
    before = {pod["metadata"]["uid"] for pod in await start_on(moving, "node-0", "web", replicas=3)}
    with profile("balance", "RemoveDuplicates", dryRun=True) as process:
        await eventually(
            lambda: "dry run: pod default/web" in process.tail(), within=30.0, saying="the log tells who would go"
        )

        async def unchanged() -> bool:
            same = {pod["metadata"]["uid"] for pod in await pods_of(moving, "web")} == before
            return same and await jobs(moving) == [] and await moving.all(RESERVATIONS) == []

        await steadily(unchanged, lasting=6.0, saying="nothing is written")


async def test_a_descheduler_that_is_killed_in_the_middle_goes_on(moving: Api, profile: RunProfile) -> None:
    await start_on(moving, "node-0", "web", replicas=4)
    await change_node(moving, "node-0", spec={"taints": [SPOT]})
    with profile("deschedule", "RemovePodsViolatingNodeTaints") as process:
        await eventually(lambda: jobs(moving), within=WITHIN, saying="a migration is made")
        process.kill()
        process.start(within=60)
        made = await moved(moving, trigger="RemovePodsViolatingNodeTaints", count=4)
    pods = [job["spec"]["podRef"]["uid"] for job in made]
    assert len(pods) == len(set(pods))
    assert "node-0" not in await hosts(moving)


async def test_labels_and_owners_of_a_tenant_make_no_pods_of_others_go(moving: Api, profile: RunProfile) -> None:
    """Pods that name the controller of another tenant's pods, with the same image and labels, are no copies of them."""
    await start_on(moving, "node-0", "web", replicas=1)
    (victim,) = await pods_of(moving, "web")
    forged = {
        "labels": victim["metadata"]["labels"],
        "ownerReferences": victim["metadata"]["ownerReferences"],
    }
    await moving.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "intruder"}})
    try:
        for number in range(3):
            container = {name: victim["spec"]["containers"][0][name] for name in ("name", "image", "resources")}
            spec = {"containers": [container], "schedulerName": victim["spec"]["schedulerName"]}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {**forged, "name": f"web-{number}"}}
            await moving.create({**pod, "spec": {**spec, "nodeName": "node-0"}}, namespace="intruder")
        with profile("balance", "RemoveDuplicates"):

            async def stays() -> bool:
                (pod,) = await pods_of(moving, "web")
                touched = {job["spec"]["podRef"]["namespace"] for job in await jobs(moving)}
                return pod["metadata"]["uid"] == victim["metadata"]["uid"] and touched <= {"intruder"}

            await steadily(stays, lasting=12.0, saying="the pod of the other tenant stays")
    finally:
        await moving.delete_collection(PODS, namespace="intruder", grace_seconds=0)
        await moving.request("DELETE", "/api/v1/namespaces/intruder")
