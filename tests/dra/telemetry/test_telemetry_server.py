"""Probes and metrics as kubelets and Prometheus read them, and as somebody floods them."""

import asyncio
import socket

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter, generate_latest

from dra.api.configuration import Endpoint
from dra.telemetry.telemetry_server import TelemetryServer

ANYWHERE = Endpoint(port=0)


class Metrics:
    def __init__(self):
        self.rendered = 0
        self.registry = CollectorRegistry()
        self.calls = Counter("calls", "How often", registry=self.registry)

    def render(self):
        self.rendered += 1
        return generate_latest(self.registry)


@pytest.fixture
def metrics():
    return Metrics()


@pytest.fixture
def not_ready_reasons():
    return []


@pytest.fixture
async def endpoints(metrics, not_ready_reasons):
    async with TelemetryServer(
        probes=ANYWHERE,
        metrics=ANYWHERE,
        registry=metrics,
        not_ready_reasons=lambda: not_ready_reasons,
        observer=ignored,
    ) as serving:
        yield serving


def ignored(listener, cause):
    del listener, cause


async def answer(endpoints, name, path):
    async with aiohttp.ClientSession() as session, session.get(f"http://{endpoints.addresses[name]}{path}") as given:
        return given.status, await given.text()


async def test_alive_is_whose_loop_turns(endpoints, not_ready_reasons):
    not_ready_reasons.append("pods: not listed yet")
    assert await answer(endpoints, "probes", "/healthz") == (200, "ok\n")


async def test_ready_is_who_knows_the_cluster_and_the_rest_is_told(endpoints, not_ready_reasons):
    assert await answer(endpoints, "probes", "/readyz") == (200, "ok\n")
    not_ready_reasons += ["pods: not listed yet", "nodes: no event for 200 s"]
    assert await answer(endpoints, "probes", "/readyz") == (503, "pods: not listed yet\nnodes: no event for 200 s\n")


async def test_metrics_are_in_the_text_format(endpoints, metrics):
    metrics.calls.inc()
    status, text = await answer(endpoints, "metrics", "/metrics")
    assert status == 200
    assert "calls_total 1.0" in text


async def test_metrics_are_rendered_once_for_all_who_ask_at_once_and_anew_after_that(endpoints, metrics, monkeypatch):
    await asyncio.gather(*(answer(endpoints, "metrics", "/metrics") for _ in range(100)))
    assert metrics.rendered == 1
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: 1e9)
    metrics.calls.inc(7)
    assert "calls_total 7.0" in (await answer(endpoints, "metrics", "/metrics"))[1]


async def test_what_takes_long_to_count_is_counted_before_metrics_are_rendered_and_once_for_all_who_ask(metrics):
    counted = asyncio.Event()

    async def count():
        assert not counted.is_set()
        await asyncio.sleep(0)
        metrics.calls.inc(7)
        counted.set()

    async with TelemetryServer(
        probes=None,
        metrics=ANYWHERE,
        registry=metrics,
        not_ready_reasons=list,
        observer=ignored,
        before_scrape=count,
    ) as serving:
        answers = await asyncio.gather(*(answer(serving, "metrics", "/metrics") for _ in range(9)))
    assert all("calls_total 7.0" in text for _, text in answers)
    assert metrics.rendered == 1


async def test_each_connection_is_good_for_one_answer(endpoints):
    host, _, port = endpoints.addresses["probes"].rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 3)
    assert (await reader.read()).count(b"200 OK") == 1
    writer.close()
    await writer.wait_closed()


async def test_probes_and_metrics_are_served_apart(endpoints):
    assert (await answer(endpoints, "probes", "/metrics"))[0] == 404
    assert (await answer(endpoints, "metrics", "/healthz"))[0] == 404


async def test_one_port_for_both_serves_both(metrics):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    shared = Endpoint(port=port)
    async with TelemetryServer(
        probes=shared, metrics=shared, registry=metrics, not_ready_reasons=list, observer=ignored
    ) as serving:
        assert [(await answer(serving, "probes", path))[0] for path in ("/healthz", "/metrics")] == [200, 200]
        assert serving.addresses["metrics"] == serving.addresses["probes"]


async def test_afterwards_nobody_listens(metrics):
    async with TelemetryServer(
        probes=ANYWHERE, metrics=ANYWHERE, registry=metrics, not_ready_reasons=list, observer=ignored
    ) as serving:
        pass
    with pytest.raises(aiohttp.ClientConnectorError):
        await answer(serving, "probes", "/healthz")


async def test_who_cannot_listen_everywhere_listens_nowhere(endpoints, metrics):
    taken = Endpoint(port=int(endpoints.addresses["metrics"].rpartition(":")[2]))
    second = TelemetryServer(probes=ANYWHERE, metrics=taken, registry=metrics, not_ready_reasons=list, observer=ignored)
    with pytest.raises(OSError, match="address already in use"):
        await second.__aenter__()
    with pytest.raises(aiohttp.ClientConnectorError):
        await answer(second, "probes", "/healthz")


async def test_what_is_switched_off_opens_no_socket(metrics):
    async with TelemetryServer(
        probes=None, metrics=ANYWHERE, registry=metrics, not_ready_reasons=list, observer=ignored
    ) as serving:
        assert list(serving.addresses) == ["metrics"]
