"""A reservation placed over running pods: the pods are its first consumers, and their room is kept when they end."""

import json

import pytest

from tests.controller.reservations.site import PODS, RESERVATIONS, Site

ALLOCATED = "scheduling.koordinator.sh/reservation-allocated"
OVER_PODS = {"preAllocation": True, "allocatePolicy": "Restricted", "allocateOnce": False}


async def over_a_running_pod(site, **spec):
    """A node of 7800m with an owner of 7, and a reservation of 7 over that pod."""
    await site.pod("old", "7", app="r")
    await site.turn()
    await site.reserve("r", "7", **{**OVER_PODS, **spec})
    found = await site.place("r")
    assert (found["status"].get("phase"), found["status"].get("nodeName")) == ("Available", "n1")
    return found


def names(found):
    return [each["name"] for each in found["status"].get("currentOwners") or ()]


async def test_the_status_names_the_pods_and_the_pods_name_the_reservation():
    async with Site(nodes={"n1": "7800m"}) as site:
        found = await over_a_running_pod(site)
        assert names(found) == ["old"]
        assert found["status"]["allocated"] == {"cpu": "7"}
        old = await site.ask("GET", f"{PODS}/old")
        annotation = json.loads(old["metadata"]["annotations"][ALLOCATED])
        assert annotation == {"name": "r", "uid": found["metadata"]["uid"]}


@pytest.mark.parametrize("once", [False, True])
async def test_the_room_is_kept_for_the_next_owner_when_the_pod_ends(once):
    async with Site(nodes={"n1": "7800m"}) as site:
        await over_a_running_pod(site, allocateOnce=once)
        await site.pod("next", "7", app="r")
        await site.pod("stranger", "1")
        assert set((await site.turn()).values()) == {None}
        await site.finish("old")
        await site.settle()
        found = await site.reservation("r")
        assert (found["status"]["phase"], names(found)) == ("Available", [])
        assert not found["status"].get("allocated")
        bound = await site.turn()
        assert (bound["next"], bound["stranger"]) == ("n1", None)


async def test_an_annotation_that_could_not_be_written_is_written_later():
    async with Site(nodes={"n1": "7800m"}) as site:
        found = await over_a_running_pod(site)
        await site.ask("PATCH", f"{PODS}/old", {"metadata": {"annotations": {ALLOCATED: None}}})
        await site.settle()
        old = await site.ask("GET", f"{PODS}/old")
        assert found["metadata"]["uid"] in old["metadata"]["annotations"][ALLOCATED]
        assert names(await site.reservation("r")) == ["old"]


async def test_a_pod_whose_reservation_is_gone_can_be_in_the_next_one():
    async with Site(nodes={"n1": "7800m"}) as site:
        await over_a_running_pod(site)
        await site.delete(f"{RESERVATIONS}/r")
        await site.settle()
        await site.reserve("again", "7", owners=[{"labelSelector": {"matchLabels": {"app": "r"}}}], **OVER_PODS)
        found = await site.place("again")
        assert names(found) == ["old"]
        old = await site.ask("GET", f"{PODS}/old")
        assert found["metadata"]["uid"] in old["metadata"]["annotations"][ALLOCATED]


async def test_it_waits_where_nobody_matches_and_preemption_is_not_asked_for():
    async with Site(nodes={"n1": "7800m"}) as site:
        await site.pod("other", "7", app="other")
        await site.turn()
        await site.reserve("r", "7", **OVER_PODS)
        await site.settle()
        (placeholder,) = [pod for pod in await site.pods() if pod["metadata"]["name"] != "other"]
        result = await site.call("filter", {"Pod": placeholder, "NodeNames": ["n1"]})
        assert (result["FailedNodes"], result["FailedAndUnresolvableNodes"]) == ({}, {"n1": "Insufficient cpu by node"})
