"""Many owners at once: how many requests they cost, and what becomes of them on a slow API server."""

import asyncio
from collections import Counter

import pytest

from dra.engine.reservations.reservation_cache import STATUS_DEBOUNCE
from dra.engine.scheduling.binding_limit import LIMIT_INITIAL
from localplane.fault_injection import Fault, FaultRule
from tests.controller.reservations.site import NAMED_FIRST, RESERVATIONS, Site

VIRTUAL_TIME = True
STATUS = "reservations.scheduling.koordinator.sh/status"
OWNERS = 40


def delayed(seconds):
    return FaultRule(fault=Fault.DELAY, component="extender", verb="*", resource="*", seconds=seconds)


class Counted:
    """Counts what is written, or also what is read: (method, last part of the path, status)."""

    def __init__(self, site, *, reads=False):
        self.requests = Counter()
        self._reads = reads
        self._site, self._handle = site, site.server.handle

    def __enter__(self):
        async def handle(request):
            answer = await self._handle(request)
            if self._reads or request.method != "GET":
                self.requests[request.method, request.path.rpartition("/")[2], answer.status] += 1
            return answer

        self._site.server.handle = handle
        return self

    def __exit__(self, *_):
        self._site.server.handle = self._handle


async def scheduled(site, owners):
    """Have pods scheduled as kube-scheduler does: it waits for answers to filter, and for no binding."""
    bindings = []
    for pod in owners:
        nodes = {"Pod": pod, "NodeNames": ["n1"]}
        found = await site.call("filter", nodes)
        assert found["NodeNames"] == ["n1"], found
        metadata = pod["metadata"]
        call = {"PodName": metadata["name"], "PodNamespace": "default", "PodUID": metadata["uid"], "Node": "n1"}
        bindings.append(asyncio.create_task(site.call("bind", call)))
        await asyncio.sleep(0.002)  # its own work for the next pod
    return [(await each)["Error"] for each in bindings]


async def owners_of(site, name):
    return {each["name"] for each in (await site.reservation(name))["status"].get("currentOwners", ())}


@pytest.mark.parametrize(
    ("spec", "most"),
    [
        pytest.param({"allocateOnce": False}, 3, id="named-once-bound"),
        pytest.param(NAMED_FIRST, OWNERS / 2, id="named-first"),
    ],
)
async def test_owners_that_enter_a_reservation_at_once_are_named_by_few_writes(spec, most):
    async with Site(nodes={"n1": "64"}) as site:
        await site.reserve("r", "40", **spec)
        await site.place("r")
        owners = [await site.pod(f"p-{number}", "1", app="r") for number in range(OWNERS)]
        await site.settle()
        site.faults.set((delayed(0.05),))
        with Counted(site) as counted:
            assert await scheduled(site, owners) == [""] * OWNERS
            await site.settle(STATUS_DEBOUNCE + 1)
        statuses = {key: count for key, count in counted.requests.items() if key[1] == "status"}
        assert set(statuses) == {("PATCH", "status", 200)}  # no write conflicted with that of another pod
        assert sum(statuses.values()) <= most
        assert counted.requests["POST", "binding", 201] == OWNERS
        assert await owners_of(site, "r") == {f"p-{number}" for number in range(OWNERS)}


async def test_of_two_owners_that_enter_together_a_reservation_for_once_takes_one():
    async with Site(nodes={"n1": "64"}) as site:
        await site.reserve("r", "4", allocateOnce=True)
        await site.place("r")
        owners = [await site.pod(f"p-{number}", "1", app="r") for number in range(3)]
        await site.settle()
        site.faults.set((delayed(0.05),))
        await scheduled(site, owners)
        await site.settle(15)
        (named,) = await owners_of(site, "r")
        inside = [
            each["metadata"]["name"]
            for each in await site.pods()
            if "scheduling.koordinator.sh/reservation-allocated" in each["metadata"].get("annotations", {})
        ]
        assert inside == [named]


async def test_an_owner_costs_one_request_of_the_extender_and_none_of_the_controller():
    """A read for each owner, and a write of the status for each, made a busy API server twice as busy."""
    async with Site(nodes={"n1": "64"}) as site:
        await site.reserve("r", "40", allocateOnce=False)
        await site.place("r")
        owners = [await site.pod(f"p-{number}", "1", app="r") for number in range(OWNERS)]
        await site.settle()
        site.faults.set((delayed(0.05),))
        with Counted(site, reads=True) as counted:
            assert await scheduled(site, owners) == [""] * OWNERS
            await site.settle(10)
        requests = {key: count for key, count in counted.requests.items() if not key[1].startswith("leases")}
        assert requests.pop(("POST", "binding", 201)) == OWNERS
        assert sum(requests.values()) <= 4, requests


async def test_the_status_of_a_reservation_whose_owners_come_one_by_one_is_not_written_for_each():
    async with Site(nodes={"n1": "64"}) as site:
        await site.reserve("r", "40", allocateOnce=False)
        await site.place("r")
        with Counted(site) as counted:
            for number in range(20):
                owner = await site.pod(f"p-{number}", "1", app="r")
                await site.settle(0.5)
                assert await scheduled(site, [owner]) == [""]
                await site.settle(0.5)
            await site.settle(6)
        assert counted.requests["PATCH", "status", 200] <= 6
        assert len(await owners_of(site, "r")) == 20


async def test_an_owner_of_a_reservation_for_once_is_not_read_while_it_is_being_bound():
    async with Site(nodes={"n1": "64"}) as site:
        await site.reserve("r", "4", allocateOnce=True)
        await site.place("r")
        owner = await site.pod("p", "1", app="r")
        await site.settle()
        site.faults.set((delayed(0.3),))
        with Counted(site, reads=True) as counted:
            assert await scheduled(site, [owner]) == [""]
            await site.settle(10)
        assert ("GET", "p", 200) not in counted.requests
        assert (await site.reservation("r"))["status"]["phase"] == "Succeeded"


async def test_a_write_that_is_not_answered_leaves_every_pod_of_it_in_doubt_and_none_lost():
    async with Site(nodes={"n1": "64"}) as site:
        await site.reserve("r", "40", **NAMED_FIRST)
        await site.place("r")
        owners = [await site.pod(f"p-{number}", "1", app="r") for number in range(LIMIT_INITIAL)]
        await site.settle()
        lost = FaultRule(fault=Fault.LOST, component="extender", verb="patch", resource=STATUS, after=True, times=2)
        site.faults.set((delayed(0.05), lost))
        messages = await scheduled(site, owners)
        assert any("outcome of the bind is unknown" in each for each in messages)
        site.faults.set(())
        await site.settle(15)
        for _ in range(3):
            await site.turn()
            await site.settle(2)
        assert [await site.node_of(f"p-{number}") for number in range(LIMIT_INITIAL)] == ["n1"] * LIMIT_INITIAL
        assert await owners_of(site, "r") == {f"p-{number}" for number in range(LIMIT_INITIAL)}


class Paced:
    """Has the API server carry out so many requests a second, one after the other."""

    def __init__(self, site, *, rate):
        self._site, self._handle = site, site.server.handle
        self._every, self._free_at = 1 / rate, 0.0

    def __enter__(self):
        async def handle(request):
            now = asyncio.get_running_loop().time()
            self._free_at = max(self._free_at, now) + self._every
            await asyncio.sleep(self._free_at - now)
            return await self._handle(request)

        self._site.server.handle = handle
        return self

    def __exit__(self, *_):
        self._site.server.handle = self._handle


@pytest.mark.parametrize("rate", [400, 40], ids=["usual", "ten-times-slower"])
async def test_every_binding_of_a_burst_is_answered_and_succeeds_however_slow_the_server_is(rate):
    async with Site(nodes={"n1": "200"}) as site:
        for number in range(30):
            await site.reserve(f"r-{number}", "4", allocateOnce=False)
            await site.place(f"r-{number}")
        owners = [await site.pod(f"p-{n}-{k}", "1", app=f"r-{n}") for k in range(3) for n in range(30)]
        await site.settle()
        with Paced(site, rate=rate):
            assert await scheduled(site, owners) == [""] * len(owners)


async def test_an_owner_that_is_named_and_never_shown_is_read_after_five_seconds():
    """The extender ended between its write of the status and the Binding, and the pod is gone: no event tells."""
    async with Site() as site:
        await site.reserve("r", "4", allocateOnce=True)
        await site.place("r")
        await site.stop_extender()
        gone = {"namespace": "default", "name": "gone", "uid": "gone"}
        await site.ask("PATCH", f"{RESERVATIONS}/r/status", {"status": {"currentOwners": [gone]}})
        with Counted(site, reads=True) as counted:
            await site.settle(4.0)
            assert ("GET", "gone", 404) not in counted.requests
            await site.settle(2.0)
        assert counted.requests["GET", "gone", 404] == 1
        assert (await site.reservation("r"))["status"]["phase"] == "Succeeded"
