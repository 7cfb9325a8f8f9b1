"""Pools whose devices cannot be allocated are named with the reason, and their devices are not free."""

import pytest

from dra.cli.kubectl.diagnosis.get import device_row
from dra.engine.diagnosis.audit import audit
from dra.engine.diagnosis.devices import DeviceObstacle, devices
from dra.engine.diagnosis.problem_codes import ProblemCode
from tests.dra.engine.diagnosis.cluster_states import (
    DRIVER,
    claim,
    cluster_state,
    entry,
    node,
    offer,
    offer_partitions,
    rule,
)


def part(name, *, count=2, devices=("gpu-0",), generation=1, created="2026-11-20T10:00:00Z", **spec):
    found = offer("n1", 0, generation=generation, resourceSliceCount=count)
    found["metadata"] = {"name": name, "resourceVersion": "1", "creationTimestamp": created}
    found["spec"] |= {"devices": [{"name": each} if isinstance(each, str) else each for each in devices], **spec}
    return found


CONSUMER = {"name": "m-0", "consumesCounters": [{"counterSet": "missing", "counters": {"c": {"value": "1"}}}]}
COUNTERS = [{"name": "s", "counters": {"c": {"value": "1"}}}]


@pytest.mark.parametrize(
    ("slices", "code", "cause", "states"),
    [
        pytest.param(
            [part("a")],
            ProblemCode.POOL_INCOMPLETE,
            "1 of 2 slices of generation 1 exist",
            [DeviceObstacle.POOL_INCOMPLETE],
            id="a-slice-is-missing",
        ),
        pytest.param(
            [part("a", generation=7, count=3), part("b", generation=7, count=3, devices=("gpu-1",)), part("c")],
            ProblemCode.POOL_INCOMPLETE,
            "2 of 3 slices of generation 7 exist",
            [DeviceObstacle.POOL_INCOMPLETE] * 2,
            id="an-update-that-does-not-end",
        ),
        pytest.param(
            [part("a", count=1), part("b", count=1, devices=("gpu-1",))],
            ProblemCode.POOL_INCOMPLETE,
            "2 of 1 slices of generation 1 exist",
            [DeviceObstacle.POOL_INCOMPLETE] * 2,
            id="more-slices-than-there-should-be",
        ),
        pytest.param(
            [part("a", count=1, devices=("gpu-0", "gpu-0"))],
            ProblemCode.POOL_INVALID,
            "it has several devices of one name: gpu-0",
            [DeviceObstacle.POOL_INVALID],
            id="two-devices-of-one-name",
        ),
        pytest.param(
            [part("a", count=1, devices=(CONSUMER,))],
            ProblemCode.POOL_INVALID,
            "its devices consume counters that it lacks: missing/c",
            [DeviceObstacle.POOL_INVALID],
            id="an-unknown-counter-set",
        ),
        pytest.param(
            [part("a", count=1, sharedCounters=COUNTERS * 2)],
            ProblemCode.POOL_INVALID,
            "it has several counter sets of one name: s",
            [DeviceObstacle.POOL_INVALID],
            id="two-counter-sets-of-one-name",
        ),
    ],
)
def test_a_pool_that_cannot_be_allocated_from_is_named_with_the_reason(slices, code, cause, states):
    state = cluster_state(slices=slices, nodes=[node("n1")])
    (problem,) = audit(state)
    facts = problem.facts_by_name
    assert (problem.code, str(problem.subject)) == (code, f"pool {DRIVER}/n1")
    assert (facts["cause"], facts["since"], facts["where"]) == (cause, "2026-11-20T10:00:00Z", " on node n1")
    assert [each.obstacle for each in devices(state)] == states
    assert not any(each.free for each in devices(state))


def test_slices_that_disagree_on_their_number_are_told_as_such():
    state = cluster_state(slices=[part("a", count=2), part("b", count=3, devices=("gpu-1",))], nodes=[node("n1")])
    causes = [each.facts_by_name["cause"] for each in audit(state)]
    assert causes in ([], ["its slices disagree on their number (2, 3)"])  # kube-scheduler believes one of them


@pytest.mark.parametrize(
    ("more", "obstacle", "free"),
    [
        pytest.param({"nodes": [node("n1")]}, DeviceObstacle.NONE, True, id="a-free-device"),
        pytest.param({"nodes": [node("n1", ready=False)]}, DeviceObstacle.NODE_NOT_READY, False, id="not-ready"),
        pytest.param({"nodes": [node("n1", cordoned=True)]}, DeviceObstacle.NODE_CORDONED, False, id="cordoned"),
        pytest.param(
            {"nodes": [node("n1", ready=False, cordoned=True)]},
            DeviceObstacle.NODE_NOT_READY,
            False,
            id="not-ready-and-cordoned",
        ),
        pytest.param({"nodes": [node("n1")], "rules": [rule()]}, DeviceObstacle.NONE, False, id="tainted"),
        pytest.param(
            {"nodes": [node("n1")], "rules": [rule(effect="None")]},
            DeviceObstacle.NONE,
            True,
            id="marked-without-effect",
        ),
    ],
)
def test_a_device_that_no_claim_can_get_is_not_free(more, obstacle, free):
    (device,) = devices(cluster_state(slices=[offer("n1", 1)], **more))
    assert (device.obstacle, device.free) == (obstacle, free)


def test_a_device_that_is_held_on_a_cordoned_node_stays_held():
    state = cluster_state(claim("c", "n1/gpu-0"), slices=[offer("n1", 1)], nodes=[node("n1", cordoned=True)])
    assert [each.holders for each in devices(state)] == [(("ml", "c"),)]


def test_a_held_device_that_the_next_slice_may_offer_is_not_called_gone():
    cluster = cluster_state(
        claim("c", "n1/gpu-7", listed=(entry("a"),)), slices=[offer("n1", generation=2, resourceSliceCount=2)]
    )
    (held,) = (found for found in devices(cluster) if found.holders)
    assert (held.offered, held.obstacle) == (False, DeviceObstacle.POOL_INCOMPLETE)
    assert device_row(held).cells[-1] == "Incomplete"


@pytest.mark.parametrize(
    ("held", "states"),
    [
        pytest.param((), ["Free", "Free", "Free"], id="nothing-is-held"),
        pytest.param(("n1/gpu-0",), ["Held", "CountersUsed", "CountersUsed"], id="the-whole-card"),
        pytest.param(("n1/gpu-1",), ["CountersUsed", "Held", "Free"], id="one-part-of-two"),
        pytest.param(("n1/gpu-1", "n1/gpu-2"), ["CountersUsed", "Held", "Held"], id="both-parts"),
    ],
)
def test_a_device_whose_counters_are_used_up_by_held_devices_is_not_free(held, states):
    held_devices = [claim(f"c{number}", device) for number, device in enumerate(held)]
    state = cluster_state(*held_devices, slices=[offer_partitions("n1")], nodes=[node("n1")])
    assert [device_row(each).cells[-1] for each in devices(state)] == states
    assert [each.free for each in devices(state)] == [each == "Free" for each in states]


def test_who_observes_a_card_with_admin_access_uses_up_no_counter():
    observer = claim("c", "n1/gpu-0")
    observer["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    state = cluster_state(observer, slices=[offer_partitions("n1")], nodes=[node("n1")])
    assert all(each.free for each in devices(state))


def test_a_part_on_a_node_that_is_not_ready_names_the_node_first():
    state = cluster_state(claim("c", "n1/gpu-0"), slices=[offer_partitions("n1")], nodes=[node("n1", ready=False)])
    assert {each.obstacle for each in devices(state)} == {DeviceObstacle.NODE_NOT_READY}


def test_counters_in_a_slice_of_their_own_are_used_up_alike():
    cards = offer_partitions("n1")
    counters = part("counters", count=2, devices=(), sharedCounters=cards["spec"].pop("sharedCounters"))
    cards["spec"]["pool"]["resourceSliceCount"] = 2
    state = cluster_state(claim("c", "n1/gpu-0"), slices=[cards, counters], nodes=[node("n1")])
    assert [device_row(each).cells[-1] for each in devices(state)] == ["Held", "CountersUsed", "CountersUsed"]
