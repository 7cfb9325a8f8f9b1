"""The check of what Kubernetes 1.38 refuses: silent unless there is something."""

import json

import pytest

from dra.cli.kubectl.checklist import CheckState
from dra.cli.kubectl.preflight.next_version import PRINTED_MAX, check_upgrade, judge_obstacles
from dra.engine.claims.reasons import Subject
from dra.engine.diagnosis.upgrade_obstacles import UpgradeObstacle
from dra.kube.client import Client
from dra.kube.rate_limiter import RateLimiter
from dra.kube.transport import JSON, Request
from dra.model.meta import Uid
from dra.model.releases import Release
from localplane.schemas.builtin_schemas import Dialect
from localplane.server import ApiServer
from localplane.transport import LocalTransport
from tests.dra.kube.virtual import seeded

SLICE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "s"},
    "spec": {
        "driver": "d.example",
        "nodeName": "n1",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu", "attributes": {"a/b/c": {"int": 1}}}],
    },
}


@pytest.fixture
def server():
    return ApiServer(api=Dialect.STOCK, random=seeded(1))


def subject(name):
    return Subject(kind="ResourceClaim", key=("ml", name), uid=Uid(name))


async def check(server):
    return await check_upgrade(Client(LocalTransport(server), RateLimiter(1e6, 1e6)))


async def test_a_cluster_without_obstacles_gets_no_row(server):
    assert await check(server) == []


async def store_slice(server):
    path = "/apis/resource.k8s.io/v1/resourceslices"
    request = Request(method="POST", path=path, body=json.dumps(SLICE).encode(), content_type=JSON, timeout=1)
    answer = await server.handle(request)
    assert answer.status == 201, answer.body


async def test_what_is_stored_is_found(server):
    await store_slice(server)
    (result,) = await check(server)
    assert result.state is CheckState.WARNING
    assert result.detail == "resourceslice s: device gpu of driver d.example: the name a/b/c has more than one slash"


async def test_a_server_that_is_upgraded_gets_no_row_for_what_is_stored(server):
    await store_slice(server)
    server.release = Release.V1_38
    assert await check(server) == []


def test_what_stops_all_scheduling_comes_first_and_many_are_counted():
    many = [UpgradeObstacle(subject(str(number)), "is odd") for number in range(PRINTED_MAX + 2)]
    (result,) = judge_obstacles([*many, UpgradeObstacle(subject("z"), "stops all", stops_scheduling=True)])
    assert result.detail.startswith("claim ml/z: stops all; claim ml/0: is odd; ")
    assert result.detail.endswith("; and 3 more")
