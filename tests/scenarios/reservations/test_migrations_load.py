"""Three hundred migrations away from fifty nodes under all limits at once; the watch histories are what is judged.

Two namespaces have four Deployments of fifty pods each; every other Deployment has a budget. The limits globally, by
namespace and by node, of unavailable pods and of the budgets are all reached.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from dra.api.migration.well_known import ANNOTATION_PASSED_ARBITRATION
from tests.cluster.processes import Process
from tests.scenarios import namespaces
from tests.scenarios.api import Api, Json
from tests.scenarios.claims import revision
from tests.scenarios.eventually import eventually
from tests.scenarios.history import WatchHistory
from tests.scenarios.namespaces import Namespace
from tests.scenarios.reservations.migrations import ENDED, condition, deployment, is_ready, migration, outcome
from tests.scenarios.reservations.test_load import fifty
from tests.scenarios.reservations.test_migrations import budget
from tests.scenarios.resources import DEPLOYMENTS, POD_MIGRATION_JOBS, PODS, RESERVATIONS
from tests.scenarios.target import Target

pytestmark = pytest.mark.long

__all__ = ["fifty"]

DEPLOYED: Final = 4
REPLICAS: Final = 50
JOBS: Final = 300
TTL: Final = "5m"

GLOBALLY, PER_NAMESPACE, PER_NODE, PER_WORKLOAD, UNAVAILABLE, BUDGET = 20, 12, 2, 5, 4, 2
SETTINGS: Final[Json] = {
    "maxMigratingGlobally": GLOBALLY,
    "maxMigratingPerNamespace": PER_NAMESPACE,
    "maxMigratingPerNode": PER_NODE,
    "maxMigratingPerWorkload": PER_WORKLOAD,
    "maxUnavailablePerWorkload": UNAVAILABLE,
    "objectLimiters": {"workload": {"duration": "0s"}},
    "evictQPS": 100,
    "evictBurst": 100,
}


@pytest.fixture
async def limited(descheduling: Process, target: Target) -> AsyncIterator[Process]:
    """The descheduler, with limits of its own until the test ends."""
    file = target.folder.path / f"{descheduling.name}.yaml"
    before = file.read_text(encoding="utf-8")
    file.write_text(json.dumps(json.loads(before) | {"migration": SETTINGS}), encoding="utf-8")
    await asyncio.to_thread(descheduling.restart)
    yield descheduling
    file.write_text(before, encoding="utf-8")
    await asyncio.to_thread(descheduling.restart)


@pytest.fixture
async def spread(fifty: Api, migrating: Api) -> AsyncIterator[list[Namespace]]:
    """Two namespaces full of Deployments, every other one with a budget, and all pods ready."""
    assert fifty is migrating
    async with AsyncExitStack() as stack:
        made = [
            await stack.enter_async_context(namespaces.temporary(fifty, purpose=f"migrations-{each}")) for each in "ab"
        ]
        for namespace in made:
            for number in range(DEPLOYED):
                name = f"web-{number}"
                await namespace.create(deployment(name, replicas=REPLICAS))
                if number % 2:
                    await namespace.create(budget(name, maxUnavailable=BUDGET))
        for namespace in made:
            await eventually(
                lambda namespace=namespace: namespace.all(DEPLOYMENTS),
                until=lambda found: all(each["status"].get("readyReplicas") == REPLICAS for each in found),
                within=240.0,
                saying="all pods are ready",
            )
        yield made
        for namespace in made:
            for each in await namespace.all(DEPLOYMENTS):
                await namespace.delete(DEPLOYMENTS, each["metadata"]["name"])


async def test_no_limit_is_exceeded_and_no_pod_leaves_without_a_place(
    spread: list[Namespace], limited: Process, fifty: Api, remark: Callable[[str], None]
) -> None:
    assert limited.alive
    pods = [pod for namespace in spread for pod in await namespace.all(PODS)]
    chosen = sorted(pods, key=uid_of)[:JOBS]
    began = time.monotonic()
    async with AsyncExitStack() as stack:
        jobs, reservations, seen = [
            await stack.enter_async_context(WatchHistory(fifty, each))
            for each in (POD_MIGRATION_JOBS, RESERVATIONS, PODS)
        ]
        await fifty.create_all(migration(pod["metadata"]["name"], pod, ttl=TTL) for pod in chosen)

        async def unfinished() -> int:
            await asyncio.sleep(1.0)  # a list of all jobs is work, for the cores that all the others need
            return sum(
                each.get("status", {}).get("phase") not in ENDED for each in map(latest, jobs.by_object().values())
            )

        await eventually(unfinished, until=lambda count: count == 0, within=480.0, saying="all jobs have ended")
        seconds = time.monotonic() - began
    assert limited.alive
    ended = [latest(each) for each in jobs.by_object().values() if each[-1].change != "DELETED"]
    outcomes = Counter(map(outcome, ended))
    remark(f"migrations: {JOBS} jobs ended in {seconds:.0f} s, {JOBS / seconds:.1f} a second: {dict(outcomes)}")
    peaks: Counter[str] = Counter()
    faults: list[str] = []
    left: Counter[str] = Counter()
    for write in writes(jobs, reservations, seen):
        if not write.world.jobs:  # the pods that were there when the history began, one after the other
            continue
        faults += list(exceeded(write.world, peaks))
        if (pod := write.after) is None or not workload(pod):
            continue
        faults += list(unavailable(write.world, workload(pod), peaks))
        if leaving(pod) and not leaving(write.before):
            left[uid_of(pod)] += 1
            faults += list(without_a_place(write.world, pod))
    remark(f"migrations: peaks {dict(peaks)}")
    assert not faults, faults[:20]
    assert len(ended) == JOBS, outcomes
    moved = {each["spec"]["podRef"]["uid"] for each in ended if condition(each, "Eviction")[0] == "True"}
    assert left == Counter(dict.fromkeys(moved, 1))
    messages = [each["status"].get("message", "") for each in ended if each["status"].get("phase") != "Succeeded"]
    assert outcomes == {("Succeeded", ""): JOBS}, messages


@dataclass(frozen=True, kw_only=True)
class World:
    """The jobs, Reservations and pods at one moment, by uid."""

    jobs: dict[str, Json] = field(default_factory=dict)
    reservations: dict[str, Json] = field(default_factory=dict)
    pods: dict[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Write:
    """What one write left, and the pod that it changed, if any."""

    world: World
    before: Json | None = None
    after: Json | None = None


def writes(jobs: WatchHistory, reservations: WatchHistory, pods: WatchHistory) -> Iterator[Write]:
    """Yield each write in its turn; the world goes on with the next one."""
    world = World()
    parts = ((jobs, world.jobs), (reservations, world.reservations), (pods, world.pods))
    versions = [(history, part, version) for history, part in parts for version in history.versions]
    for history, part, version in sorted(versions, key=lambda each: int(revision(each[2].object))):
        uid = uid_of(version.object)
        before = part.pop(uid, None)
        if version.change != "DELETED":
            part[uid] = version.object
        yield Write(world=world, before=before, after=version.object) if history is pods else Write(world=world)


def exceeded(world: World, peaks: Counter[str]) -> Iterator[str]:
    """Yield each limit that is exceeded, and keep the highest number of each kind."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for job in world.jobs.values():
        annotations = job["metadata"].get("annotations", {})
        if annotations.get(ANNOTATION_PASSED_ARBITRATION) != "true" or job.get("status", {}).get("phase") in ENDED:
            continue
        given = job["spec"]["podRef"]
        counts["globally"]["cluster"] += 1
        counts["namespace"][given["namespace"]] += 1
        pod = world.pods.get(given["uid"]) if "uid" in given else named(world, given)
        if pod is not None:
            counts["node"][pod["spec"]["nodeName"]] += 1
            counts["workload"][workload(pod)] += 1
    limits = {"globally": GLOBALLY, "namespace": PER_NAMESPACE, "node": PER_NODE, "workload": PER_WORKLOAD}
    for kind, limit in limits.items():
        for name, count in counts[kind].items():
            peaks[kind] = max(peaks[kind], count)
            if count > limit:
                yield f"{kind} {name}: {count} migrate, the limit is {limit}"


def named(world: World, given: Json) -> Json | None:
    """Return the pod that a job without a uid is about."""
    name = (given["namespace"], given["name"])
    return next(
        (each for each in world.pods.values() if (each["metadata"]["namespace"], each["metadata"]["name"]) == name),
        None,
    )


def without_a_place(world: World, pod: Json) -> Iterator[str]:
    """Yield what is wrong with the Reservation for the replacement of a pod that is about to leave."""
    uid, name = uid_of(pod), pod["metadata"]["name"]
    job = next((each for each in world.jobs.values() if each["spec"]["podRef"].get("uid") == uid), None)
    if job is None:
        yield f"{name}: leaves, and no job is about this pod"
        return
    wanted = job["spec"].get("reservationOptions", {}).get("reservationRef", {}).get("uid")
    held = world.reservations.get(wanted)
    if held is None:
        yield f"{name}: leaves, and Reservation {wanted} does not exist"
        return
    status = held["status"]
    if (status.get("phase") != "Available" or status.get("currentOwners")) and not spare(world, held):
        yield f"{name}: leaves, its Reservation is {status}, and no other one of the workload is free"
    if status.get("nodeName") in (None, pod["spec"]["nodeName"]):
        yield f"{name}: leaves node {pod['spec']['nodeName']}, and its Reservation is there, too"


def spare(world: World, taken: Json) -> bool:
    """Tell whether a replacement has taken this Reservation between the last look and the eviction; its own is free."""
    left = {
        job["spec"]["reservationOptions"]["reservationRef"]["uid"]
        for job in world.jobs.values()
        if job.get("status", {}).get("phase") not in ENDED
        and condition(job, "ReservationScheduled")[0] == "True"
        and has_left(world.pods.get(job["spec"]["podRef"]["uid"]))
    }
    return any(
        each["status"].get("phase") == "Available"
        and not each["status"].get("currentOwners")
        and each["spec"]["owners"] == taken["spec"]["owners"]
        for uid in left
        if (each := world.reservations.get(uid)) is not None
    )


def unavailable(world: World, name: str, peaks: Counter[str]) -> Iterator[str]:
    """Yield what is wrong if too many pods of a workload are not ready, or about to leave."""
    count = REPLICAS - sum(workload(pod) == name and is_ready(pod) and not leaving(pod) for pod in world.pods.values())
    peaks["unavailable"] = max(peaks["unavailable"], count)
    if count > allowed(name):
        yield f"{name}: {count} pods are not there, the limit is {allowed(name)}"


def allowed(name: str) -> int:
    """Return how many pods of a workload may be missing at once: every other one has a budget."""
    return BUDGET if int(name[-1]) % 2 else UNAVAILABLE


def workload(pod: Json) -> str:
    """Return namespace and Deployment of a pod; empty for placeholders."""
    if pod["metadata"]["name"].startswith("reservation-"):
        return ""
    return f"{pod['metadata']['namespace']}/{pod['metadata'].get('labels', {}).get('app', '')}"


def has_left(pod: Json | None) -> bool:
    return pod is None or leaving(pod)


def leaving(pod: Json | None) -> bool:
    return pod is not None and "deletionTimestamp" in pod["metadata"]


def uid_of(obj: Json) -> str:
    return str(obj["metadata"]["uid"])


def latest(versions: list[Any]) -> Json:
    """Return the last version of an object."""
    found: Json = versions[-1].object
    return found
