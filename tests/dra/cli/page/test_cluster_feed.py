"""The feed follows an API server, as far as the user may read it."""

import asyncio
import threading
from functools import partial

import pytest

from bench.page_cluster import claim, node, resource_slice
from dra.cli.kubectl.connection import Connection
from dra.cli.page.cluster_feed import ClusterFeed, cluster_feed
from dra.cli.page.patch_stream import PatchStream
from dra.kube.client import Client
from dra.kube.errors import Forbidden
from dra.kube.rate_limiter import RateLimiter
from localplane import status_errors
from localplane.routes import Route
from localplane.server import ApiServer
from localplane.transport import LocalTransport


class Guarded:
    """A server that refuses some paths."""

    def __init__(self, server, *refused):
        self._server = server
        self._refused = refused

    async def handle(self, request):
        if any(request.path.endswith(each) for each in self._refused):
            return status_errors.StatusError(403, "Forbidden", f"no right to read {request.path}").response
        return await self._server.handle(request)


def create(server, kind, content, namespace=""):
    found = next(each for each in server.catalog if each.name == kind)
    server.registry.create(Route(found, namespace=namespace) if namespace else Route(found), content)


@pytest.fixture
def server():
    found = ApiServer()
    for name in ("ml", "other"):
        create(found, "Namespace", {"metadata": {"name": name}})
    create(found, "Node", without_identity(node("n1")))
    create(found, "ResourceSlice", without_identity(resource_slice("n1", 2)))
    create(found, "ResourceClaim", without_identity(claim("train", "ml")), "ml")
    return found


def without_identity(content):
    meta = {name: value for name, value in content["metadata"].items() if name not in {"uid", "resourceVersion"}}
    return {**content, "metadata": meta}


def following(server):
    transport = LocalTransport(server)
    connection = Connection(client=Client(transport, RateLimiter(1000.0, 1000)), transport=transport)
    return cluster_feed(connection, namespace="ml", lease_namespace="dra-reserve")


async def wait_for(feed, view, wanted):
    """Wait until a view has exactly the wanted keys, and return its rows."""
    async with asyncio.timeout(30):
        while (rows := feed.tables.views[view].by_key).keys() != wanted:  # noqa: ASYNC110 - rows of another thread
            await asyncio.sleep(0.01)
    return dict(rows)


async def test_objects_appear_and_disappear_as_they_do_in_the_cluster(server):
    async with following(server) as feed:
        await wait_for(feed, "claims", {"ml/train"})
        await wait_for(feed, "devices", {"gpu.example.com/n1/gpu-0", "gpu.example.com/n1/gpu-1"})
        create(server, "ResourceClaim", without_identity(claim("second", "other")), "other")
        await wait_for(feed, "claims", {"ml/train", "other/second"})


async def test_what_is_not_served_is_absent_and_no_gap(server):
    async with following(server) as feed:
        await wait_for(feed, "claims", {"ml/train"})
        overview = feed.tables.views["overview"].by_key
        assert {"absent/reservations", "absent/migrations"} <= overview.keys()
        assert [key for key in overview if key.startswith("gap/reservations")] == []


async def test_a_user_of_one_namespace_sees_that_namespace_and_no_free_device(server):
    create(server, "ResourceClaim", without_identity(claim("secret", "other")), "other")
    guarded = Guarded(server, "/v1/resourceclaims", "/v1/pods")
    async with following(guarded) as feed:
        await wait_for(feed, "claims", {"ml/train"})
        rows = await wait_for(feed, "devices", {"gpu.example.com/n1/gpu-0", "gpu.example.com/n1/gpu-1"})
        assert {cells[4] for cells in rows.values()} == {"Unknown"}
        assert "secret" not in feed.stream.rows("claims").decode()
        gaps = [key for key in feed.tables.views["overview"].by_key if key.startswith("gap/")]
        assert "gap/resourceclaims.resource.k8s.io of other namespaces" in gaps
        assert "gap/pods of other namespaces" in gaps


async def test_nodes_that_may_not_be_read_are_a_gap(server):
    async with following(Guarded(server, "/nodes")) as feed:
        await wait_for(feed, "claims", {"ml/train"})
        assert "gap/nodes" in feed.tables.views["overview"].by_key


async def test_without_the_right_to_read_claims_there_is_no_page(server):
    guarded = Guarded(server, "/resourceclaims")
    with pytest.raises(Forbidden):
        async with following(guarded) as feed:
            await feed.listed.wait()


async def test_a_question_of_a_client_that_has_left_is_not_answered():
    feed, begun, go_on = ClusterFeed(PatchStream("a")), threading.Event(), threading.Event()
    asked = []

    def work(_):
        begun.set()
        go_on.wait(30)

    busy = asyncio.create_task(feed.ask(work))
    await asyncio.to_thread(begun.wait, 30)
    left = [asyncio.create_task(feed.ask(asked.append)) for _ in range(100)]
    await asyncio.sleep(0)
    for each in left:
        each.cancel()
    await asyncio.wait(left)
    go_on.set()
    await busy
    await feed.ask(lambda _: None)
    feed.close()
    assert asked == []


async def test_a_step_that_outlasts_a_restart_computes_no_row_of_the_new_tables():
    feed, begun, go_on = ClusterFeed(PatchStream("a")), threading.Event(), threading.Event()
    feed.queue(begun.set)
    feed.queue(partial(go_on.wait, 30))
    step = asyncio.create_task(feed.step())
    await asyncio.to_thread(begun.wait, 30)
    step.cancel()
    feed.restart()
    go_on.set()
    rows = await feed.ask(lambda tables: [key for view in tables.views.values() for key in view.by_key])
    feed.close()
    assert rows == []
