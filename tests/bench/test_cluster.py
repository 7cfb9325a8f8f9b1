import asyncio
import json
from random import Random

import pytest

from bench import stream
from bench.cluster import ONE_CLAIM, Cluster
from dra.kube.client import Client
from dra.kube.event_handlers import EventHandlerFuncs, ignore
from dra.kube.rate_limiter import RateLimiter
from dra.kube.reflector import WATCH_IDLE_TIMEOUT, Reflector
from dra.kube.resources import CLAIMS, PODS
from dra.kube.transport import MERGE_PATCH, Request
from dra.model.meta import PartialObjectMetadata
from tests.dra.kube.virtual import LoopClock, VirtualLoop


async def patch_claim(cluster):
    version = json.loads((await cluster.send(Request(method="GET", path=ONE_CLAIM, timeout=1.0))).body)["metadata"]
    body = json.dumps({"metadata": {"resourceVersion": version["resourceVersion"]}}).encode()
    await cluster.send(Request(method="PATCH", path=ONE_CLAIM, body=body, content_type=MERGE_PATCH, timeout=1.0))


async def follow(cluster, resource):
    """Return the versions that a reflector sees in ten minutes in which the claim and all pods change."""
    versions = []
    clock = LoopClock()
    handler = EventHandlerFuncs(
        on_upsert=lambda seen: versions.append(int(seen.metadata.resource_version)), on_delete=ignore
    )
    client = Client(cluster, RateLimiter(50.0, 100, clock=clock), clock=clock)
    reflector = Reflector(client, resource, PartialObjectMetadata, handler=handler, clock=clock, random=Random(1))  # noqa: S311 - to be the same each time
    running = asyncio.create_task(reflector.run())
    await reflector.synced.wait()
    await patch_claim(cluster)
    await asyncio.sleep(3 * WATCH_IDLE_TIMEOUT)
    cluster.go.set()
    await patch_claim(cluster)
    await asyncio.sleep(3 * WATCH_IDLE_TIMEOUT)
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled(), running.exception()
    return versions


@pytest.mark.parametrize(
    ("resource", "last"),
    [
        pytest.param(CLAIMS, stream.BASE + 30 + 2, id="claims"),
        pytest.param(PODS, stream.BASE + 30, id="pods"),
    ],
)
def test_a_run_of_minutes_shows_no_version_before_the_last_one(resource, last):
    loop = VirtualLoop()
    try:
        versions = loop.run_until_complete(follow(Cluster(pods=10, events=30), resource))
    finally:
        loop.close()
    assert versions[-1] == last
