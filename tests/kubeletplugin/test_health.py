"""What is told of health, without gRPC; how a kubelet sees it is in conformance/test_health.py."""

import asyncio
import contextlib
from itertools import pairwise

import pytest
from grpc import StatusCode

from dra.wire.devicehealth import HealthStatus, NodeWatchResourcesRequest
from dra.wire.grpc_health import HealthCheckRequest, HealthCheckResponse
from kubeletplugin.change_broadcaster import ChangeBroadcaster
from kubeletplugin.contract import DeviceHealthState
from kubeletplugin.health import HEALTH_CHECK_TIMEOUT, MAX_MESSAGE_LENGTH, HealthService
from tests.dra.kube.virtual import LoopClock
from tests.kubeletplugin.driver import NAME, SmallDriver

VIRTUAL_TIME = True

SERVING = HealthCheckResponse.ServingStatus.SERVING
NOT_SERVING = HealthCheckResponse.ServingStatus.NOT_SERVING
UNKNOWN = HealthCheckResponse.ServingStatus.SERVICE_UNKNOWN


class AbortedError(Exception):
    pass


class Context:
    async def abort(self, code, text):
        raise AbortedError(code, text)


class Subject:
    def __init__(self):
        self.driver = SmallDriver()
        self.changes = ChangeBroadcaster(self.driver)
        self.well = True
        self.service = HealthService(self.driver, changes=self.changes, well=lambda: self.well, clock=LoopClock())

    def devices(self):
        return contextlib.aclosing(self.service.node_watch_resources(NodeWatchResourcesRequest(), Context()))

    def probe(self, service=""):
        return contextlib.aclosing(self.service.watch(HealthCheckRequest(service=service), Context()))


@pytest.fixture
async def subject():
    return Subject()


def now():
    return asyncio.get_running_loop().time()


async def test_devices_are_told_at_once_and_again_before_the_kubelet_forgets(subject):
    async with subject.devices() as stream:
        times = []
        for _ in range(3):
            message = await anext(stream)
            times.append(now())
            assert {each.health_check_timeout_seconds for each in message.devices} == {HEALTH_CHECK_TIMEOUT}
    assert times[0] == pytest.approx(0.0, abs=0.1)
    assert all(later - earlier <= HEALTH_CHECK_TIMEOUT / 2 for earlier, later in pairwise(times))


async def test_a_change_is_told_at_once(subject):
    async with subject.devices() as stream:
        await anext(stream)
        waiting = asyncio.create_task(anext(stream))
        await asyncio.sleep(1)
        subject.driver.sick["gpu-1"] = "on fire"
        subject.changes.notify()
        message = await waiting
    assert now() == pytest.approx(1.0, abs=0.1)
    assert [(each.device.device_name, each.health, each.message) for each in message.devices] == [
        ("gpu-0", HealthStatus.HEALTHY, ""),
        ("gpu-1", HealthStatus.UNHEALTHY, "on fire"),
    ]


@pytest.mark.parametrize(
    ("message", "told"),
    [
        pytest.param("x" * 2000, "x" * MAX_MESSAGE_LENGTH, id="long"),
        pytest.param("x" + "ü" * 1000, "x" + "ü" * 511, id="no-half-letters"),
    ],
)
async def test_a_message_is_cut_to_what_a_kubelet_takes(subject, message, told):
    subject.driver.sick["gpu-0"] = message
    async with subject.devices() as stream:
        first, _ = (await anext(stream)).devices
    assert first.message == told
    assert len(first.message.encode()) <= MAX_MESSAGE_LENGTH


async def test_unknown_is_told_as_unknown(subject):
    subject.driver.health = lambda: (DeviceHealthState(pool="n1", device="gpu-0", healthy=None),)
    async with subject.devices() as stream:
        (device,) = (await anext(stream)).devices
    assert device.health == HealthStatus.UNKNOWN


async def test_a_driver_that_fails_says_nothing_until_it_can(subject, caplog):
    healthy = subject.driver.health
    subject.driver.health = lambda: 1 / 0
    async with subject.devices() as stream:
        waiting = asyncio.create_task(anext(stream))
        await asyncio.sleep(3 * HEALTH_CHECK_TIMEOUT)
        assert not waiting.done()
        subject.driver.health = healthy
        subject.changes.notify()
        assert (await waiting).devices
    assert f"driver {NAME}: the health of its devices is not known" in caplog.text


async def test_streams_end_when_the_service_is_closed(subject):
    async with subject.devices() as devices, subject.probe() as probe:
        await anext(devices)
        await anext(probe)
        waiting = [asyncio.create_task(anext(each, None)) for each in (devices, probe)]
        await asyncio.sleep(1)
        subject.service.close()
        assert await asyncio.gather(*waiting) == [None, None]
        assert now() == pytest.approx(1.0, abs=0.1)


async def test_a_probe_is_told_how_it_is_and_when_that_changes(subject):
    async with subject.probe() as stream:
        assert (await anext(stream)).status == SERVING
        subject.well = False
        assert (await anext(stream)).status == NOT_SERVING
        waiting = asyncio.create_task(anext(stream))
        await asyncio.sleep(60)
        assert not waiting.done(), "nothing new"
        subject.well = True
        assert (await waiting).status == SERVING


async def test_a_probe_of_a_service_that_is_not_here(subject):
    with pytest.raises(AbortedError) as aborted:
        await subject.service.check(HealthCheckRequest(service="x" * 2000), Context())
    code, text = aborted.value.args
    assert code is StatusCode.NOT_FOUND
    assert len(text) < 1100
    async with subject.probe("dance") as stream:
        assert (await anext(stream)).status == UNKNOWN


@pytest.mark.parametrize("well", [True, False])
async def test_a_single_check(subject, well):
    subject.well = well
    for service in ("", "grpc.health.v1.Health", "v1alpha1.DRAResourceHealth"):
        answer = await subject.service.check(HealthCheckRequest(service=service), Context())
        assert answer.status == (SERVING if well else NOT_SERVING)
