"""The stock claim controller on a server."""

import asyncio

from localplane.controller_manager.claims.controller import ClaimController
from tests.localplane.components import Plane, running

VIRTUAL_TIME = True

TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates"
REQUESTS = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}
PROTECTION = "resource.kubernetes.io/delete-protection"


def working(plane):
    return running(ClaimController(plane.client(), clock=plane.clock, random=plane.random))


def pod(name, **entry):
    containers = [{"name": "main", "image": "x"}]
    spec = {"containers": containers, "resourceClaims": [{"name": "gpu", **entry}]}
    return {"metadata": {"name": name}, "spec": spec}


async def test_a_pod_gets_a_claim_as_soon_as_its_template_exists():
    plane = Plane()
    async with working(plane):
        await plane.user.create("pods", pod("a", resourceClaimTemplateName="one"))
        await asyncio.sleep(1)
        assert not await plane.user.names("resourceclaims")
        template = {"metadata": {"name": "one"}, "spec": {"spec": REQUESTS}}
        await plane.user.request("POST", TEMPLATES, body=template, content_type="application/json")
        await asyncio.sleep(1)
        (name,) = await plane.user.names("resourceclaims")
        found = await plane.user.get("pods", "a")
        assert found["status"]["resourceClaimStatuses"] == [{"name": "gpu", "resourceClaimName": name}]


async def allocate(plane, name, *, entries):
    """Allocate a claim and list pods, as a scheduler does."""
    await plane.user.patch("resourceclaims", name, {"metadata": {"finalizers": [PROTECTION]}})
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": entries}
    path = f"/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/{name}/status"
    kind = "application/merge-patch+json"
    await plane.user.request("PATCH", path, body={"status": status}, content_type=kind)


async def test_the_devices_of_a_claim_are_free_when_its_last_pod_is_gone():
    plane = Plane()
    async with working(plane):
        await plane.user.create("resourceclaims", {"metadata": {"name": "c"}, "spec": REQUESTS})
        listed = []
        for name in ("a", "b"):
            made = await plane.user.create("pods", pod(name, resourceClaimName="c"))
            listed.append({"resource": "pods", "name": name, "uid": made["metadata"]["uid"]})
        await allocate(plane, "c", entries=listed)
        await plane.user.delete("pods", "a")
        await asyncio.sleep(1)
        assert (await plane.user.get("resourceclaims", "c"))["status"]["reservedFor"] == listed[1:]
        await plane.user.delete("pods", "b")
        await asyncio.sleep(1)
        found = await plane.user.get("resourceclaims", "c")
        assert "allocation" not in found.get("status", {})
        assert "finalizers" not in found["metadata"]
