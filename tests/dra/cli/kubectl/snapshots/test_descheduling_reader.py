"""What a round of descheduling reads of a live cluster."""

import pytest

from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.snapshots.descheduling_reader import DeschedulingReader
from dra.cli.kubectl.snapshots.snapshot_scope import SnapshotScope
from dra.engine.diagnosis.descheduling_snapshot import cluster_objects
from dra.kube.client import Client
from dra.kube.rate_limiter import RateLimiter
from dra.kube.transport import Request
from localplane import status_errors
from localplane.objects import decode, encode
from localplane.server import ApiServer
from localplane.transport import LocalTransport

REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"


class ServerWithout:
    """A server that forbids some resources."""

    def __init__(self, server, forbidden=()):
        self._server, self._forbidden = server, forbidden

    async def handle(self, request):
        plural = request.path.rpartition("/")[2]
        if plural in self._forbidden:
            return status_errors.StatusError(403, "Forbidden", f"no right to list {plural}").response
        return await self._server.handle(request)


@pytest.fixture
def server():
    return ApiServer()


async def create(server, path, body):
    answer = await server.handle(
        Request(method="POST", path=path, timeout=10.0, body=encode(body), content_type="application/json")
    )
    assert answer.status == 201, decode(answer.body)
    return decode(answer.body)


async def read(server):
    transport = LocalTransport(server)
    connection = Connection(client=Client(transport, RateLimiter(1000.0, 1000)), transport=transport)
    return await DeschedulingReader(connection, namespace=None, lease=("dra-reserve", "c")).read(SnapshotScope.BUNDLED)


async def test_pods_have_their_constraints_and_workloads_their_replicas(server):
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    made = await create(
        server, "/apis/apps/v1/namespaces/default/replicasets", {"metadata": {"name": "web"}, "spec": spec}
    )
    spread = [{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]
    pod = {"containers": [{"name": "c", "image": "i"}], "topologySpreadConstraints": spread}
    await create(server, "/api/v1/namespaces/default/pods", {"metadata": {"name": "web-1"}, "spec": pod})
    snapshot = await read(server)
    objects = cluster_objects(snapshot)
    assert objects.pods[0].spec.topology_spread_constraints[0].topology_key == "zone"
    assert objects.pods[0].spec.containers[0].image == "i"
    assert {(key.kind, key.uid): count for key, count in objects.replicas.items()} == {
        ("ReplicaSet", made["metadata"]["uid"]): 3
    }
    assert "default" in objects.namespaces
    assert objects.jobs == ()


async def test_what_may_not_be_read_is_told_and_does_not_trouble_other_diagnoses(server):
    snapshot = await read(ServerWithout(server, {"persistentvolumes", "statefulsets"}))
    assert {gap.resource for gap in snapshot.descheduling.gaps} == {"persistentvolumes", "statefulsets.apps"}
    assert snapshot.gaps == ()
