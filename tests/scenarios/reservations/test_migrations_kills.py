"""The descheduler is killed at each kind of write of a migration, and goes on when it is started again.

A round has one job for each kind of write. A proxy holds that write of each job, so that one kill meets all of them.
What was under way never arrives, or is done without an answer, or arrives after the death of its sender. Whatever the
place, jobs, pods and Reservations end as they do undisturbed: one eviction for each pod, and no Reservation unused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.processes import Process
from tests.scenarios.api import Api, Json
from tests.scenarios.eventually import eventually
from tests.scenarios.faults import Fault, Kind
from tests.scenarios.history import WatchHistory
from tests.scenarios.proxy import Exchange
from tests.scenarios.reservations.conftest import PROGRAM
from tests.scenarios.reservations.migrations import (
    condition,
    deployment,
    ended,
    is_ready,
    migration,
    outcome,
    pods_of,
    ready_pods,
)
from tests.scenarios.reservations.proxied import Proxied, behind_a_proxy
from tests.scenarios.reservations.test_migrations import budget, counted
from tests.scenarios.reservations.test_migrations_faults import asking, options
from tests.scenarios.reservations.test_migrations_load import leaving, uid_of, without_a_place, workload, writes
from tests.scenarios.resources import DISRUPTION_BUDGETS, POD_MIGRATION_JOBS, PODS, RESERVATIONS
from tests.scenarios.target import Target

GATE: Final = "scenario.dra/not-yet"

TTL: Final = "6s"
"""Time to live of the jobs that fail."""


class Fate(StrEnum):
    """What becomes of the writes that are under way when the descheduler is killed."""

    LOST = "never-arrives"
    DONE = "is-done-without-an-answer"
    LATE = "arrives-after-the-death-of-its-sender"


@dataclass(frozen=True, kw_only=True)
class Place:
    """A kind of write, and the job whose write of this kind is held."""

    name: str
    """Prefix of the job's name, and name of the Deployment."""
    body: str = ""
    path: str = ""
    verb: str = "patch"
    fails: bool = False
    """Whether the job asks for more room than any node has, and fails."""
    is_late: bool = False
    """Whether it takes seconds to come here, so that the job is created before others."""

    @property
    def fault(self) -> Fault:
        """The fault that holds the write, and each of its repetitions."""
        path = self.path or rf"/podmigrationjobs/{self.name}-\d+(/status)?$"
        return Fault(kind=Kind.HELD, verbs=frozenset({self.verb}), path=path, body=self.body)


PLACES: Final = (
    Place(name="evicted", body='"EvictComplete"', is_late=True),
    Place(name="waiting", body='"WaitForPodBindReservation"', is_late=True),
    Place(name="bound", body='"status":{.*"podRef":{', is_late=True),
    Place(name="ready", body="is ready", is_late=True),
    Place(name="succeeded", body='"phase":"Succeeded"', is_late=True),
    Place(name="failed", body='"phase":"Failed"', is_late=True, fails=True),
    Place(name="deleting", path="/reservations/[^/]+$", verb="delete", is_late=True, fails=True),
    Place(name="pinning", body='"podRef":{"uid"'),
    Place(name="running", body='"phase":"Running"'),
    Place(name="creating", path="/reservations$", verb="create", body='"app":"creating"'),
    Place(name="referring", body='"reservationRef"'),
    Place(name="created", body='"status":"ReservationCreated"'),
    Place(name="scheduled", body='"status":"ReservationScheduled"'),
    Place(name="announcing", body='"status":"Eviction"'),
    Place(name="evicting", path=r"/pods/evicting-[^/]+/eviction$", verb="create"),
    Place(name="arbitration", body="passed-arbitration"),  # the last: nothing else passes meanwhile
)

WITHOUT_LIMITS: Final[Json] = {
    "maxMigratingPerNode": None,
    "objectLimiters": {"workload": {"duration": "0s"}},
    "evictQPS": 100,
    "evictBurst": 100,
}
DONE: Final = ("True", "")
SUCCEEDED: Final[Json] = {
    "outcome": ("Succeeded", ""),
    "status": "Complete",
    "conditions": {
        "ReservationCreated": DONE,
        "ReservationScheduled": DONE,
        "Eviction": ("True", "EvictComplete"),
        "PodBoundReservation": DONE,
        "ReservationBound": DONE,
        "BoundPodReady": DONE,
    },
    "reservation": "Succeeded",
    "evictions": 1,
}
FAILED: Final[Json] = {
    "outcome": ("Failed", "Timeout"),
    "status": "ReservationScheduled",
    "conditions": {"ReservationCreated": DONE, "ReservationScheduled": ("False", "Timeout")},
    "reservation": None,
    "evictions": 0,
}
FAILED_EARLY: Final[Json] = FAILED | {"status": "ReservationCreated", "conditions": {"ReservationCreated": DONE}}
"""The end of a job whose time to live passed before the scheduler, on a busy machine, had seen the Reservation."""


@pytest.fixture
async def stage(migrating: Api, cluster: Cluster) -> Api:
    """The API, with a Deployment of one pod for each place."""
    assert cluster.folder
    for place in PLACES:
        gates = {"schedulingGates": [{"name": GATE}]} if place.name == "waiting" else {}
        await migrating.create(deployment(place.name, replicas=1, **gates), namespace="default")
    return migrating


@pytest.fixture
async def killable(stage: Api, descheduling: Process, target: Target) -> AsyncIterator[Proxied]:
    """The descheduler behind a proxy, without a lease and without limits."""
    assert stage
    async with behind_a_proxy(
        descheduling, target, migration=WITHOUT_LIMITS, leaderElection={"enabled": False}
    ) as found:
        await found.start()
        yield found


@pytest.fixture
async def replaceable(stage: Api, descheduling: Process, target: Target) -> AsyncIterator[Proxied]:
    """The descheduler behind a proxy as it is installed: it waits for the lease and the writes of its predecessor."""
    assert stage
    async with behind_a_proxy(descheduling, target, program=PROGRAM, migration=WITHOUT_LIMITS) as found:
        await found.start()
        yield found


async def test_undisturbed_each_job_ends_so(stage: Api, killable: Proxied) -> None:
    await play(stage, killable, rounds=1, fate=None)


@pytest.mark.parametrize("fate", [Fate.LOST, Fate.DONE])
@pytest.mark.parametrize("rounds", [1, pytest.param(4, marks=pytest.mark.long)])
async def test_a_killed_descheduler_goes_on_with_the_same_outcome(
    stage: Api, killable: Proxied, fate: Fate, rounds: int
) -> None:
    await play(stage, killable, rounds=rounds, fate=fate)


@pytest.mark.long
async def test_its_successor_is_not_misled_by_late_writes(stage: Api, replaceable: Proxied) -> None:
    await play(stage, replaceable, rounds=2, fate=Fate.LATE)


async def test_a_budget_forbids_the_eviction_before_the_kill_and_allows_it_afterwards(
    stage: Api, killable: Proxied
) -> None:
    """The eviction is under way when the budget comes: it is refused, and said so, until the budget allows it."""
    proxy = killable.proxy
    (pod,) = await ready_pods(stage, "evicting", 1)
    place = next(each for each in PLACES if each.name == "evicting")
    proxy.inject(place.fault)
    await stage.create(migration("evicting-0", pod))
    await all_held(killable, place)
    await stage.create(budget("evicting", minAvailable=1), namespace="default")
    await counted(stage, "evicting", allowed=0)
    proxy.inject()
    proxy.let_go()

    async def said() -> bool:
        job = await stage.get(POD_MIGRATION_JOBS, "evicting-0")
        return "Failed evict Pod" in condition(job, "Eviction")[2]

    await eventually(said, within=10.0, saying="the job says that the budget forbids the eviction")
    killable.crash()
    refused = evictions(proxy.exchanges)[pod["metadata"]["name"], 429]
    await killable.start()
    await eventually(
        lambda: evictions(proxy.exchanges)[pod["metadata"]["name"], 429] > refused,
        within=30.0,
        saying="the next process asks again",
    )
    await stage.patch(
        DISRUPTION_BUDGETS, "evicting", {"spec": {"minAvailable": 0}}, kind="merge-patch", namespace="default"
    )
    await ended(stage, "evicting-0")
    assert await summary(stage, killable, "evicting-0", pod) == SUCCEEDED


# What is played and looked at


async def play(api: Api, killable: Proxied, *, rounds: int, fate: Fate | None) -> None:
    """Let a job for each place end, in each round, with one kill in the middle."""
    expected = {place.name: (FAILED, FAILED_EARLY) if place.fails else (SUCCEEDED,) for place in PLACES}
    for number in range(rounds):
        pods = {place.name: await the_pod(api, place.name) for place in PLACES}
        async with AsyncExitStack() as stack:
            histories = [
                await stack.enter_async_context(WatchHistory(api, each))
                for each in (POD_MIGRATION_JOBS, RESERVATIONS, PODS)
            ]
            if fate is None:
                for place in PLACES:
                    await api.create(job_at(place, number, pods[place.name]))
            else:
                await killed(api, killable, pods, number=number, fate=fate)
            await the_pod(api, "waiting", but=pods["waiting"])
            for place in PLACES:
                await ended(api, f"{place.name}-{number}", within=60.0)
            found = {
                place.name: await summary(api, killable, f"{place.name}-{number}", pods[place.name]) for place in PLACES
            }
        others = {name: end for name, end in found.items() if end not in expected[name]}
        assert not others, [(await api.get(POD_MIGRATION_JOBS, f"{name}-{number}"))["status"] for name in others]
        jobs = [job for job in await api.all(POD_MIGRATION_JOBS) if outcome(job)[0] == "Succeeded"]
        assert {uid_of(each) for each in await api.all(RESERVATIONS)} == {reserved(job) for job in jobs}
        assert left(*histories) == Counter(uid_of(pods[place.name]) for place in PLACES if not place.fails)


async def killed(api: Api, killable: Proxied, pods: dict[str, Json], *, number: int, fate: Fate) -> None:
    """Bring the job of each place to its write, kill the descheduler there, and start it again."""
    proxy = killable.proxy
    proxy.exchanges.clear()
    proxy.inject(*(place.fault for place in PLACES))
    for wave in (
        [place for place in PLACES if place.is_late],
        [place for place in PLACES[:-1] if not place.is_late],
        PLACES[-1:],
    ):
        for place in wave:
            await api.create(job_at(place, number, pods[place.name]))
        await all_held(killable, *wave)
    if fate is Fate.DONE:
        proxy.freeze()
        under_way = proxy.let_go()
        await eventually(lambda: all(each.answer for each in under_way), saying="all writes are done")
        # Refused is at most a deletion, if the scheduler has written the Reservation meanwhile.
        assert all(each.answer in {200, 201} for each in under_way if each.call.verb != "delete"), under_way
    killable.crash()
    proxy.thaw()
    proxy.inject()
    if fate is Fate.LATE:
        proxy.let_go()
    await killable.start()


async def all_held(killable: Proxied, *places: Place) -> None:
    """Wait until the proxy holds the write of each place; fail if the descheduler dies."""

    def held() -> list[str]:
        killable.process.raise_if_dead()
        under_way = [each for each in killable.proxy.exchanges if each.fault is Kind.HELD and each.answer is None]
        return [place.name for place in places if not any(place.fault.befalls(each.call) for each in under_way)]

    await eventually(held, until=lambda missing: not missing, within=30.0, saying="each write is under way")


def job_at(place: Place, number: int, pod: Json) -> Json:
    """Return the job of a place in a round."""
    spec: dict[str, Any] = {}
    if place.fails:
        owners = [{"labelSelector": {"matchLabels": {"app": place.name}}}]
        template = asking("1k") | {"metadata": {"namespace": "default"}}
        spec = options(owners=owners, template=template) | {"ttl": TTL}
    return migration(f"{place.name}-{number}", pod, **spec)


async def the_pod(api: Api, app: str, *, but: Json | None = None) -> Json:
    """Return the one pod of a Deployment once it is ready, without its gate and another one than given."""

    async def look() -> list[Json]:
        found = [pod for pod in await pods_of(api, app) if but is None or uid_of(pod) != uid_of(but)]
        for pod in found:
            if pod["spec"].get("schedulingGates"):
                free = {"spec": {"schedulingGates": None}}
                await api.patch(PODS, pod["metadata"]["name"], free, kind="merge-patch", namespace="default")
        return found

    (pod,) = await eventually(
        look,
        until=lambda pods: len(pods) == 1 and is_ready(pods[0]),
        within=60.0,
        saying=f"the pod of {app} is ready",
    )
    return pod


async def summary(api: Api, killable: Proxied, name: str, pod: Json) -> Json:
    """Return what a job came to, once its pods and its Reservation are as they will stay."""
    job = await api.get(POD_MIGRATION_JOBS, name)
    succeeded = outcome(job)[0] == "Succeeded"
    status, uid = job["status"], uid_of(job)
    held = await eventually(
        lambda: api.find(RESERVATIONS, uid),
        until=lambda found: (found is not None) is succeeded,
        within=15.0,
        saying=f"no Reservation of job {name} is left unused",
    )
    (now,) = await ready_pods(api, pod["metadata"]["labels"]["app"], 1)
    assert (uid_of(now) == uid_of(pod)) is not succeeded
    if held is not None:
        assert [each["uid"] for each in held["status"]["currentOwners"]] == [uid_of(now)]
        assert now["spec"]["nodeName"] == status["nodeName"] != pod["spec"]["nodeName"]
        assert status["podRef"]["uid"] == uid_of(now)
    return {
        "outcome": outcome(job),
        "status": status.get("status", ""),
        "conditions": {each["type"]: (each["status"], each.get("reason", "")) for each in status.get("conditions", ())},
        "reservation": held and held["status"]["phase"],
        "evictions": evictions(killable.proxy.exchanges)[pod["metadata"]["name"], 201],
    }


def reserved(job: Json) -> str:
    """Return the uid of a job's Reservation."""
    uid: str = job["spec"]["reservationOptions"]["reservationRef"]["uid"]
    return uid


def evictions(exchanges: list[Exchange]) -> Counter[tuple[str, int | None]]:
    """Return the number of evictions by pod and answer."""
    return Counter((each.call.name, each.answer) for each in exchanges if each.call.resource == "pods/eviction")


def left(jobs: WatchHistory, reservations: WatchHistory, pods: WatchHistory) -> Counter[str]:
    """Return how often each pod was ended; each had a place held for its replacement then."""
    found: Counter[str] = Counter()
    for write in writes(jobs, reservations, pods):
        if write.after is not None and workload(write.after) and leaving(write.after) and not leaving(write.before):
            found[uid_of(write.after)] += 1
            assert not list(without_a_place(write.world, write.after))
    return found
