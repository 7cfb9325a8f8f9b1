"""Writes of the extender that come late: what they hold is nobody else's until it is known what became of them."""

import asyncio

import pytest

from localplane.fault_injection import Fault, FaultRule
from tests.controller.reservations.site import NAMED_FIRST, Site, ended

LATE = {"fault": Fault.DELAY, "component": "extender", "seconds": 1.9}
"""The extender waits two seconds for an answer. Drawn by a seeded chance, so it is the same each time."""


@pytest.mark.parametrize("seed", range(5))
async def test_a_place_that_is_being_taken_back_is_not_given_to_the_same_pod_meanwhile(seed):
    async with Site(seed=seed) as site:
        await site.reserve("r", "10", **NAMED_FIRST)
        await site.place("r")
        site.faults.add(FaultRule(fault=Fault.REFUSED, component="extender", resource="pods/binding", times=1))
        owner = await site.pod("owner", "9", app="r")
        site.faults.add(FaultRule(**LATE, verb="patch", resource="reservations.*/status", nth=2))
        assert (await site.schedule(owner))[0] is None
        await assert_bound_means_assigned(site, owner)


@pytest.mark.parametrize("seed", range(5))
async def test_a_pod_that_is_bound_again_while_its_doubt_is_looked_into_keeps_its_place(seed):
    async with Site(seed=seed) as site:
        await site.reserve("r", "10", **NAMED_FIRST)
        await site.place("r")
        site.faults.add(FaultRule(fault=Fault.LOST, component="extender", resource="pods/binding", times=1))
        owner = await site.pod("owner", "9", app="r")
        assert (await site.schedule(owner))[0] is None
        site.faults.add(FaultRule(**LATE, verb="get", resource="pods", after=True))
        while not site.faults.counts[Fault.DELAY]:  # its read is under way from then on
            await site.settle(0.01)
        await assert_bound_means_assigned(site, owner)


async def assert_bound_means_assigned(site, owner):
    """Have a pod scheduled again and again; once it is bound it is assigned at every moment."""
    uid = owner["metadata"]["uid"]
    for _ in range(200):
        bound = (await site.schedule(owner))[0]
        if bound:
            break
        await site.settle(0.05)
    assert bound == "n1"
    for _ in range(100):
        seat = site.extender.cache.accounting.assignment(uid)
        named = [each["uid"] for each in (await site.reservation("r"))["status"].get("currentOwners", [])]
        assert (seat is not None and seat.reservation is not None, named) == (True, [uid])
        await site.settle(0.05)


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
async def test_a_reservation_that_is_placed_again_while_its_doubt_is_looked_into_holds_its_node_or_has_lost_it(seed):
    async with Site(seed=seed) as site:
        site.faults.add(FaultRule(fault=Fault.LOST, component="extender", resource="reservations.*/status", times=1))
        await site.reserve("r", "10")
        await site.settle()
        await site.turn()
        site.faults.add(FaultRule(**LATE, verb="get", resource="reservations.*", after=True))
        while not site.faults.counts[Fault.DELAY]:
            await site.settle(0.01)
        site.faults.add(FaultRule(**LATE, verb="patch", resource="reservations.*/status"))
        placing = asyncio.create_task(again_and_again(site))
        await assert_one_has_the_node(site, seconds=3.0)
        await ended(placing)


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
async def test_a_write_that_comes_late_finds_the_node_of_its_reservation_held_whatever_was_refused_since(seed):
    async with Site(seed=seed) as site:
        writes = {"component": "extender", "resource": "reservations.*/status"}
        site.faults.add(
            FaultRule(**writes, fault=Fault.DELAY, seconds=8.0, times=1),
            FaultRule(**writes, fault=Fault.REFUSED, nth=2),
        )
        await site.reserve("r", "10")
        await site.settle()
        await site.turn()
        await site.turn()
        await assert_one_has_the_node(site, seconds=12.0)


async def assert_one_has_the_node(site, *, seconds):
    """Have a rival scheduled again and again, who can be there only if the reservation is not."""
    rival = await site.pod("rival", "9")
    for _ in range(int(seconds / 0.1)):
        await site.schedule(rival)
        await site.settle(0.1)
    placed = (await site.reservation("r")).get("status", {}).get("phase") == "Available"
    assert bool(await site.node_of("rival")) is not placed


async def again_and_again(site):
    """Have the placeholder scheduled."""
    while True:
        for pod in await site.pods():
            if pod["metadata"]["name"] != "rival" and not pod["spec"].get("nodeName"):
                await site.schedule(pod)
        await site.settle(0.05)
