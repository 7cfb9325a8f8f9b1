"""Two teams that may write Reservations and PodMigrationJobs, each for its own pods: neither gets at the other's.

Both kinds are cluster-scoped, so each role on them reaches the objects of all teams; the policies tell the teams apart.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import pytest
import yaml

from tests.cluster.cluster import Cluster
from tests.cluster.kubectl import KubectlError, kubectl
from tests.scenarios.api import Api, ApiError, Json
from tests.scenarios.eventually import eventually
from tests.scenarios.reservations.migrations import condition, deployment, is_ready, migration, pods_of, ready_pods
from tests.scenarios.reservations.test_manual import reservation
from tests.scenarios.resources import DISRUPTION_BUDGETS, POD_MIGRATION_JOBS, PODS, RESERVATIONS

VICTIM, EVIL = "victim", "evil"
ALICE, MALLORY = (f"--as=system:serviceaccount:{team}:author" for team in (VICTIM, EVIL))
"""The teams' accounts."""
RULES: Final = yaml.safe_dump_all(
    [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "team-author"},
            "rules": [
                {
                    "apiGroups": ["scheduling.koordinator.sh"],
                    "resources": ["reservations", "podmigrationjobs"],
                    "verbs": ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"],
                }
            ],
        },
        *(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding" if everywhere else "RoleBinding",
                "metadata": {"name": f"{role}-{team}", **({} if everywhere else {"namespace": team})},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"kind": "ServiceAccount", "namespace": team, "name": "author"}],
            }
            for team in (VICTIM, EVIL)
            for role, everywhere in (("admin", False), ("team-author", True))
        ),
    ]
)


@pytest.fixture(scope="module")
def teams(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster, with the two teams."""
    admin = cluster.admin_kubeconfig
    for team in (VICTIM, EVIL):
        kubectl("create", "namespace", team, kubeconfig=admin)
    kubectl("apply", "--filename=-", kubeconfig=admin, stdin=RULES)
    yield cluster
    kubectl("delete", "--filename=-", kubeconfig=admin, stdin=RULES)
    kubectl("delete", "namespace", VICTIM, EVIL, "--wait=false", kubeconfig=admin)


class Teams:
    """Writes as a team; every answer is the text of the refusal, empty if there is none."""

    def __init__(self, admin: Any) -> None:
        self.admin = admin

    async def ask(self, who: str, *arguments: str, stdin: Json | None = None) -> str:
        """Run kubectl in a thread."""
        text = None if stdin is None else json.dumps(stdin)
        try:
            await asyncio.to_thread(kubectl, *arguments, who, kubeconfig=self.admin, stdin=text)
        except KubectlError as error:
            return str(error)
        return ""

    async def patch(self, who: str, kind: str, name: str, patch: Json, *flags: str) -> str:
        """Send a merge patch."""
        return await self.ask(who, "patch", kind, name, "--type=merge", f"--patch={json.dumps(patch)}", *flags)


@pytest.fixture
async def two(teams: Cluster, migrating: Api) -> AsyncIterator[Teams]:
    """The two teams, with the policies in force, and nothing of them at the end."""
    found = Teams(teams.admin_kubeconfig)
    await migrating.create(held("probe"))
    await eventually(
        lambda: found.ask(MALLORY, "delete", "reservation", "probe", "--dry-run=server"),
        until=lambda text: "to delete it takes that right" in text,
        within=30,
        saying="the policy is in force",
    )
    yield found
    for each in await migrating.all(RESERVATIONS):
        patch = {"metadata": {"finalizers": None}}
        await migrating.patch(RESERVATIONS, each["metadata"]["name"], patch)
    for team in (VICTIM, EVIL):
        await migrating.request("DELETE", f"/apis/apps/v1/namespaces/{team}/deployments")
        await migrating.delete_collection(PODS, namespace=team)
        for pod in await migrating.all(PODS, namespace=team):
            with contextlib.suppress(ApiError):  # it is gone meanwhile
                await migrating.patch(PODS, pod["metadata"]["name"], {"metadata": {"finalizers": None}}, namespace=team)
        await migrating.delete_collection(DISRUPTION_BUDGETS, namespace=team)


def held(name: str, *, namespace: str = VICTIM, **metadata: Any) -> Json:
    """Return a Reservation of a namespace for the pod `mine` there."""
    made = reservation(name, cpu="100m", owners=[{"object": {"namespace": namespace, "name": "mine"}}])
    made["metadata"] |= metadata
    made["spec"]["template"]["metadata"] = {"namespace": namespace}
    return made


THEFT: Final = {"spec": {"owners": [{"object": {"namespace": EVIL, "name": "thief"}}]}}
FINALIZER: Final = {"metadata": {"finalizers": ["evil.example.com/kept"]}}
STAYS: Final = "victim.example.com/stays"
"""A finalizer: an evicted pod stays, and its migration counts until the test has looked."""
LABEL: Final = {"metadata": {"labels": {"koordinator.sh/priority": "1"}}}


async def test_a_team_neither_takes_nor_ends_the_reservation_of_another(two: Teams, migrating: Api) -> None:
    """The owners of an Available Reservation were replaced, its capacity was used, and the Reservation deleted."""
    assert "may not create pods" in await two.ask(MALLORY, "create", "--filename=-", stdin=held("a"))
    assert await two.ask(ALICE, "create", "--filename=-", stdin=held("a")) == ""
    await eventually(
        lambda: migrating.get(RESERVATIONS, "a"),
        until=lambda found: found.get("status", {}).get("phase") == "Available",
        saying="it is available: the controller made the placeholder",
    )
    for patch in (THEFT, FINALIZER, LABEL, {"metadata": {"annotations": {"a": "b"}}}, {"spec": {"ttl": "0s"}}):
        assert "to change it takes that right" in await two.patch(MALLORY, "reservation", "a", patch), patch
    assert "to delete it takes that right" in await two.ask(MALLORY, "delete", "reservation", "a")
    assert "to delete it takes that right" in await two.ask(
        MALLORY, "delete", "reservations", "--all", "--dry-run=server"
    )
    collection = ("delete", "--raw=/apis/scheduling.koordinator.sh/v1alpha1/reservations")
    assert "to delete it takes that right" in await two.ask(MALLORY, *collection)
    assert {each["metadata"]["name"] for each in await migrating.all(RESERVATIONS)} == {"a", "probe"}

    assert await two.patch(ALICE, "reservation", "a", LABEL) == ""
    assert await two.patch(ALICE, "reservation", "a", {"metadata": {"finalizers": ["victim.example.com/kept"]}}) == ""
    assert await two.patch(ALICE, "reservation", "a", {"metadata": {"finalizers": None}}) == ""
    assert await two.ask(ALICE, "delete", "reservation", "a") == ""
    assert await migrating.find(RESERVATIONS, "a") is None


async def test_a_team_is_warned_that_its_reservation_attracts_pods_of_another(two: Teams) -> None:
    made = held("a", namespace=EVIL)
    strictly = ("create", "--filename=-", "--dry-run=server", "--warnings-as-errors")
    assert await two.ask(MALLORY, *strictly, stdin=made) == ""
    made["spec"]["owners"] = [{"object": {"namespace": VICTIM}, "labelSelector": {"matchLabels": {"app": "web"}}}]
    assert f"attracts pods of namespace {VICTIM}" in await two.ask(MALLORY, *strictly, stdin=made)


async def test_a_team_neither_ends_nor_keeps_the_job_of_another(two: Teams, migrating: Api) -> None:
    await migrating.create(deployment("web", replicas=2), namespace=VICTIM)
    pod, _ = await ready_pods(migrating, "web", 2, namespace=VICTIM)
    job = migration("j", pod, paused=True)
    assert await two.ask(ALICE, "create", "--filename=-", stdin=job) == ""
    assert "may neither evict nor delete pods" in await two.patch(MALLORY, "podmigrationjob", "j", FINALIZER)
    assert "may neither evict nor delete pods" in await two.ask(MALLORY, "delete", "podmigrationjob", "j")
    assert await two.patch(ALICE, "podmigrationjob", "j", {"metadata": {"finalizers": ["v.example.com/x"]}}) == ""
    assert await two.patch(ALICE, "podmigrationjob", "j", {"metadata": {"finalizers": None}}) == ""

    uid = (await migrating.get(POD_MIGRATION_JOBS, "j"))["metadata"]["uid"]
    squatter = held(uid, namespace=EVIL)
    assert "are for the Reservations of migrations" in await two.ask(MALLORY, "create", "--filename=-", stdin=squatter)
    assert await two.patch(ALICE, "podmigrationjob", "j", {"spec": {"paused": False}}) == ""
    await eventually(
        lambda: migrating.find(RESERVATIONS, uid), until=lambda found: found is not None, saying="room is reserved"
    )
    assert await two.ask(ALICE, "delete", "podmigrationjob", "j", "--cascade=foreground") == ""

    async def gone() -> bool:
        return await migrating.find(POD_MIGRATION_JOBS, "j") is None and await migrating.find(RESERVATIONS, uid) is None

    await eventually(gone, saying="the garbage collector has deleted the Reservation, then the job")


def forged(name: str, uid: str, *, pending: bool) -> Json:
    """Return a pod whose controller is said to be another team's ReplicaSet, by a kind that nobody serves."""
    reference = {"apiVersion": "none.example.com/v1", "kind": "Foo", "name": "x", "uid": uid, "controller": True}
    spec: Json = {"containers": [{"name": "c", "image": "x"}], "terminationGracePeriodSeconds": 1}
    spec |= {"nodeSelector": {"no": "where"}} if pending else {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "ownerReferences": [reference]}, "spec": spec}


@pytest.mark.parametrize(
    "pending", ["that-are-not-ready", ""], ids=["that-are-not-ready", "ready-beside-a-waiting-job"]
)
async def test_pods_of_a_team_count_for_no_workload_of_another(two: Teams, migrating: Api, pending: str) -> None:
    """Pods that name another's ReplicaSet blocked its migrations, or lifted its limits: six of six went at once."""
    web = deployment("web", replicas=6, cpu="10m")
    web["spec"]["template"]["metadata"]["finalizers"] = [STAYS]
    await migrating.create(web, namespace=VICTIM)
    pods = await ready_pods(migrating, "web", 6, namespace=VICTIM)
    uid = pods[0]["metadata"]["ownerReferences"][0]["uid"]
    count = 6 if pending else 70
    await migrating.create_all(
        [forged(f"e{each}", uid, pending=bool(pending)) for each in range(count)], namespace=EVIL
    )
    if not pending:
        await eventually(
            lambda: migrating.all(PODS, namespace=EVIL),
            until=lambda found: sum(map(is_ready, found)) == count,
            within=60,
            saying="the forged pods are ready",
        )
        none = {"metadata": {"name": "none"}, "spec": {"maxUnavailable": 0, "selector": {}}}
        made = {"apiVersion": DISRUPTION_BUDGETS.api_version, "kind": DISRUPTION_BUDGETS.kind, **none}
        await migrating.create(made, namespace=EVIL)
        (waits,) = [each for each in await migrating.all(PODS, namespace=EVIL) if each["metadata"]["name"] == "e0"]
        assert await two.ask(MALLORY, "create", "--filename=-", stdin=migration("m", waits, mode="EvictDirectly")) == ""
        await eventually(
            lambda: migrating.get(POD_MIGRATION_JOBS, "m"),
            until=lambda found: condition(found, "PassedArbitration")[0] == "False",
            saying="the job of the other team waits",
        )
    jobs = [f"j{each}" for each in range(6)]
    for name, pod in zip(jobs, pods, strict=True):
        assert await two.ask(ALICE, "create", "--filename=-", stdin=migration(name, pod, mode="EvictDirectly")) == ""
    found = await eventually(
        lambda: asyncio.gather(*(migrating.get(POD_MIGRATION_JOBS, each) for each in jobs)),
        until=lambda found: all("conditions" in each.get("status", {}) for each in found),
        saying="each job has begun, or says why not",
    )
    waiting = {condition(each, "PassedArbitration")[2] for each in found} - {""}
    begun = [each for each in found if condition(each, "PassedArbitration")[0] != "False"]
    assert len(begun) == 2, [each["status"] for each in found]
    assert waiting == {f"{name_of(pods)}: 2 pods are migrating, the limit is 2 (maxMigratingPerWorkload)"}
    ready = [
        pod for pod in await pods_of(migrating, "web", namespace=VICTIM) if pod["metadata"]["uid"] in uids_of(pods)
    ]
    assert len(ready) == 4


def uids_of(pods: list[Json]) -> set[str]:
    """Return the uids of pods."""
    return {each["metadata"]["uid"] for each in pods}


def name_of(pods: list[Json]) -> str:
    """Return the ReplicaSet of pods, as reasons name it."""
    return f"ReplicaSet {VICTIM}/{pods[0]['metadata']['ownerReferences'][0]['name']}"
