"""The calls as kube-scheduler makes them, over HTTP."""

import asyncio
import contextlib
import json
import math

import aiohttp
import pytest

from controller.extender.handler import ExtenderHandler
from controller.extender.server import ExtenderServer
from controller.extender.writer import UnknownOutcomeError
from dra.api.extender_configuration import ExtenderConfiguration
from dra.api.reservations.model import ReservationOwner
from dra.engine.reservations.reservation_info import ReservationInfo
from dra.engine.scheduling.binding_limit import LIMIT_INITIAL
from dra.engine.scheduling.status_updates import WriteRefusedError
from dra.kube.clock import SYSTEM
from dra.model.extender_protocol import decode_filter_args
from dra.model.meta import ObjectMeta, Uid
from dra.model.quantities import NANOS_PER_UNIT
from dra.model.scheduling import SchedulerNode, SchedulerNodeStatus
from tests.controller.extender.answering import Binder, cache_of
from tests.dra.kube.scripted import Handling

REAL_TIME = True
CONFIGURATION = ExtenderConfiguration.model_validate({"serve": {"port": 0}})


@pytest.fixture
def clock():
    return SYSTEM


@pytest.fixture
def binder():
    return Binder()


@pytest.fixture
def cache():
    return cache_of(a="4", b="1")


@pytest.fixture
def calls(binder, cache, informers, runtime_of):
    runtime = runtime_of(Handling(None))

    def make(lead=None):
        configuration = ExtenderConfiguration.model_validate({"serve": {"port": 0}, "decisiveLead": lead})
        return ExtenderHandler(runtime, informers, cache=cache, binder=binder, configuration=configuration)

    return make


@pytest.fixture
async def ask(calls, metrics):
    async with (
        ExtenderServer(CONFIGURATION, calls(), observer=metrics.dropped) as server,
        aiohttp.ClientSession(trust_env=False) as session,
    ):

        async def ask(verb, body):
            async with session.post(
                f"{server.address}/{verb}", data=body if isinstance(body, str) else json.dumps(body)
            ) as got:
                return got.status, await got.text()

        yield ask


POD = {
    "metadata": {"name": "p", "namespace": "d", "uid": "u"},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]},
}


async def test_filter_names_the_nodes_that_are_left_and_why_not_the_others(ask):
    status, text = await ask("filter", {"Pod": POD, "Nodes": None, "NodeNames": ["a", "b", "unknown"]})
    assert status == 200
    assert json.loads(text) == {
        "NodeNames": ["a"],
        "FailedNodes": {"b": "Insufficient cpu by node"},
        "FailedAndUnresolvableNodes": {"unknown": "node(s) not found"},
        "Error": "",
    }


async def test_filter_is_answered_when_a_binding_would_get_its_turn_at_once(ask, binder):
    async with contextlib.AsyncExitStack() as under_way:
        for _ in range(LIMIT_INITIAL):
            await under_way.enter_async_context(binder.limiter.slot(deadline=math.inf))
        asking = asyncio.create_task(ask("filter", {"Pod": POD, "NodeNames": ["a"]}))
        assert (await ask("prioritize", {"Pod": POD, "NodeNames": ["a"]}))[0] == 200
        assert not asking.done()
    assert json.loads((await asking)[1])["NodeNames"] == ["a"]


async def test_prioritize_names_nodes_that_hold_something_for_the_pod(ask, cache):
    asked = {"Pod": POD | {"metadata": POD["metadata"] | {"labels": {"app": "x"}}}, "NodeNames": ["a", "b"]}
    assert json.loads((await ask("prioritize", asked))[1]) == []
    owner = ReservationOwner.model_validate({"labelSelector": {"matchLabels": {"app": "x"}}})
    held = ReservationInfo(name="r", uid=Uid("r"), node="a", allocatable={"cpu": 4 * NANOS_PER_UNIT}, owners=(owner,))
    cache.accounting.observe_reservation(held)
    assert json.loads((await ask("prioritize", asked))[1]) == [{"Host": "a", "Score": 10}]
    assert json.loads((await ask("prioritize", asked | {"NodeNames": ["b"]}))[1]) == []


@pytest.mark.parametrize(
    ("held", "lead", "left"),
    [
        pytest.param({}, 2, ["a", "b", "c"], id="none-where-nothing-is-held-for-the-pod"),
        pytest.param({"a": 2}, 2, ["a"], id="those-where-nothing-is-held-for-the-pod"),
        pytest.param({"a": 2, "b": 8}, 2, ["a"], id="those-whose-reservation-it-fills-less"),
        pytest.param({"a": 20, "b": 22}, 2, ["a", "b"], id="not-those-that-kube-scheduler-may-still-choose"),
        pytest.param({"a": 20, "b": 22}, 1, ["a"], id="those-a-point-behind"),
        pytest.param({"a": 2}, None, ["a", "b", "c"], id="none-without-a-lead"),
    ],
)
async def test_filter_leaves_out_nodes_that_other_scores_cannot_help(calls, cache, held, lead, left):
    for name in ("a", "b", "c"):
        status = SchedulerNodeStatus(allocatable={"cpu": "64", "pods": "110"})
        cache.observe_node(SchedulerNode(metadata=ObjectMeta(name=name), status=status))
    owner = ReservationOwner.model_validate({"labelSelector": {"matchLabels": {"app": "x"}}})
    for node, cpu in held.items():
        uid = Uid(f"r-{node}")
        cache.accounting.observe_reservation(
            ReservationInfo(name=uid, uid=uid, node=node, allocatable={"cpu": cpu * NANOS_PER_UNIT}, owners=(owner,))
        )
    asked = {"Pod": POD | {"metadata": POD["metadata"] | {"labels": {"app": "x"}}}, "NodeNames": ["a", "b", "c"]}
    found = calls(lead)
    status, text = await found.handle("filter", json.dumps(asked).encode())
    assert status == 200
    assert json.loads(text) == {
        "NodeNames": left,
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }
    assert found.filter(*decode_filter_args(json.dumps(asked).encode())).node_names == ["a", "b", "c"]


async def test_a_node_that_only_trails_is_no_reason_to_ask_kube_scheduler_to_look_again(calls, cache):
    owner = ReservationOwner.model_validate({"labelSelector": {"matchLabels": {"app": "x"}}})
    status = SchedulerNodeStatus(allocatable={"cpu": "4", "pods": "110"})
    cache.observe_node(SchedulerNode(metadata=ObjectMeta(name="b"), status=status))
    held = ReservationInfo(name="r", uid=Uid("r"), node="a", allocatable={"cpu": 2 * NANOS_PER_UNIT}, owners=(owner,))
    cache.accounting.observe_reservation(held)
    asked = {"Pod": POD | {"metadata": POD["metadata"] | {"labels": {"app": "x"}}}, "NodeNames": ["a", "b"]}
    _, text = await calls(2).handle("filter", json.dumps(asked).encode())
    assert json.loads(text)["NodeNames"] == ["a"]
    assert len(cache.unschedulable) == 0


CALL = {"PodName": "p", "PodNamespace": "d", "PodUID": "u", "Node": "a"}


@pytest.mark.parametrize(
    ("fails", "said"),
    [
        pytest.param(None, "", id="bound"),
        pytest.param(WriteRefusedError("no"), "pod d/p, node a: no", id="refused"),
        pytest.param(UnknownOutcomeError("gone"), "outcome of the bind is unknown", id="unknown"),
    ],
)
async def test_bind_says_how_it_ended(ask, binder, fails, said):
    binder.fails = fails
    status, text = await ask("bind", CALL)
    assert status == 200
    assert said in json.loads(text)["Error"]
    assert bool(json.loads(text)["Error"]) is bool(said)
    assert [(call.pod_uid, call.node) for call in binder.calls] == [("u", "a")]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param("{", "not a request of kube-scheduler", id="no-json"),
        pytest.param({"Pod": POD, "Nodes": {"items": []}}, "nodeCacheCapable: true", id="nodes-as-objects"),
    ],
)
async def test_what_is_no_call_is_refused(ask, body, said):
    status, text = await ask("filter", body)
    assert status == 400
    assert said in text


async def test_every_call_is_counted_and_every_bind_by_its_end(ask, binder, metrics):
    for verb in ("filter", "prioritize", "preempt"):
        await ask(verb, {"Pod": POD, "NodeNames": ["a"]})
    for fails in (None, WriteRefusedError("no"), UnknownOutcomeError("gone")):
        binder.fails = fails
        await ask("bind", CALL)
    told = metrics.render().decode()
    for verb, count in (("filter", 1), ("prioritize", 1), ("preempt", 1), ("bind", 3)):
        assert f'dra_reserve_extender_call_seconds_count{{verb="{verb}"}} {count}.0\n' in told
    for outcome, count in (("bound", 1), ("refused", 1), ("unknown", 1), ("failed", 0)):
        assert f'dra_reserve_extender_binds_total{{outcome="{outcome}"}} {count}.0\n' in told


async def test_nothing_is_answered_before_the_cluster_is_known(ask, informers):
    informers.reasons.append("pods: not listed yet")
    assert await ask("filter", {"Pod": POD, "NodeNames": ["a"]}) == (503, "pods: not listed yet")
