"""Pods that cannot be placed: what they are told, and what wakes them."""

import pytest

from dra.model.releases import Release
from tests.localplane.components import pod
from tests.localplane.scheduler.scheduler_plane import DRIVER, SchedulerPlane, claim, device_class, sleep, slice_of

VIRTUAL_TIME = True

TAINT = {"key": "dedicated", "value": "ml", "effect": "NoSchedule"}
GREEDY = {"name": "i", "image": "busybox", "resources": {"requests": {"cpu": "9"}}}


def asking(name, cpu="4", **spec):
    body = pod(name, **spec)
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return body


async def test_a_refusal_counts_nodes_by_reason_in_upstreams_words():
    plane = SchedulerPlane()
    await plane.add_node("small", cpu="1")
    await plane.add_node("tainted", taints=[TAINT])
    await plane.add_node("cordoned", unschedulable=True)
    await plane.add_node("full", cpu="4", pods="0")
    async with plane.scheduling():
        await plane.user.create("pods", asking("a"))
        await sleep()

    assert await plane.scheduled("a") == (
        "0/4 nodes are available: 1 Insufficient cpu, 1 Too many pods, "
        "1 node(s) had untolerated taint {dedicated: ml}, 1 node(s) were unschedulable."
    )
    events = [(e["reason"], e["type"]) for e in await plane.user.list("events")]
    assert ("FailedScheduling", "Warning") in events


@pytest.mark.parametrize(
    ("how", "spec", "fits"),
    [
        pytest.param({"taints": [TAINT]}, {"tolerations": [{"operator": "Exists"}]}, True, id="tolerated"),
        pytest.param({"labels": {"a": "b"}}, {"nodeSelector": {"a": "b"}}, True, id="node-selector"),
        pytest.param({"labels": {"a": "c"}}, {"nodeSelector": {"a": "b"}}, False, id="other-label"),
        pytest.param({}, {"schedulingGates": [{"name": "x"}]}, False, id="gated"),
        pytest.param({}, {"schedulerName": "other"}, False, id="of-another-scheduler"),
        pytest.param({}, {"initContainers": [GREEDY]}, False, id="init"),
        pytest.param({}, {"overhead": {"cpu": "8"}}, False, id="overhead"),
    ],
)
async def test_a_pod_fits_a_node(how, spec, fits):
    plane = SchedulerPlane()
    await plane.add_node("n", **how)
    async with plane.scheduling():
        await plane.user.create("pods", asking("a", **spec))
        await sleep()

    assert bool(await plane.node_of("a")) is fits


async def test_a_pod_waits_for_its_claim_and_says_nothing():
    plane = SchedulerPlane()
    await plane.add_gpu_nodes()
    async with plane.scheduling():
        await plane.user.create("pods", pod("a", claims=["c"]))
        await sleep()
        assert await plane.scheduled("a") is None
        await plane.user.create("resourceclaims", claim("c"))
        await sleep(1)

    assert await plane.node_of("a")


@pytest.mark.parametrize("what", ["room", "node", "device", "class", "gate"])
async def test_a_waiting_pod_is_looked_at_when_that_comes(what):  # noqa: C901 - one case per kind of event
    plane = SchedulerPlane()
    await plane.add_node("n", cpu="4")
    await plane.user.create("resourceclaims", claim("c"))
    body = asking("a", claims=["c"] if what in {"device", "class"} else [])
    if what == "gate":
        body["spec"]["schedulingGates"] = [{"name": "x"}]
    if what == "node":
        body["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "other"}
    if what != "class":
        await plane.user.request("POST", "/apis/resource.k8s.io/v1/deviceclasses", body=device_class())
    if what == "class":
        await plane.user.create("resourceslices", slice_of("n"))
    if what == "room":
        await plane.user.create("pods", asking("first", node="n"))
    async with plane.scheduling():
        await plane.user.create("pods", body)
        await sleep(20)
        assert not await plane.node_of("a")
        match what:
            case "room":
                await plane.user.delete("pods", "first", gracePeriodSeconds=0)
            case "node":
                await plane.add_node("other", labels={"kubernetes.io/hostname": "other"})
            case "device":
                await plane.user.create("resourceslices", slice_of("n"))
            case "class":
                await plane.user.request("POST", "/apis/resource.k8s.io/v1/deviceclasses", body=device_class())
            case "gate":
                await plane.user.patch("pods", "a", {"spec": {"schedulingGates": None}})
        await sleep(15)

    assert await plane.node_of("a")


async def test_pods_of_high_priority_go_first():
    plane = SchedulerPlane()
    await plane.add_node("n", pods="1")
    priority = {"metadata": {"name": "urgent"}, "value": 1000}
    await plane.user.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body=priority)
    await plane.user.create("pods", pod("low"))
    await plane.user.create("pods", pod("high", priorityClassName="urgent"))
    async with plane.scheduling():
        await sleep()

    assert (await plane.placed()) == {"low": "", "high": "n"}


async def test_a_missing_class_is_named():
    plane = SchedulerPlane()
    await plane.add_node("n", devices=1)
    await plane.user.create("resourceclaims", claim("c"))
    async with plane.scheduling():
        await plane.user.create("pods", pod("a", claims=["c"]))
        await sleep()

    text = f"0/1 nodes are available: request gpu: device class {DRIVER} does not exist."
    assert await plane.scheduled("a") == text


async def test_a_device_taint_rule_keeps_a_device_until_it_is_gone():
    plane = SchedulerPlane()
    await plane.add_gpu_nodes(nodes=1, devices=1)
    taint = {"key": "service", "effect": "NoSchedule"}
    await plane.user.create(
        "devicetaintrules", {"metadata": {"name": "r"}, "spec": {"deviceSelector": {}, "taint": taint}}
    )
    async with plane.scheduling():
        await plane.user.create("resourceclaims", claim("c"))
        await plane.user.create("pods", pod("a", claims=["c"]))
        await sleep()
        assert await plane.scheduled("a") == "0/1 nodes are available: 1 cannot allocate all claims."
        await plane.user.delete("devicetaintrules", "r")
        await sleep()

    assert await plane.devices("c") == ["n0/gpu-0"]


@pytest.mark.parametrize(
    ("release", "ending"),
    [
        pytest.param(Release.V1_36, "all claims. still not schedulable", id="1.36"),
        pytest.param(Release.V1_37, "all claims.", id="1.37"),
    ],
)
async def test_what_post_filter_adds_where_no_claim_can_be_deallocated(release, ending):
    plane = SchedulerPlane(release=release)
    await plane.add_gpu_nodes(nodes=1, devices=1)
    async with plane.scheduling():
        await plane.user.create("resourceclaims", claim("c", count=2))
        await plane.user.create("pods", pod("a", claims=["c"]))
        await sleep()

    assert (await plane.scheduled("a")).endswith(ending)
