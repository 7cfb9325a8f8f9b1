"""The health stream and the probes' service: specs/dra-upstream.md §7."""

import asyncio
import time

import grpc
import pytest

from dra.wire import devicehealth, grpc_health
from dra.wire.devicehealth import HealthStatus
from kubeletplugin import health
from kubeletplugin.driver_runner import CALLS_GRACE
from tests.kubeletplugin.driver import SmallDriver
from tests.kubeletplugin.kubelet import CALL_TIMEOUT, until


def told(message):
    return {each.device.device_name: (each.health, each.message) for each in message.devices}


@pytest.mark.parametrize("version", list(devicehealth.DraResourceHealthVersion))
async def test_all_devices_are_told_at_once(node, version):
    began = int(time.time())
    async with node.registered() as kubelet:
        first = await kubelet.health(version=version).read()
    assert told(first) == {"gpu-0": (HealthStatus.HEALTHY, ""), "gpu-1": (HealthStatus.HEALTHY, "")}
    assert {each.device.pool_name for each in first.devices} == {"n1"}
    assert {each.health_check_timeout_seconds for each in first.devices} == {30}
    assert all(began <= state.last_updated_time <= time.time() for state in first.devices)


async def test_a_change_is_told_when_it_happens_and_to_all(node):
    driver = SmallDriver()
    async with node.registered(driver) as kubelet:
        streams = [kubelet.health(), kubelet.health()]
        for stream in streams:
            await stream.read()
        driver.sick["gpu-1"] = "x" * 2000
        driver.tell()
        for stream in streams:
            message = told(await asyncio.wait_for(stream.read(), CALL_TIMEOUT))
            assert message["gpu-0"] == (HealthStatus.HEALTHY, "")
            assert message["gpu-1"] == (HealthStatus.UNHEALTHY, "x" * 1024)


async def test_what_is_told_is_told_again_before_it_is_forgotten(node, monkeypatch):
    monkeypatch.setattr(health.HealthService.__init__, "__kwdefaults__", {"clock": health.SYSTEM, "every": 0.05})
    async with node.registered() as kubelet:
        stream = kubelet.health()
        first, second = [await asyncio.wait_for(stream.read(), CALL_TIMEOUT) for _ in range(2)]
    assert told(first) == told(second)
    assert health.HEALTH_REPORT_INTERVAL < health.HEALTH_CHECK_TIMEOUT / 2


async def test_a_driver_that_does_not_know_says_nothing(node, monkeypatch):
    driver = SmallDriver()
    async with node.registered(driver) as kubelet:
        stream = kubelet.health()
        await stream.read()
        monkeypatch.setattr(driver, "health", lambda: 1 / 0)
        driver.tell()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(stream.read(), 0.3)


async def test_a_stream_does_not_hold_up_the_end(node):
    async with node.registered() as kubelet:
        await kubelet.health().read()
        before = time.monotonic()
    assert time.monotonic() - before < CALLS_GRACE


async def test_probes_are_told_how_it_is(node):
    async with node.registered() as kubelet:
        client = grpc_health.HealthClient(kubelet.channel)
        for service in ("", "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin", "v1.DRAResourceHealth"):
            answer = await client.check(grpc_health.HealthCheckRequest(service=service))
            assert answer.status == grpc_health.HealthCheckResponse.SERVING
        with pytest.raises(grpc.RpcError) as refused:
            await client.check(grpc_health.HealthCheckRequest(service="dance"))
        assert refused.value.code() == grpc.StatusCode.NOT_FOUND
        stream = client.watch(grpc_health.HealthCheckRequest(service="dance"))
        assert (await stream.read()).status == grpc_health.HealthCheckResponse.SERVICE_UNKNOWN
        stream = client.watch(grpc_health.HealthCheckRequest())
        assert (await stream.read()).status == grpc_health.HealthCheckResponse.SERVING


async def test_who_cannot_read_the_checkpoint_is_not_well(node):
    async with node.registered():
        pass
    node.checkpoint().write_bytes(b"{")
    async with node.registered() as kubelet:
        client = grpc_health.HealthClient(kubelet.channel)
        answer = await client.check(grpc_health.HealthCheckRequest())
        assert answer.status == grpc_health.HealthCheckResponse.NOT_SERVING
        await until(kubelet.application.not_ready_reasons, saying="not ready")
