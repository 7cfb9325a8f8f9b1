"""The plugins that look at pods one by one, each from its cause to the new pod: every place is held first."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.scenarios.descheduling.conftest import MIGRATION
from tests.scenarios.eventually import eventually
from tests.scenarios.reservations.conftest import NODES, descheduler
from tests.scenarios.reservations.migrations import deployment, ended, outcome, pods_of, ready_pods
from tests.scenarios.resources import NODES as NODE_OBJECTS
from tests.scenarios.resources import POD_MIGRATION_JOBS, PODS, RESERVATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.processes import Process
    from tests.scenarios.api import Api, Json
    from tests.scenarios.target import Target

FIRST, SECOND, _ = NODES
POOL: Final = "pool"
RESERVATION: Final = "node.koordinator.sh/reservation"
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"

ARGS: Final[dict[str, Json]] = {
    "PodLifeTime": {"maxPodLifeTimeSeconds": 3},
    "RemoveFailedPods": {"minPodLifetimeSeconds": 0, "reasons": ["Shutdown"]},
    "RemovePodsHavingTooManyRestarts": {"podRestartThreshold": 10},
    "RemovePodsViolatingInterPodAntiAffinity": {},
    "RemovePodsViolatingNodeAffinity": {"nodeAffinityType": [REQUIRED]},
    "RemovePodsViolatingNodeTaints": {},
    "RemovePodsViolatingNodeReservation": {},
}


def app(plugin: str) -> str:
    """Return the label of the pods that a plugin looks at."""
    return plugin.lower()


@pytest.fixture(scope="module")
def descheduling(target: Target, reserving: Process, request: pytest.FixtureRequest) -> Iterator[Process]:
    """One descheduler with all seven plugins, each for pods of its own."""
    assert reserving.alive
    configs = [
        {"name": name, "args": args | {"labelSelector": {"matchLabels": {"app": app(name)}}}}
        for name, args in ARGS.items()
    ]
    profile = {"plugins": {"deschedule": {"enabled": [{"name": name} for name in ARGS]}}, "pluginConfig": configs}
    limits = MIGRATION | {"maxMigratingPerWorkload": "100%", "maxUnavailablePerWorkload": "100%"}
    with descheduler(request, target, limits, deschedulingInterval="1s", profiles=[profile]) as process:
        yield process


@pytest.fixture
def descheduled(moving: Api, descheduling: Process) -> Api:
    """The API of a cluster whose descheduler runs all seven plugins."""
    assert descheduling.alive
    return moving


def preferring(node: str) -> Json:
    """Return an affinity to a node that is no requirement."""
    named = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    return {"nodeAffinity": {PREFERRED: [{"weight": 100, "preference": named}]}}


async def run(api: Api, plugin: str, *, replicas: int = 1, cpu: str = "100m", **spec: Any) -> list[Json]:
    """Run the pods that a plugin looks at, on the first node if no affinity is given."""
    spec.setdefault("affinity", preferring(FIRST))
    await api.create(deployment(app(plugin), replicas=replicas, cpu=cpu, **spec), namespace="default")
    return await ready_pods(api, app(plugin), replicas)


async def migrated(api: Api, plugin: str, old: Json) -> Json:
    """Wait until a pod was migrated with its place held first; return the job."""
    job = await eventually(
        lambda: job_of(api, old), until=lambda found: found is not None, saying=f"{plugin} makes a job"
    )
    assert job is not None
    done = await ended(api, job["metadata"]["name"])
    assert outcome(done) == ("Succeeded", ""), done["status"]
    assert done["metadata"]["annotations"]["koordinator.sh/evict-trigger"].endswith(plugin)
    assert done["metadata"]["annotations"]["koordinator.sh/evict-reason"]
    assert await api.find(RESERVATIONS, done["metadata"]["uid"]) is not None
    assert done["status"]["nodeName"] != old["spec"]["nodeName"]
    return done


async def job_of(api: Api, pod: Json) -> Json | None:
    """Return the job for a pod, if there is one."""
    jobs = await api.all(POD_MIGRATION_JOBS)
    return next((job for job in jobs if job["spec"]["podRef"].get("uid") == pod["metadata"]["uid"]), None)


async def test_an_old_pod_is_replaced_elsewhere(descheduled: Api) -> None:
    (old,) = await run(descheduled, "PodLifeTime")
    await migrated(descheduled, "PodLifeTime", old)


async def test_a_failed_pod_is_removed_without_a_place(descheduled: Api) -> None:
    (old,) = await run(descheduled, "RemoveFailedPods")
    name = old["metadata"]["name"]
    failed = {"status": {"phase": "Failed", "reason": "Shutdown"}}
    await descheduled.patch(PODS, f"{name}/status", failed, kind="merge-patch", namespace="default")
    await eventually(
        lambda: descheduled.find(PODS, name, namespace="default"),
        until=lambda found: found is None,
        saying="the failed pod is gone",
    )
    assert await descheduled.all(RESERVATIONS) == []
    await ready_pods(descheduled, app("RemoveFailedPods"), 1)


async def test_a_pod_that_restarts_too_often_gets_another_node(descheduled: Api) -> None:
    (old,) = await run(descheduled, "RemovePodsHavingTooManyRestarts")
    containers = [each | {"restartCount": 10} for each in old["status"]["containerStatuses"]]
    name = f"{old['metadata']['name']}/status"
    changed = {"status": {"containerStatuses": containers}}
    await descheduled.patch(PODS, name, changed, kind="merge-patch", namespace="default")
    await migrated(descheduled, "RemovePodsHavingTooManyRestarts", old)


async def test_a_pod_leaves_the_node_on_which_another_one_gets_its_forbidden_label(descheduled: Api) -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"loud": "yes"}}}
    plugin = "RemovePodsViolatingInterPodAntiAffinity"
    (old,) = await run(descheduled, plugin, affinity=preferring(FIRST) | {"podAntiAffinity": {REQUIRED: [term]}})
    chosen: Json = {"nodeSelector": {"kubernetes.io/hostname": old["spec"]["nodeName"]}}
    await descheduled.create(deployment("neighbour", replicas=1, **chosen), namespace="default")
    (neighbour,) = await ready_pods(descheduled, "neighbour", 1)
    loud = {"metadata": {"labels": {"loud": "yes"}}}
    name = neighbour["metadata"]["name"]
    await descheduled.patch(PODS, name, loud, kind="merge-patch", namespace="default")
    await migrated(descheduled, plugin, old)
    assert [each["metadata"]["uid"] for each in await pods_of(descheduled, "neighbour")] == [
        neighbour["metadata"]["uid"]
    ]


async def test_a_pod_follows_the_label_that_it_requires_of_its_node(descheduled: Api) -> None:
    await label(descheduled, FIRST, "a")
    term = {"matchExpressions": [{"key": POOL, "operator": "In", "values": ["a"]}]}
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}
    (old,) = await run(descheduled, "RemovePodsViolatingNodeAffinity", affinity=affinity)
    assert old["spec"]["nodeName"] == FIRST
    await label(descheduled, SECOND, "a")
    await label(descheduled, FIRST, None)
    job = await migrated(descheduled, "RemovePodsViolatingNodeAffinity", old)
    assert job["status"]["nodeName"] == SECOND


async def label(api: Api, node: str, value: str | None) -> None:
    """Set the pool of a node; None: it has none."""
    await api.patch(NODE_OBJECTS, node, {"metadata": {"labels": {POOL: value}}}, kind="merge-patch")


async def test_pods_leave_a_node_that_is_tainted(descheduled: Api) -> None:
    (old,) = await run(descheduled, "RemovePodsViolatingNodeTaints")
    taints = [{"key": "example.com/broken", "effect": "NoSchedule"}]
    await descheduled.patch(NODE_OBJECTS, old["spec"]["nodeName"], {"spec": {"taints": taints}}, kind="merge-patch")
    await migrated(descheduled, "RemovePodsViolatingNodeTaints", old)


async def test_as_many_pods_leave_as_a_node_reservation_needs(descheduled: Api) -> None:
    plugin = "RemovePodsViolatingNodeReservation"
    pods = await run(descheduled, plugin, replicas=4, cpu="1")
    assert {each["spec"]["nodeName"] for each in pods} == {FIRST}
    offered = int((await descheduled.get(NODE_OBJECTS, FIRST))["status"]["allocatable"]["cpu"])
    reserved = {RESERVATION: json.dumps({"resources": {"cpu": str(offered - 2)}})}
    await descheduled.patch(NODE_OBJECTS, FIRST, {"metadata": {"annotations": reserved}}, kind="merge-patch")

    async def places() -> list[str]:
        return [each["spec"].get("nodeName", "") for each in await ready_pods(descheduled, app(plugin), 4)]

    found = await eventually(places, until=lambda found: found.count(FIRST) == 2, saying="two pods have left")
    assert len(found) == 4
    jobs = await descheduled.all(POD_MIGRATION_JOBS)
    assert [outcome(await ended(descheduled, job["metadata"]["name"])) for job in jobs] == [("Succeeded", "")] * 2
