"""Placeholders that stay and give way, on a real API server and a kube-scheduler that asks no extender."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.fake_nodes import FAKE
from tests.cluster.kubectl import kubectl
from tests.cluster.node import RealNode
from tests.cluster.options import WITHOUT_CLAIM_CONTROLLER, Options
from tests.cluster.ports import LOOPBACK, free
from tests.cluster.processes import Process
from tests.scenarios import installation, objects
from tests.scenarios.api import Api, Json
from tests.scenarios.claims import revision
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.history import WatchHistory
from tests.scenarios.reservations.conftest import _running, descheduler
from tests.scenarios.reservations.migrations import deployment, ended, migration, outcome, ready_pods
from tests.scenarios.reservations.test_manual import PRIORITY, conditions, reaches, reservation, stranger
from tests.scenarios.reservations.test_preemption import finds_no_node
from tests.scenarios.resources import (
    CLAIMS,
    DEPLOYMENTS,
    DEVICE_CLASSES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    RESERVATIONS,
    RESOURCE_SLICES,
)
from tests.scenarios.target import Capability, Mode, Place, Target

pytestmark = pytest.mark.long  # a cluster of its own

DEPLOY = installation.DEPLOY / "reservations-yielding"
KEEPER = "reserve.dra/placeholder=true"
GATE = "reserve.dra/reservation"


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    """A cluster as others run it: nobody configures its scheduler. Two nodes of 64 CPUs."""
    if Place.chosen() is not Place.LOCAL:
        pytest.skip("is about kube-scheduler without the extender: a cluster of its own")
    with Cluster(Options(controllers=WITHOUT_CLAIM_CONTROLLER, nodes=0)) as cluster:
        cluster.nodes.add(["node-0", "node-1"])
        admin, folder = cluster.admin_kubeconfig, cluster.folder
        kubectl("taint", "nodes", "--all", f"{FAKE}-", kubeconfig=admin)
        installation.install(admin)
        installation.install(admin, kustomization=DEPLOY)
        installed = installation.controller_kubeconfig(admin, folder.path)
        yield Target(mode=Mode.REPLACE, admin=admin, controller=installed, folder=folder, own=cluster)


@pytest.fixture(scope="module")
def reserving(target: Target, request: pytest.FixtureRequest) -> Iterator[Process]:
    (probes,) = free(1)
    configuration = {
        "mode": "replace",
        "reservations": True,
        "placeholders": "yielding",
        "probes": {"address": LOOPBACK, "port": probes},
        "metrics": None,
        "leaderElection": {"enabled": False},
        "logging": {"format": "text"},
    }
    yield from _running(
        request, target.folder, "yielding", "controller", target.controller, configuration, probes=probes
    )


@pytest.fixture(scope="module")
def descheduling(
    target: Target, reserving: Process, descheduler_settings: dict[str, Any], request: pytest.FixtureRequest
) -> Iterator[Process]:
    assert reserving.alive
    with descheduler(request, target, descheduler_settings) as process:
        yield process


def gated(pod: Json) -> Json:
    pod["spec"]["schedulingGates"] = [{"name": GATE}]
    return pod


async def keepers(api: Api) -> list[tuple[str, str]]:
    """Return what the placeholders ask for, and where each is."""
    found = await api.all(PODS, namespace="default", labelSelector=KEEPER)
    return sorted(
        (each["spec"]["containers"][0]["resources"]["requests"]["cpu"], each["spec"].get("nodeName", ""))
        for each in found
    )


async def kept(api: Api, *wanted: tuple[str, str]) -> None:
    await eventually(lambda: keepers(api), until=lambda found: found == sorted(wanted), saying=f"{wanted} is kept")


async def bound(api: Api, name: str) -> str:
    found = await eventually(
        lambda: api.get(PODS, name, namespace="default"),
        until=lambda pod: bool(pod["spec"].get("nodeName")),
        saying=f"pod {name} is bound",
    )
    return str(found["spec"]["nodeName"])


async def never_bound(api: Api, name: str, *, lasting: float = 1.0) -> None:
    async def waits() -> bool:
        return not (await api.get(PODS, name, namespace="default"))["spec"].get("nodeName")

    await steadily(waits, lasting=lasting, saying=f"pod {name} waits")


async def fill(api: Api, node: str, *, leaving: int) -> None:
    """Have pods take what is free on a node and on the other one, but for some CPUs."""
    other = "node-1" if node == "node-0" else "node-0"
    await api.create(stranger("other", cpu="64", node=other), namespace="default")
    await bound(api, "other")
    if leaving < 64:
        await api.create(stranger("filler", cpu=str(64 - leaving), node=node), namespace="default")
        await bound(api, "filler")


async def test_an_owner_gets_what_is_kept_and_nobody_else_and_it_is_over_for_once(emptied: Api) -> None:
    await emptied.create(reservation("once", cpu="60"))
    made = await reaches(emptied, "once", "Available")
    node = made["status"]["nodeName"]
    assert conditions(made) == {"Scheduled": ("True", "Scheduled"), "Ready": ("True", "Available")}
    assert made["status"]["allocatable"] == {"cpu": "60"}
    await kept(emptied, ("60", node))
    await fill(emptied, node, leaving=64)
    await emptied.create(stranger("patient", cpu="20"), namespace="default")
    await never_bound(emptied, "patient")

    await emptied.create(stranger("owner", cpu="50", app="once"), namespace="default")
    assert await bound(emptied, "owner") == node
    done = await reaches(emptied, "once", "Succeeded")
    assert done["status"]["allocated"] == {"cpu": "50"}
    assert [each["name"] for each in done["status"]["currentOwners"]] == ["owner"]
    await kept(emptied)
    await never_bound(emptied, "patient")
    await emptied.delete(PODS, "owner", namespace="default", grace_seconds=1)
    assert await bound(emptied, "patient") == node


async def test_the_rest_stays_kept_and_comes_back_when_an_owner_ends_before_anybody_who_waits(emptied: Api) -> None:
    await emptied.create(reservation("many", cpu="60", allocateOnce=False))
    node = (await reaches(emptied, "many", "Available"))["status"]["nodeName"]
    await fill(emptied, node, leaving=60)
    for each in range(5):
        await emptied.create(stranger(f"patient-{each}", cpu="1"), namespace="default")
    await never_bound(emptied, "patient-4")

    await emptied.create(stranger("first", cpu="20", app="many"), namespace="default")
    assert await bound(emptied, "first") == node
    await kept(emptied, ("20", ""), ("40", node))
    await emptied.create(stranger("second", cpu="30", app="many"), namespace="default")
    assert await bound(emptied, "second") == node
    await kept(emptied, ("10", node), ("20", ""), ("30", ""))
    shared = await emptied.get(RESERVATIONS, "many")
    assert shared["status"]["allocated"] == {"cpu": "50"}
    assert {each["name"] for each in shared["status"]["currentOwners"]} == {"first", "second"}

    await emptied.delete(PODS, "first", namespace="default", grace_seconds=1)
    await kept(emptied, ("10", node), ("20", node), ("30", ""))
    await emptied.create(stranger("third", cpu="25", app="many"), namespace="default")
    assert await bound(emptied, "third") == node
    await kept(emptied, ("5", node), ("25", ""), ("30", ""))
    for each in range(5):
        await never_bound(emptied, f"patient-{each}", lasting=0.1)

    await emptied.delete(RESERVATIONS, "many")
    await kept(emptied)
    for each in range(5):
        assert await bound(emptied, f"patient-{each}") == node


async def test_a_gated_owner_goes_where_its_room_is_though_there_is_room_elsewhere(emptied: Api) -> None:
    await emptied.create(reservation("gated", cpu="60"))
    node = (await reaches(emptied, "gated", "Available"))["status"]["nodeName"]
    await emptied.create(gated(stranger("owner", cpu="60", app="gated")), namespace="default")
    await emptied.create(gated(stranger("nobody", cpu="1", app="others")), namespace="default")
    assert await bound(emptied, "owner") == node
    await reaches(emptied, "gated", "Succeeded")
    await bound(emptied, "nobody")


@pytest.fixture
async def shared_device(emptied: Api) -> AsyncIterator[str]:
    """A class of two devices that all nodes reach; it is deleted at the end, and the claims with it."""
    name = "device.scenario.dra"
    made = [
        objects.device_class(name, driver=name),
        objects.resource_slice(name, driver=name, devices=["device-0", "device-1"]),
    ]
    for each in made:
        await emptied.create(each)
    yield name
    await emptied.delete_collection(PODS, namespace="default", grace_seconds=0)
    await emptied.delete_collection(CLAIMS, namespace="default")
    await emptied.delete(DEVICE_CLASSES, name)
    await emptied.delete(RESOURCE_SLICES, name)


async def test_an_owner_is_nominated_only_once_its_claim_exists(emptied: Api, shared_device: str) -> None:
    """Cluster autoscaler's loop ends with an error on a nominated pod whose claim does not exist."""
    await emptied.create(reservation("claims", cpu="60"))
    node = (await reaches(emptied, "claims", "Available"))["status"]["nodeName"]
    pod = gated(stranger("owner", cpu="60", app="claims"))
    pod["spec"]["resourceClaims"] = [{"name": "device", "resourceClaimName": "late"}]
    async with WatchHistory(emptied, PODS, "owner", namespace="default") as seen:
        await emptied.create(pod, namespace="default")
        await never_bound(emptied, "owner", lasting=3.0)
        await kept(emptied, ("60", node))
        await emptied.create(objects.claim("late", device_class=shared_device), namespace="default")
        made = await emptied.get(CLAIMS, "late", namespace="default")
        assert await bound(emptied, "owner") == node
    await reaches(emptied, "claims", "Succeeded")
    nominated = [each.object for each in seen.versions if each.object["status"].get("nominatedNodeName")]
    assert nominated
    assert all(int(revision(each)) > int(revision(made)) for each in nominated)


async def test_a_pod_that_requests_nothing_but_a_device_stays(migrating: Api, shared_device: str) -> None:
    """Such an owner pod would never wait for a placeholder, so its Reservation would not notice the pod."""
    await migrating.create(objects.claim_template("own", device_class=shared_device), namespace="default")
    made = deployment(
        "bare",
        replicas=1,
        schedulerName="default-scheduler",
        containers=[{"name": "c", "image": "i"}],
        resourceClaims=[{"name": "device", "resourceClaimTemplateName": "own"}],
    )
    await migrating.create(made, namespace="default")
    (pod,) = await ready_pods(migrating, "bare", 1)
    await migrating.create(migration("bare", pod))
    job = await ended(migrating, "bare")
    assert outcome(job) == ("Failed", "Unschedulable")
    assert "set resources.requests" in job["status"]["message"]
    (same,) = await ready_pods(migrating, "bare", 1)
    assert same["metadata"]["uid"] == pod["metadata"]["uid"]
    await migrating.delete(DEPLOYMENTS, "bare", namespace="default")


async def test_what_is_over_keeps_nothing(emptied: Api) -> None:
    await emptied.create(reservation("short", cpu="60", ttl="4s"))
    node = (await reaches(emptied, "short", "Available"))["status"]["nodeName"]
    await fill(emptied, node, leaving=64)
    await emptied.create(stranger("patient", cpu="20"), namespace="default")
    over = await reaches(emptied, "short", "Failed")
    assert conditions(over)["Ready"] == ("False", "Expired")
    await kept(emptied)
    assert await bound(emptied, "patient") == node


async def test_a_pod_migrates_into_the_room_of_a_placeholder(migrating: Api) -> None:
    """The old node is cordoned, as in a drain; another pod waits for the same room, and does not get it."""
    made = deployment("web", replicas=1, cpu="40", schedulerName="default-scheduler")
    await migrating.create(made, namespace="default")
    (old,) = await ready_pods(migrating, "web", 1)
    left = old["spec"]["nodeName"]
    (new_node,) = {"node-0", "node-1"} - {left}
    await migrating.patch(NODES, left, {"spec": {"unschedulable": True}}, kind="merge-patch")
    try:
        async with (
            WatchHistory(migrating, RESERVATIONS) as held,
            WatchHistory(migrating, PODS, namespace="default") as seen,
        ):
            await migrating.create(migration("moves", old))
            await eventually(lambda: keepers(migrating), until=lambda found: found == [("40", new_node)], saying="held")
            await migrating.create(stranger("patient", cpu="30"), namespace="default")
            job = await ended(migrating, "moves")
        assert outcome(job) == ("Succeeded", ""), job["status"]
        (new,) = await ready_pods(migrating, "web", 1)
        assert new["spec"]["nodeName"] == job["status"]["nodeName"] == new_node
        assert new["metadata"]["name"] == job["status"]["podRef"]["name"]
        evicted = next(
            int(revision(each.object))
            for each in seen.only(old["metadata"]["name"]).versions
            if "deletionTimestamp" in each.object["metadata"]
        )
        before = [each.object for each in held.versions if int(revision(each.object)) < evicted]
        assert before[-1]["status"]["phase"] == "Available"
        assert not before[-1]["status"].get("currentOwners")
        await never_bound(migrating, "patient")
        await kept(migrating)
    finally:
        await migrating.patch(NODES, left, {"spec": {"unschedulable": None}}, kind="merge-patch")
    assert await bound(migrating, "patient") == left


async def test_no_pod_is_preempted_even_if_a_reservation_asks(emptied: Api) -> None:
    await emptied.create({**PRIORITY, "value": 1000})
    try:
        await fill(emptied, "node-0", leaving=4)
        before = {each["metadata"]["uid"] for each in await emptied.all(PODS, namespace="default")}
        asking = reservation("asking", cpu="20")
        asking["spec"]["template"]["spec"] |= {
            "priorityClassName": "important",
            "preemptionPolicy": "PreemptLowerPriority",
        }
        await emptied.create(asking)
        await finds_no_node(emptied, "asking")

        async def unharmed() -> bool:
            found = await emptied.all(PODS, namespace="default")
            staying = {each["metadata"]["uid"] for each in found if "deletionTimestamp" not in each["metadata"]}
            return before <= staying

        await steadily(unharmed, lasting=3.0, saying="no pod is preempted")
    finally:
        await emptied.delete(PRIORITY_CLASSES, "important")


@pytest.fixture(scope="module")
def real_node(target: Target) -> Iterator[RealNode]:
    """A node whose kubelet runs what is bound to it; only pods that tolerate its taint come there."""
    assert target.own is not None
    with RealNode(target.own) as node:
        yield node


def really(name: str, cpu: int, *, app: str) -> Json:
    """Return a pod of some thousandths of a CPU that really runs."""
    spec = {**objects.ON_REAL_NODE, "terminationGracePeriodSeconds": 1}
    made = objects.pod(name, objects.PodShape(labels={"app": app}, spec=spec))
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": f"{cpu}m"}}
    return made


@pytest.mark.needs(Capability.KUBELET, Capability.COMPONENTS)
async def test_a_real_kubelet_admits_each_owner_in_the_room_that_a_placeholder_has_left(
    emptied: Api, real_node: RealNode
) -> None:
    """A kubelet counts by itself what runs on its node: too early, and it refuses the owner (OutOfcpu)."""
    node = await emptied.get(NODES, real_node.name)
    whole = cpus(node["status"]["allocatable"]["cpu"])
    held = whole - 100
    over = reservation("held", cpu=f"{held}m", allocateOnce=False)
    over["spec"]["template"]["spec"] |= {each: objects.ON_REAL_NODE[each] for each in ("nodeSelector", "tolerations")}
    await emptied.create(over)
    assert (await reaches(emptied, "held", "Available"))["status"]["nodeName"] == real_node.name
    await emptied.create(really("patient", 200, app="patient"), namespace="default")
    for turn in range(3):
        name = f"owner-{turn}"
        await emptied.create(really(name, held, app="held"), namespace="default")
        await eventually(
            lambda name=name: emptied.get(PODS, name, namespace="default"),
            until=lambda pod: pod["status"].get("phase") not in (None, "Pending"),
            within=60,
            saying=f"the kubelet has decided about {name}",
        )
        pod = await emptied.get(PODS, name, namespace="default")
        assert (pod["status"]["phase"], pod["status"].get("reason")) == ("Running", None)
        await emptied.delete(PODS, name, namespace="default", grace_seconds=1)
        await kept(emptied, (f"{held}m", real_node.name))
    await never_bound(emptied, "patient")


def cpus(text: str) -> int:
    """Return thousandths of a CPU."""
    return int(text.removesuffix("m")) if text.endswith("m") else 1000 * int(text)
