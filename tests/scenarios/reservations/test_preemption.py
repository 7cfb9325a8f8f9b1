"""No pod is preempted for a Reservation or a migration that does not ask for that, through the real kube-scheduler.

Three nodes of 64 CPUs are full of pods of low priority; a budget guards the pods of two nodes. What asks preempts the
pod of the third.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.cluster.versions import minor
from tests.scenarios.api import Api, Json
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.features import kubernetes_version
from tests.scenarios.reservations.conftest import NODES
from tests.scenarios.reservations.migrations import deployment, ended, migration, outcome, pods_of, ready_pods
from tests.scenarios.reservations.test_manual import PRIORITY, reaches, reservation, running, stranger, waits
from tests.scenarios.reservations.test_migrations import budget, counted
from tests.scenarios.resources import POD_MIGRATION_JOBS, PODS, PRIORITY_CLASSES, RESERVATIONS
from tests.scenarios.target import Capability

pytestmark = pytest.mark.needs(Capability.PREEMPTION)

FREE = "free"
ASKED = "PreemptLowerPriority"
EMPTY_VICTIMS_SINCE = 38
LASTING = 3.0
"""Seconds; kube-scheduler preempts within a fraction of a second."""


@pytest.fixture
async def full(migrating: Api) -> AsyncIterator[Api]:
    """Nodes that are full, and a priority class whose pods preempt others."""
    await migrating.create({**PRIORITY, "value": 1000})
    try:
        for node in NODES:
            app = FREE if node == NODES[-1] else "guarded"
            await migrating.create(stranger(f"low-{node}", cpu="60", node=node, app=app), namespace="default")
        await running(migrating, len(NODES))
        await migrating.create(budget("guarded", maxUnavailable=0), namespace="default")
        await counted(migrating, "guarded", allowed=0)
        yield migrating
    finally:
        await migrating.delete(PRIORITY_CLASSES, "important")


async def finds_no_node(api: Api, name: str) -> None:
    """Wait until kube-scheduler has tried the placeholder of a Reservation."""
    await eventually(
        lambda: api.get(RESERVATIONS, name),
        until=lambda found: "Insufficient cpu" in str(found.get("status", {}).get("conditions")),
        within=30,
        saying=f"no node has room for reservation {name}",
    )


async def nobody_leaves(api: Api) -> None:
    async def unharmed() -> bool:
        found = await api.all(PODS, namespace="default")
        low = [each for each in found if each["metadata"]["name"].startswith("low-")]
        return len(low) == len(NODES) and not any("deletionTimestamp" in each["metadata"] for each in low)

    await steadily(unharmed, lasting=LASTING, saying="no pod is preempted")


async def only_the_free_one_left(api: Api) -> None:
    found = await api.all(PODS, namespace="default")
    low = sorted(each["metadata"]["name"] for each in found if each["metadata"]["name"].startswith("low-"))
    assert low == [f"low-{node}" for node in NODES[:-1]]


def important(name: str, *, cpu: str = "20", **template_spec: Any) -> Json:
    made = reservation(name, cpu=cpu)
    made["spec"]["template"]["spec"] |= {"priorityClassName": "important", **template_spec}
    return made


@pytest.mark.parametrize(
    "spec", [pytest.param({}, id="unasked"), pytest.param({"preemptionPolicy": "Never"}, id="never")]
)
async def test_a_reservation_waits_where_it_does_not_ask(full: Api, spec: Json) -> None:
    await full.create(important("waiting", **spec))
    kept = (await full.get(RESERVATIONS, "waiting"))["spec"]["template"]["spec"].get("preemptionPolicy")
    assert kept == spec.get("preemptionPolicy")
    await finds_no_node(full, "waiting")
    await nobody_leaves(full)


async def test_a_reservation_that_asks_preempts_the_pod_that_no_budget_guards(full: Api) -> None:
    await full.create(important("asking", preemptionPolicy=ASKED))
    made = await reaches(full, "asking", "Available", within=30)
    assert made["status"]["nodeName"] == NODES[-1]
    await only_the_free_one_left(full)


async def test_a_migration_leaves_everything_as_it_is_unless_it_asks(full: Api) -> None:
    await full.create(deployment("web", replicas=1, cpu="4", priorityClassName="important"), namespace="default")
    (old,) = await ready_pods(full, "web", 1)
    others = [node for node in NODES if node != old["spec"]["nodeName"]]
    for node in others:
        await full.create(stranger(f"rest-{node}", cpu="4", node=node, app="rest"), namespace="default")
    await running(full, len(others), labelSelector="app=rest")

    await full.create(migration("quiet", old))
    job = await eventually(
        lambda: full.get(POD_MIGRATION_JOBS, "quiet"),
        until=lambda found: "Insufficient cpu" in str(found.get("status", {})),
        within=30,
        saying="the job waits for room",
    )
    assert await full.get(RESERVATIONS, job["metadata"]["uid"])
    await nobody_leaves(full)
    await full.delete(POD_MIGRATION_JOBS, "quiet")
    await eventually(
        lambda: full.all(RESERVATIONS), until=lambda found: not found, saying="the job's Reservation is gone"
    )

    await full.create(migration("asks", old, reservationOptions={"preemptionOptions": {"enablePreemption": True}}))
    assert outcome(await ended(full, "asks")) == ("Succeeded", "")
    (new,) = await pods_of(full, "web")
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    left = {each["metadata"]["name"] for each in await full.all(PODS, namespace="default")}
    assert {f"low-{node}" for node in NODES[:-1]} <= left, "a pod that a budget guards was preempted"


async def test_a_pod_that_only_a_reservation_refuses_preempts_since_1_38(migrating: Api) -> None:
    """Up to 1.37 kube-scheduler asks extenders only about victims that its own filters need."""
    await migrating.create({**PRIORITY, "value": 1000})
    try:
        for node in NODES:
            await migrating.create(stranger(f"low-{node}", cpu="40", node=node), namespace="default")
        await running(migrating, len(NODES))
        for node in NODES:
            await migrating.create(reservation(f"held-{node}", cpu="20"))
            await reaches(migrating, f"held-{node}", "Available", within=30)
        await running(migrating, len(NODES))  # without placeholders, which kube-scheduler itself counts
        pod = stranger("high", cpu="10", app="high")
        await migrating.create(pod | {"spec": pod["spec"] | {"priorityClassName": "important"}}, namespace="default")
        if minor(kubernetes_version()) < EMPTY_VICTIMS_SINCE:
            await waits(migrating, "high", because="Insufficient cpu by node")
            await nobody_leaves(migrating)
            return
        await running(migrating, 1, labelSelector="app=high")
        assert len(await migrating.all(PODS, namespace="default", labelSelector="app=stranger")) == len(NODES) - 1
    finally:
        await migrating.delete(PRIORITY_CLASSES, "important")
