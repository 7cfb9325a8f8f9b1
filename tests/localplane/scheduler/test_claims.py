"""Claims on the way: reservations, late and lost writes, allocations taken back."""

import pytest

from tests.localplane.components import pod, running
from tests.localplane.scheduler.scheduler_plane import SchedulerPlane, claim, sleep, slice_of

VIRTUAL_TIME = True

JOB = {"apiGroup": "batch", "resource": "jobs", "name": "train", "uid": "11111111-0000-4000-8000-000000000001"}
GUARD = {"apiGroup": "reserve.dra", "resource": "guards", "name": "c", "uid": "22222222-0000-4000-8000-000000000002"}


async def gpu_world(*claims, nodes=2, devices=1):
    plane = SchedulerPlane()
    await plane.add_gpu_nodes(nodes=nodes, devices=devices)
    for each in claims or (claim("c"),):
        await plane.user.create("resourceclaims", each)
    return plane


def writes(plane, ending):
    return [path for method, path in plane.way.requests if method in {"PATCH", "POST"} and path.endswith(ending)]


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
    plane = await gpu_world()
    await plane.user.create("pods", pod("other", node="n0"))
    await plane.user.create("pods", pod("a", claims=["c"], schedulingGates=[{"name": "x"}]))
    await plane.allocate("c", "n0", listed=listed)
    await plane.user.patch("nodes", "n0", {"spec": {"unschedulable": True}})
    async with plane.scheduling():
        await sleep()
        await plane.user.patch("pods", "a", {"spec": {"schedulingGates": None}})
        await sleep(20)

    assert await plane.devices("c") == (["n0/gpu-0"] if kept else ["n1/gpu-0"])
    assert await plane.node_of("a") == ("" if kept else "n1")


async def test_an_allocation_for_any_pod_is_never_taken_back_by_the_scheduler():
    plane = await gpu_world()
    await plane.allocate("c", "n0", any_pod=True)
    await plane.user.patch("nodes", "n0", {"spec": {"unschedulable": True}})
    async with plane.scheduling():
        await plane.user.create("pods", pod("a", claims=["c"]))
        await sleep(20)

    assert await plane.devices("c") == ["n0/gpu-0"]


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
    plane = await gpu_world(claim("c", reserved_for=JOB))
    await plane.user.create("pods", pod("a", claims=["c"], schedulingGates=[{"name": "x"}]))
    await plane.allocate("c", "n0", listed=listed, any_pod=any_pod)
    before = (await plane.user.get("resourceclaims", "c"))["metadata"]["resourceVersion"]
    async with plane.scheduling():
        await plane.user.patch("pods", "a", {"spec": {"schedulingGates": None}})
        await sleep()

    found = await plane.user.get("resourceclaims", "c")
    assert await plane.node_of("a") == "n0"
    assert await plane.reserved_for("c") == expected
    assert (found["metadata"]["resourceVersion"] == before) is (len(listed) == len(expected))


@pytest.mark.parametrize("fault", ["unanswered", "late", "refused", "busy"])
@pytest.mark.parametrize("ending", ["/c", "/c/status", "/binding"])
async def test_a_request_that_goes_wrong_is_done_once_in_the_end(fault, ending):
    plane = await gpu_world()
    plane.way.once("POST" if ending == "/binding" else "PATCH", ending, fault, seconds=3)
    async with plane.scheduling():
        await plane.user.create("pods", pod("a", claims=["c"]))
        await sleep(30)

    assert await plane.reserved_for("c") == ["pods/a"]
    assert [await plane.node_of("a") + "/gpu-0"] == await plane.devices("c")


async def test_a_late_allocation_of_a_doubtful_write_keeps_its_device():
    plane = await gpu_world(claim("c"), claim("d"), nodes=1)
    plane.way.once("PATCH", "/c/status", "late", seconds=8)
    for _ in range(4):
        plane.way.once("PATCH", "/c/status", "refused")
    async with plane.scheduling():
        await plane.user.create("pods", pod("a", claims=["c"]))
        await sleep(0.5)
        await plane.user.create("pods", pod("b", claims=["d"]))
        await sleep(30)

    assert await plane.devices("c") == ["n0/gpu-0"]
    assert await plane.devices("d") == []


async def test_what_a_scheduler_sent_before_it_died_is_fenced_off():
    plane = await gpu_world(claim("c"), claim("d"), nodes=1)
    plane.way.once("PATCH", "/c/status", "late", seconds=20)
    async with plane.scheduling():
        await plane.user.create("pods", pod("a", claims=["c"]))
        await sleep(0.1)
    await plane.user.delete("pods", "a", gracePeriodSeconds=0)
    await plane.user.create("pods", pod("b", claims=["d"]))
    async with running(plane.another_scheduler()):
        await sleep(60)

    assert await plane.devices("c") == []
    assert await plane.devices("d") == ["n0/gpu-0"]


async def test_a_pod_that_cannot_be_bound_gives_its_place_back():
    plane = await gpu_world(nodes=1)
    for _ in range(2):
        plane.way.once("POST", "/binding", "forbidden")
    async with plane.scheduling():
        await plane.user.create("pods", pod("a", claims=["c"]))
        await sleep(0.9)
        assert await plane.reserved_for("c") == []
        assert await plane.devices("c") == ["n0/gpu-0"]
        await sleep(20)

    assert await plane.node_of("a") == "n0"
    assert await plane.reserved_for("c") == ["pods/a"]
    assert len(writes(plane, "/binding")) == 3


async def test_a_slow_binding_holds_its_room_and_its_devices():
    plane = await gpu_world(claim("c"), claim("d"), nodes=1)
    plane.way.once("PATCH", "/c/status", "slow", seconds=8)
    async with plane.scheduling():
        await plane.user.create("pods", pod("a", claims=["c"]))
        await sleep(1)
        await plane.user.create("pods", pod("b", claims=["d"]))
        await sleep(30)

    assert await plane.devices("c") == ["n0/gpu-0"]
    assert await plane.devices("d") == []


async def test_the_257th_pod_is_refused_by_the_server_and_waits():
    plane = await gpu_world(nodes=0)
    await plane.add_node("n0", devices=1, pods="400")
    async with plane.scheduling():
        for i in range(257):
            await plane.user.create("pods", pod(f"p{i}", claims=["c"]))
        await sleep(20)

    left = [name for name, node in (await plane.placed()).items() if not node]
    assert len(await plane.reserved_for("c")) == 256
    assert len(left) == 1
    assert "256" in await plane.scheduled(left[0])


async def test_the_claim_of_another_pod_is_refused():
    plane = await gpu_world()
    other = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "33333333-0000-4000-8000-000000000003"}
    body = claim("made") | {"metadata": {"name": "made", "ownerReferences": [other | {"controller": True}]}}
    await plane.user.create("resourceclaims", body)
    generated = pod("a")
    generated["spec"]["resourceClaims"] = [{"name": "g", "resourceClaimTemplateName": "t"}]
    await plane.user.create("pods", generated)
    status = {"status": {"resourceClaimStatuses": [{"name": "g", "resourceClaimName": "made"}]}}
    await plane.user.patch("pods", "a", status, subresource="status")
    async with plane.scheduling():
        await sleep()

    assert "was not created for pod default/a (pod is not owner)" in await plane.scheduled("a")


async def test_one_claim_named_twice_is_reserved_once():
    plane = await gpu_world()
    async with plane.scheduling():
        await plane.user.create("pods", pod("a", claims=["c", "c"]))
        await sleep()

    assert await plane.reserved_for("c") == ["pods/a"]


async def test_the_room_of_a_pod_that_cannot_be_bound_is_free_for_others():
    plane = SchedulerPlane()
    await plane.add_node("n", pods="1")
    for _ in range(9):
        plane.way.once("POST", "/a/binding", "forbidden")
    async with plane.scheduling():
        await plane.user.create("pods", pod("a"))
        await plane.user.create("pods", pod("b"))
        await sleep()

    assert await plane.placed() == {"a": "", "b": "n"}


async def test_what_a_device_takes_of_its_node_is_told_in_the_pod_and_not_given_again():
    # as 1.36 and as 1.37 have it: the server keeps the one that it knows
    takes = {
        "nodeAllocatableResourceMappings": {"cpu": {"allocationMultiplier": "5"}},
        "nodeAllocatableResources": {"cpu": {"mapping": {"deviceMultiplier": "5"}}},
    }
    plane = SchedulerPlane()
    await plane.add_gpu_nodes(nodes=0)
    await plane.add_node("n0", cpu="8")
    offered = slice_of("n0")
    offered["spec"]["devices"] = [{"name": f"gpu-{i}", **takes} for i in range(2)]
    await plane.user.create("resourceslices", offered)
    async with plane.scheduling():
        for name in ("a", "b"):
            await plane.user.create("resourceclaims", claim(name))
            await plane.user.create("pods", pod(name, claims=[name]))
            await sleep()

    (told,) = (await plane.user.get("pods", "a"))["status"]["nodeAllocatableResourceClaimStatuses"]
    assert told["resourceClaimName"] == "a"
    assert (await plane.node_of("a"), await plane.node_of("b")) == ("n0", "")
    assert "1 Insufficient cpu" in await plane.scheduled("b")
