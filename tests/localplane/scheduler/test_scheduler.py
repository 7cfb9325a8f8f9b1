"""The scheduler beside a server, in virtual time."""

from tests.localplane.components import pod
from tests.localplane.scheduler.scheduler_plane import SchedulerPlane, claim, later

VIRTUAL_TIME = True

JOB = {"apiGroup": "batch", "resource": "jobs", "name": "train", "uid": "11111111-0000-4000-8000-000000000001"}


async def test_a_plain_pod_goes_to_the_emptiest_node():
    world = SchedulerPlane()
    await world.host("small", cpu="1")
    await world.host("large", cpu="64")
    async with world.scheduling():
        await world.user.create("pods", pod("a"))
        await later()

    assert await world.where("a") == "large"


async def test_a_pod_gets_the_device_that_its_claim_asks_for_and_is_listed():
    world = SchedulerPlane()
    await world.gpus()
    await world.user.create("resourceclaims", claim("c", expression='device.attributes["gpu.example.com"].index == 1'))
    async with world.scheduling():
        await world.user.create("pods", pod("a", claims=["c"]))
        await later()

    node = await world.where("a")
    found = await world.user.get("resourceclaims", "c")
    assert await world.devices("c") == [f"{node}/gpu-1"]
    assert await world.listed("c") == ["pods/a"]
    assert found["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    assert found["status"]["allocation"]["allocationTimestamp"]


async def test_a_claim_with_a_workload_is_reserved_for_it_and_for_no_pod():
    world = SchedulerPlane()
    await world.gpus()
    await world.user.create("resourceclaims", claim("c", reserved_for=JOB))
    async with world.scheduling():
        for i in range(300):
            await world.user.create("pods", pod(f"p{i}", claims=["c"]))
        await later(30)

    assert await world.listed("c") == ["jobs/train"]
    assert (await world.user.get("resourceclaims", "c"))["status"]["allocation"]["reservedForAnyPod"] is True
    assert len([node for node in (await world.placed()).values() if node]) == 110


async def test_pods_that_share_a_claim_share_its_node():
    world = SchedulerPlane()
    await world.gpus()
    await world.user.create("resourceclaims", claim("c"))
    async with world.scheduling():
        for i in range(20):
            await world.user.create("pods", pod(f"p{i}", claims=["c"]))
        await later()

    assert len(set((await world.placed()).values())) == 1
    assert sorted(await world.listed("c")) == sorted(f"pods/p{i}" for i in range(20))


async def test_no_device_is_given_twice_and_who_gets_none_waits_until_one_is_free():
    world = SchedulerPlane()
    await world.gpus(nodes=2, devices=2)
    for i in range(6):
        await world.user.create("resourceclaims", claim(f"c{i}"))
    async with world.scheduling():
        for i in range(6):
            await world.user.create("pods", pod(f"p{i}", claims=[f"c{i}"]))
        await later()
        given = [d for i in range(6) for d in await world.devices(f"c{i}")]
        assert len(given) == len(set(given)) == 4
        await world.user.patch(
            "resourceclaims", "c0", {"status": {"allocation": None, "reservedFor": None}}, subresource="status"
        )
        await later(15)

    assert sum(1 for node in (await world.placed()).values() if node) == 5
