"""Migrations through the real kube-scheduler with our extender; the numbers are those of the vectors of issue 19."""

from __future__ import annotations

import pytest

from tests.cluster.kubectl import kubectl
from tests.scenarios.api import Api, Json
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.reservations.migrations import (
    condition,
    deployment,
    ended,
    migration,
    outcome,
    pods_of,
    ready_pods,
    reasons,
)
from tests.scenarios.reservations.test_manual import reservation
from tests.scenarios.resources import DISRUPTION_BUDGETS, NODES, POD_MIGRATION_JOBS, RESERVATIONS
from tests.scenarios.target import Target

COLUMNS = ["NAME", "PHASE", "STATUS", "AGE", "NODE", "RESERVATION", "PODNAMESPACE", "POD", "NEWPOD", "TTL"]


async def test_01_the_demo_moves_a_pod_into_the_room_that_was_held(migrating: Api, target: Target) -> None:
    """Vector 1: five Events in order, the columns, the new pod on the node of the Reservation."""
    await migrating.create(deployment("pod-demo", replicas=1, cpu="200m"), namespace="default")
    (old,) = await ready_pods(migrating, "pod-demo", 1)
    await migrating.create(migration("migrationjob-demo", old, paused=False, ttl="5m", mode="ReservationFirst"))
    job = await ended(migrating, "migrationjob-demo")
    assert outcome(job) == ("Succeeded", ""), job["status"]
    (new,) = await ready_pods(migrating, "pod-demo", 1)
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    assert new["spec"]["nodeName"] == job["status"]["nodeName"] != old["spec"]["nodeName"]
    assert job["status"]["podRef"]["name"] == new["metadata"]["name"]
    uid = job["metadata"]["uid"]
    held = await migrating.get(RESERVATIONS, uid)
    assert [each["name"] for each in held["status"]["currentOwners"]] == [new["metadata"]["name"]]

    header, row = kubectl("get", "pmj", "migrationjob-demo", kubeconfig=target.admin).splitlines()
    assert header.split() == COLUMNS
    shown = row.split()
    names = [old["metadata"]["name"], new["metadata"]["name"]]
    assert (
        shown[:3] + shown[4:]
        == [*("migrationjob-demo", "Succeeded", "Complete", new["spec"]["nodeName"], uid, "default", *names, "5m0s")]
        or shown[-1] == "5m"
    )
    found = await eventually(
        lambda: reasons(migrating, job), until=lambda found: "Complete" in found, saying="the Events are there"
    )
    told = [each for each in found if each not in {"WaitForPodBindReservation", "PodBoundReservation", "BoundPodReady"}]
    assert told == ["ReservationCreated", "ReservationScheduled", "Evicting", "EvictComplete", "Complete"]
    assert "Descheduled" in await reasons(migrating, old)


async def test_08_a_budget_that_allows_nothing_is_waited_for_before_anything_is_reserved(migrating: Api) -> None:
    await migrating.create(deployment("web", replicas=2), namespace="default")
    await ready_pods(migrating, "web", 2)
    await migrating.create(budget("web", minAvailable=2), namespace="default")
    await counted(migrating, "web", allowed=0)
    (pod, _) = await pods_of(migrating, "web")
    await migrating.create(migration("waits", pod))
    job = await eventually(
        lambda: migrating.get(POD_MIGRATION_JOBS, "waits"),
        until=lambda found: condition(found, "PassedArbitration")[1] == "PodDisruptionBudget",
        saying="the job says that it waits for the budget",
    )
    assert "default/web" in condition(job, "PassedArbitration")[2]

    async def still() -> bool:
        found = await migrating.get(POD_MIGRATION_JOBS, "waits")
        return found["status"].get("phase") == "Pending" and not await migrating.all(RESERVATIONS)

    await steadily(still, lasting=2.0, saying="nothing is reserved")
    await migrating.patch(
        DISRUPTION_BUDGETS, "web", {"spec": {"minAvailable": 1}}, kind="merge-patch", namespace="default"
    )
    assert outcome(await ended(migrating, "waits")) == ("Succeeded", "")


@pytest.mark.long
async def test_09_a_pod_that_fits_nowhere_else_stays_and_the_job_leaves_nothing(migrating: Api) -> None:
    """The other nodes are too full; the words are the scheduler's, and after a minute the job fails."""
    await migrating.create(deployment("huge", replicas=1, cpu="40"), namespace="default")
    (pod,) = await ready_pods(migrating, "huge", 1)
    for node in [each["metadata"]["name"] for each in await migrating.all(NODES)]:
        if node != pod["spec"]["nodeName"]:
            filler = {"metadata": {"name": f"fill-{node}", "labels": {"app": "fill"}}, **_filler(node, "40")}
            await migrating.create(filler, namespace="default")
    await ready_pods(migrating, "fill", 2)
    await migrating.create(migration("nowhere", pod, ttl="10m"))
    waiting = await eventually(
        lambda: migrating.get(POD_MIGRATION_JOBS, "nowhere"),
        until=lambda found: condition(found, "ReservationScheduled")[0] == "False",
        within=30.0,
        saying="the job has the scheduler's words",
    )
    assert "Insufficient cpu" in condition(waiting, "ReservationScheduled")[2]
    job = await ended(migrating, "nowhere", within=90.0)
    assert outcome(job) == ("Failed", "Unschedulable")
    await eventually(_none_of(migrating), saying="no Reservation is left")
    (same,) = await pods_of(migrating, "huge")
    assert same["metadata"]["uid"] == pod["metadata"]["uid"]


async def test_12_time_goes_on_for_a_paused_job(migrating: Api) -> None:
    await migrating.create(deployment("web", replicas=2), namespace="default")
    pod, _ = await ready_pods(migrating, "web", 2)
    await migrating.create(migration("paused", pod, paused=True, ttl="4s"))
    job = await ended(migrating, "paused")
    assert outcome(job) == ("Failed", "Timeout")
    assert {each["metadata"]["uid"] for each in await pods_of(migrating, "web")} >= {pod["metadata"]["uid"]}
    assert await migrating.all(RESERVATIONS) == []


async def test_14_a_second_job_for_one_pod_is_refused(migrating: Api) -> None:
    await migrating.create(deployment("web", replicas=2), namespace="default")
    pod, _ = await ready_pods(migrating, "web", 2)
    await migrating.create(budget("web", minAvailable=2), namespace="default")
    await counted(migrating, "web", allowed=0)
    await migrating.create(migration("first", pod))
    await eventually(
        lambda: migrating.get(POD_MIGRATION_JOBS, "first"),
        until=lambda found: condition(found, "PassedArbitration")[0] == "False",
        saying="the first one waits",
    )
    await migrating.create(migration("second", pod))
    assert outcome(await ended(migrating, "second")) == ("Failed", "ForbiddenMigratePod")
    assert (await migrating.get(POD_MIGRATION_JOBS, "first"))["status"]["phase"] == "Pending"


async def test_evict_directly_reserves_nothing(migrating: Api) -> None:
    await migrating.create(deployment("web", replicas=2), namespace="default")
    pod, _ = await ready_pods(migrating, "web", 2)
    await migrating.create(migration("direct", pod, mode="EvictDirectly"))
    job = await ended(migrating, "direct")
    assert (outcome(job), job["status"]["status"]) == (("Succeeded", ""), "Complete")
    assert "reservationOptions" not in job["spec"]
    assert await migrating.all(RESERVATIONS) == []


async def test_a_supplied_reservation_is_used_and_kept(migrating: Api) -> None:
    await migrating.create(deployment("web", replicas=2), namespace="default")
    pod, _ = await ready_pods(migrating, "web", 2)
    others = sorted({each["metadata"]["name"] for each in await migrating.all(NODES)} - {pod["spec"]["nodeName"]})
    held = reservation("web", cpu="1")
    held["spec"]["template"]["spec"]["nodeName"] = others[0]
    held["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["memory"] = "64Mi"
    await migrating.create(held)
    await eventually(
        lambda: migrating.get(RESERVATIONS, "web"),
        until=lambda found: found.get("status", {}).get("phase") == "Available",
        saying="the Reservation is Available",
    )
    await migrating.create(migration("supplied", pod, reservationOptions={"reservationRef": {"name": "web"}}))
    job = await ended(migrating, "supplied")
    assert outcome(job) == ("Succeeded", ""), job["status"]
    assert job["status"]["nodeName"] == others[0]
    assert (await migrating.get(RESERVATIONS, "web"))["status"]["currentOwners"][0]["name"] == (
        job["status"]["podRef"]["name"]
    )


async def test_a_reservation_that_does_not_exist_fails_the_job(migrating: Api) -> None:
    await migrating.create(deployment("web", replicas=2), namespace="default")
    pod, _ = await ready_pods(migrating, "web", 2)
    await migrating.create(migration("missing", pod, reservationOptions={"reservationRef": {"name": "none"}}))
    assert outcome(await ended(migrating, "missing")) == ("Failed", "MissingReservation")


async def test_the_deletion_of_a_job_deletes_its_reservation(migrating: Api) -> None:
    """Rule 10; the Reservation cannot be scheduled, so the job waits."""
    await migrating.create(deployment("web", replicas=2), namespace="default")
    pod, _ = await ready_pods(migrating, "web", 2)
    for node in await migrating.all(NODES):
        await migrating.patch(NODES, node["metadata"]["name"], {"spec": {"unschedulable": True}}, kind="merge-patch")
    try:
        await migrating.create(migration("deleted", pod))
        await eventually(
            lambda: migrating.all(RESERVATIONS), until=lambda found: len(found) == 1, saying="a Reservation is made"
        )
        await migrating.delete(POD_MIGRATION_JOBS, "deleted")
        await eventually(_none_of(migrating), saying="the Reservation is deleted with its job")
        assert pod["metadata"]["uid"] in {each["metadata"]["uid"] for each in await pods_of(migrating, "web")}
    finally:
        for node in await migrating.all(NODES):
            await migrating.patch(
                NODES, node["metadata"]["name"], {"spec": {"unschedulable": None}}, kind="merge-patch"
            )


async def test_a_pod_that_is_pending_itself_gets_the_reservation(migrating: Api) -> None:
    """Rule 6: nothing is evicted; the pod, which waits for a Reservation, takes the one that the job makes for it."""
    affinity = '{"reservationSelector": {"app.kubernetes.io/created-by": "dra-reserve-descheduler"}}'
    late = deployment("late", replicas=1)
    late["spec"]["template"]["metadata"]["annotations"] = {"scheduling.koordinator.sh/reservation-affinity": affinity}
    await migrating.create(late, namespace="default")
    (pod,) = await eventually(
        lambda: pods_of(migrating, "late"),
        until=lambda pods: len(pods) == 1 and "Unschedulable" in str(pods[0].get("status")),
        saying="the pod waits",
    )
    await migrating.create(migration("pending", pod))
    job = await ended(migrating, "pending")
    assert outcome(job) == ("Succeeded", ""), job["status"]
    (same,) = await pods_of(migrating, "late")
    assert same["metadata"]["uid"] == pod["metadata"]["uid"]
    assert "Evicting" not in await reasons(migrating, job)


def budget(app: str, **spec: int) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app},
        "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
    }


async def counted(api: Api, name: str, *, allowed: int) -> None:
    """Wait until the disruption controller has counted the pods of a budget."""
    await eventually(
        lambda: api.get(DISRUPTION_BUDGETS, name, namespace="default"),
        until=lambda found: (
            found.get("status", {}).get("observedGeneration") == found["metadata"]["generation"]
            and found["status"]["disruptionsAllowed"] == allowed
        ),
        saying=f"budget {name} allows {allowed}",
    )


def _filler(node: str, cpu: str) -> Json:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": {"nodeName": node, "containers": [container], "terminationGracePeriodSeconds": 0},
    }


def _none_of(api: Api):
    async def none() -> bool:
        return not await api.all(RESERVATIONS)

    return none
