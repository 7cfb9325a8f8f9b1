"""The loop that tells of idle claims: Events and a count, and no write of a claim."""

import asyncio

from controller.device_usage import DeviceUsage
from controller.idle_claims import IdleClaimEvents
from controller.informers import ControllerInformers
from dra.engine.claims.codes import Code
from dra.kube.tasks import background_task
from tests.controller.cluster import Cluster
from tests.controller.recorded_reasons import RecordedReasons, RecordingClaimEvents
from tests.dra.engine.device_usage.test_idle_claims import HELD
from tests.dra.engine.examples import observe_all, pod

HOUR = 3600.0


async def test_idle_claims_are_told_and_counted_and_nothing_is_written(world, metrics, runtime_of, clock):
    cluster = Cluster()
    observe_all(world, HELD)
    runtime, reasons = runtime_of(cluster), RecordedReasons()
    informers = ControllerInformers(runtime.client, clock=clock)
    usage = DeviceUsage(runtime, informers, cache=world)
    loop = IdleClaimEvents(runtime, informers, usage=usage, events=RecordingClaimEvents(reasons, metrics), hours=2)
    async with background_task(loop.run(), name="idle claims"):
        await asyncio.sleep(1.9 * HOUR)
        assert (reasons.codes, counted(metrics)) == ([], 0.0)
        await asyncio.sleep(0.2 * HOUR)
        assert (reasons.codes, counted(metrics)) == ([Code.CLAIM_IDLE], 1.0)
        observe_all(world, pod("a", node="n1"))
        await asyncio.sleep(0.1 * HOUR)
        assert counted(metrics) == 0.0
    assert cluster.requests == []


def counted(metrics):
    return metrics.registry.get_sample_value("dra_reserve_claims_idle")
