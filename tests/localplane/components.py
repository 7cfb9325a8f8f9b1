"""A server and components beside it, in virtual time; and a user who looks at objects."""

import contextlib

from dra.kube.client import Client
from dra.kube.rate_limiter import RateLimiter
from dra.kube.tasks import background_task
from dra.kube.transport import MERGE_PATCH, Request
from dra.model.releases import NEWEST
from localplane.objects import decode, encode
from localplane.server import ApiServer
from localplane.transport import LocalTransport
from tests.dra.kube.virtual import LoopClock, seeded

PATHS = {
    "nodes": "/api/v1/nodes",
    "pods": "/api/v1/namespaces/{}/pods",
    "configmaps": "/api/v1/namespaces/{}/configmaps",
    "events": "/apis/events.k8s.io/v1/namespaces/{}/events",
    "leases": "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
    "namespaces": "/api/v1/namespaces",
    "serviceaccounts": "/api/v1/namespaces/{}/serviceaccounts",
    "jobs": "/apis/batch/v1/namespaces/{}/jobs",
    "deployments": "/apis/apps/v1/namespaces/{}/deployments",
    "replicasets": "/apis/apps/v1/namespaces/{}/replicasets",
    "poddisruptionbudgets": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "resourceclaims": "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims",
    "devicetaintrules": "/apis/resource.k8s.io/v1/devicetaintrules",
    "customresourcedefinitions": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "nodemetrics": "/apis/slo.koordinator.sh/v1alpha1/nodemetrics",
    "resourceslices": "/apis/resource.k8s.io/v1/resourceslices",
}


class User:
    """Speaks to the server as kubectl does."""

    def __init__(self, server):
        self.server = server
        self.writes = 0

    async def request(self, method, path, *, body=None, query=None, content_type=None):
        raw = None if body is None else encode(body)
        request = Request(
            method=method, path=path, query=query or {}, body=raw, content_type=content_type, timeout=30.0
        )
        answer = await self.server.handle(request)
        assert answer.status < 300, answer.body.decode()
        return decode(answer.body)

    async def create(self, plural, body, *, namespace="default"):
        return await self.request("POST", PATHS[plural].format(namespace), body=body, content_type="application/json")

    async def get(self, plural, name, *, namespace="default"):
        return await self.request("GET", f"{PATHS[plural].format(namespace)}/{name}")

    async def list(self, plural, *, namespace="default"):
        return (await self.request("GET", PATHS[plural].format(namespace)))["items"]

    async def names(self, plural, *, namespace="default"):
        return sorted(each["metadata"]["name"] for each in await self.list(plural, namespace=namespace))

    async def patch(self, plural, name, body, *, namespace="default", subresource=""):
        path = f"{PATHS[plural].format(namespace)}/{name}" + (f"/{subresource}" if subresource else "")
        return await self.request("PATCH", path, body=body, content_type=MERGE_PATCH)

    async def delete(self, plural, name, *, namespace="default", **options):
        body = {"kind": "DeleteOptions", "apiVersion": "v1", **options}
        return await self.request(
            "DELETE", f"{PATHS[plural].format(namespace)}/{name}", body=body, content_type="application/json"
        )


class Plane:
    """A server, a clock and what is made for them."""

    def __init__(self, *, seed=1, release=NEWEST):
        self.clock = LoopClock()
        self.random = seeded(seed)
        self.server = ApiServer(release=release, clock=self.clock, random=self.random)
        self.user = User(self.server)

    def client(self):
        return Client(LocalTransport(self.server), RateLimiter(1e6, 1e6, clock=self.clock), clock=self.clock)


@contextlib.asynccontextmanager
async def running(*components):
    """Let components work; none may stop by itself."""
    async with contextlib.AsyncExitStack() as stack:
        tasks = [
            await stack.enter_async_context(background_task(each.run(), name=type(each).__name__))
            for each in components
        ]
        yield
        assert [task.get_name() for task in tasks if task.done()] == []


def pod(name, *, node="", command=("sleep", "infinity"), policy="Always", claims=(), annotations=None, **spec):
    """Return a pod; one with a node was born bound."""
    entries = [{"name": f"c{number}", "resourceClaimName": claim} for number, claim in enumerate(claims)]
    return {
        "metadata": {"name": name, **({"annotations": annotations} if annotations else {})},
        "spec": {
            "containers": [{"name": "main", "image": "busybox", "command": list(command)}],
            "restartPolicy": policy,
            **({"nodeName": node} if node else {}),
            **({"resourceClaims": entries} if entries else {}),
            **spec,
        },
    }
