"""What is read of the Deployments of dra-reserve."""

from dra.cli.kubectl.snapshots.deployment_reader import read_deployments
from dra.engine.diagnosis.snapshot import InstalledDeployment
from dra.kube.client import Client
from dra.kube.rate_limiter import RateLimiter
from dra.kube.transport import MERGE_PATCH, Request
from localplane import status_errors
from localplane.objects import encode
from localplane.server import ApiServer
from localplane.transport import LocalTransport
from tests.dra.kube.virtual import seeded

NAMESPACE = "dra-reserve"
PATH = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
SINCE = "2026-11-28T12:00:00Z"


async def request(server, method, path, body, kind="application/json"):
    answer = await server.handle(Request(method=method, path=path, body=encode(body), content_type=kind, timeout=5.0))
    assert answer.status < 300, answer.body


async def add_deployment(server, name, *, labels, component, ready):
    selector = {"app.kubernetes.io/component": component} if component else {"app": name}
    template = {"metadata": {"labels": selector}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": selector}, "template": template}
    await request(server, "POST", PATH, {"metadata": {"name": name, "labels": labels}, "spec": spec})
    condition = {"type": "Available", "status": str(bool(ready)), "lastTransitionTime": SINCE}
    status = {"replicas": 2, "readyReplicas": ready, "conditions": [condition]}
    await request(server, "PATCH", f"{PATH}/{name}/status", {"status": status}, MERGE_PATCH)


async def test_the_replicas_of_each_component_are_read():
    server = ApiServer(random=seeded(1))
    await request(server, "POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    ours = {"app.kubernetes.io/name": "dra-reserve"}
    await add_deployment(server, "controller", labels=ours, component="controller", ready=0)
    await add_deployment(server, "extender", labels=ours, component="extender", ready=2)
    await add_deployment(server, "old", labels=ours, component="", ready=2)
    await add_deployment(server, "another", labels={}, component="controller", ready=0)
    read = await read_deployments(Client(LocalTransport(server), RateLimiter(1e6, 1e6)), namespace=NAMESPACE)
    assert [(each.name, each.component, each.ready, each.unavailable_since) for each in read] == [
        ("controller", "controller", 0, SINCE),
        ("extender", "extender", 2, ""),
        ("old", "controller", 2, ""),
    ]
    assert read[0] == InstalledDeployment(
        namespace=NAMESPACE,
        name="controller",
        component="controller",
        desired=2,
        ready=0,
        unavailable_since=SINCE,
    )


class ForbiddingServer:
    """A server that lets a user read no Deployments."""

    async def handle(self, _request):
        return status_errors.StatusError(403, "Forbidden", "no right to list deployments.apps").response


async def test_who_may_not_read_deployments_gets_an_audit_without_them():
    client = Client(LocalTransport(ForbiddingServer()), RateLimiter(1e6, 1e6))
    assert await read_deployments(client, namespace=NAMESPACE) == ()
