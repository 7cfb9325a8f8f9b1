"""Pools: generations, slices that are missing, the nodes they are for, and the order in which devices are tried."""

import msgspec
import pytest

from tests.dra.engine.allocator.strategies import NODE, claim, device, exactly, slice_of
from tests.dra.engine.allocator.tables import DRIVER, NO, Row, cel, outcome, sized, whole, zone
from tests.violations import for_each_case

THEIRS = {"node_name": "n2"}


BOLD = cel(f'device.attributes["{DRIVER}"].color == "red"')
"""Fails on devices without a color."""

FAILS = f'device {DRIVER}/p/d: selector \'device.attributes["{DRIVER}"].color == "red"\': no such key: color'


def on(node, found):
    return msgspec.structs.replace(found, node_name=node)


def conditional(name):
    return msgspec.structs.replace(device(name), binding_conditions=["Ready"], binding_failure_conditions=["Failed"])


def alone(*slices, expected, count=1, **fields):
    return Row(list(slices), [claim(exactly(count=count))], expected, **fields)


ROWS = {
    "no-slices": alone(expected=NO),
    "a-slice-without-devices": alone(slice_of(), expected=NO),
    "a-device-of-the-node": alone(slice_of(device("d")), expected=[["r=d"]]),
    "a-device-of-another-node": alone(slice_of(device("d"), **THEIRS), expected=NO),
    "a-device-for-the-zone": alone(slice_of(device("d"), node_selector=zone("a")), expected=[["r=d"]]),
    "a-device-for-another-zone": alone(slice_of(device("d"), node_selector=zone("b")), expected=NO),
    "a-device-for-all-nodes": alone(slice_of(device("d"), all_nodes=True), expected=[["r=d"]]),
    "a-slice-that-says-for-no-node": alone(slice_of(device("d"), all_nodes=False), expected=NO),
    "devices-of-several-slices": alone(
        slice_of(device("e"), name="b", count=2),
        slice_of(device("d"), name="a", count=2),
        count=2,
        expected=[["r=d", "r=e"]],
    ),
    "slices-in-the-order-of-their-names": alone(
        slice_of(device("d"), name="b", count=2), slice_of(device("e"), name="a", count=2), expected=[["r=e"]]
    ),
    "devices-in-the-order-of-the-slice": alone(slice_of(device("e"), device("d")), expected=[["r=e"]]),
    "pools-in-the-order-of-their-names-wherever-they-are-for": alone(
        slice_of(device("d"), name="a", pool="q"),
        slice_of(device("d"), name="b", pool="p", all_nodes=True),
        expected=[["r=d"]],
    ),
    "drivers-in-the-order-of-their-names": alone(
        slice_of(device("d"), name="a"),
        slice_of(device("e"), name="b", pool="z", driver="a.example"),
        expected=[["r=z/e"]],
    ),
    "pools-with-binding-conditions-come-last": alone(
        slice_of(conditional("d"), device("c"), name="a"),
        slice_of(device("e"), name="b", pool="q"),
        expected=[["r=q/e"]],
    ),
    "a-pool-with-binding-conditions-keeps-its-order": alone(
        slice_of(conditional("d"), device("e")), expected=[["r=d"]]
    ),
    "the-newest-generation": alone(
        slice_of(device("d"), name="a"), slice_of(device("e"), name="b", generation=2), expected=[["r=e"]]
    ),
    "the-newest-generation-is-not-complete": alone(
        slice_of(device("d"), name="a"), slice_of(device("e"), name="b", generation=2, count=2), expected=NO
    ),
    "a-slice-is-missing": alone(slice_of(device("d"), count=2), expected=NO),
    "a-slice-is-missing-and-all-devices-are-asked-for": Row(
        [slice_of(device("d"), count=2)],
        [claim(exactly(count=None))],
        "request r: asks for all devices, but resource pool gpu.example.com/p is currently being updated",
    ),
    "the-missing-slice-of-another-node-is-missed": alone(
        slice_of(device("d"), name="a", count=3), slice_of(device("e"), name="b", count=3, **THEIRS), expected=NO
    ),
    "all-slices-of-a-pool-for-several-nodes": Row(
        [slice_of(device("d"), name="a", count=2), slice_of(device("e"), name="b", count=2, **THEIRS)],
        [claim(exactly(count=None))],
        [["r=d"]],
    ),
    "the-rest-of-an-old-generation": alone(
        slice_of(device("d"), name="a", count=2),
        slice_of(device("e"), name="b", count=2, generation=2, **THEIRS),
        expected=NO,
    ),
    "a-pool-that-came-to-the-node": alone(
        slice_of(device("d"), name="a", **THEIRS), slice_of(device("d"), name="b", generation=2), expected=[["r=d"]]
    ),
    "a-pool-that-is-coming-to-the-node": alone(
        slice_of(device("d"), name="a", **THEIRS), slice_of(device("d"), name="b", generation=2, count=2), expected=NO
    ),
    # upstream allocates from the generation that the pool had on the node, and would rather not
    "a-pool-that-went-to-another-node": alone(
        slice_of(device("d"), name="a"), slice_of(device("d"), name="b", generation=2, **THEIRS), expected=NO
    ),
    "a-device-twice": alone(
        slice_of(device("d"), name="a", count=2), slice_of(device("d"), name="b", count=2), expected=NO
    ),
    "a-device-twice-elsewhere": alone(
        slice_of(device("d"), name="a", count=3),
        slice_of(device("e"), name="b", count=3, **THEIRS),
        slice_of(device("e"), name="c", count=3, **THEIRS),
        expected=[["r=d"]],
    ),
    "a-device-of-the-same-name-on-another-node": alone(
        slice_of(device("d"), name="a", count=2), slice_of(device("d"), name="b", count=2, **THEIRS), expected=[["r=d"]]
    ),
    "devices-of-several-pools": alone(
        slice_of(device("d"), name="a"), slice_of(device("d"), name="b", pool="q"), count=2, expected=[["r=d", "r=q/d"]]
    ),
    "a-device-of-another-pool-when-the-first-is-held": alone(
        slice_of(device("d"), name="a"),
        slice_of(device("d"), name="b", pool="q"),
        held=(whole("d"),),
        expected=[["r=q/d"]],
    ),
    "a-device-of-another-node-in-a-slice-for-both": Row(
        [
            slice_of(
                on(THEIRS["node_name"], device("d", color="red")),
                on(NODE, device("e", color="red")),
                per_device_node_selection=True,
            )
        ],
        [claim(exactly(selectors=BOLD))],
        [["r=e"]],
    ),
    "a-selector-fails-on-a-device-of-another-node-in-a-slice-for-both": Row(
        [
            slice_of(
                on(THEIRS["node_name"], device("d")), on(NODE, device("e", color="red")), per_device_node_selection=True
            )
        ],
        [claim(exactly(selectors=BOLD))],
        FAILS,
    ),
    "a-selector-fails-on-a-device-of-another-node-that-is-held": Row(
        [
            slice_of(
                on(THEIRS["node_name"], device("d")), on(NODE, device("e", color="red")), per_device_node_selection=True
            )
        ],
        [claim(exactly(selectors=BOLD))],
        [["r=e"]],
        (whole("d"),),
    ),
    "all-when-a-selector-fails-on-a-device-of-another-node": Row(
        [
            slice_of(
                on(NODE, device("e", color="red")), on(THEIRS["node_name"], device("d")), per_device_node_selection=True
            )
        ],
        [claim(exactly(count=None, selectors=BOLD))],
        FAILS,
    ),
    "a-selector-is-not-asked-about-slices-for-other-nodes-alone": Row(
        [
            slice_of(on(THEIRS["node_name"], device("d")), name="a", pool="p", count=2, per_device_node_selection=True),
            slice_of(device("e", color="red"), name="b", pool="p", count=2),
        ],
        [claim(exactly(selectors=BOLD))],
        [["r=e"]],
    ),
    "a-held-device-that-nobody-offers": alone(slice_of(device("d")), held=(whole("gone"),), expected=[["r=d"]]),
    "two-devices-of-three-that-the-second-request-leaves": Row(
        [slice_of(sized("d", memory="2"), sized("e", memory="1"), sized("f", memory="1"))],
        [claim(exactly("a", count=2), exactly("b", capacity={"requests": {"memory": "2"}}))],
        [["a=e", "a=f", "b=d"]],
    ),
}


@for_each_case([pytest.param(row, id=name) for name, row in ROWS.items()])
def test_pools(row):
    assert outcome(row) == row.expected
