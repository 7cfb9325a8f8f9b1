"""DeviceTaintRules, laid over the devices that an allocator looks at."""

import pytest

from dra.engine.allocator import AllocationFailure, ConsumedCapacityCollection, allocate
from dra.model.meta import ObjectMeta
from dra.model.slices import Device
from dra.model.taints import DeviceTaint, DeviceTaintRule, DeviceTaintRuleSpec
from tests.dra.engine.allocator.strategies import (
    DRIVER,
    NODE,
    device,
    exactly,
    inventory,
    item,
    ledger,
    slice_of,
    wanted,
)
from tests.violations import combinations, for_each_case

OFFER = slice_of(device("d0"), device("d1"))
OWN = DeviceTaint(key="dusty", effect="NoSchedule")


def rule(name="r", *, effect="NoSchedule", key="service", **selector):
    """A rule; without criteria for every device, with ``nothing=True`` for none."""
    criteria = None if selector.pop("nothing", False) else selector
    taint = DeviceTaint(key=key, effect=effect)
    return DeviceTaintRule(
        metadata=ObjectMeta(name=name), spec=DeviceTaintRuleSpec(device_selector=criteria, taint=taint)
    )


def taints(found, name="d0"):
    return [taint.key for taint in found.candidate(item(name)).device.taints or ()]


def got(found, **request):
    offer = found.node_devices(NODE, {})
    solution = allocate(
        [wanted(exactly(**request))],
        node_devices=offer,
        ledger=ledger(),
        consumed_capacity=ConsumedCapacityCollection(),
    )
    return [] if isinstance(solution, AllocationFailure) else [pick.candidate.item.device for pick in solution[0]]


@for_each_case(
    combinations(
        [
            pytest.param({}, [], id="every-device"),
            pytest.param({"nothing": True}, ["d0"], id="no-device"),
            pytest.param({"driver": DRIVER}, [], id="all-of-its-driver"),
            pytest.param({"driver": "nic.example.com"}, ["d0"], id="all-of-another-driver"),
            pytest.param({"pool": "p"}, [], id="all-of-its-pool"),
            pytest.param({"pool": "q"}, ["d0"], id="all-of-another-pool"),
            pytest.param({"device": "d0"}, ["d1"], id="by-name"),
            pytest.param({"driver": DRIVER, "pool": "p", "device": "d1"}, ["d0"], id="by-all-names"),
            pytest.param({"deviceClassName": "any"}, ["d0"], id="by-a-criterion-nobody-knows"),
            pytest.param({"effect": "NoExecute"}, [], id="a-taint-that-evicts-as-well"),
            pytest.param({"effect": "None"}, ["d0"], id="a-taint-without-effect"),
        ],
        ["rule", "slice"],
    )
)
def test_a_rule_keeps_the_devices_that_it_selects_from_being_allocated(selector, left, first):
    found = inventory(*([OFFER] if first == "slice" else []))
    found.observe_rule(rule(**selector))
    found.observe(OFFER)

    assert got(found) == left


def test_a_claim_may_tolerate_a_rule():
    found = inventory(OFFER)
    found.observe_rule(rule())

    assert got(found, tolerations=[{"key": "service", "operator": "Exists"}]) == ["d0"]


def test_a_device_has_the_taints_of_its_driver_and_of_all_rules():
    found = inventory(slice_of(Device(name="d0", taints=[OWN])))
    found.observe_rule(rule("b", key="second"))
    found.observe_rule(rule("a", key="first"))

    assert taints(found) == ["dusty", "first", "second"]


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda found: found.forget_rule("r"), id="deleted"),
        pytest.param(lambda found: found.observe_rule(rule(nothing=True)), id="without-a-selector"),
        pytest.param(lambda found: found.observe_rule(rule(device="d1")), id="about-another-device"),
    ],
)
def test_a_device_is_free_again_when_the_rule_is(end):
    found = inventory(slice_of(Device(name="d0", taints=[OWN])))
    found.observe_rule(rule(device="d0"))
    assert taints(found) == ["dusty", "service"]

    before = found.version
    end(found)

    assert taints(found) == ["dusty"]
    assert found.version > before  # whoever waits for devices looks again


def test_a_rule_that_says_nothing_new_wakes_nobody():
    found = inventory(OFFER)
    found.observe_rule(rule())
    before = found.version
    found.observe_rule(rule())
    found.forget_rule("another")

    assert found.version == before


def test_an_offer_that_was_made_before_the_rule_has_its_taints():
    found = inventory(OFFER)
    (share,) = found.node_devices(NODE, {}).pools
    found.observe_rule(rule(device="d0"))

    assert [c.device.taints is not None for c in share.candidates] == [True, False]
