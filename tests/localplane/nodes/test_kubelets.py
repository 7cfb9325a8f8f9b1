import asyncio

import pytest

from dra.model.releases import Release
from localplane.nodes.drivers import DriverError, SimulatedDriver
from localplane.nodes.kubelets import LOSE_SANDBOX, REBOOT, SILENT, Kubelets
from localplane.nodes.node_objects import EmulatedNode
from localplane.nodes.programs import STOP_SECONDS
from localplane.schemas.builtin_schemas import Dialect
from tests.localplane.components import Plane, pod, running

VIRTUAL_TIME = True


def kubelets_of(plane, *, api=Dialect.KEP, nodes=("n1", "n2"), devices=0, **options):
    specs = [EmulatedNode(name=name, devices=devices) for name in nodes]
    return Kubelets(plane.client(), nodes=specs, clock=plane.clock, random=plane.random, api=api, **options)


async def claim(plane, name, *, devices=("gpu-0",), pool="n1", listed=(), any_pod=False):
    """Create an allocated claim that lists pods by uid."""
    body = {"metadata": {"name": name}, "spec": {"devices": {"requests": [_request()]}}}
    created = await plane.user.create("resourceclaims", body)
    results = [{"request": "gpu", "driver": "gpu.example.com", "pool": pool, "device": device} for device in devices]
    allocation = {"devices": {"results": results}} | ({"reservedForAnyPod": True} if any_pod else {})
    await plane.user.patch("resourceclaims", name, {"status": {"allocation": allocation}}, subresource="status")
    if listed:
        await list_pods(plane, name, *listed)
    return created


def _request():
    return {"name": "gpu", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}


async def list_pods(plane, name, *pods):
    entries = [{"resource": "pods", "name": each["metadata"]["name"], "uid": each["metadata"]["uid"]} for each in pods]
    await plane.user.patch("resourceclaims", name, {"status": {"reservedFor": entries}}, subresource="status")


async def conditions(plane, name):
    found = (await plane.user.get("pods", name)).get("status", {})
    return {c["type"]: c["status"] for c in found.get("conditions", ())}


async def phase(plane, name):
    return (await plane.user.get("pods", name)).get("status", {}).get("phase")


async def test_nodes_are_registered_with_slices_and_leases():
    plane = Plane()
    async with running(kubelets_of(plane, devices=130)):
        await asyncio.sleep(1)
        node = await plane.user.get("nodes", "n1")
        lease = await plane.user.get("leases", "n1", namespace="kube-node-lease")
        await asyncio.sleep(30)
        renewed = await plane.user.get("leases", "n1", namespace="kube-node-lease")
        slices = await plane.user.list("resourceslices")
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "n1"
    assert node["status"]["allocatable"]["pods"] == "1k"
    assert {"type": "Ready", "status": "True"}.items() <= node["status"]["conditions"][-1].items()
    assert lease["spec"]["renewTime"] < renewed["spec"]["renewTime"]
    assert [len(each["spec"]["devices"]) for each in slices] == [128, 2, 128, 2]
    assert {each["spec"]["pool"]["resourceSliceCount"] for each in slices} == {2}


async def test_a_bound_pod_runs_and_ends():
    plane = Plane()
    async with running(kubelets_of(plane)):
        await plane.user.create("pods", pod("p", node="n1", command=("sleep", "5"), policy="Never"))
        await asyncio.sleep(1)
        running_state = await plane.user.get("pods", "p")
        assert await conditions(plane, "p") == {
            "PodReadyToStartContainers": "True",
            "Initialized": "True",
            "Ready": "True",
            "ContainersReady": "True",
            "PodScheduled": "True",
        }
        await asyncio.sleep(5)
        done = await plane.user.get("pods", "p")
    assert running_state["status"]["phase"] == "Running"
    assert running_state["status"]["podIP"].startswith("10.")
    assert done["status"]["phase"] == "Succeeded"
    assert done["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    assert {"type": "Ready", "reason": "PodCompleted"}.items() <= next(
        c for c in done["status"]["conditions"] if c["type"] == "Ready"
    ).items()


async def test_a_pod_costs_two_status_writes():
    plane = Plane()
    async with running(kubelets_of(plane, leases=False)):
        await asyncio.sleep(1)
        await plane.user.create("pods", pod("p", node="n1", command=("sleep", "5"), policy="Never"))
        created = plane.server.store.revision
        await asyncio.sleep(10)
        assert plane.server.store.revision == created + 2


async def test_a_pod_that_is_not_listed_is_refused_until_it_is():
    plane = Plane()
    async with running(kubelets_of(plane)):
        await claim(plane, "c")
        created = await plane.user.create("pods", pod("p", node="n1", claims=["c"]))
        await asyncio.sleep(1)
        assert (await conditions(plane, "p"))["PodReadyToStartContainers"] == "False"
        await list_pods(plane, "c", created)
        await asyncio.sleep(30)
        assert await phase(plane, "p") == "Pending"
        await asyncio.sleep(61)
        assert await phase(plane, "p") == "Running"
        events = await plane.user.list("events")
    why = "Failed to prepare dynamic resources: prepare dynamic resources: "
    claim_uid = (await plane.user.get("resourceclaims", "c"))["metadata"]["uid"]
    assert [(event["reason"], event["note"]) for event in events] == [
        (
            "FailedPrepareDynamicResources",
            why + f"pod p ({created['metadata']['uid']}) is not allowed to use ResourceClaim c ({claim_uid})",
        )
    ]


async def test_a_refused_pod_that_is_touched_is_tried_at_once():
    plane = Plane()
    async with running(kubelets_of(plane)):
        await claim(plane, "c")
        created = await plane.user.create("pods", pod("p", node="n1", claims=["c"]))
        await asyncio.sleep(1)
        await list_pods(plane, "c", created)
        await plane.user.patch("pods", "p", {"metadata": {"annotations": {"touched": "1"}}})
        await asyncio.sleep(1)
        assert await phase(plane, "p") == "Running"


@pytest.mark.parametrize(("api", "expected"), [(Dialect.KEP, "Running"), (Dialect.STOCK, "Pending")])
async def test_any_pod_may_use_a_claim_that_says_so_where_the_api_knows_that(api, expected):
    plane = Plane()
    async with running(kubelets_of(plane, api=api)):
        await claim(plane, "c", any_pod=True)
        await plane.user.create("pods", pod("p", node="n1", claims=["c"]))
        await asyncio.sleep(1)
        assert await phase(plane, "p") == expected


async def test_a_claim_generated_for_another_pod_is_refused():
    plane = Plane()
    async with running(kubelets_of(plane)):
        await claim(plane, "c", any_pod=True)
        body = pod("p", node="n1")
        body["spec"]["resourceClaims"] = [{"name": "own", "resourceClaimTemplateName": "t"}]
        await plane.user.create("pods", body)
        await asyncio.sleep(1)
        statuses = [{"name": "own", "resourceClaimName": "c"}]
        await plane.user.patch("pods", "p", {"status": {"resourceClaimStatuses": statuses}}, subresource="status")
        await asyncio.sleep(100)
        notes = [event["note"].rpartition("resources: ")[2] for event in await plane.user.list("events")]
    assert notes == [
        'pod "default/p": ResourceClaim not created yet',
        "ResourceClaim default/c was not created for Pod default/p (Pod is not owner)",
    ]


async def test_what_is_prepared_stays_until_the_last_pod_of_the_node_has_ended():
    plane = Plane()
    kubelets = kubelets_of(plane)
    async with running(kubelets):
        await claim(plane, "c", any_pod=True)
        for name, seconds in (("a", "10"), ("b", "20")):
            command = ("sleep", seconds)
            await plane.user.create("pods", pod(name, node="n1", claims=["c"], command=command, policy="Never"))
        await asyncio.sleep(15)
        assert [len(each.pods) for _, each in kubelets.dra_manager] == [1]
        await asyncio.sleep(10)
        assert not list(kubelets.dra_manager)


class SlowDriver(SimulatedDriver):
    """Takes a minute for what it undoes, or fails after that."""

    fails = False

    async def unprepare(self, node, claims):
        await asyncio.sleep(60)
        if self.fails:
            raise DriverError("device busy")
        await super().unprepare(node, claims)


def handing_over(release, *, fails=False):
    """Return a plane, kubelets of a release and their driver."""
    plane, driver = Plane(), SlowDriver(frozenset({"n1"}))
    driver.fails = fails
    return plane, kubelets_of(plane, nodes=["n1"], preparer=driver, release=release), driver


async def hand_over(plane):
    """Let the last pod of a claim end, and the next one come while the driver unprepares the claim."""
    await claim(plane, "c", any_pod=True)
    command = ("sleep", "5")
    await plane.user.create("pods", pod("a", node="n1", claims=["c"], command=command, policy="Never"))
    await asyncio.sleep(10)
    await plane.user.create("pods", pod("b", node="n1", claims=["c"]))


@pytest.mark.parametrize(
    ("release", "first", "events"),
    [
        pytest.param(Release.V1_36, "Running", [], id="1.36-lets-a-pod-join"),
        pytest.param(Release.V1_37, "Pending", ["ResourceClaim c is being unprepared"], id="1.37-refuses-it"),
    ],
)
async def test_a_claim_that_is_being_unprepared_and_its_next_pod(release, first, events):
    plane, kubelets, _ = handing_over(release)
    async with running(kubelets):
        await hand_over(plane)
        await asyncio.sleep(10)
        assert await phase(plane, "b") == first
        await asyncio.sleep(200)
        assert await phase(plane, "b") == "Running"
        notes = [event["note"].rpartition("resources: ")[2] for event in await plane.user.list("events")]
    assert notes == events


async def test_a_failing_unprepare_keeps_the_claim_from_new_pods_until_it_succeeds():
    plane, kubelets, driver = handing_over(Release.V1_37, fails=True)
    async with running(kubelets):
        await hand_over(plane)
        await asyncio.sleep(300)
        assert await phase(plane, "b") == "Pending"
        driver.fails = False
        await asyncio.sleep(300)
        assert await phase(plane, "b") == "Running"


async def test_a_claim_that_is_allocated_anew_under_a_pod_is_handed_out_with_its_old_devices():
    plane = Plane()
    kubelets = kubelets_of(plane)
    async with running(kubelets):
        await claim(plane, "c", any_pod=True, devices=["gpu-0"])
        await plane.user.create("pods", pod("a", node="n1", claims=["c"]))
        await asyncio.sleep(1)
        await plane.user.patch("resourceclaims", "c", {"status": {"allocation": None}}, subresource="status")
        anew = {
            "reservedForAnyPod": True,
            "devices": {"results": [{"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-1"}]},
        }
        await plane.user.patch("resourceclaims", "c", {"status": {"allocation": anew}}, subresource="status")
        await plane.user.create("pods", pod("b", node="n1", claims=["c"]))
        await asyncio.sleep(1)
        [(_, known)] = kubelets.dra_manager
    assert (len(known.pods), [device.name for device in known.devices]) == (2, ["gpu-0"])


async def test_the_driver_refuses_a_device_that_another_claim_holds():
    plane = Plane()
    async with running(kubelets_of(plane)):
        await claim(plane, "c", any_pod=True)
        await claim(plane, "d", any_pod=True)
        await plane.user.create("pods", pod("a", node="n1", claims=["c"]))
        await asyncio.sleep(1)
        await plane.user.create("pods", pod("b", node="n1", claims=["d"]))
        await asyncio.sleep(1)
        [event] = await plane.user.list("events")
    assert "device gpu.example.com/n1/gpu-0 is held by claim default/c" in event["note"]


async def test_a_lost_sandbox_is_told_and_made_anew_if_the_pod_is_still_listed():
    plane = Plane()
    async with running(kubelets_of(plane)):
        await claim(plane, "c")
        created = await plane.user.create("pods", pod("p", node="n1", claims=["c"]))
        await list_pods(plane, "c", created)
        await plane.user.patch("pods", "p", {"metadata": {"annotations": {"touched": "1"}}})
        await asyncio.sleep(1)
        await list_pods(plane, "c")
        await plane.user.patch("pods", "p", {"metadata": {"annotations": {LOSE_SANDBOX: "1"}}})
        await asyncio.sleep(1)
        lost = await conditions(plane, "p")
        await list_pods(plane, "c", created)
        await asyncio.sleep(91)
        found = await plane.user.get("pods", "p")
    assert (lost["PodReadyToStartContainers"], lost["Ready"]) == ("False", "False")
    assert found["status"]["phase"] == "Running"
    assert found["status"]["containerStatuses"][0]["restartCount"] == 1


async def test_a_pod_that_is_never_restarted_fails_with_its_sandbox():
    plane = Plane()
    kubelets = kubelets_of(plane)
    async with running(kubelets):
        created = await plane.user.create("pods", pod("p", node="n1", policy="Never"))
        await asyncio.sleep(1)
        kubelets.lose_sandbox(created["metadata"]["uid"])
        await asyncio.sleep(1)
        assert await phase(plane, "p") == "Failed"


async def test_a_reboot_changes_the_boot_id_and_restarts_what_is_to_be_restarted():
    plane = Plane()
    async with running(kubelets_of(plane)):
        await plane.user.create("pods", pod("p", node="n1"))
        await asyncio.sleep(1)
        before = await plane.user.get("nodes", "n1")
        await plane.user.patch("nodes", "n1", {"metadata": {"annotations": {REBOOT: "now"}}})
        await asyncio.sleep(2)
        assert (await conditions(plane, "p"))["Ready"] == "True", "nobody has heard of it yet"
        await asyncio.sleep(5)
        after = await plane.user.get("nodes", "n1")
        found = await plane.user.get("pods", "p")
    assert before["status"]["nodeInfo"]["bootID"] != after["status"]["nodeInfo"]["bootID"]
    assert found["status"]["phase"] == "Running"
    assert found["status"]["containerStatuses"][0]["restartCount"] == 1


async def test_a_silent_node_does_nothing_until_it_is_heard_of_again():
    plane = Plane()
    async with running(kubelets_of(plane)):
        await asyncio.sleep(1)
        await plane.user.patch("nodes", "n1", {"metadata": {"annotations": {SILENT: "true"}}})
        await asyncio.sleep(1)
        await plane.user.create("pods", pod("p", node="n1"))
        await asyncio.sleep(60)
        assert await phase(plane, "p") != "Running"
        await plane.user.patch("nodes", "n1", {"metadata": {"annotations": {SILENT: None}}})
        await asyncio.sleep(1)
        assert await phase(plane, "p") == "Running"


async def test_a_node_of_which_others_say_otherwise_is_written_again_after_a_moment():
    plane = Plane()
    async with running(kubelets_of(plane)):
        await asyncio.sleep(1)
        unknown = [{"type": "Ready", "status": "Unknown"}]
        await plane.user.patch("nodes", "n1", {"status": {"conditions": unknown}}, subresource="status")
        seen = []
        for _ in range(2):
            await asyncio.sleep(0.75)
            node = await plane.user.get("nodes", "n1")
            seen.append({c["type"]: c["status"] for c in node["status"]["conditions"]}["Ready"])
    assert seen == ["Unknown", "True"]


async def test_pods_that_ran_before_are_taken_over():
    plane = Plane()
    async with running(kubelets_of(plane)):
        await claim(plane, "c", any_pod=True)
        await plane.user.create("pods", pod("p", node="n1", claims=["c"], command=("sleep", "60"), policy="Never"))
        await asyncio.sleep(10)
        node = await plane.user.get("nodes", "n1")
    again = kubelets_of(plane)
    async with running(again):
        await asyncio.sleep(10)
        assert [len(each.pods) for _, each in again.dra_manager] == [1]
        assert await phase(plane, "p") == "Running"
        assert (await plane.user.get("nodes", "n1"))["status"]["nodeInfo"] == node["status"]["nodeInfo"]
        await asyncio.sleep(41)
        assert await phase(plane, "p") == "Succeeded"


async def test_a_condition_that_somebody_else_writes_stays():
    plane = Plane()
    async with running(kubelets_of(plane)):
        await plane.user.create("pods", pod("p", node="n1", command=("sleep", "5"), policy="Never"))
        await asyncio.sleep(1)
        mine = [{"type": "example.com/mine", "status": "True"}]
        await plane.user.patch("pods", "p", {"status": {"conditions": mine}}, subresource="status")
        await asyncio.sleep(10)
        found = await conditions(plane, "p")
    assert (found["example.com/mine"], found["PodScheduled"]) == ("True", "True")


async def test_a_deleted_pod_has_its_grace_period():
    plane = Plane()
    kubelets = kubelets_of(plane)
    async with running(kubelets):
        await claim(plane, "c", any_pod=True)
        await plane.user.create("pods", pod("p", node="n1", claims=["c"], annotations={STOP_SECONDS: "10"}))
        await asyncio.sleep(1)
        await plane.user.delete("pods", "p")
        await asyncio.sleep(5)
        found = await plane.user.get("pods", "p")
        assert (found["status"]["phase"], found["metadata"]["deletionGracePeriodSeconds"]) == ("Running", 30)
        assert list(kubelets.dra_manager)
        await asyncio.sleep(6)
        assert not await plane.user.names("pods")
        assert not list(kubelets.dra_manager)


async def test_a_pod_deleted_by_force_gives_its_devices_back():
    plane = Plane()
    kubelets = kubelets_of(plane)
    async with running(kubelets):
        await claim(plane, "c", any_pod=True)
        await plane.user.create("pods", pod("p", node="n1", claims=["c"], annotations={STOP_SECONDS: "10"}))
        await asyncio.sleep(1)
        await plane.user.delete("pods", "p", gracePeriodSeconds=0)
        assert not await plane.user.names("pods")
        await asyncio.sleep(5)
        assert list(kubelets.dra_manager)
        await asyncio.sleep(6)
        assert not list(kubelets.dra_manager)
