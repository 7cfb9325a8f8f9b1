import asyncio
from contextlib import aclosing

import pytest

from dra.kube.errors import Unreachable
from dra.kube.transport import MERGE_PATCH, Request
from localplane.fault_injection import Fault, FaultInjector, FaultRule, FaultyHandler, RequestInfo, request_info
from localplane.objects import decode, encode
from localplane.server import ApiServer
from localplane.transport import LocalTransport
from tests.dra.kube.virtual import LoopClock, seeded
from tests.violations import for_each_case

MAPS = "/api/v1/namespaces/default/configmaps"


VIRTUAL_TIME = True


def asked(method, path, *, timeout=10.0, body=None, content_type=None, **query):
    raw = None if body is None else encode(body)
    return Request(method=method, path=path, query=query, body=raw, content_type=content_type, timeout=timeout)


class Way:
    """A client's way to a server of its own, with some rules on it."""

    def __init__(self, *rules, component="controller", seed=1):
        self.server = ApiServer(clock=LoopClock(), random=seeded(seed))
        self.faults = FaultInjector(clock=LoopClock(), random=seeded(seed))
        self.faults.current_revision = lambda: self.server.store.revision
        self.hop = FaultyHandler(self.server, self.faults, component=component)
        self.transport = LocalTransport(self.hop)
        self.plain = LocalTransport(self.server)
        self.faults.set(rules)

    async def create(self, name="a", *, by=None):
        return await (by or self.transport).send(asked("POST", MAPS, body={"metadata": {"name": name}}))

    async def patch(self, name="a", value="1", *, by=None, **more):
        request = asked("PATCH", f"{MAPS}/{name}", body={"data": {"x": value}}, content_type=MERGE_PATCH, **more)
        return await (by or self.transport).send(request)

    async def value(self, name="a"):
        found = await self.plain.send(asked("GET", f"{MAPS}/{name}"))
        return decode(found.body).get("data", {}).get("x")


@for_each_case(
    [
        pytest.param(asked("GET", "/api/v1/pods"), RequestInfo("list", "pods", ""), id="list"),
        pytest.param(asked("GET", "/api/v1/pods", watch="1"), RequestInfo("watch", "pods", ""), id="watch"),
        pytest.param(asked("GET", f"{MAPS}/a"), RequestInfo("get", "configmaps", "a"), id="get"),
        pytest.param(asked("POST", MAPS), RequestInfo("create", "configmaps", ""), id="create"),
        pytest.param(
            asked("POST", "/api/v1/namespaces/x/pods/p/binding"),
            RequestInfo("create", "pods/binding", "p"),
            id="subresource",
        ),
        pytest.param(
            asked("PATCH", "/apis/resource.k8s.io/v1/namespaces/x/resourceclaims/c/status"),
            RequestInfo("patch", "resourceclaims.resource.k8s.io/status", "c"),
            id="group",
        ),
        pytest.param(
            asked("PUT", "/api/v1/namespaces/x/status"), RequestInfo("update", "namespaces/status", "x"), id="its-own"
        ),
        pytest.param(asked("GET", "/api/v1/namespaces/x"), RequestInfo("get", "namespaces", "x"), id="a-namespace"),
        pytest.param(
            asked("DELETE", "/api/v1/nodes"), RequestInfo("deletecollection", "nodes", ""), id="deletecollection"
        ),
        pytest.param(asked("GET", "/readyz"), None, id="no-objects"),
        pytest.param(asked("GET", "/apis/batch/v1"), None, id="discovery"),
    ]
)
def test_requests_in_the_words_of_rules(request_, call):
    assert request_info(request_) == call


async def test_without_rules_nothing_happens():
    way = Way()
    assert (await way.create()).status == 201
    assert not way.faults.counts


@pytest.mark.parametrize(
    ("rule", "fires"),
    [
        pytest.param({}, True, id="everything"),
        pytest.param({"component": "contr*"}, True, id="component"),
        pytest.param({"component": "scheduler"}, False, id="another-component"),
        pytest.param({"verb": "patch"}, True, id="verb"),
        pytest.param({"verb": "update"}, False, id="another-verb"),
        pytest.param({"resource": "configmaps"}, True, id="resource"),
        pytest.param({"resource": "configmaps/status"}, False, id="another-resource"),
        pytest.param({"probability": 0.0}, False, id="never"),
        pytest.param({"nth": 2}, False, id="only-the-second"),
        pytest.param({"times": 0}, False, id="used-up"),
        pytest.param({"lasting": 0.0}, False, id="over"),
    ],
)
async def test_a_rule_fires_for_what_it_names(rule, fires):
    way = Way(FaultRule(fault=Fault.CONFLICT, **rule))
    await way.create()
    assert (await way.patch()).status == (409 if fires else 200)
    assert way.faults.counts[Fault.CONFLICT] == fires


async def test_a_rule_is_over_after_its_time_and_its_number():
    way = Way(FaultRule(fault=Fault.CONFLICT, times=2, lasting=60), FaultRule(fault=Fault.BUSY, nth=4, lasting=5))
    await way.create()
    assert [(await way.patch(value=str(n))).status for n in range(4)] == [409, 409, 429, 429]
    assert [rule.fault for rule in way.faults.rules] == [Fault.BUSY]
    await asyncio.sleep(5)
    assert way.faults.rules == []
    assert (await way.patch()).status == 200


async def test_the_same_seed_gives_the_same_faults():
    async def statuses(seed):
        way = Way(FaultRule(fault=Fault.CONFLICT, probability=0.5), seed=seed)
        await way.create()
        return [(await way.patch(value=str(n))).status for n in range(20)]

    assert await statuses(1) == await statuses(1) != await statuses(2)


@pytest.mark.parametrize(
    ("rule", "expected", "written"),
    [
        pytest.param(FaultRule(fault=Fault.CONFLICT), 409, False, id="409"),
        pytest.param(FaultRule(fault=Fault.BUSY, seconds=3), 429, False, id="429"),
        pytest.param(FaultRule(fault=Fault.ERROR), 500, False, id="500-before"),
        pytest.param(FaultRule(fault=Fault.ERROR, after=True), 500, True, id="500-after"),
        pytest.param(FaultRule(fault=Fault.REFUSED), "certain", False, id="refused"),
        pytest.param(FaultRule(fault=Fault.LOST), "ambiguous", False, id="lost-before"),
        pytest.param(FaultRule(fault=Fault.LOST, after=True), "ambiguous", True, id="lost-after"),
    ],
)
async def test_what_comes_of_a_write(rule, expected, written):
    way = Way(rule)
    await way.create(by=way.plain)
    try:
        found = (await way.patch()).status
    except Unreachable as error:
        found = "ambiguous" if error.is_outcome_unknown else "certain"
    assert found == expected
    assert (await way.value() == "1") is written


async def test_busy_says_when_to_come_again():
    way = Way(FaultRule(fault=Fault.BUSY, seconds=3))
    assert (await way.create()).headers["retry-after"] == "3"


async def test_a_request_may_take_its_time():
    way = Way(FaultRule(fault=Fault.DELAY, seconds=8))
    assert (await way.create()).status == 201
    assert 0 < LoopClock().now() < 8


async def test_a_request_that_comes_too_late_for_its_client_is_carried_out_later():
    way = Way(FaultRule(fault=Fault.DELAY, seconds=1000, times=1))
    await way.create(by=way.plain)
    with pytest.raises(Unreachable) as lost:
        await way.patch(value="late", timeout=2.0)
    assert lost.value.is_outcome_unknown
    assert LoopClock().now() == 2
    await way.patch(value="in time")
    await asyncio.sleep(1000)
    assert await way.value() == "late"


async def test_requests_on_their_way_are_forgotten_when_the_way_is_closed():
    way = Way(FaultRule(fault=Fault.DELAY, seconds=1000))
    await way.create(by=way.plain)
    with pytest.raises(Unreachable):
        await way.patch(timeout=2.0)
    await way.hop.close()
    await asyncio.sleep(1000)
    assert await way.value() is None


async def test_a_late_answer_shows_what_was_then():
    way = Way(FaultRule(fault=Fault.DELAY, seconds=8, after=True))
    await way.create(by=way.plain)
    reading = asyncio.create_task(way.transport.send(asked("GET", f"{MAPS}/a")))
    await asyncio.sleep(0.001)
    await way.patch(by=way.plain)
    assert "data" not in decode((await reading).body)


async def test_an_answer_that_takes_too_long_is_none():
    way = Way(FaultRule(fault=Fault.DELAY, seconds=1000, after=True))
    await way.create(by=way.plain)
    with pytest.raises(Unreachable) as lost:
        await way.patch(timeout=2.0)
    assert lost.value.is_outcome_unknown
    assert await way.value() == "1"


async def test_a_component_crashes_before_or_behind_its_write():
    for after in (False, True):
        way = Way(FaultRule(fault=Fault.CRASH, after=after))
        await way.create(by=way.plain)
        writing = asyncio.create_task(way.patch())
        way.faults.crash_component = lambda name, task=writing: name == "controller" and task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        assert (await way.value() == "1") is after


async def test_who_is_nobody_s_component_sees_a_crash_as_a_lost_connection():
    way = Way(FaultRule(fault=Fault.CRASH), component="kubectl")
    with pytest.raises(Unreachable):
        await way.create()


async def frames(way, *, count, writes=5):
    """Open a watch, write, return the types of frames that come until it ends or `count` have come."""
    seen = []
    request = asked("GET", MAPS, watch="1", resourceVersion=str(way.server.store.revision))
    async with way.transport.stream(request) as blocks:
        for number in range(writes):
            await way.create(f"m{number}", by=way.plain)
        async with aclosing(blocks):
            async for block in blocks:
                seen += [decode(line)["type"] for line in block.splitlines()]
                if len(seen) >= count:
                    break
                await way.create(f"n{len(seen)}", by=way.plain)
    return seen


@pytest.mark.parametrize(
    ("fault", "seen"),
    [
        pytest.param(Fault.END, ["ADDED"] * 6, id="ends"),
        pytest.param(Fault.EXPIRED, [*["ADDED"] * 6, "ERROR"], id="expired"),
        pytest.param(Fault.DELAY, ["ADDED"] * 10, id="lags-and-leaves-nothing-out"),
    ],
)
async def test_what_comes_of_a_watch(fault, seen):
    way = Way(FaultRule(fault=fault, verb="watch", nth=3))
    assert await frames(way, count=10) == seen


async def test_a_watch_breaks():
    way = Way(FaultRule(fault=Fault.BREAK))
    with pytest.raises(Unreachable) as broken:
        await frames(way, count=1)
    assert broken.value.is_outcome_unknown


async def test_a_watch_falls_silent():
    way = Way(FaultRule(fault=Fault.SILENCE, nth=2))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(100):
            await frames(way, count=10)


async def test_a_silent_watch_is_closed_after_a_while_if_its_client_pings():
    way = Way(FaultRule(fault=Fault.SILENCE, nth=3, closed_after=45.0))
    async with asyncio.timeout(46):
        assert await frames(way, count=10) == ["ADDED"] * 6


async def test_a_watch_may_be_refused():
    way = Way(FaultRule(fault=Fault.REFUSED))
    with pytest.raises(Unreachable):
        async with way.transport.stream(asked("GET", MAPS, watch="1")):
            pass


async def test_faults_of_open_watches_do_not_hit_their_opening():
    way = Way(FaultRule(fault=Fault.END, times=1))
    assert await frames(way, count=1) == []
    assert way.faults.counts[Fault.END] == 1


async def test_a_consistent_read_is_never_answered_from_the_past():
    way = Way(FaultRule(fault=Fault.STALE, revisions=1))
    await way.create(by=way.plain)
    assert (await way.transport.send(asked("GET", f"{MAPS}/a"))).status == 200
