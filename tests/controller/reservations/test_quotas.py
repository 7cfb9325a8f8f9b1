"""Reservations and the ResourceQuota of their namespace, once no placeholder is charged any more."""

import json

from dra.api.reservations.well_known import ANNOTATION_RESIZE_ALLOCATABLE
from localplane.fault_injection import Fault, FaultRule
from tests.controller.reservations.site import RESERVATIONS, Site

VIRTUAL_TIME = True
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"
UNREADABLE = FaultRule(fault=Fault.REFUSED, component="extender", resource="resourcequotas")


async def limit(site, hard, **spec):
    """Let a quota be in force, as the controller of quotas would: the plane has none."""
    await site.ask("POST", QUOTAS, {"metadata": {"name": "team"}, "spec": {"hard": {"requests.cpu": hard}, **spec}})
    await site.ask("PATCH", f"{QUOTAS}/team/status", {"status": {"hard": {"requests.cpu": hard}}})
    await charge(site, "0")


async def charge(site, used):
    await site.ask("PATCH", f"{QUOTAS}/team/status", {"status": {"used": {"requests.cpu": used}}})


async def placed(site, name):
    return (await site.reservation(name)).get("status", {}).get("nodeName", "")


async def test_reservations_without_pods_hold_no_more_than_a_quota():
    async with Site(nodes={"n1": "64"}) as site:
        await limit(site, "10")
        await site.reserve("first", "6", allocateOnce=False)
        await site.place("first")
        await site.reserve("second", "6")
        await charge(site, "6")  # its placeholder
        await site.place("second")
        assert [await placed(site, name) for name in ("first", "second")] == ["n1", ""]
        await site.delete(f"{RESERVATIONS}/first")
        await site.settle()
        await site.place("second")
        assert await placed(site, "second") == "n1"


async def test_a_quota_of_a_class_bounds_the_reservations_of_that_class():
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
    async with Site(nodes={"n1": "64"}) as site:
        await limit(site, "10", scopeSelector={"matchExpressions": [scope]})
        for value, name in enumerate(("low", "high")):
            await site.ask("POST", CLASSES, {"metadata": {"name": name}, "value": value})
        for name, priority_class in (("first", "high"), ("second", "high"), ("third", "low")):
            container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "6"}}}
            template = {"spec": {"containers": [container], "priorityClassName": priority_class}}
            await site.reserve(name, "6", template=template, allocateOnce=False)
            await charge(site, "0" if name == "first" else "6")  # the placeholder of the second one waits
            await site.place(name)
        assert [await placed(site, name) for name in ("first", "second", "third")] == ["n1", "", "n1"]


async def test_a_reservation_does_not_grow_beyond_a_quota():
    async with Site(nodes={"n1": "64"}) as site:
        await limit(site, "10")
        await site.reserve("r", "6", allocateOnce=False)
        await site.place("r")
        for cpu, held in (("11", "6"), ("10", "10")):
            resize = {ANNOTATION_RESIZE_ALLOCATABLE: json.dumps({"resources": {"cpu": cpu}})}
            await site.ask("PATCH", f"{RESERVATIONS}/r", {"metadata": {"annotations": resize}})
            await site.settle(20.0)
            assert (await site.reservation("r"))["status"]["allocatable"] == {"cpu": held}


async def test_quotas_that_may_not_be_read_bound_nothing():
    async with Site(nodes={"n1": "64"}, rules=(UNREADABLE,)) as site:
        await limit(site, "10")
        for name in ("first", "second"):
            await site.reserve(name, "6")
            await site.place(name)
            assert await placed(site, name) == "n1"
        assert site.extender.not_ready_reasons() == []
