"""Parts of shared devices."""

from fractions import Fraction

import pytest

from dra.engine.allocator.consumable_capacity import (
    ConsumedCapacityCollection,
    calculate_consumed_capacity,
    consumed_capacity_quantities,
    has_capacity_left,
)
from dra.engine.devices.allocator_releases import RELEASE_1_38
from dra.model.claims import AllocationResult, DeviceAllocationResult, DeviceRequestAllocationResult
from dra.model.slices import Device
from tests.dra.engine.allocator.strategies import DRIVER, item
from tests.violations import for_each_case

RANGE = {"default": "1", "validRange": {"min": "2", "max": "7", "step": "2"}}
VALUES = {"default": "1", "validValues": ["1", "4", "8"]}


@for_each_case(
    [
        pytest.param(None, {}, 10, id="all-of-it-unless-said"),
        pytest.param(None, {"memory": "3"}, 3, id="what-is-asked"),
        pytest.param(None, {"memory": "11"}, None, id="more-than-there-is"),
        pytest.param(None, {f"{DRIVER}/memory": "3"}, None, id="by-another-name-than-the-device-has"),
        pytest.param(None, {"other": "1"}, None, id="of-something-else"),
        pytest.param(RANGE, {}, 1, id="the-default"),
        pytest.param(RANGE, {"memory": "1"}, 2, id="at-least-the-least"),
        pytest.param(RANGE, {"memory": "3"}, 4, id="in-steps"),
        pytest.param(RANGE, {"memory": "7"}, None, id="beyond-the-most"),
        pytest.param(VALUES, {"memory": "2"}, 4, id="the-next-value"),
        pytest.param(VALUES, {"memory": "9"}, None, id="beyond-all-values"),
    ]
)
def test_a_part_is(policy, asked, taken):
    capacity = {"memory": {"value": "10", **({"requestPolicy": policy} if policy else {})}}
    shared = Device(name="d", capacity=capacity, allow_multiple_allocations=True)

    assert calculate_consumed_capacity(shared, asked, driver=DRIVER) == (None if taken is None else {"memory": taken})
    whole = Device(name="d", capacity=capacity)
    assert calculate_consumed_capacity(whole, asked, driver=DRIVER) == (None if taken is None else {})


def test_parts_are_added_up_and_given_back():
    shared = Device(name="d", capacity={"memory": {"value": "10"}}, allow_multiple_allocations=True)
    result = DeviceRequestAllocationResult(
        driver=DRIVER, pool="p", device="d", share_id="x", consumed_capacity={"memory": "6"}
    )
    allocation = AllocationResult(devices=DeviceAllocationResult(results=[result]))
    shares = ConsumedCapacityCollection()
    shares.observe_allocation("one", allocation)
    shares.observe_allocation("one", allocation)

    assert shares.consumed(item("d")) == {"memory": 6}
    assert has_capacity_left(shared, {"memory": Fraction(4)}, shares.consumed(item("d")))
    assert not has_capacity_left(shared, {"memory": Fraction(5)}, shares.consumed(item("d")))
    shares.observe_allocation("one", None)
    assert shares.consumed(item("d")) == {}


BINARY_RANGE = {"default": "1Gi", "validRange": {"min": "512Mi", "max": "3Gi", "step": "256Mi"}}
FINE_RANGE = {"default": "1", "validRange": {"min": "500m", "step": "250m"}}
MIXED_VALUES = {"default": "1Gi", "validValues": ["0.5Gi", "1Gi", "2e9"]}


@for_each_case(
    [
        pytest.param(None, None, "4Gi", id="all-of-it-as-the-device-has-it"),
        pytest.param(None, "1e3", "1e3", id="as-the-request-has-it"),
        pytest.param(None, "1500000", "1500k", id="as-the-request-has-it-but-canonical"),
        pytest.param(BINARY_RANGE, None, "1Gi", id="the-default"),
        pytest.param(BINARY_RANGE, "1M", "512Mi", id="at-least-the-least"),
        pytest.param(BINARY_RANGE, "600M", "768Mi", id="rounded-as-the-step-has-it"),
        pytest.param(FINE_RANGE, "1.1", "2", id="rounded-to-whole-numbers"),
        pytest.param(FINE_RANGE, "3", "3", id="rounded-to-a-whole-number"),
        pytest.param({"default": "1", "validRange": {"min": "0"}}, "5.5", "5500m", id="in-a-range-without-steps"),
        pytest.param(MIXED_VALUES, "1", "512Mi", id="the-next-value"),
        pytest.param(MIXED_VALUES, "1.5Gi", "2e9", id="the-next-value-in-its-own-format"),
    ]
)
def test_consumed_capacity_is_written_as_kube_scheduler_does(policy, asked, text):
    capacity = {"memory": {"value": "4Gi", **({"requestPolicy": policy} if policy else {})}}
    shared = Device(name="d", capacity=capacity, allow_multiple_allocations=True)

    requested = {} if asked is None else {"memory": asked}
    assert consumed_capacity_quantities(shared, requested, driver=DRIVER) == {"memory": text}
    assert consumed_capacity_quantities(Device(name="d", capacity=capacity), {}, driver=DRIVER) == {}


@pytest.mark.parametrize(
    ("asked", "text"), [("1.1", "1250m"), ("1.75", "1750m"), ("1.9", "2"), ("0.1", "500m")], ids=str
)
def test_consumed_capacity_may_be_in_thousandths(asked, text):
    capacity = {"memory": {"value": "4", "requestPolicy": FINE_RANGE}}
    shared = Device(name="d", capacity=capacity, allow_multiple_allocations=True)

    assert consumed_capacity_quantities(shared, {"memory": asked}, driver=DRIVER, release=RELEASE_1_38) == {
        "memory": text
    }
