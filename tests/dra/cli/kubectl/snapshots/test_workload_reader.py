"""The workloads that claims refer to, with as few requests as possible."""

from collections import Counter

import pytest

from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.snapshots.controller_reader import LifecycleCache
from dra.cli.kubectl.snapshots.object_lists import ObjectLists
from dra.cli.kubectl.snapshots.workload_reader import UNLISTED_GROUPS_MAX, WorkloadReader
from dra.engine.claims.view import WorkloadPhase
from dra.engine.claims.workload_kinds import KINDS_PER_NAMESPACE
from dra.kube.client import Client
from dra.kube.discovery import Discovery
from dra.kube.rate_limiter import RateLimiter
from dra.model.claims import ResourceClaim
from dra.model.meta import ObjectMeta
from localplane.server import ApiServer
from localplane.transport import LocalTransport


class CountingTransport(LocalTransport):
    """Records the paths of all requests."""

    def __init__(self, server):
        super().__init__(server)
        self.paths = []

    async def send(self, request):
        self.paths.append(request.path)
        return await super().send(request)


def reserved_claim(number, workload, *, namespace="evil"):
    annotations = {"reserve.dra/reserved-for": workload}
    return ResourceClaim(metadata=ObjectMeta(name=f"c{number}", namespace=namespace, annotations=annotations))


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("things.g{}.example.com", id="groups-that-are-not-served"),
        pytest.param("things{}.batch", id="kinds-of-a-served-group"),
    ],
)
async def test_kinds_that_do_not_exist_cost_no_requests_of_their_own(kind):
    transport = CountingTransport(ApiServer())
    connection = Connection(client=Client(transport, RateLimiter(1000.0, 1000)), transport=transport)
    flood = [
        reserved_claim(number, f"{kind.format(number)}/x", namespace=f"evil-{number % 10}") for number in range(300)
    ]
    claims = [*flood, reserved_claim(0, "jobs.batch/train", namespace="ml")]
    discovery = Discovery(connection.client)
    for _ in range(2):
        reader = WorkloadReader(ObjectLists(connection.client, namespace=None), discovery, LifecycleCache())
        phases = Counter(workload.phase for workload in await reader.look_up(claims))
        assert phases == {
            WorkloadPhase.NO_KIND: 10 * KINDS_PER_NAMESPACE,
            WorkloadPhase.OVER_LIMIT: 300 - 10 * KINDS_PER_NAMESPACE,
            WorkloadPhase.ABSENT: 1,
        }
    assert transport.paths.count("/apis") == 1
    assert len([path for path in transport.paths if "example.com" in path]) <= UNLISTED_GROUPS_MAX
    of_batch = [path for path in transport.paths if path.startswith("/apis/batch") and "namespaces" not in path]
    assert len(of_batch) <= 4
