"""The feed follows an API server, as far as the user may read it."""

import asyncio

import pytest

from bench.page_cluster import claim, node, resource_slice
from dra.cli.kubectl.connection import Connection
from dra.cli.page import shared_cluster
from dra.cli.page.own_feed import own_feed
from dra.kube.client import Client
from dra.kube.errors import ApiError, Forbidden
from dra.kube.rate_limiter import RateLimiter
from localplane import status_errors
from localplane.routes import Route
from localplane.server import ApiServer
from localplane.transport import LocalTransport


class Guarded:
    """A server that refuses some paths."""

    def __init__(self, server, *refused, status=403):
        self._server = server
        self.refused = refused
        self._status = status

    async def handle(self, request):
        if any(request.path.endswith(path) for path in self.refused):
            return status_errors.StatusError(self._status, "Forbidden", f"no right to read {request.path}").response
        return await self._server.handle(request)


def create(server, kind, content, namespace=""):
    served = next(candidate for candidate in server.catalog if candidate.name == kind)
    server.registry.create(Route(served, namespace=namespace) if namespace else Route(served), content)


@pytest.fixture
def server():
    api = ApiServer()
    for name in ("ml", "other"):
        create(api, "Namespace", {"metadata": {"name": name}})
    create(api, "Node", without_identity(node("n1")))
    create(api, "ResourceSlice", without_identity(resource_slice("n1", 2)))
    create(api, "ResourceClaim", without_identity(claim("train", "ml")), "ml")
    return api


def without_identity(content):
    meta = {name: value for name, value in content["metadata"].items() if name not in {"uid", "resourceVersion"}}
    return {**content, "metadata": meta}


def following(server):
    transport = LocalTransport(server)
    connection = Connection(client=Client(transport, RateLimiter(1000.0, 1000)), transport=transport)
    return own_feed(connection, namespace="ml", lease_namespace="dra-reserve")


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


async def test_what_the_server_says_of_a_missing_right_is_shown(server):
    async with following(Guarded(server, "/nodes")) as feed:
        await wait_for(feed, "claims", {"ml/train"})
        assert "no right to read /api/v1/nodes" in feed.tables.views["overview"].by_key["gap/nodes"][2]


async def test_a_kind_that_is_refused_and_does_not_exist_is_absent(server):
    async with following(Guarded(server, "/reservations")) as feed:
        await wait_for(feed, "claims", {"ml/train"})
        overview = feed.tables.views["overview"].by_key
        assert "absent/reservations" in overview
        assert not [key for key in overview if key.startswith("gap/")]


async def test_a_kind_that_becomes_readable_appears(server, monkeypatch):
    monkeypatch.setattr(shared_cluster, "RETRY_INTERVAL", 0.02)
    guarded = Guarded(server, "/nodes")
    async with following(guarded) as feed:
        await wait_for(feed, "claims", {"ml/train"})
        guarded.refused = ()
        await wait_for(feed, "nodes", {"n1"})
        async with asyncio.timeout(30):
            while "gap/nodes" in feed.tables.views["overview"].by_key:  # noqa: ASYNC110 - rows of another thread
                await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "path", ["/resourceclaims", "/nodes", "/deviceclasses"], ids=["claims", "nodes", "what-is-not-watched"]
)
async def test_a_server_that_fails_at_first_ends_the_page(server, path):
    with pytest.RaisesGroup(ApiError, allow_unwrapped=True, flatten_subgroups=True):
        async with following(Guarded(server, path, status=500)) as feed:
            await feed.listed.wait()


async def test_without_the_right_to_read_claims_there_is_no_page(server):
    guarded = Guarded(server, "/resourceclaims")
    with pytest.raises(Forbidden):
        async with following(guarded) as feed:
            await feed.listed.wait()
