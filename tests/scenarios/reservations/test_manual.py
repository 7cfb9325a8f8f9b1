"""The stories of Koordinator's manual, with its manifests, through the real kube-scheduler."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from tests.cluster.kubectl import kubectl
from tests.scenarios.api import Api, Json
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.reservations.conftest import EXAMPLES
from tests.scenarios.resources import EVENTS, PODS, PRIORITY_CLASSES, RESERVATIONS
from tests.scenarios.target import Capability, Target

GIB = 1024**3


def apply(target: Target, name: str) -> None:
    kubectl("create", "--filename", str(EXAMPLES / name), kubeconfig=target.admin)


async def reaches(api: Api, name: str, phase: str, *, within: float = 15.0) -> Json:
    return await eventually(
        lambda: api.get(RESERVATIONS, name),
        until=lambda found: found.get("status", {}).get("phase") == phase,
        within=within,
        saying=f"reservation {name} is {phase}",
    )


async def running(api: Api, count: int, **query: str) -> list[Json]:
    return await eventually(
        lambda: api.all(PODS, namespace="default", **query),
        until=lambda pods: len(pods) == count and all(pod["status"]["phase"] == "Running" for pod in pods),
        saying=f"{count} pods run",
    )


def conditions(found: Json) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in found.get("status", {}).get("conditions", ())}


async def test_500m_are_reserved_and_an_owner_of_200m_lands_there(emptied: Api, target: Target) -> None:
    apply(target, "quick-start.yaml")
    made = await reaches(emptied, "reservation-demo", "Available")
    node = made["status"]["nodeName"]
    assert made["status"]["allocatable"] == {"cpu": "500m", "memory": "800Mi"}
    assert conditions(made) == {"Scheduled": ("True", "Scheduled"), "Ready": ("True", "Available")}
    wide = kubectl("get", "reservation", "reservation-demo", "-o", "wide", kubeconfig=target.admin).splitlines()[1]
    assert wide.split()[:2] + wide.split()[3:] == ["reservation-demo", "Available", node, "1h"]
    await running(emptied, 0)

    apply(target, "quick-start-pod.yaml")
    (pod,) = await running(emptied, 1)
    assert pod["spec"]["nodeName"] == node
    uid = made["metadata"]["uid"]
    annotation = pod["metadata"]["annotations"]["scheduling.koordinator.sh/reservation-allocated"]
    assert annotation == f'{{"name":"reservation-demo","uid":"{uid}"}}'
    done = await reaches(emptied, "reservation-demo", "Succeeded")
    assert done["status"]["allocated"] == {"cpu": "200m", "memory": "400Mi"}
    assert done["status"]["currentOwners"] == [
        {"namespace": "default", "name": "pod-demo-0", "uid": pod["metadata"]["uid"]}
    ]

    kubectl("delete", "reservation", "reservation-demo", kubeconfig=target.admin)

    async def still_runs() -> bool:
        (found,) = await emptied.all(PODS, namespace="default")
        return bool(found["status"]["phase"] == "Running" and found["metadata"]["uid"] == pod["metadata"]["uid"])

    await steadily(still_runs, lasting=1.0, saying="the pod runs on")
    await eventually(
        lambda: events(emptied, uid),
        until=lambda found: {"Scheduled", "Succeeded"} <= {each["reason"] for each in found},
        saying="Events tell of the reservation",
    )


async def test_two_owners_share_6_cpus_and_the_node_is_charged_once(emptied: Api, target: Target) -> None:
    apply(target, "one-node-many-owners.yaml")
    made = await reaches(emptied, "reservation-demo-big", "Available")
    assert made["status"]["nodeName"] == "node-1"
    apply(target, "one-node-many-owners-app.yaml")
    pods = await running(emptied, 2)
    assert {pod["spec"]["nodeName"] for pod in pods} == {"node-1"}

    shared = await eventually(
        lambda: emptied.get(RESERVATIONS, "reservation-demo-big"),
        until=lambda found: len(found["status"].get("currentOwners", ())) == 2,
        saying="both owners are named",
    )
    assert shared["status"]["phase"] == "Available"
    assert shared["status"]["allocated"] == {"cpu": "4", "memory": "20Gi"}
    assert {each["name"] for each in shared["status"]["currentOwners"]} == {pod["metadata"]["name"] for pod in pods}

    # 64 CPUs are there: 6 are charged for the reservation and its two owners, so 58 are left for others and no more.
    await emptied.create(stranger("fits", cpu="58", node="node-1"), namespace="default")
    await running(emptied, 1, labelSelector="app=stranger")
    await emptied.create(stranger("too-much", cpu="1", node="node-1"), namespace="default")
    await waits(emptied, "too-much", because="Insufficient cpu by node")


async def test_what_is_held_is_nobody_elses(emptied: Api) -> None:
    """A.14 (1): with 8 of 16 held a stranger of 12 waits, and an owner of 8 starts."""
    await emptied.create(reservation("half", cpu="60"))
    node = (await reaches(emptied, "half", "Available"))["status"]["nodeName"]
    await emptied.create(stranger("twelve", cpu="12", node=node), namespace="default")
    await waits(emptied, "twelve", because="Insufficient cpu by node")
    await emptied.create(stranger("owner", cpu="60", app="half"), namespace="default")
    (owner,) = await running(emptied, 1, labelSelector="app=half")
    assert owner["spec"]["nodeName"] == node

    await emptied.delete(PODS, "owner", namespace="default", grace_seconds=1)
    # It was for once: nothing is held any more, and the scheduler is told to look again.
    await running(emptied, 1, labelSelector="app=stranger")


async def test_a_reservation_for_a_scheduler_that_does_not_run_is_pending_and_says_so(emptied: Api) -> None:
    wanted = reservation("nobodys", cpu="1")
    wanted["spec"]["template"]["spec"]["schedulerName"] = "nobody"
    made = await emptied.create(wanted)
    assert made["status"]["phase"] == "Pending"
    found = await eventually(
        lambda: emptied.get(RESERVATIONS, "nobodys"),
        until=lambda found: "no scheduler has tried" in str(found["status"].get("conditions")),
        saying="it says that no scheduler has tried it",
    )
    assert conditions(found) == {"Scheduled": ("False", "Unschedulable")}
    assert found["status"]["conditions"][0]["message"].endswith("with the name nobody")
    assert found["status"]["phase"] == "Pending"


async def test_a_reservation_that_fits_nowhere_says_so_in_the_schedulers_words(emptied: Api) -> None:
    """A.14 (6), (7)."""
    await emptied.create(reservation("huge", cpu="1k"))
    found = await eventually(
        lambda: emptied.get(RESERVATIONS, "huge"),
        until=lambda found: "Insufficient cpu" in str(found.get("status", {}).get("conditions")),
        saying="it says that it fits nowhere",
    )
    assert conditions(found) == {"Scheduled": ("False", "Unschedulable")}
    assert "0/3 nodes are available" in found["status"]["conditions"][0]["message"]
    assert found["status"]["phase"] == "Pending"


async def test_a_reservation_ends_in_time_and_what_it_held_is_free_at_once(emptied: Api, target: Target) -> None:
    """A.14 (5)."""
    await emptied.create(reservation("short", cpu="60", ttl="6s"))
    node = (await reaches(emptied, "short", "Available"))["status"]["nodeName"]
    await emptied.create(stranger("patient", cpu="12", node=node), namespace="default")
    await waits(emptied, "patient", because="Insufficient cpu by node")
    assert await emptied.all(PODS, namespace="default", labelSelector="reserve.dra/placeholder") == []
    over = await reaches(emptied, "short", "Failed")
    assert conditions(over) == {"Scheduled": ("True", "Scheduled"), "Ready": ("False", "Expired")}
    assert lived(over) >= 6
    await running(emptied, 1)
    await emptied.create(stranger("rest", cpu="52", node=node), namespace="default")
    await running(emptied, 2)  # all of the node's 64: nothing is held any more
    header, row = kubectl("get", "rsv", "short", "-o", "wide", kubeconfig=target.admin).splitlines()
    assert header.split() == ["NAME", "PHASE", "AGE", "CLAIMS", "NODE", "TTL", "EXPIRES"]
    assert row.split()[:2] + row.split()[3:] == ["short", "Failed", node, "6s"]


def lived(found: Json) -> float:
    """Return the seconds from a reservation's creation to its end."""
    (ended,) = (each["lastTransitionTime"] for each in found["status"]["conditions"] if each["type"] == "Ready")
    return (
        datetime.fromisoformat(ended) - datetime.fromisoformat(found["metadata"]["creationTimestamp"])
    ).total_seconds()


async def test_a_pending_reservation_ends_in_time_too(emptied: Api) -> None:
    await emptied.create(reservation("hopeless", cpu="1k", ttl="2s"))
    over = await reaches(emptied, "hopeless", "Failed")
    assert conditions(over)["Ready"] == ("False", "Expired")
    await running(emptied, 0)


async def test_a_pod_that_asks_for_a_reservation_waits_for_one(emptied: Api) -> None:
    """A.14 (9)."""
    asking = stranger("asking", cpu="1", app="later")
    asking["metadata"]["annotations"] = {"scheduling.koordinator.sh/reservation-affinity": "{}"}
    await emptied.create(asking, namespace="default")
    await waits(emptied, "asking", because="no reservations match reservation affinity")
    await emptied.create(reservation("later", cpu="2"))
    await running(emptied, 1)


def reservation(name: str, *, cpu: str, ttl: str = "1h", **spec: Any) -> Json:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": name},
        "spec": {
            "template": {"spec": {"containers": [container]}},
            "owners": [{"labelSelector": {"matchLabels": {"app": name}}}],
            "ttl": ttl,
            **spec,
        },
    }


def stranger(name: str, *, cpu: str, node: str = "", app: str = "stranger") -> Json:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}
    selector = {"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": app}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **selector},
    }


async def waits(api: Api, name: str, *, because: str) -> None:
    def said(pod: Json) -> str:
        return " ".join(each.get("message", "") for each in pod["status"].get("conditions", ()))

    await eventually(
        lambda: api.get(PODS, name, namespace="default"),
        until=lambda pod: because in said(pod),
        saying=f"pod {name} waits because of: {because}",
    )


async def events(api: Api, uid: str) -> list[Json]:
    return await api.all(EVENTS, namespace="default", fieldSelector=f"involvedObject.uid={uid}")


@pytest.mark.needs(Capability.PREEMPTION)
async def test_no_pod_is_preempted_in_vain(emptied: Api) -> None:
    """A.12: of 64 CPUs 20 are held and 40 used by others; who wants 50 could not have them if those left."""
    await emptied.create({**PRIORITY, "value": 1000})
    try:
        node = "node-0"
        held = reservation("held", cpu="20")
        held["spec"]["template"]["spec"]["nodeName"] = node
        await emptied.create(held)
        await reaches(emptied, "held", "Available")
        await emptied.create(stranger("humble", cpu="40", node=node), namespace="default")
        (humble,) = await running(emptied, 1)

        greedy = stranger("greedy", cpu="50", node=node, app="greedy")
        greedy["spec"]["priorityClassName"] = "important"
        await emptied.create(greedy, namespace="default")
        await waits(emptied, "greedy", because="Insufficient cpu")

        async def unharmed() -> bool:
            found = await emptied.find(PODS, "humble", namespace="default")
            return found is not None and "deletionTimestamp" not in found["metadata"]

        await steadily(unharmed, lasting=2.0, saying="nobody leaves for it")
        modest = stranger("modest", cpu="44", node=node, app="modest")
        modest["spec"]["priorityClassName"] = "important"
        await emptied.create(modest, namespace="default")
        await running(emptied, 1, labelSelector="app=modest")
        assert await emptied.find(PODS, "humble", namespace="default") is None
        assert humble["spec"]["nodeName"] == node
    finally:
        await emptied.delete(PRIORITY_CLASSES, "important")


PRIORITY: dict[str, Any] = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "important"},
}
