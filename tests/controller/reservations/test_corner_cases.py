"""The corner cases of specs/koordinator.md A.11 and the scenarios of A.14 that no other test plays as a whole."""

import pytest

from dra.engine.reservations.reservation_cache import STATUS_DEBOUNCE
from tests.controller.reservations.site import PODS, RESERVATIONS, Site

VIRTUAL_TIME = True
EVENT = "FailedScheduling-Reservation"
AFFINITY = "scheduling.koordinator.sh/reservation-affinity"
ALLOCATED = "scheduling.koordinator.sh/reservation-allocated"
ORDER = "scheduling.koordinator.sh/reservation-order"


async def used(site, name):
    status = (await site.reservation(name))["status"]
    return (
        status["phase"],
        sorted(each["name"] for each in status.get("currentOwners", ())),
        status.get("allocated", {}),
    )


def on(node, cpu):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {"template": {"spec": {"nodeName": node, "containers": [container]}}}


@pytest.mark.parametrize(
    ("policy", "owners", "allocated"),
    [
        pytest.param({}, ["first", "second", "third"], "12", id="as-an-owner-that-spills"),
        pytest.param({"allocatePolicy": "Restricted"}, ["first", "second"], "8", id="beside-what-is-restricted"),
    ],
)
async def test_a_third_owner_takes_the_node_once_two_have_what_was_held(policy, owners, allocated):
    """A.14 (2): 8 of 16 are held; two owners of 4, then a third one and strangers."""
    async with Site() as site:
        await site.reserve("r", "8", allocateOnce=False, **policy)
        await site.place("r")
        for name in ("first", "second", "third"):
            await site.pod(name, "4", app="r")
            assert (await site.turn())[name] == "n1"
        await site.pod("stranger", "5")
        await site.pod("small", "4")
        assert await site.turn() == {"stranger": None, "small": "n1"}
        await site.settle(STATUS_DEBOUNCE + 1)
        assert await used(site, "r") == ("Available", owners, {"cpu": allocated})
        third = (await site.ask("GET", f"{PODS}/third"))["metadata"].get("annotations", {})
        assert (ALLOCATED in third) == ("third" in owners)


@pytest.mark.parametrize(
    ("over", "phase"),
    [
        pytest.param("deleted", None, id="deleted"),  # A.14 (4)
        pytest.param("expired", "Failed", id="expired"),  # A.14 (5)
    ],
)
async def test_a_reservation_that_ends_leaves_its_pods_and_frees_what_they_do_not_use(over, phase):
    async with Site() as site:
        await site.reserve("r", "10", allocateOnce=False, ttl="5m")
        await site.place("r")
        await site.pod("owner", "6", app="r")
        assert (await site.turn())["owner"] == "n1"
        await site.pod("stranger", "10")
        assert (await site.turn())["stranger"] is None
        if over == "deleted":
            await site.delete(f"{RESERVATIONS}/r")
        else:
            await site.settle(301.0)
        await site.settle()
        found = await site.ask("GET", f"{RESERVATIONS}/r", fine=None)
        assert found["status"].get("phase") == phase if phase else found["code"] == 404
        if phase:
            # What it was is to be seen until it is deleted; it is no longer brought up to date.
            assert await used(site, "r") == ("Failed", ["owner"], {"cpu": "6"})
        owner = await site.ask("GET", f"{PODS}/owner")
        assert owner["spec"]["nodeName"] == "n1"
        assert ALLOCATED in owner["metadata"]["annotations"]
        await site.pod("too-late", "4", app="r")
        assert await site.turn() == {"stranger": "n1", "too-late": None}


async def test_of_two_reservations_on_two_nodes_the_smallest_order_comes_first():
    """A.14 (8)."""
    async with Site(nodes={"n1": "16", "n2": "16"}) as site:
        both = [{"labelSelector": {"matchLabels": {"app": "x"}}}]
        for name, node, order in (("a", "n1", "2"), ("b", "n2", "1")):
            await site.reserve(name, "4", owners=both, **on(node, "4"))
            await site.ask("PATCH", f"{RESERVATIONS}/{name}", {"metadata": {"labels": {ORDER: order}}})
            assert (await site.place(name))["status"]["nodeName"] == node
        for name, node in (("first", "n2"), ("second", "n1")):
            await site.pod(name, "4", app="x")
            assert (await site.turn())[name] == node
            await site.settle()
        assert [(await used(site, name))[:2] for name in "ab"] == [("Succeeded", ["second"]), ("Succeeded", ["first"])]


async def test_room_for_a_migration_comes_before_a_reservation_of_a_smaller_order():
    async with Site(nodes={"n1": "16", "n2": "16"}) as site:
        both = [{"labelSelector": {"matchLabels": {"app": "x"}}}]
        job = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "PodMigrationJob", "name": "m", "uid": "job"}
        of_users = {"labels": {ORDER: "1"}}
        of_the_job = {"labels": {ORDER: "1800000000000"}, "ownerReferences": [{**job, "controller": True}]}
        for name, node, metadata in (("user", "n1", of_users), ("job", "n2", of_the_job)):
            await site.reserve(name, "4", owners=both, **on(node, "4"))
            await site.ask("PATCH", f"{RESERVATIONS}/{name}", {"metadata": metadata})
            assert (await site.place(name))["status"]["nodeName"] == node
        for name, node in (("replacement", "n2"), ("another", "n1")):
            await site.pod(name, "4", app="x")
            assert (await site.turn())[name] == node
            await site.settle()


async def test_a_reservation_of_a_full_node_waits_and_says_why():
    """A.14 (6), and (7): bigger than any node."""
    async with Site(nodes={"n1": "4", "n2": "16"}) as site:
        await site.pod("there", "3")
        await site.ask("PATCH", f"{PODS}/there", {"metadata": {"labels": {"x": "y"}}})
        await site.call(
            "bind", {"PodName": "there", "PodNamespace": "default", "PodUID": await _uid(site), "Node": "n1"}
        )
        await site.reserve("full", "2", **on("n1", "2"))
        await site.reserve("huge", "99")
        for name in ("full", "huge"):
            status = (await site.place(name))["status"]
            (condition,) = status["conditions"]
            assert (status["phase"], condition["type"], condition["reason"]) == (
                "Pending",
                "Scheduled",
                "Unschedulable",
            )
            assert "Insufficient cpu by node" in condition["message"]


async def _uid(site):
    return (await site.ask("GET", f"{PODS}/there"))["metadata"]["uid"]


async def test_a_pod_that_must_run_in_a_reservation_hears_what_keeps_them():
    async with Site() as site:
        await site.reserve("r", "4", allocatePolicy="Restricted")
        await site.place("r")
        await site.pod("owner", "5", app="r", **{AFFINITY: "{}"})
        await site.pod("stranger", "1", **{AFFINITY: "{}"})
        await site.pod("anybody", "20", app="r")
        await site.turn()
        await site.settle()
        found = (await site.ask("GET", "/apis/events.k8s.io/v1/namespaces/default/events"))["items"]
        event = {
            each["regarding"]["name"]: each["note"]
            for each in found
            if each["reason"] == "FailedScheduling-Reservation"
        }
        assert event == {
            "owner": "0/1 reservations are available: 1 Reservation(s) Insufficient cpu.",
            "stranger": "0/0 reservations are available.",
        }


async def test_a_host_port_of_the_template_is_held_for_owners():
    """Case 22 beside Koordinator 1.6: the stranger is refused, the owner gets the port."""
    async with Site() as site:
        container = {"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}
        container["resources"] = {"requests": {"cpu": "1"}}
        await site.reserve("r", "1", template={"spec": {"containers": [container]}})
        await site.place("r")
        for name, app in (("stranger", ""), ("owner", "r")):
            metadata = {"name": name, "labels": {"app": app}}
            await site.ask("POST", PODS, {"metadata": metadata, "spec": {"containers": [container]}})
        assert await site.turn() == {"stranger": None, "owner": "n1"}
