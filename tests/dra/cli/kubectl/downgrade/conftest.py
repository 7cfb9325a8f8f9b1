"""A server in this process, in virtual time, with claims and pods as our controller leaves them behind."""

import msgspec
import pytest

from dra.cli.kubectl.connection import Connection
from dra.kube.client import Client
from dra.kube.clock import rfc3339
from dra.kube.rate_limiter import RateLimiter
from dra.kube.transport import MERGE_PATCH, Request
from dra.model import workload_reservations
from dra.model.claims import AllocationResult
from localplane.objects import decode, encode
from localplane.schemas.builtin_schemas import Dialect
from localplane.server import ApiServer
from localplane.transport import LocalTransport
from tests.dra.kube.virtual import LoopClock, VirtualLoop, seeded

NAMESPACE = "ml"
FINALIZER = "resource.kubernetes.io/delete-protection"


def pytest_asyncio_loop_factories(config, item):  # noqa: ARG001 - the hook's signature
    return {"virtual": VirtualLoop}


class Killed(BaseException):
    """The process ends here."""


class Mortal:
    """A way to the server on which the client dies right before its n-th write, or right after it."""

    def __init__(self, server):
        self._way = LocalTransport(server)
        self.writes = 0
        self.dies_before = None
        self.dies_after = None

    async def send(self, request):
        if request.method == "GET":
            return await self._way.send(request)
        self.writes += 1
        if self.writes == self.dies_before:
            raise Killed
        answer = await self._way.send(request)
        if self.writes == self.dies_after:
            raise Killed
        return answer

    def stream(self, request):
        return self._way.stream(request)

    async def close(self):
        pass


class Cluster:
    """What scenarios of a downgrade are made of."""

    def __init__(self):
        self.clock = LoopClock()
        self.server = ApiServer(api=Dialect.STOCK, clock=self.clock, random=seeded(1))
        self.history = []
        """Every list that a claim has had, after each write of ours: (claim, uids)."""

    def connection(self, *, dies_before=None, dies_after=None):
        transport = Mortal(self.server)
        transport.dies_before, transport.dies_after = dies_before, dies_after
        client = Client(transport, RateLimiter(1e6, 1e6, clock=self.clock), clock=self.clock)
        return Connection(client=client, transport=transport, clock=self.clock)

    async def request(self, method, path, body=None, *, patch=False):
        kind = MERGE_PATCH if patch else "application/json"
        raw = None if body is None else encode(body)
        request = Request(method=method, path=path, body=raw, content_type=kind if body else None, timeout=30.0)
        answer = await self.server.handle(request)
        assert answer.status < 300, answer.body.decode()
        return decode(answer.body)

    @staticmethod
    def path(plural, name="", *, namespace=NAMESPACE, group="api/v1"):
        return f"/{group}/namespaces/{namespace}/{plural}" + (f"/{name}" if name else "")

    def claim_path(self, name=""):
        return self.path("resourceclaims", name, group="apis/resource.k8s.io/v1")

    async def start(self):
        for name in (NAMESPACE, "dra-reserve"):
            await self.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
            await self.request("POST", self.path("serviceaccounts", namespace=name), {"metadata": {"name": "default"}})

    async def add_pods(self, prefix, count, *, claim, phase="Running", node="n1", gates=()):
        found = []
        for number in range(count):
            pod = {
                "metadata": {"name": f"{prefix}-{number}"},
                "spec": {
                    "containers": [{"name": "main", "image": "x"}],
                    "resourceClaims": [{"name": "d", "resourceClaimName": claim}],
                    **({"nodeName": node} if node else {}),
                    **({"schedulingGates": [{"name": each} for each in gates]} if gates else {}),
                },
            }
            await self.request("POST", self.path("pods"), pod)
            if phase:
                path = self.path("pods", pod["metadata"]["name"]) + "/status"
                ready = {"type": "PodReadyToStartContainers", "status": "True"}
                await self.request("PATCH", path, {"status": {"phase": phase, "conditions": [ready]}}, patch=True)
            found.append(await self.request("GET", self.path("pods", pod["metadata"]["name"])))
        return found

    async def add_job(self, name):
        container = {"name": "main", "image": "x"}
        template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
        return await self.request(
            "POST",
            self.path("jobs", group="apis/batch/v1"),
            {"metadata": {"name": name}, "spec": {"template": template}},
        )

    async def finish_job(self, name):
        over = [{"type": kind, "status": "True"} for kind in ("SuccessCriteriaMet", "Complete")]
        when = {"startTime": rfc3339(self.clock.wall()), "completionTime": rfc3339(self.clock.wall())}
        path = self.path("jobs", name, group="apis/batch/v1") + "/status"
        await self.request("PATCH", path, {"status": when | {"conditions": over}}, patch=True)

    async def add_claim(self, name, *, workload=None, listed=(), guarded=True, uid=None):
        """A claim as our controller keeps it in mode replace: one entry for all, a guard, some pods."""
        request = {"name": "device", "exactly": {"deviceClassName": "class"}}
        annotations = {workload_reservations.RESERVED_FOR: f"jobs.batch/{name}"} if workload or uid else {}
        await self.request(
            "POST",
            self.claim_path(),
            {"metadata": {"name": name, "annotations": annotations}, "spec": {"devices": {"requests": [request]}}},
        )
        result = {"request": "device", "driver": "d.example.com", "pool": "p", "device": name}
        allocation = {"devices": {"results": [result]}, "allocationTimestamp": rfc3339(self.clock.wall())}
        entries = []
        if whose := uid or (workload and workload["metadata"]["uid"]):
            entries.append({"apiGroup": "batch", "resource": "jobs", "name": name, "uid": whose})
        found = await self.get_claim(name)
        if guarded:
            ours = {"apiGroup": "reserve.dra", "resource": "guards"}
            entries.append({**ours, "name": name, "uid": found["metadata"]["uid"]})
        entries += [
            {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]} for pod in listed
        ]
        await self.request("PATCH", self.claim_path(name), {"metadata": {"finalizers": [FINALIZER]}}, patch=True)
        status = {"allocation": allocation, "reservedFor": entries}
        await self.request("PATCH", f"{self.claim_path(name)}/status", {"status": status}, patch=True)
        if workload or uid:
            marks = workload_reservations.entry_annotations(msgspec.convert(allocation, AllocationResult))
            await self.request("PATCH", self.claim_path(name), {"metadata": {"annotations": marks}}, patch=True)
        return await self.get_claim(name)

    async def get_claim(self, name):
        return await self.request("GET", self.claim_path(name))

    async def listed(self, name):
        claim = await self.get_claim(name)
        return {entry["uid"] for entry in claim.get("status", {}).get("reservedFor", ())}


@pytest.fixture
async def cluster():
    found = Cluster()
    await found.start()
    return found
