"""The scheduler beside a server, in virtual time."""

from tests.localplane.components import pod
from tests.localplane.scheduler.scheduler_plane import SchedulerPlane, claim, sleep

VIRTUAL_TIME = True

JOB = {"apiGroup": "batch", "resource": "jobs", "name": "train", "uid": "11111111-0000-4000-8000-000000000001"}


async def test_a_plain_pod_goes_to_the_emptiest_node():
    plane = SchedulerPlane()
    await plane.add_node("small", cpu="1")
    await plane.add_node("large", cpu="64")
    async with plane.scheduling():
        await plane.user.create("pods", pod("a"))
        await sleep()

    assert await plane.node_of("a") == "large"


async def test_a_pod_gets_the_device_that_its_claim_asks_for_and_is_listed():
    plane = SchedulerPlane()
    await plane.add_gpu_nodes()
    await plane.user.create("resourceclaims", claim("c", expression='device.attributes["gpu.example.com"].index == 1'))
    async with plane.scheduling():
        await plane.user.create("pods", pod("a", claims=["c"]))
        await sleep()

    node = await plane.node_of("a")
    found = await plane.user.get("resourceclaims", "c")
    assert await plane.devices("c") == [f"{node}/gpu-1"]
    assert await plane.reserved_for("c") == ["pods/a"]
    assert found["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    assert found["status"]["allocation"]["allocationTimestamp"]


async def test_a_claim_with_a_workload_is_reserved_for_it_and_for_no_pod():
    plane = SchedulerPlane()
    await plane.add_gpu_nodes()
    await plane.user.create("resourceclaims", claim("c", reserved_for=JOB))
    async with plane.scheduling():
        for i in range(300):
            await plane.user.create("pods", pod(f"p{i}", claims=["c"]))
        await sleep(30)

    assert await plane.reserved_for("c") == ["jobs/train"]
    assert (await plane.user.get("resourceclaims", "c"))["status"]["allocation"]["reservedForAnyPod"] is True
    assert len([node for node in (await plane.placed()).values() if node]) == 110


async def test_pods_that_share_a_claim_share_its_node():
    plane = SchedulerPlane()
    await plane.add_gpu_nodes()
    await plane.user.create("resourceclaims", claim("c"))
    async with plane.scheduling():
        for i in range(20):
            await plane.user.create("pods", pod(f"p{i}", claims=["c"]))
        await sleep()

    assert len(set((await plane.placed()).values())) == 1
    assert sorted(await plane.reserved_for("c")) == sorted(f"pods/p{i}" for i in range(20))


async def test_no_device_is_given_twice_and_who_gets_none_waits_until_one_is_free():
    plane = SchedulerPlane()
    await plane.add_gpu_nodes(nodes=2, devices=2)
    for i in range(6):
        await plane.user.create("resourceclaims", claim(f"c{i}"))
    async with plane.scheduling():
        for i in range(6):
            await plane.user.create("pods", pod(f"p{i}", claims=[f"c{i}"]))
        await sleep()
        given = [d for i in range(6) for d in await plane.devices(f"c{i}")]
        assert len(given) == len(set(given)) == 4
        await plane.user.patch(
            "resourceclaims", "c0", {"status": {"allocation": None, "reservedFor": None}}, subresource="status"
        )
        await sleep(15)

    assert sum(1 for node in (await plane.placed()).values() if node) == 5
