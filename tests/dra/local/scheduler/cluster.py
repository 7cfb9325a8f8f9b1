"""Objects for a scheduler to look at, and a way to wait for what it does."""

import asyncio

from dra.local.kinds.kind import Kind
from dra.local.kinds.subresource import STATUS, Subresource
from dra.local.scheduler import Scheduler
from tests.dra.kube.virtual import seeded
from tests.dra.local.components import Plane, running

DRIVER = "gpu.example.com"


class Binding(Subresource):
    name, version, kind, verbs = "binding", "v1", "Binding", ("create",)

    def act(self, obj, body, *, now):  # noqa: ARG002 - the signature
        obj["spec"]["nodeName"] = body["target"]["name"]


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


class World(Plane):
    """A plane with a scheduler."""

    def __init__(self, *, seed=1, scheduler_client=None):
        super().__init__(seed=seed)
        self.server.catalog.add(Kind(plural="pods", name="Pod", subresources=(STATUS, Binding())))
        self.scheduler = Scheduler(scheduler_client or self.client(), clock=self.clock, chance=seeded(seed))

    async def host(self, name, *, devices=0, **how):
        body = node(name, **how)
        await self.user.create("nodes", body)
        await self.user.patch("nodes", name, {"status": body["status"]}, subresource="status")
        if devices:
            await self.user.create("resourceslices", slice_of(name, devices))

    async def gpus(self, nodes=2, devices=2):
        await self.user.request("POST", "/apis/resource.k8s.io/v1/deviceclasses", body=device_class())
        for i in range(nodes):
            await self.host(f"n{i}", devices=devices)

    async def where(self, name):
        return (await self.user.get("pods", name))["spec"].get("nodeName", "")

    async def placed(self):
        """Return where each pod is."""
        return {p["metadata"]["name"]: p["spec"].get("nodeName", "") for p in await self.user.list("pods")}

    async def devices(self, name):
        """Return the devices of a claim, as node/device."""
        found = await self.user.get("resourceclaims", name)
        results = found.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
        return [f"{r['pool']}/{r['device']}" for r in results]

    async def listed(self, name):
        """Return whom a claim is reserved for."""
        found = await self.user.get("resourceclaims", name)
        return [f"{e['resource']}/{e['name']}" for e in found.get("status", {}).get("reservedFor", [])]

    def scheduling(self):
        return running(self.scheduler)


async def later(seconds=5.0):
    """Let everybody work for a while."""
    await asyncio.sleep(seconds)
