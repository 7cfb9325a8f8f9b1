"""What the extender's metrics say is what is so."""

from localplane.fault_injection import Fault, FaultRule
from tests.controller.reservations.site import PODS, Site

GAUGES = 6.0
"""Seconds after which gauges have been looked at."""


def metric(site, name, **labels):
    return site.extender.metrics.registry.get_sample_value(name, labels)


def binds(site):
    ends = ("bound", "refused", "unknown", "failed")
    return {end: metric(site, "dra_reserve_extender_binds_total", outcome=end) for end in ends}


async def test_reservations_are_counted_by_phase():
    async with Site() as site:
        await site.reserve("r", "4", allocateOnce=False, ttl="60s")
        await site.reserve("huge", "99")
        await site.place("r")
        phases = {"Available": 1, "Pending": 1, "Failed": 0, "Succeeded": 0}
        assert {each: metric(site, "dra_reserve_reservations", phase=each) for each in phases} == phases
        await site.settle(61.0)
        assert metric(site, "dra_reserve_reservations", phase="Failed") == 1
        assert metric(site, "dra_reserve_extender_leading") == 1


async def test_binds_are_counted_by_their_end_and_what_is_in_doubt_is_told_until_it_is_not():
    async with Site() as site:
        assert binds(site) == {"bound": 0, "refused": 0, "unknown": 0, "failed": 0}
        await site.pod("plain", "1")
        await site.turn()
        assert binds(site) == {"bound": 1, "refused": 0, "unknown": 0, "failed": 0}
        site.faults.add(FaultRule(fault=Fault.LOST, component="extender", resource="pods/binding", times=1))
        await site.schedule(await site.pod("lost", "1"))
        await site.settle(GAUGES)
        assert binds(site)["unknown"] == 1
        assert metric(site, "dra_reserve_extender_doubts") == 1
        gone = await site.pod("gone", "1")
        await site.delete(f"{PODS}/gone")
        await site.schedule(gone)
        assert binds(site) == {"bound": 1, "refused": 1, "unknown": 1, "failed": 0}
        await site.settle(10.0 + GAUGES)
        assert metric(site, "dra_reserve_extender_doubts") == 0
        assert metric(site, "dra_reserve_extender_call_seconds_count", verb="bind") == 3


async def test_nodes_whose_annotation_cannot_be_read_are_counted():
    async with Site() as site:
        kept = {"metadata": {"annotations": {"node.koordinator.sh/reservation": "{"}}}
        await site.ask("PATCH", "/api/v1/nodes/n1", kept)
        await site.settle(GAUGES)
        assert metric(site, "dra_reserve_node_reservation_faults") == 1
        await site.ask(
            "PATCH", "/api/v1/nodes/n1", {"metadata": {"annotations": {"node.koordinator.sh/reservation": None}}}
        )
        await site.settle(GAUGES)
        assert metric(site, "dra_reserve_node_reservation_faults") == 0


async def test_events_that_are_not_posted_are_counted():
    """The controller counted its own, the extender none: a flood of Events, or a right that is missing, went unseen."""
    async with Site() as site:
        assert metric(site, "dra_reserve_events_discarded_total") == 0
        site.faults.add(FaultRule(fault=Fault.REFUSED, component="extender", resource="events.events.k8s.io"))
        kept = {"metadata": {"annotations": {"node.koordinator.sh/reservation": "{"}}}
        await site.ask("PATCH", "/api/v1/nodes/n1", kept)
        await site.settle(60.0)
        assert metric(site, "dra_reserve_events_discarded_total") == 1
