"""Virtual time, and a cluster whose descheduler is the test."""

import pytest

from dra.api.migration.crd import custom_resource_definition
from dra.cli.kubectl.connection import Connection
from dra.kube.client import Client
from dra.kube.rate_limiter import RateLimiter
from dra.kube.transport import MERGE_PATCH, Request
from localplane.objects import decode, encode
from localplane.server import ApiServer
from localplane.transport import LocalTransport
from tests.dra.kube.virtual import LoopClock, VirtualLoop, seeded

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JOBS = "/apis/scheduling.koordinator.sh/v1alpha1/podmigrationjobs"


def pytest_asyncio_loop_factories(config, item):  # noqa: ARG001 - the hook's signature
    return {"virtual": VirtualLoop}


class Site:
    """An API server with the kind, two nodes, and the requests of a test."""

    def __init__(self):
        self.clock = LoopClock()
        self.server = ApiServer(clock=self.clock, random=seeded(1))

    def connection(self):
        transport = LocalTransport(self.server)
        client = Client(transport, RateLimiter(1e6, 1e6, clock=self.clock), clock=self.clock)
        return Connection(client=client, transport=transport, clock=self.clock)

    async def request(self, method, path, body=None):
        answer = await self.server.handle(
            Request(
                method=method,
                path=path,
                timeout=10.0,
                body=encode(body) if body is not None else None,
                content_type=MERGE_PATCH if method == "PATCH" else "application/json",
            )
        )
        found = decode(answer.body)
        assert answer.status in {200, 201}, found
        return found

    async def add_pod(
        self, name, *, node="n1", owner="ReplicaSet", scheduler="default-scheduler", cpu="1", uid="u-web", **metadata
    ):
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}} if cpu else {}}
        if metadata.get("labels", {}).get("koordinator.sh/qosClass") == "LSR":
            container["resources"]["limits"] = {"cpu": cpu}
        if owner:
            reference = {"apiVersion": "apps/v1", "kind": owner, "name": "web", "uid": uid, "controller": True}
            metadata["ownerReferences"] = [reference]
        body = {
            "metadata": {"name": name, "namespace": "default", **metadata},
            "spec": {"nodeName": node, "schedulerName": scheduler, "containers": [container]},
        }
        return await self.request("POST", "/api/v1/namespaces/default/pods", body)

    async def set_ready(self, name):
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await self.request("PATCH", f"/api/v1/namespaces/default/pods/{name}/status", {"status": status})

    async def jobs(self):
        return {each["metadata"]["name"]: each for each in (await self.request("GET", JOBS))["items"]}

    async def set_status(self, name, **status):
        await self.request("PATCH", f"{JOBS}/{name}/status", {"status": status})


@pytest.fixture
async def site():
    made = Site()
    await made.request("POST", DEFINITIONS, custom_resource_definition())
    for name in ("n1", "n2"):
        await made.request("POST", "/api/v1/nodes", {"metadata": {"name": name}, "spec": {}})
        amounts = {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110"}}
        ready = [{"type": "Ready", "status": "True"}]
        status = {"status": {**amounts, "conditions": ready}}
        await made.request("PATCH", f"/api/v1/nodes/{name}/status", status)
        await made.request("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}})  # not-ready, by admission
    return made
