"""The calls of the second entry in the scheduler's file, over HTTP."""

import json

import aiohttp
import pytest

from controller.extender.handler import ExtenderHandler
from controller.extender.server import ExtenderServer
from dra.api.extender_configuration import ExtenderConfiguration
from dra.kube.clock import SYSTEM
from tests.controller.extender.answering import Binder, cache_of
from tests.dra.engine.scheduling.test_node_loads import report
from tests.dra.kube.scripted import Handling

REAL_TIME = True
POD = {
    "metadata": {"name": "p", "namespace": "d", "uid": "u"},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
}


@pytest.fixture
def clock():
    return SYSTEM


@pytest.fixture
def cache():
    return cache_of(a="4", b="4")


@pytest.fixture
def serving(cache, informers, runtime_of, metrics):
    def serve(load_aware):
        content = {"serve": {"port": 0}, "loadAware": load_aware}
        configuration = ExtenderConfiguration.model_validate(content)
        handler = ExtenderHandler(
            runtime_of(Handling(None)), informers, cache=cache, binder=Binder(), configuration=configuration
        )
        return ExtenderServer(configuration, handler, observer=metrics.dropped)

    return serve


async def ask(server, verb):
    async with (
        aiohttp.ClientSession(trust_env=False) as session,
        session.post(f"{server.address}/{verb}", data=json.dumps({"Pod": POD, "NodeNames": ["a", "b"]})) as got,
    ):
        return got.status, await got.text()


def reported_now(node, **use):
    now = SYSTEM.wall().strftime("%Y-%m-%dT%H:%M:%SZ")
    return report(node, updateTime=now, **use)


async def test_a_hot_node_is_refused_and_the_pod_is_tried_again(serving, informers, cache):
    async with serving({"usageThresholds": {"cpu": 50, "memory": 90}}) as server:
        informers.node_metrics.observe(reported_now("a", cpu="3"))
        status, text = await ask(server, "load/filter")
        assert status == 200
        assert json.loads(text) == {
            "NodeNames": ["b"],
            "FailedNodes": {"a": "node(s) cpu usage exceed threshold (75% > 50%)"},
            "FailedAndUnresolvableNodes": {},
            "Error": "",
        }
        assert len(cache.unschedulable) == 1
        assert json.loads((await ask(server, "filter"))[1])["NodeNames"] == ["a", "b"], "the first entry says nothing"


async def test_nodes_are_scored_by_their_headroom(serving, informers):
    async with serving({}) as server:
        for node, cpu in {"a": "0", "b": "2"}.items():
            informers.node_metrics.observe(reported_now(node, cpu=cpu))
        status, text = await ask(server, "load/prioritize")
        assert status == 200
        assert {score["Host"]: score["Score"] for score in json.loads(text)} == {"a": 8, "b": 6}


async def test_without_reports_no_node_is_refused(serving):
    async with serving({}) as server:
        assert json.loads((await ask(server, "load/filter"))[1])["NodeNames"] == ["a", "b"]
        assert json.loads((await ask(server, "load/prioritize"))[1]) == []


async def test_expired_reports_refuse_no_node(serving, informers):
    async with serving({}) as server:
        informers.node_metrics.observe(report("a", cpu="4", updateTime="2020-01-01T00:00:00Z"))
        assert json.loads((await ask(server, "load/filter"))[1])["NodeNames"] == ["a", "b"]


async def test_it_is_answered_only_where_it_is_configured(serving):
    async with serving(None) as server:
        assert (await ask(server, "load/filter"))[0] == 404


async def test_before_the_caches_are_synced_the_scheduler_goes_on_without(serving, informers):
    informers.reasons = ["nodes: not listed"]
    async with serving({}) as server:
        assert (await ask(server, "load/filter"))[0] == 503, "with ignorable: true the scheduler ignores the entry"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param({"usageThresholds": {"cpu": 101, "memory": 90}}, id="more-than-100-percent"),
        pytest.param({"usageThresholds": {"cpu": 50}}, id="memory-is-missing"),
        pytest.param({"usageThresholds": {"cpu": 50, "memory": 90, "pods": 10}}, id="not-measured"),
        pytest.param({"nodeMetricExpirationSeconds": 0}, id="always-expired"),
        pytest.param({"filterExpiredNodeMetrics": True}, id="would-block"),
    ],
)
def test_bad_configurations_are_refused(content):
    with pytest.raises(ValueError, match="validation error"):
        ExtenderConfiguration.model_validate({"loadAware": content})
