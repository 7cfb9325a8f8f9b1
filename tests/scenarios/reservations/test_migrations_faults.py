"""Migrations that cannot be: what admission cannot know, and what goes away in the middle; nothing is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import pytest

from dra.api.migration.well_known import ANNOTATION_SOFT_EVICTION
from tests.cluster.cluster import Cluster
from tests.cluster.fake_nodes import FAKE
from tests.cluster.kubectl import kubectl
from tests.scenarios import namespaces
from tests.scenarios.api import Api, Json
from tests.scenarios.eventually import eventually
from tests.scenarios.reservations.migrations import (
    SCHEDULER,
    condition,
    deployment,
    ended,
    migration,
    outcome,
    pods_of,
    ready_pods,
)
from tests.scenarios.reservations.test_manual import reservation, stranger
from tests.scenarios.reservations.test_migrations import budget
from tests.scenarios.resources import NAMESPACES, NODES, POD_MIGRATION_JOBS, PODS, RESERVATIONS

FORBIDDEN: Final = "ForbiddenMigratePod"
MISSING: Final = "MissingPod"
SOFT: Final = {"koordinator.sh/evict-policy": "SoftEviction"}
"""Labels of a job whose pod is asked to end, so that the job waits with a Reservation that is Available."""

ANOTHER_UID: Final = "8a0d2c1e-1111-4222-8333-0123456789ab"


def options(**template: Any) -> Json:
    return {"reservationOptions": {"template": {"spec": template}}}


def referring(**reference: str) -> Json:
    return {"reservationOptions": {"reservationRef": {"name": "supplied", **reference}}}


def asking(cpu: str) -> Json:
    """Return the template of a pod that needs so much."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}
    return {"spec": {"schedulerName": SCHEDULER, "containers": [container]}}


OF_POD = [
    pytest.param({"schedulerName": "their-own", "nodeName": "node-0"}, {}, "scheduler their-own", id="scheduler"),
    pytest.param({"volumes": [{"name": "v", "emptyDir": {}}]}, {}, "emptyDir or hostPath volumes", id="local-storage"),
    pytest.param(
        {"priorityClassName": "system-node-critical"}, {}, "is critical for the system", id="critical-for-the-system"
    ),
    pytest.param(
        {}, {"labels": {"koordinator.sh/evict-policy": "Kill"}}, "label koordinator.sh/evict-policy", id="policy"
    ),
    pytest.param(
        {},
        {"annotations": {"scheduling.koordinator.sh/eviction-cost": "2147483647"}},
        "which forbids the eviction",
        id="cost",
    ),
]


@pytest.mark.parametrize(("spec", "metadata", "text"), OF_POD)
async def test_a_pod_that_must_not_be_evicted(migrating: Api, spec: Json, metadata: Json, text: str) -> None:
    made = deployment("web", replicas=2, **spec)
    template = made["spec"]["template"]["metadata"]
    template["labels"] |= metadata.get("labels", {})
    template["annotations"] = metadata.get("annotations", {})
    await migrating.create(made, namespace="default")
    pod, _ = await ready_pods(migrating, "web", 2)
    await refused(migrating, pod, migration("refused", pod), (FORBIDDEN, text))


OF_JOB = [
    pytest.param({"podRef": {"namespace": "default", "name": "none"}}, MISSING, '"default/none"', id="no-pod"),
    pytest.param({"podRef": {"namespace": "nowhere", "name": "web"}}, MISSING, '"nowhere/web"', id="no-namespace"),
    pytest.param({"uid": ANOTHER_UID}, MISSING, f"uid {ANOTHER_UID}", id="another-uid"),
    pytest.param(referring(name="none"), "MissingReservation", '"none"', id="no-reservation"),
    pytest.param(
        options(owners=[{"labelSelector": {"matchLabels": {"app": "other"}}}]),
        FORBIDDEN,
        "owner",
        id="template-for-others",
    ),
    pytest.param(options(template=asking("50m")), FORBIDDEN, "cpu", id="template-too-small"),
    pytest.param(
        options(expires="2020-01-01T00:00:00Z"), "ReservationExpired", "has expired", id="template-of-the-past"
    ),
    pytest.param(
        options(template=asking("1k")) | {"ttl": "5s"}, "Timeout", "Insufficient cpu", id="template-too-large"
    ),
    pytest.param({"mode": "EvictDirectly", "uid": ANOTHER_UID}, MISSING, f"uid {ANOTHER_UID}", id="directly-no-pod"),
]


@pytest.mark.parametrize(("spec", "reason", "text"), OF_JOB)
async def test_a_job_that_admission_lets_through(migrating: Api, spec: Json, reason: str, text: str) -> None:
    await migrating.create(deployment("web", replicas=2), namespace="default")
    pod, _ = await ready_pods(migrating, "web", 2)
    given = {name: value for name, value in spec.items() if name != "uid"}
    job = migration("refused", pod, **given)
    if "uid" in spec:
        job["spec"]["podRef"]["uid"] = spec["uid"]
    await refused(migrating, pod, job, (reason, text))


async def test_a_pod_with_two_budgets(migrating: Api) -> None:
    """The API evicts no such pod."""
    await migrating.create(deployment("web", replicas=2), namespace="default")
    pod, _ = await ready_pods(migrating, "web", 2)
    for name in ("one", "two"):
        second = budget("web", maxUnavailable=1)
        second["metadata"]["name"] = name
        await migrating.create(second, namespace="default")
    await refused(migrating, pod, migration("refused", pod), (FORBIDDEN, "default/one"))


@pytest.mark.parametrize("how", ["ReservationFirst", "EvictDirectly"])
async def test_a_pod_that_nobody_replaces(migrating: Api, how: str) -> None:
    pod = await runs_alone(migrating)
    await refused(migrating, pod, migration("refused", pod, mode=how), (FORBIDDEN, "has no controller"))


async def test_a_pod_that_has_ended(migrating: Api) -> None:
    pod = stranger("done", cpu="100m")
    pod["metadata"]["labels"]["scenario.dra/run-seconds"] = "1"
    pod["spec"]["restartPolicy"] = "Never"
    await migrating.create(pod, namespace="default")
    found = await eventually(
        lambda: migrating.get(PODS, "done", namespace="default"),
        until=lambda pod: pod["status"].get("phase") == "Succeeded",
        saying="the pod has ended",
    )
    owners = [{"labelSelector": {"matchLabels": {"app": "stranger"}}}]
    await refused(migrating, found, migration("refused", found, **options(owners=owners)), (FORBIDDEN, "has ended"))


def _on_node_of(pod: Json) -> Json:
    return {"nodeName": pod["spec"]["nodeName"]}


def _elsewhere(pod: Json) -> Json:
    return {"nodeName": next(each for each in ("node-0", "node-1") if each != pod["spec"]["nodeName"])}


SUPPLIED = [
    pytest.param(_on_node_of, "web", "100m", "where the Pod runs already", id="on-the-same-node"),
    pytest.param(_elsewhere, "other", "100m", "owner", id="for-others"),
    pytest.param(_elsewhere, "web", "50m", "cpu", id="too-small"),
]


@pytest.mark.parametrize(("place", "app", "cpu", "text"), SUPPLIED)
async def test_a_supplied_reservation_that_does_not_suit_the_pod(
    migrating: Api, place: Callable[[Json], Json], app: str, cpu: str, text: str
) -> None:
    await migrating.create(deployment("web", replicas=2), namespace="default")
    pod, _ = await ready_pods(migrating, "web", 2)
    await supply(migrating, pod, place(pod), app=app, cpu=cpu)
    await refused(migrating, pod, migration("refused", pod, **referring()), (FORBIDDEN, text), left={"supplied"})


async def test_a_supplied_reservation_that_a_pod_has_used(migrating: Api) -> None:
    await migrating.create(deployment("web", replicas=2), namespace="default")
    pod, _ = await ready_pods(migrating, "web", 2)
    await supply(migrating, pod, _elsewhere(pod), app="web", cpu="100m")
    user = stranger("user", cpu="100m", app="web")
    user["spec"]["schedulerName"] = SCHEDULER
    await migrating.create(user, namespace="default")
    await eventually(
        lambda: migrating.get(RESERVATIONS, "supplied"),
        until=lambda found: found["status"].get("currentOwners"),
        saying="the pod uses the Reservation",
    )
    job = migration("refused", pod, **referring())
    await migrating.create(job)
    found = await ended(migrating, "refused")
    assert outcome(found) == ("Failed", FORBIDDEN), found["status"]
    assert "already bound by another Pod" in found["status"]["message"]
    assert uid_of(pod) in map(uid_of, await pods_of(migrating, "web"))


async def test_a_pod_that_is_made_again_under_its_name_stays(migrating: Api) -> None:
    """The job waits for its Reservation when another pod takes the name."""
    pod = await runs_alone(migrating)
    await stuck(migrating, pod)
    await migrating.delete(PODS, "alone", namespace="default", grace_seconds=0)
    again = await runs_alone(migrating)
    found = await ended(migrating, "stuck")
    assert outcome(found) == ("Failed", MISSING), found["status"]
    assert uid_of(pod) in found["status"]["message"]
    await nothing_left(migrating)
    assert uid_of(await migrating.get(PODS, "alone", namespace="default")) == uid_of(again) != uid_of(pod)


async def test_a_namespace_that_is_deleted_in_the_middle(migrating: Api) -> None:
    async with namespaces.temporary(migrating, purpose="migrations-end") as namespace:
        await namespace.create(deployment("web", replicas=2))
        pod, _ = await ready_pods(migrating, "web", 2, namespace=namespace.name)
        await stuck(migrating, pod)
        await migrating.delete(NAMESPACES, namespace.name)
        found = await ended(migrating, "stuck")
        assert outcome(found) == ("Failed", MISSING), found["status"]
        await nothing_left(migrating)

        async def gone() -> bool:
            return await migrating.find(NAMESPACES, namespace.name) is None

        await eventually(gone, saying="nothing keeps the namespace")


@pytest.fixture
async def brief_node(migrating: Api, cluster: Cluster) -> AsyncIterator[str]:
    """A node to be deleted in the test."""
    name = "brief-0"
    await asyncio.to_thread(cluster.nodes.add, [name])
    kubectl("taint", "nodes", name, f"{FAKE}-", kubeconfig=cluster.admin_kubeconfig)
    yield name
    await migrating.delete(NODES, name)


async def test_the_new_node_is_gone_before_the_pod_leaves(migrating: Api, brief_node: str) -> None:
    await cordon(migrating, brief_node, cordoned=True)
    await migrating.create(deployment("web", replicas=2), namespace="default")
    pod, _ = await ready_pods(migrating, "web", 2)
    for node in ("node-0", "node-1", "node-2", brief_node):
        await cordon(migrating, node, cordoned=node != brief_node)
    try:
        await migrating.create(migration("lost", pod, labels=SOFT))
        await eventually(
            lambda: migrating.get(PODS, pod["metadata"]["name"], namespace="default"),
            until=lambda found: ANNOTATION_SOFT_EVICTION in found["metadata"].get("annotations", {}),
            saying="the pod is asked to end",
        )
        assert (await migrating.get(POD_MIGRATION_JOBS, "lost"))["status"]["nodeName"] == brief_node
        await migrating.delete(NODES, brief_node)
        found = await ended(migrating, "lost")
    finally:
        for node in ("node-0", "node-1", "node-2"):
            await cordon(migrating, node, cordoned=False)
    assert outcome(found) in {("Failed", "ReservationExpired"), ("Failed", "MissingReservation")}, found["status"]
    await nothing_left(migrating)
    assert uid_of(pod) in map(uid_of, await pods_of(migrating, "web"))


# What is done and looked at


async def runs_alone(api: Api) -> Json:
    """Return a pod without a controller, once it runs.

    The pod is created as often as need be: where a predecessor of its name was deleted a moment ago, a status that kwok
    writes meanwhile makes kube-apiserver end that deletion, by name, and the new pod is gone.
    """
    pod = stranger("alone", cpu="100m", app="alone")
    pod["spec"]["schedulerName"] = SCHEDULER

    async def present() -> Json:
        found = await api.find(PODS, "alone", namespace="default")
        return found or await api.create(pod, namespace="default")

    return await eventually(
        present,
        until=lambda found: found.get("status", {}).get("phase") == "Running",
        saying="pod alone runs",
    )


async def stuck(api: Api, pod: Json) -> None:
    """Create a job whose Reservation is larger than any node, and wait until the scheduler says so."""
    owners = [{"labelSelector": {"matchLabels": pod["metadata"]["labels"]}}]
    template = asking("1k") | {"metadata": {"namespace": pod["metadata"]["namespace"]}}
    await api.create(migration("stuck", pod, **options(owners=owners, template=template)))
    await eventually(
        lambda: api.get(POD_MIGRATION_JOBS, "stuck"),
        until=lambda found: condition(found, "ReservationScheduled")[0] == "False",
        saying="the job waits for its Reservation",
    )


async def supply(api: Api, pod: Json, place: Json, *, app: str, cpu: str) -> None:
    """Create a Reservation on a given node, and wait until it is Available."""
    made = reservation("supplied", cpu=cpu)
    made["spec"]["owners"] = [{"labelSelector": {"matchLabels": {"app": app}}}]
    made["spec"]["template"] = asking(cpu) | {"metadata": {"namespace": pod["metadata"]["namespace"]}}
    made["spec"]["template"]["spec"] |= place
    await api.create(made)
    await eventually(
        lambda: api.get(RESERVATIONS, "supplied"),
        until=lambda found: found.get("status", {}).get("phase") == "Available",
        saying="the Reservation is Available",
    )


async def refused(
    api: Api, pod: Json, job: Json, because: tuple[str, str], *, left: set[str] | frozenset[str] = frozenset()
) -> None:
    """See a job fail with a reason and words, its pod stay, and nothing else be left."""
    await api.create(job)
    found = await ended(api, job["metadata"]["name"])
    reason, text = because
    assert outcome(found) == ("Failed", reason), found["status"]
    assert text in found["status"]["message"]
    await nothing_left(api, but=left)
    metadata = pod["metadata"]
    now = await api.get(PODS, metadata["name"], namespace=metadata["namespace"])
    assert (uid_of(now), "deletionTimestamp" in now["metadata"]) == (uid_of(pod), False)


async def nothing_left(api: Api, *, but: set[str] | frozenset[str] = frozenset()) -> None:
    """Wait until there are no Reservations, and no placeholders, but those that a user made."""

    async def clean() -> bool:
        found = {each["metadata"]["name"] for each in await api.all(RESERVATIONS)}
        placeholders = [each for each in await api.all(PODS) if each["metadata"]["name"].startswith("reservation-")]
        return found == but and not placeholders

    await eventually(clean, saying="no Reservation is left")


async def cordon(api: Api, node: str, *, cordoned: bool) -> None:
    await api.patch(NODES, node, {"spec": {"unschedulable": cordoned or None}}, kind="merge-patch")


def uid_of(obj: Json) -> str:
    return str(obj["metadata"]["uid"])
