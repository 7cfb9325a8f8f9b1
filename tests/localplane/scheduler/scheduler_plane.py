"""Objects for a scheduler to look at, and a way to wait for what it does."""

import asyncio

from dra.kube.client import Client
from dra.kube.errors import Unreachable
from dra.kube.rate_limiter import RateLimiter
from dra.model.releases import NEWEST
from localplane import status_errors
from localplane.scheduler import Scheduler
from localplane.transport import LocalTransport
from tests.dra.kube.virtual import seeded
from tests.localplane.components import Plane, running

DRIVER = "gpu.example.com"


def node(name, *, labels=None, cpu="8", pods="110", taints=(), unschedulable=False):
    spec = {"taints": list(taints)} if taints else {}
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec | ({"unschedulable": True} if unschedulable else {}),
        "status": {"allocatable": {"cpu": cpu, "memory": "32Gi", "pods": pods}},
    }


def slice_of(node_name, devices=2, *, driver=DRIVER, **spec):
    """Return the slice with all devices of a node."""
    return {
        "metadata": {"name": f"{node_name}-{driver}"},
        "spec": {
            "driver": driver,
            "nodeName": node_name,
            "pool": {"name": node_name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{i}", "attributes": {"index": {"int": i}}} for i in range(devices)],
            **spec,
        },
    }


def device_class(name=DRIVER):
    expression = f'device.driver == "{DRIVER}"'
    return {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}


def claim(name, *, count=1, reserved_for=None, expression=None, class_name=DRIVER):
    exactly = {"deviceClassName": class_name, "allocationMode": "ExactCount", "count": count}
    if expression:
        exactly["selectors"] = [{"cel": {"expression": expression}}]
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    return {
        "metadata": {"name": name},
        "spec": spec | ({"reservedFor": reserved_for} if reserved_for else {}),
    }


class FaultyServer:
    """A way to the server on which single requests of the scheduler go wrong."""

    def __init__(self, server):
        self._server = server
        self._rules = []
        self.requests = []
        self._late = set()

    def once(self, method, ending, fault, *, seconds=0.0, skip=0):
        """Let the next request to a path with that ending, after `skip` others, meet a fault."""
        self._rules.append([method, ending, fault, seconds, skip])

    async def handle(self, request):
        self.requests.append((request.method, request.path))
        for rule in self._rules:
            method, ending, fault, seconds, skip = rule
            if request.method == method and request.path.endswith(ending):
                if skip:
                    rule[4] -= 1
                    continue
                self._rules.remove(rule)
                return await getattr(self, fault)(request, seconds)
        return await self._server.handle(request)

    async def slow(self, request, seconds):
        """It takes its time."""
        await asyncio.sleep(seconds)
        return await self._server.handle(request)

    async def unanswered(self, request, _):
        """It is done, and nobody hears of it."""
        await self._server.handle(request)
        raise Unreachable(request.path, "connection reset", outcome_unknown=True)

    async def late(self, request, seconds):
        """It arrives when nobody waits for it any more."""

        async def arrive():
            await asyncio.sleep(seconds)
            await self._server.handle(request)

        task = asyncio.create_task(arrive())
        self._late.add(task)
        raise Unreachable(request.path, "no answer", outcome_unknown=True)

    async def refused(self, request, _):
        """It never gets there."""
        raise Unreachable(request.path, "connection refused", outcome_unknown=False)

    async def forbidden(self, *_):
        return status_errors.StatusError(403, "Forbidden", "no").response

    async def busy(self, *_):
        return status_errors.StatusError(429, "TooManyRequests", "later").response


class SchedulerPlane(Plane):
    """A plane with a scheduler."""

    def __init__(self, *, seed=1, release=NEWEST):
        super().__init__(seed=seed, release=release)
        self.release = release
        self.way = FaultyServer(self.server)
        self.scheduler = self.another_scheduler(seed)

    def another_scheduler(self, seed=2):
        client = Client(LocalTransport(self.way), RateLimiter(1e6, 1e6, clock=self.clock), clock=self.clock)
        return Scheduler(client, clock=self.clock, random=seeded(seed), release=self.release)

    async def add_node(self, name, *, devices=0, **how):
        body = node(name, **how)
        await self.user.create("nodes", body)
        await self.user.patch("nodes", name, {"status": body["status"]}, subresource="status")
        await self.user.patch("nodes", name, {"spec": {"taints": body["spec"].get("taints")}})  # a new one has one more
        if devices:
            await self.user.create("resourceslices", slice_of(name, devices))

    async def add_gpu_nodes(self, nodes=2, devices=2):
        await self.user.request("POST", "/apis/resource.k8s.io/v1/deviceclasses", body=device_class())
        for i in range(nodes):
            await self.add_node(f"n{i}", devices=devices)

    async def node_of(self, name):
        return (await self.user.get("pods", name))["spec"].get("nodeName", "")

    async def placed(self):
        """Return where each pod is."""
        return {p["metadata"]["name"]: p["spec"].get("nodeName", "") for p in await self.user.list("pods")}

    async def devices(self, name):
        """Return the devices of a claim, as node/device."""
        found = await self.user.get("resourceclaims", name)
        results = found.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
        return [f"{r['pool']}/{r['device']}" for r in results]

    async def reserved_for(self, name):
        """Return whom a claim is reserved for."""
        found = await self.user.get("resourceclaims", name)
        return [f"{e['resource']}/{e['name']}" for e in found.get("status", {}).get("reservedFor", [])]

    def scheduling(self):
        return running(self.scheduler)

    async def scheduled(self, name):
        """Return the message of a pod's condition PodScheduled, if that is False."""
        found = (await self.user.get("pods", name)).get("status", {}).get("conditions", ())
        return next((c["message"] for c in found if c["type"] == "PodScheduled" and c["status"] == "False"), None)

    async def uid(self, name):
        return (await self.user.get("pods", name))["metadata"]["uid"]

    async def allocate(self, name, node, *, device="gpu-0", listed=(), any_pod=False):
        """Allocate a claim behind the scheduler's back; `listed` are entries, or names of pods."""
        results = [{"request": "gpu", "driver": DRIVER, "pool": node, "device": device}]
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        allocation = {
            "devices": {"results": results},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
            "allocationTimestamp": "2026-11-20T12:00:00Z",
        }
        if any_pod:
            allocation["reservedForAnyPod"] = True
        entries = [
            each if isinstance(each, dict) else {"resource": "pods", "name": each, "uid": await self.uid(each)}
            for each in listed
        ]
        status = {"allocation": allocation, **({"reservedFor": entries} if entries else {})}
        await self.user.patch("resourceclaims", name, {"status": status}, subresource="status")


async def sleep(seconds=5.0):
    """Let everybody work for a while."""
    await asyncio.sleep(seconds)
