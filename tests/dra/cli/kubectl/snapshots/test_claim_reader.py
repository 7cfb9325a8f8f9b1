"""What is read of a cluster to explain one claim."""

from collections import Counter

import pytest

from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.snapshots.claim_reader import read_around_claim
from dra.cli.kubectl.snapshots.cluster_reader import SnapshotReader
from dra.cli.kubectl.snapshots.snapshot_scope import SnapshotScope
from dra.engine.diagnosis import claims
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.kube.client import Client
from dra.kube.rate_limiter import RateLimiter
from dra.kube.resources import CLAIMS, DEVICE_CLASSES, NAMESPACES, PODS
from dra.model.meta import PartialObjectMetadata
from localplane.schemas.builtin_schemas import Dialect
from localplane.server import ApiServer
from localplane.transport import LocalTransport

LEASE = ("dra-reserve", "dra-reserve-controller")
CLASS = "gpu.example.com"


class Server:
    """An API server that counts requests."""

    def __init__(self):
        self._server = ApiServer(api=Dialect.STOCK)
        self.paths = Counter()

    async def handle(self, request):
        self.paths[request.path] += 1
        return await self._server.handle(request)


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def connection(server):
    transport = LocalTransport(server)
    return Connection(client=Client(transport, RateLimiter(1000.0, 1000)), transport=transport)


async def create(client, resource, name, *, namespace="", status=None, **spec):
    body = {"metadata": {"name": name}, **({"spec": spec} if spec else {})}
    await client.create(resource, body, model=PartialObjectMetadata, namespace=namespace)
    if status is not None:
        key = (namespace, name)
        await client.merge_patch(resource, key, {"status": status}, model=PartialObjectMetadata, subresource="status")


@pytest.fixture
async def cluster(connection):
    """Two claims of two nodes in a namespace, each with a running pod, and a pod in another namespace."""
    client = connection.client
    await create(client, DEVICE_CLASSES, CLASS, selectors=[{"cel": {"expression": "true"}}])
    for namespace in ("ml", "web"):
        await create(client, NAMESPACES, namespace)
    requests = [{"name": "gpu", "exactly": {"deviceClassName": CLASS}}]
    for name, node in (("a", "n1"), ("b", "n2")):
        result = {"request": "gpu", "driver": CLASS, "pool": node, "device": "gpu-0"}
        allocation = {"devices": {"results": [result]}}
        await create(
            client, CLAIMS, name, namespace="ml", status={"allocation": allocation}, devices={"requests": requests}
        )
        await create_pod(client, f"uses-{name}", name, node)
    await create_pod(client, "uses-a", "a", "n1", namespace="web")
    return connection


async def create_pod(client, name, claim, node="", namespace="ml"):
    spec = {
        "containers": [{"name": "main", "image": "train"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": claim}],
        **({"nodeName": node} if node else {}),
    }
    await create(client, PODS, name, namespace=namespace, status={"phase": "Running"} if node else None, **spec)


async def explained(connection, name, *, whole):
    scope = SnapshotScope.ALL | SnapshotScope.NAMESPACES
    if whole:
        snapshot = await SnapshotReader(connection, namespace="ml", lease=LEASE).read(scope)
    else:
        snapshot = await read_around_claim(connection, ("ml", name), scope, namespace="ml", lease=LEASE)
    return snapshot, claims.explain(ClusterState(snapshot), ("ml", name))


async def test_of_a_claim_in_use_its_own_pods_are_read(cluster, server):
    server.paths.clear()
    snapshot, diagnosis = await explained(cluster, "a", whole=False)
    assert [pod.metadata.key for pod in snapshot.pods] == [("ml", "uses-a")]
    assert [claim.metadata.name for claim in snapshot.claims] == ["a"]
    assert (server.paths["/api/v1/namespaces/ml/pods"], server.paths["/api/v1/pods"]) == (1, 0)
    assert diagnosis == (await explained(cluster, "a", whole=True))[1]


async def test_of_a_claim_that_a_pod_waits_for_all_is_read(cluster):
    await create_pod(cluster.client, "waits", "a")
    snapshot, diagnosis = await explained(cluster, "a", whole=False)
    assert len(snapshot.pods) == 4
    assert diagnosis == (await explained(cluster, "a", whole=True))[1]


async def test_a_claim_that_does_not_exist_is_looked_for_everywhere(cluster):
    snapshot, diagnosis = await explained(cluster, "c", whole=False)
    assert diagnosis is None
    assert len(snapshot.claims) == 2
