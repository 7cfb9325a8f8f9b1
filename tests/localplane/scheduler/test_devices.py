"""Devices for extended resources, and allocators that fail: what becomes of the pods."""

from tests.localplane.components import pod
from tests.localplane.scheduler.scheduler_plane import DRIVER, SchedulerPlane, claim, device_class, sleep, slice_of

VIRTUAL_TIME = True

GPU = "example.com/gpu"
COLOR = f"device.attributes['{DRIVER}'].color == 'red'"


def asking(name, count=1):
    body = pod(name)
    body["spec"]["containers"][0]["resources"] = {"limits": {GPU: str(count)}}
    return body


async def extended_world(**how):
    plane = SchedulerPlane()
    served = device_class()
    served["spec"]["extendedResourceName"] = GPU
    await plane.user.request("POST", "/apis/resource.k8s.io/v1/deviceclasses", body=served)
    await plane.add_node("n0", devices=2, **how)
    return plane


async def test_devices_serve_the_extended_resource_of_a_pod():
    plane = await extended_world()
    async with plane.scheduling():
        await plane.user.create("pods", asking("a", 2))
        await sleep()

    found = await plane.user.get("pods", "a")
    status = found["status"]["extendedResourceClaimStatus"]
    made = await plane.user.get("resourceclaims", status["resourceClaimName"])
    assert found["spec"]["nodeName"] == "n0"
    assert made["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert made["metadata"]["ownerReferences"][0]["uid"] == found["metadata"]["uid"]
    assert await plane.devices(status["resourceClaimName"]) == ["n0/gpu-0", "n0/gpu-1"]
    assert await plane.reserved_for(status["resourceClaimName"]) == ["pods/a"]
    assert status["requestMappings"] == [
        {"containerName": "main", "resourceName": GPU, "requestName": "container-0-request-0"}
    ]


async def test_a_pod_waits_for_the_devices_of_its_extended_resource():
    plane = await extended_world()
    async with plane.scheduling():
        await plane.user.create("pods", asking("a", 2))
        await sleep()
        await plane.user.create("pods", asking("b"))
        await sleep()
        assert await plane.scheduled("b") == "0/1 nodes are available: 1 cannot allocate all claims."
        await plane.add_node("n1", devices=1)
        await sleep(20)

    assert await plane.placed() == {"a": "n0", "b": "n1"}


async def test_a_claim_whose_pod_is_not_bound_is_deleted():
    plane = await extended_world()
    plane.way.once("POST", "/binding", "forbidden")
    async with plane.scheduling():
        await plane.user.create("pods", asking("a", 2))
        await sleep(0.5)
        (left,) = await plane.user.list("resourceclaims")
        assert left["metadata"].get("deletionTimestamp")


async def test_a_selector_that_fails_on_one_node_keeps_the_pod_from_all_until_the_node_is_mended():
    plane = SchedulerPlane()
    await plane.user.request("POST", "/apis/resource.k8s.io/v1/deviceclasses", body=device_class())
    await plane.add_node("n0", devices=1)
    await plane.add_node("n1")
    good = slice_of("n1", 1)
    good["spec"]["devices"][0]["attributes"] = {"color": {"string": "red"}}
    await plane.user.create("resourceslices", good)
    await plane.user.create("resourceclaims", claim("c", expression=COLOR))
    async with plane.scheduling():
        await plane.user.create("pods", pod("a", claims=["c"]))
        await sleep()
        found = await plane.user.get("pods", "a")
        (condition,) = (each for each in found["status"]["conditions"] if each["type"] == "PodScheduled")
        assert condition["reason"] == "SchedulerError"
        assert condition["message"].startswith('running "DynamicResources" filter plugin: device gpu.example.com/n0')
        await plane.user.delete("resourceslices", f"n0-{DRIVER}")
        await sleep(20)

    assert await plane.node_of("a") == "n1"
