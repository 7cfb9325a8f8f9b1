"""What no watch shows, what no answer tells, what a process has forgotten: none of it gives anything away."""

import asyncio

import pytest

from dra.engine.reservations.reservation_cache import STATUS_DEBOUNCE
from localplane.fault_injection import Fault, FaultRule
from tests.controller.reservations.site import PODS, RESERVATIONS, Site, ended
from tests.controller.reservations.test_site import RESIZE

ALLOCATED = "scheduling.koordinator.sh/reservation-allocated"
EXTENDER, CONTROLLER = {"component": "extender"}, {"component": "controller"}


async def test_a_node_that_the_controllers_watch_does_not_show_yet_is_not_taken_for_gone():
    """A watch may lag or be about to list anew; what was placed on the newest node would be deleted at once."""
    async with Site(nodes={"n1": "4"}) as site:
        site.faults.add(FaultRule(fault=Fault.SILENCE, **CONTROLLER, verb="watch", resource="nodes"))
        await site.add_node("n2", "16")
        await site.reserve("r", "8")
        found = await site.place("r")
        assert (found["status"]["phase"], found["status"]["nodeName"]) == ("Available", "n2")
        await site.settle(5.0)
        assert (await site.reservation("r"))["status"]["phase"] == "Available"


async def test_a_node_that_goes_ends_its_reservations_with_nothing_else_happening():
    async with Site() as site:
        await site.reserve("r", "4")
        await site.place("r")
        await site.delete("/api/v1/nodes/n1")
        await site.settle(6.0)
        assert await site.reservations() == []


@pytest.mark.parametrize("seed", range(6))
async def test_more_that_is_held_late_was_held_meanwhile(seed):
    """The write that makes a reservation greater is not answered, and arrives after a read that did not show it."""
    async with Site(seed=seed) as site:
        await site.reserve("r", "4", allocateOnce=False)
        await site.place("r")
        late = {"fault": Fault.DELAY, "seconds": 9.0, "times": 1}
        site.faults.add(FaultRule(**EXTENDER, **late, verb="patch", resource="reservations.*/status"))
        text = '{"resources": {"cpu": "12"}}'
        await site.ask("PATCH", f"{RESERVATIONS}/r", {"metadata": {"annotations": {RESIZE: text}}})
        rival = await site.pod("rival", "9")
        while not site.faults.counts[Fault.DELAY]:
            await site.settle(0.1)
        for _ in range(150):
            await site.schedule(rival)
            await site.settle(0.1)
        held = (await site.reservation("r"))["status"]["allocatable"]["cpu"]
        assert int(held) + 9 * bool(await site.node_of("rival")) <= 16


async def test_a_place_in_doubt_is_free_in_time_however_often_its_pod_is_tried_and_refused():
    async with Site() as site:
        site.faults.add(FaultRule(fault=Fault.LOST, **EXTENDER, resource="pods/binding", times=1))
        owner = await site.pod("owner", "9")
        assert (await site.schedule(owner))[0] is None
        assert len(site.extender._unconfirmed) == 1
        site.faults.set([FaultRule(fault=Fault.REFUSED, **EXTENDER, resource="pods/binding")])
        for _ in range(30):
            await site.schedule(owner)
            await site.settle(0.5)
            if not len(site.extender._unconfirmed):
                break
        assert len(site.extender._unconfirmed) == 0


async def test_a_pod_that_no_watch_ever_showed_is_not_charged_for_ever():
    """It came before the last read of all pods, and went before the watch had to list anew."""
    async with Site() as site:
        await site.stop_extender()
        site.faults.add(FaultRule(fault=Fault.SILENCE, **EXTENDER, verb="watch", resource="pods"))
        starting = asyncio.ensure_future(site.start_extender())
        await site.settle(5.0)
        made = await site.pod("brief", "9")
        binding = {
            "metadata": {"name": "brief", "uid": made["metadata"]["uid"]},
            "target": {"kind": "Node", "name": "n1"},
        }
        await site.ask("POST", f"{PODS}/brief/binding", binding)
        await starting
        assert site.extender.cache.accounting.assignment(made["metadata"]["uid"]) is not None
        await site.delete(f"{PODS}/brief")
        site.faults.set([FaultRule(fault=Fault.EXPIRED, **EXTENDER, verb="watch", resource="pods", times=1)])
        await site.settle(120.0)
        await site.pod("other", "1")  # an event, which is what the fault takes the place of
        await site.settle(10.0)
        assert site.extender.cache.accounting.assignment(made["metadata"]["uid"]) is None


async def test_a_reservation_that_no_watch_ever_showed_does_not_hold_for_ever():
    async with Site() as site:
        await site.stop_extender()
        site.faults.add(FaultRule(fault=Fault.SILENCE, **EXTENDER, verb="watch", resource="reservations.*"))
        starting = asyncio.ensure_future(site.start_extender())
        await site.settle(5.0)
        made = await site.reserve("brief", "9")
        status = {"phase": "Available", "nodeName": "n1", "allocatable": {"cpu": "9"}}
        await site.ask("PATCH", f"{RESERVATIONS}/brief/status", {"status": status})
        await starting
        assert site.extender.cache.accounting.reservation(made["metadata"]["uid"]).available
        await site.delete(f"{RESERVATIONS}/brief")
        site.faults.set([FaultRule(fault=Fault.EXPIRED, **EXTENDER, verb="watch", resource="reservations.*", times=1)])
        await site.settle(120.0)
        await site.reserve("other", "1")
        await site.settle(10.0)
        assert site.extender.cache.accounting.reservation(made["metadata"]["uid"]) is None
        await site.pod("big", "14")
        assert (await site.turn())["big"] == "n1"


async def test_a_replica_that_has_not_noticed_another_one_lets_nobody_into_what_is_used():
    """Its accounting is behind; the status that it compares is not."""
    async with Site() as site:
        await site.reserve("r", "10")
        await site.place("r")
        former, running = site.extender, site.detach()
        await site.start_extender()
        site.faults.add(FaultRule(fault=Fault.SILENCE, **EXTENDER, verb="watch"))
        assert (await site.schedule(await site.pod("first", "8", app="r")))[0] == "n1"
        site.extender, leader = former, site.extender
        bound, error = await site.schedule(await site.pod("second", "8", app="r"))
        assert (bound, "already been allocated" in error) == (None, True)
        site.extender = leader
        await ended(running)


async def test_an_owner_whose_annotation_somebody_takes_off_is_in_until_it_ends():
    async with Site() as site:
        await site.reserve("r", "10", allocateOnce=False)
        await site.place("r")
        await site.pod("owner", "8", app="r")
        await site.turn()
        await site.settle(STATUS_DEBOUNCE + 1)
        await site.ask("PATCH", f"{PODS}/owner", {"metadata": {"annotations": {ALLOCATED: None}}})
        await site.settle(5.0)
        assert [each["name"] for each in (await site.reservation("r"))["status"]["currentOwners"]] == ["owner"]
        await site.delete(f"{PODS}/owner")
        await site.settle(90.0)
        assert not (await site.reservation("r"))["status"].get("currentOwners")


async def test_a_reservation_that_goes_while_its_status_is_being_written_is_decided_on_no_more(caplog):
    async with Site() as site:
        writes = {**CONTROLLER, "verb": "patch", "resource": "reservations.*/status", "times": 1}
        site.faults.add(FaultRule(fault=Fault.DELAY, **writes), FaultRule(fault=Fault.CONFLICT, **writes))
        await site.reserve("r", "4", ttl="1s")
        while not site.faults.counts[Fault.DELAY]:
            await site.settle(0.01)
        await site.delete(f"{RESERVATIONS}/r")
        await site.settle(2.0)
        assert site.faults.counts[Fault.CONFLICT] == 1
        assert "internal error" not in caplog.text
