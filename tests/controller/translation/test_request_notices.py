"""Events on pods whose requests have no effect: once for each pod, in enabled namespaces."""

import asyncio
import contextlib

import pytest

from controller.informers import ControllerInformers
from controller.translation.request_notices import RequestNotices
from dra.engine.claims.codes import Code
from localplane.server import ApiServer
from localplane.transport import LocalTransport
from tests.controller.recorded_reasons import RecordedReasons, RecordingClaimEvents
from tests.dra.engine.translation.examples import RESOURCE_SPEC
from tests.dra.kube.virtual import seeded
from tests.localplane.components import User

VIRTUAL_TIME = True

ENABLED = {"reserve.dra/koordinator": "enabled"}
BURST = {RESOURCE_SPEC: '{"preferredCPUBindPolicy":"ConstrainedBurst"}'}
SOON = 1.0


def names_and_codes(recorded):
    return [(reason.subject.key[1], reason.code) for reason in recorded.reasons]


class Place:
    def __init__(self, runtime_of, clock):
        self.user = User(ApiServer(clock=clock, random=seeded(1)))
        self.runtime = runtime_of(LocalTransport(self.user.server))

    async def namespace(self, labels=ENABLED):
        await self.user.create("namespaces", {"metadata": {"name": "ml", "labels": labels}})

    async def pod(self, name="p", *, qos="lsr", annotations=None):
        labels = {"koordinator.sh/qosClass": qos, "koordinator.sh/priority-class": "koord-prod"} if qos else {}
        body = {
            "metadata": {"name": name, "labels": labels, "annotations": annotations or {}},
            "spec": {"containers": [{"name": "main", "image": "x", "resources": {"limits": {"cpu": "1"}}}]},
        }
        await self.user.create("pods", body, namespace="ml")

    @contextlib.asynccontextmanager
    async def running(self):
        recorded = RecordedReasons()
        informers = ControllerInformers(self.runtime.client, clock=self.runtime.clock)
        notices = RequestNotices(self.runtime, informers, events=RecordingClaimEvents(recorded, self.runtime.metrics))
        tasks = [asyncio.create_task(part()) for part in (informers.run, notices.run)]
        await asyncio.sleep(SOON)
        try:
            yield recorded
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
async def place(runtime_of, clock):
    return Place(runtime_of, clock)


async def test_each_pod_is_told_once(place):
    await place.namespace()
    await place.pod("before")
    async with place.running() as recorded:
        assert names_and_codes(recorded) == [("before", Code.UNKNOWN_QOS_CLASS)]
        await place.pod("after", qos="LS")
        await place.pod("bound", qos="LSE")
        await place.pod("none", qos="")
        await place.pod("burst", qos="LSR", annotations=BURST)
        await place.user.patch("pods", "before", {"metadata": {"labels": {"a": "b"}}}, namespace="ml")
        await asyncio.sleep(SOON)
        assert names_and_codes(recorded)[1:] == [("burst", Code.NO_BOUND_CPUS)]


async def test_a_namespace_that_is_enabled_later_is_told_then(place):
    await place.namespace(labels={})
    await place.pod()
    async with place.running() as recorded:
        assert names_and_codes(recorded) == []
        await place.user.patch("namespaces", "ml", {"metadata": {"labels": ENABLED}})
        await asyncio.sleep(SOON)
        assert names_and_codes(recorded) == [("p", Code.UNKNOWN_QOS_CLASS)]


async def test_a_leader_does_not_tell_again_of_old_pods(place):
    await place.namespace()
    await place.pod()
    await asyncio.sleep(3700)
    async with place.running() as recorded:
        assert names_and_codes(recorded) == []
        await place.pod("new")
        await asyncio.sleep(SOON)
        assert names_and_codes(recorded) == [("new", Code.UNKNOWN_QOS_CLASS)]


async def test_a_name_that_comes_again_is_another_pod(place):
    await place.namespace()
    async with place.running() as recorded:
        for _ in range(2):
            await place.pod()
            await asyncio.sleep(SOON)
            await place.user.delete("pods", "p", namespace="ml")
            await asyncio.sleep(SOON)
        assert names_and_codes(recorded) == [("p", Code.UNKNOWN_QOS_CLASS)] * 2
