"""Claims on the way: reservations, late and lost writes, allocations taken back."""

import pytest

from tests.localplane.components import pod, running
from tests.localplane.scheduler.scheduler_plane import SchedulerPlane, claim, later, slice_of

VIRTUAL_TIME = True

JOB = {"apiGroup": "batch", "resource": "jobs", "name": "train", "uid": "11111111-0000-4000-8000-000000000001"}
GUARD = {"apiGroup": "reserve.dra", "resource": "guards", "name": "c", "uid": "22222222-0000-4000-8000-000000000002"}


async def gpu_world(*claims, nodes=2, devices=1):
    world = SchedulerPlane()
    await world.gpus(nodes=nodes, devices=devices)
    for each in claims or (claim("c"),):
        await world.user.create("resourceclaims", each)
    return world


def writes(world, ending):
    return [path for method, path in world.way.requests if method in {"PATCH", "POST"} and path.endswith(ending)]


@pytest.mark.parametrize(
    ("listed", "kept"),
    [
        pytest.param([], False, id="nobody-listed"),
        pytest.param(["a"], False, id="only-this-pod"),
        pytest.param(["a", "other"], True, id="another-pod"),
        pytest.param([JOB], True, id="a-workload"),
        pytest.param(["a", GUARD], True, id="a-guard"),
    ],
)
async def test_an_allocation_no_node_can_use_is_taken_back_only_if_nobody_else_may_have_it(listed, kept):
    world = await gpu_world()
    await world.user.create("pods", pod("other", node="n0"))
    await world.user.create("pods", pod("a", claims=["c"], schedulingGates=[{"name": "x"}]))
    await world.allocate("c", "n0", listed=listed)
    await world.user.patch("nodes", "n0", {"spec": {"unschedulable": True}})
    async with world.scheduling():
        await later()
        await world.user.patch("pods", "a", {"spec": {"schedulingGates": None}})
        await later(20)

    assert await world.devices("c") == (["n0/gpu-0"] if kept else ["n1/gpu-0"])
    assert await world.where("a") == ("" if kept else "n1")


async def test_an_allocation_for_any_pod_is_never_taken_back_by_the_scheduler():
    world = await gpu_world()
    await world.allocate("c", "n0", any_pod=True)
    await world.user.patch("nodes", "n0", {"spec": {"unschedulable": True}})
    async with world.scheduling():
        await world.user.create("pods", pod("a", claims=["c"]))
        await later(20)

    assert await world.devices("c") == ["n0/gpu-0"]


@pytest.mark.parametrize(
    ("listed", "any_pod", "expected"),
    [
        pytest.param(["a"], False, ["pods/a"], id="listed-already"),
        pytest.param([JOB], True, ["jobs/train"], id="any-pod"),
        pytest.param([JOB], False, ["jobs/train", "pods/a"], id="workload-without-any-pod"),
        pytest.param([], True, ["pods/a"], id="any-pod-but-nobody-keeps-it"),
        pytest.param([], False, ["pods/a"], id="left-by-an-unreserve"),
    ],
)
async def test_a_pod_joins_an_allocated_claim(listed, any_pod, expected):
    world = await gpu_world(claim("c", reserved_for=JOB))
    await world.user.create("pods", pod("a", claims=["c"], schedulingGates=[{"name": "x"}]))
    await world.allocate("c", "n0", listed=listed, any_pod=any_pod)
    before = (await world.user.get("resourceclaims", "c"))["metadata"]["resourceVersion"]
    async with world.scheduling():
        await world.user.patch("pods", "a", {"spec": {"schedulingGates": None}})
        await later()

    found = await world.user.get("resourceclaims", "c")
    assert await world.where("a") == "n0"
    assert await world.listed("c") == expected
    assert (found["metadata"]["resourceVersion"] == before) is (len(listed) == len(expected))


@pytest.mark.parametrize("fault", ["unanswered", "late", "refused", "busy"])
@pytest.mark.parametrize("ending", ["/c", "/c/status", "/binding"])
async def test_a_request_that_goes_wrong_is_done_once_in_the_end(fault, ending):
    world = await gpu_world()
    world.way.once("POST" if ending == "/binding" else "PATCH", ending, fault, seconds=3)
    async with world.scheduling():
        await world.user.create("pods", pod("a", claims=["c"]))
        await later(30)

    assert await world.listed("c") == ["pods/a"]
    assert [await world.where("a") + "/gpu-0"] == await world.devices("c")


async def test_a_late_allocation_of_a_doubtful_write_keeps_its_device():
    world = await gpu_world(claim("c"), claim("d"), nodes=1)
    world.way.once("PATCH", "/c/status", "late", seconds=8)
    for _ in range(4):
        world.way.once("PATCH", "/c/status", "refused")
    async with world.scheduling():
        await world.user.create("pods", pod("a", claims=["c"]))
        await later(0.5)
        await world.user.create("pods", pod("b", claims=["d"]))
        await later(30)

    assert await world.devices("c") == ["n0/gpu-0"]
    assert await world.devices("d") == []


async def test_what_a_scheduler_sent_before_it_died_is_fenced_off():
    world = await gpu_world(claim("c"), claim("d"), nodes=1)
    world.way.once("PATCH", "/c/status", "late", seconds=20)
    async with world.scheduling():
        await world.user.create("pods", pod("a", claims=["c"]))
        await later(0.1)
    await world.user.delete("pods", "a", gracePeriodSeconds=0)
    await world.user.create("pods", pod("b", claims=["d"]))
    async with running(world.another_scheduler()):
        await later(60)

    assert await world.devices("c") == []
    assert await world.devices("d") == ["n0/gpu-0"]


async def test_a_pod_that_cannot_be_bound_gives_its_place_back():
    world = await gpu_world(nodes=1)
    for _ in range(2):
        world.way.once("POST", "/binding", "forbidden")
    async with world.scheduling():
        await world.user.create("pods", pod("a", claims=["c"]))
        await later(0.9)
        assert await world.listed("c") == []
        assert await world.devices("c") == ["n0/gpu-0"]
        await later(20)

    assert await world.where("a") == "n0"
    assert await world.listed("c") == ["pods/a"]
    assert len(writes(world, "/binding")) == 3


async def test_a_slow_binding_holds_its_room_and_its_devices():
    world = await gpu_world(claim("c"), claim("d"), nodes=1)
    world.way.once("PATCH", "/c/status", "slow", seconds=8)
    async with world.scheduling():
        await world.user.create("pods", pod("a", claims=["c"]))
        await later(1)
        await world.user.create("pods", pod("b", claims=["d"]))
        await later(30)

    assert await world.devices("c") == ["n0/gpu-0"]
    assert await world.devices("d") == []


async def test_the_257th_pod_is_refused_by_the_server_and_waits():
    world = await gpu_world(nodes=0)
    await world.host("n0", devices=1, pods="400")
    async with world.scheduling():
        for i in range(257):
            await world.user.create("pods", pod(f"p{i}", claims=["c"]))
        await later(20)

    left = [name for name, node in (await world.placed()).items() if not node]
    assert len(await world.listed("c")) == 256
    assert len(left) == 1
    assert "256" in await world.scheduled(left[0])


async def test_the_claim_of_another_pod_is_refused():
    world = await gpu_world()
    other = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "33333333-0000-4000-8000-000000000003"}
    body = claim("made") | {"metadata": {"name": "made", "ownerReferences": [other | {"controller": True}]}}
    await world.user.create("resourceclaims", body)
    generated = pod("a")
    generated["spec"]["resourceClaims"] = [{"name": "g", "resourceClaimTemplateName": "t"}]
    await world.user.create("pods", generated)
    status = {"status": {"resourceClaimStatuses": [{"name": "g", "resourceClaimName": "made"}]}}
    await world.user.patch("pods", "a", status, subresource="status")
    async with world.scheduling():
        await later()

    assert "was not created for pod default/a (pod is not owner)" in await world.scheduled("a")


async def test_one_claim_named_twice_is_reserved_once():
    world = await gpu_world()
    async with world.scheduling():
        await world.user.create("pods", pod("a", claims=["c", "c"]))
        await later()

    assert await world.listed("c") == ["pods/a"]


async def test_the_room_of_a_pod_that_cannot_be_bound_is_free_for_others():
    world = SchedulerPlane()
    await world.host("n", pods="1")
    for _ in range(9):
        world.way.once("POST", "/a/binding", "forbidden")
    async with world.scheduling():
        await world.user.create("pods", pod("a"))
        await world.user.create("pods", pod("b"))
        await later()

    assert await world.placed() == {"a": "", "b": "n"}


async def test_what_a_device_takes_of_its_node_is_told_in_the_pod_and_not_given_again():
    # as 1.36 and as 1.37 have it: the server keeps the one that it knows
    takes = {
        "nodeAllocatableResourceMappings": {"cpu": {"allocationMultiplier": "5"}},
        "nodeAllocatableResources": {"cpu": {"mapping": {"deviceMultiplier": "5"}}},
    }
    world = SchedulerPlane()
    await world.gpus(nodes=0)
    await world.host("n0", cpu="8")
    offered = slice_of("n0")
    offered["spec"]["devices"] = [{"name": f"gpu-{i}", **takes} for i in range(2)]
    await world.user.create("resourceslices", offered)
    async with world.scheduling():
        for name in ("a", "b"):
            await world.user.create("resourceclaims", claim(name))
            await world.user.create("pods", pod(name, claims=[name]))
            await later()

    (told,) = (await world.user.get("pods", "a"))["status"]["nodeAllocatableResourceClaimStatuses"]
    assert told["resourceClaimName"] == "a"
    assert (await world.where("a"), await world.where("b")) == ("n0", "")
    assert "1 Insufficient cpu" in await world.scheduled("b")
