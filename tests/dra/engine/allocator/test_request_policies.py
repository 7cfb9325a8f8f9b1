"""Consumable capacity: shares of devices, and what request policies make of an amount (DRAConsumableCapacity)."""

import pytest

from dra.engine.devices.allocator_releases import RELEASE_1_37
from tests.dra.engine.allocator.strategies import claim, exactly, first_of, slice_of
from tests.dra.engine.allocator.tables import DRIVER, NO, Row, asking, cel, outcome, share, shared, sized, whole
from tests.violations import for_each_case

RANGE = {"default": "2", "validRange": {"min": "2", "step": "2", "max": "4"}}
ZERO = {"default": "0", "validRange": {"min": "0", "step": "2", "max": "4"}}
VALUES = {"default": "1", "validValues": ["1", "2", "4"]}
HALVES = {"default": "500m", "validRange": {"min": "500m", "step": "500m", "max": "4"}}
QUARTERS = {"default": "1", "validRange": {"min": "1", "step": "250m"}}
FRACTIONAL = RELEASE_1_37._replace(fractional=True)
SHARED_ONLY = {"selectors": cel("device.allowMultipleAllocations == true")}


def one(device, *requests, held=(), expected, **fields):
    return Row([slice_of(device)], [claim(*requests)], expected, held, **fields)


ROWS = {
    "a-share-of-a-device-without-capacity": one(shared("d"), asking(), expected=[["r=d share"]]),
    "a-request-for-a-capacity-that-the-device-does-not-have": one(shared("d"), asking("1"), expected=NO),
    "all-of-a-capacity-without-policy": one(shared("d", memory="2"), asking(), expected=[["r=d memory:2 share"]]),
    "all-of-a-capacity-is-not-there-any-more": one(
        shared("d", memory="2"), asking(), held=(share("d", memory="1"),), expected=NO
    ),
    "what-is-asked-without-policy": one(shared("d", memory="2"), asking("1"), expected=[["r=d memory:1 share"]]),
    "the-default-of-the-policy": one(
        shared("d", policy=RANGE, memory="4"), asking(), expected=[["r=d memory:2 share"]]
    ),
    "a-default-of-nothing": one(
        shared("d", policy=ZERO, memory="4"),
        asking(),
        held=(share("d", memory="4"),),
        expected=[["r=d memory:0 share"]],
    ),
    "a-default-of-nothing-and-a-request-for-more-than-the-greatest": one(
        shared("d", policy=ZERO, memory="8"), asking("5"), expected=NO
    ),
    "less-than-the-least-is-the-least": one(
        shared("d", policy=RANGE, memory="4"), asking("1"), expected=[["r=d memory:2 share"]]
    ),
    "rounded-up-to-the-next-step": one(
        shared("d", policy=RANGE, memory="4"), asking("3"), expected=[["r=d memory:4 share"]]
    ),
    "rounded-up-beyond-the-greatest": one(shared("d", policy=RANGE, memory="8"), asking("5"), expected=NO),
    "a-fraction-rounded-up-to-a-whole-step": one(
        shared("d", policy=RANGE, memory="4"), asking("2500m"), expected=[["r=d memory:4 share"]]
    ),
    "a-fractional-step": one(
        shared("d", policy=HALVES, memory="4"),
        asking("1200m"),
        expected=[["r=d memory:1500m share"]],
        release=FRACTIONAL,
    ),
    "a-fractional-step-in-whole-numbers": one(
        shared("d", policy=HALVES, memory="4"), asking("1200m"), expected=[["r=d memory:2 share"]]
    ),
    "a-fractional-least-in-whole-numbers": one(
        shared("d", policy=HALVES, memory="4"), asking("100m"), expected=[["r=d memory:500m share"]]
    ),
    "a-whole-amount-of-fractional-steps": one(
        shared("d", policy=QUARTERS, memory="4"), asking("1999m"), expected=[["r=d memory:2 share"]], release=FRACTIONAL
    ),
    "a-fraction-that-no-step-has": one(
        shared("d", policy=HALVES, memory="4"),
        asking("1200100u"),
        expected="capacity request 1200100u cannot be represented in the device's range",
        release=FRACTIONAL,
    ),
    "a-fraction-that-no-step-has-in-whole-numbers": one(
        shared("d", policy=HALVES, memory="4"), asking("1200100u"), expected=[["r=d memory:2 share"]]
    ),
    "an-amount-beyond-64-bits": one(
        shared("d", policy={"default": "1", "validRange": {"min": "1", "step": "1"}}, memory="16Ei"),
        asking("15Ei"),
        expected="capacity request 15Ei cannot be represented in the device's range",
        release=FRACTIONAL,
    ),
    "an-amount-beyond-64-bits-in-whole-numbers": one(
        shared("d", policy={"default": "1", "validRange": {"min": "1", "step": "1"}}, memory="16Ei"),
        asking("15E"),
        expected="capacity request 15E cannot be represented in the device's range",
    ),
    "one-of-the-valid-values": one(
        shared("d", policy=VALUES, memory="4"), asking("2"), expected=[["r=d memory:2 share"]]
    ),
    "rounded-up-to-the-next-valid-value": one(
        shared("d", policy=VALUES, memory="4"), asking("3"), expected=[["r=d memory:4 share"]]
    ),
    "more-than-all-valid-values": one(shared("d", policy=VALUES, memory="8"), asking("5"), expected=NO),
    "a-policy-without-default-that-does-not-allow-all-of-it": one(
        shared("d", policy={"validValues": ["1", "2"]}, memory="4"), asking(), expected=NO
    ),
    "more-than-there-is": one(shared("d", memory="2"), asking("3"), expected=NO),
    "what-others-leave": one(
        shared("d", memory="4"), asking("2"), held=(share("d", memory="2"),), expected=[["r=d memory:2 share"]]
    ),
    "more-than-others-leave": one(shared("d", memory="4"), asking("3"), held=(share("d", memory="2"),), expected=NO),
    "the-default-is-more-than-others-leave": one(
        shared("d", policy=RANGE, memory="2"), asking(), held=(share("d", memory="2"),), expected=NO
    ),
    "the-next-device-when-the-first-has-too-little-left": Row(
        [slice_of(shared("d", memory="4"), shared("e", memory="4"))],
        [claim(asking("3"))],
        [["r=e memory:3 share"]],
        (share("d", memory="2"),),
    ),
    "two-claims-share-a-device": Row(
        [slice_of(shared("d", memory="4"))],
        [claim(asking("2"), name="a"), claim(asking("2"), name="b")],
        [["r=d memory:2 share"], ["r=d memory:2 share"]],
    ),
    "goes-back-when-the-first-share-leaves-too-little-for-the-second": Row(
        [slice_of(shared("d", memory="4"), shared("e", memory="2"))],
        [claim(asking("2", "small"), asking("4", "large"))],
        [["small=e memory:2 share", "large=d memory:4 share"]],
    ),
    "a-request-has-a-device-once": one(shared("d", memory="4"), asking("1", count=2), expected=NO),
    "requests-of-a-claim-share-a-device": one(
        shared("d", memory="4"),
        asking("1", "a"),
        asking("1", "b"),
        expected=[["a=d memory:1 share", "b=d memory:1 share"]],
    ),
    "a-share-by-an-alternative": one(
        shared("d", policy=RANGE, memory="4"),
        first_of("r", asking("5", "much"), asking("1", "less")),
        expected=[["r/less=d memory:2 share"]],
    ),
    "all-devices-but-those-without-the-capacity": Row(
        [slice_of(shared("d", memory="2"), shared("e"))], [claim(asking("2", count=None))], [["r=d memory:2 share"]]
    ),
    "all-devices-but-those-with-too-little-capacity": Row(
        [slice_of(shared("d", memory="2"), shared("e", memory="1"))],
        [claim(asking("2", count=None))],
        [["r=d memory:2 share"]],
    ),
    "all-devices-beside-the-shares-of-others": Row(
        [slice_of(shared("d", memory="2"), shared("e", memory="1"))],
        [claim(asking("1", count=None))],
        [["r=d memory:1 share", "r=e memory:1 share"]],
        (share("d", memory="1"),),
    ),
    "all-devices-beside-a-share-of-the-same-claim": Row(
        [slice_of(shared("d", memory="2"), shared("e", memory="1"))],
        [claim(asking("1", "one"), asking("1", "all", count=None))],
        [["one=d memory:1 share", "all=d memory:1 share", "all=e memory:1 share"]],
    ),
    "all-devices-when-one-is-full-in-the-same-claim": Row(
        [slice_of(shared("d", memory="1"), shared("e", memory="1"))],
        [claim(asking("1", "one"), asking("1", "all", count=None))],
        NO,
    ),
    # 1.36 leaves out the device that is full, and allocates the others
    "all-devices-when-one-is-full-since-1.37": Row(
        [slice_of(shared("d", memory="1"), shared("e", memory="1"))],
        [claim(asking("1", count=None))],
        NO,
        (share("d", memory="1"),),
    ),
    "a-device-of-its-own-with-the-capacity": one(sized("d", memory="2"), asking("1"), expected=[["r=d"]]),
    "a-device-of-its-own-with-too-little-capacity": one(sized("d", memory="2"), asking("3"), expected=NO),
    "a-device-of-its-own-has-one-owner": Row(
        [slice_of(sized("d", policy=RANGE, memory="2"))],
        [claim(asking("1"), name="a"), claim(asking("1"), name="b")],
        NO,
    ),
    "a-selector-for-devices-that-are-not-shared": one(
        shared("d"), exactly(selectors=cel("device.allowMultipleAllocations == false")), expected=NO
    ),
    "a-selector-for-devices-that-are-shared": one(shared("d"), exactly(**SHARED_ONLY), expected=[["r=d share"]]),
    "a-shared-device-that-somebody-has-as-a-whole": one(
        shared("d", memory="4"), asking("1"), held=(whole("d"),), expected=NO
    ),
    # upstream's allocator gives the whole device while shares of it are in use: a double use that is refused here
    "a-device-that-is-shared-no-more-while-shares-of-it-are-in-use": one(
        sized("d", memory="4"), asking("1"), held=(share("d", memory="1"),), expected=NO
    ),
    "admin-access-takes-a-share-too": one(
        shared("d", memory="4"), asking("2", adminAccess=True), expected=[["r=d memory:2 share admin"]]
    ),
    "admin-access-to-a-share-that-is-not-there": one(
        shared("d", memory="4"), asking("2", adminAccess=True), held=(share("d", memory="3"),), expected=NO
    ),
    "a-capacity-with-a-domain-that-the-device-does-not-name": one(
        shared("d", memory="4"), exactly(capacity={"requests": {f"{DRIVER}/memory": "1"}}), expected=NO
    ),
    "of-several-capacities-those-that-are-not-asked-for-are-taken-as-a-whole": one(
        shared("d", memory="4", cores="8"), asking("1"), expected=[["r=d cores:8 memory:1 share"]]
    ),
}


@for_each_case([pytest.param(row, id=name) for name, row in ROWS.items()])
def test_shares(row):
    assert outcome(row) == row.expected
