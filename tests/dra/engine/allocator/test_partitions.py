"""Partitions of devices that draw on shared counters of their pool (DRAPartitionableDevices)."""

import msgspec
import pytest

from dra.engine.allocator.resource_slice_tracker import PoolState
from dra.model.taints import DeviceTaint
from tests.dra.engine.allocator.strategies import NODE, claim, device, exactly, first_of, inventory, slice_of
from tests.dra.engine.allocator.tables import (
    DRIVER,
    NO,
    Row,
    asking,
    consumes,
    counters,
    outcome,
    partitioned,
    share,
    shared,
    sized,
    where,
    whole,
    zone,
)
from tests.violations import for_each_case

EIGHT = [counters(memory="8Gi")]


def part(name, memory="4Gi", **fields):
    return sized(name, draws={"memory": memory}, **fields)


def of_kind(kind, found):
    """Return the device with an attribute by which selectors find it."""
    return msgspec.structs.replace(found, attributes={"kind": {"string": kind}})


def drawing(name, *found):
    return msgspec.structs.replace(sized(name), consumes_counters=list(found))


ROWS = {
    "one-partition": Row(partitioned(part("d"), sets=EIGHT), [claim(exactly())], [["r=d"]]),
    "all-partitions": Row(
        partitioned(part("d"), part("e"), sets=EIGHT), [claim(exactly(count=None))], [["r=d", "r=e"]]
    ),
    "all-partitions-are-more-than-there-is": Row(
        partitioned(part("d"), part("e"), part("f"), sets=EIGHT), [claim(exactly(count=None))], NO
    ),
    "as-many-as-the-counters-allow": Row(
        partitioned(part("d"), part("e", "6Gi"), part("f"), sets=EIGHT), [claim(exactly(count=2))], [["r=d", "r=f"]]
    ),
    "more-than-the-counters-allow": Row(
        partitioned(part("d", "6Gi"), part("e"), sets=EIGHT), [claim(exactly(count=2))], NO
    ),
    "a-tainted-partition-draws-nothing": Row(
        partitioned(
            msgspec.structs.replace(part("d", "8Gi"), taints=[DeviceTaint(key="sick", effect="NoSchedule")]),
            part("e", "8Gi"),
            sets=EIGHT,
        ),
        [claim(exactly())],
        [["r=e"]],
    ),
    "an-alternative-with-fewer-partitions": Row(
        partitioned(part("d", "8Gi"), part("e", "8Gi"), sets=EIGHT),
        [claim(first_of("r", exactly("both", count=2), exactly("one")))],
        [["r/one=d"]],
    ),
    "the-alternative-that-the-counters-allow": Row(
        partitioned(part("d"), of_kind("large", part("e", "6Gi")), of_kind("small", part("f")), sets=EIGHT),
        [
            claim(
                exactly("a", selectors=None),
                first_of(
                    "b",
                    exactly("large", selectors=where(kind="large")),
                    exactly("small", selectors=where(kind="small")),
                ),
            )
        ],
        [["a=d", "b/small=f"]],
    ),
    "several-counters-of-a-set": Row(
        partitioned(
            drawing("d", consumes(memory="4Gi", cores="6")),
            drawing("e", consumes(memory="4Gi", cores="4")),
            drawing("f", consumes(memory="4Gi", cores="2")),
            sets=[counters(memory="8Gi", cores="8")],
        ),
        [claim(exactly(count=2))],
        [["r=d", "r=f"]],
    ),
    "several-counter-sets": Row(
        partitioned(
            drawing("d", consumes("one", memory="4Gi"), consumes("two", memory="4Gi")),
            drawing("e", consumes("two", memory="2Gi")),
            drawing("f", consumes("one", memory="4Gi")),
            sets=[counters("one", memory="8Gi"), counters("two", memory="4Gi")],
        ),
        [claim(exactly(count=2))],
        [["r=d", "r=f"]],
    ),
    "counters-of-the-same-name-in-two-pools": Row(
        [
            *partitioned(part("d", "8Gi"), sets=EIGHT),
            *partitioned(part("d", "8Gi"), sets=EIGHT, pool="q"),
        ],
        [claim(exactly(count=2))],
        [["r=d", "r=q/d"]],
    ),
    "what-a-held-partition-leaves": Row(
        partitioned(part("d"), part("e", "6Gi"), part("f"), sets=EIGHT), [claim(exactly())], [["r=f"]], (whole("d"),)
    ),
    "nothing-is-left": Row(partitioned(part("d", "8Gi"), part("e"), sets=EIGHT), [claim(exactly())], NO, (whole("d"),)),
    "a-counter-that-is-overdrawn-keeps-all-partitions-of-the-pool-away": Row(
        partitioned(part("d"), drawing("e", consumes(cores="1")), sets=[counters(memory="2Gi", cores="8")]),
        [claim(exactly())],
        NO,
        (whole("d"),),
    ),
    "a-counter-that-is-overdrawn-does-not-matter-to-other-devices": Row(
        partitioned(part("d"), sized("plain"), sets=[counters(memory="2Gi")]),
        [claim(exactly())],
        [["r=plain"]],
        (whole("d"),),
    ),
    "a-partition-for-another-node-draws-too": Row(
        [
            slice_of(part("d"), name="here", count=3),
            slice_of(part("e", "6Gi"), name="there", count=3, node_name="n2"),
            slice_of(name="counters", count=3, all_nodes=True, shared_counters=EIGHT),
        ],
        [claim(exactly())],
        NO,
        (whole("e"),),
    ),
    "partitions-for-nodes-by-device": Row(
        [
            slice_of(
                msgspec.structs.replace(part("theirs"), node_name="n2"),
                msgspec.structs.replace(part("mine"), node_name="n1"),
                msgspec.structs.replace(part("zonal"), node_selector=zone("a")),
                name="devices",
                count=2,
                per_device_node_selection=True,
            ),
            slice_of(name="counters", count=2, node_selector=zone("a"), shared_counters=EIGHT),
        ],
        [claim(exactly(count=2))],
        [["r=mine", "r=zonal"]],
    ),
    "backtracking-gives-the-counters-back": Row(
        partitioned(
            of_kind("any", shared("d", draws={"memory": "8Gi"})),
            of_kind("any", sized("e")),
            of_kind("last", part("f", "8Gi")),
            sets=EIGHT,
        ),
        [claim(exactly("a", selectors=where(kind="any")), exactly("b", selectors=where(kind="last")))],
        [["a=e", "b=f"]],
    ),
    "shares-of-a-partition-draw-once": Row(
        partitioned(shared("d", draws={"memory": "8Gi"}, memory="8Gi"), sets=EIGHT),
        [claim(asking("2Gi", "a"), asking("6Gi", "b"))],
        [["a=d memory:2Gi share", "b=d memory:6Gi share"]],
    ),
    "another-share-of-a-partition-draws-nothing": Row(
        partitioned(shared("d", draws={"memory": "8Gi"}, memory="8Gi"), sets=EIGHT),
        [claim(asking("2Gi"))],
        [["r=d memory:2Gi share"]],
        (share("d", memory="1Gi"),),
    ),
    # 1.36 draws again for a device of which a share is in use that took no capacity
    "another-share-of-a-partition-without-capacity-draws-nothing-since-1.37": Row(
        partitioned(shared("d", draws={"memory": "8Gi"}), sets=EIGHT),
        [claim(exactly())],
        [["r=d share"]],
        (share("d"),),
    ),
    "a-shared-partition-in-use-leaves-nothing-for-another": Row(
        partitioned(
            of_kind("a", shared("d", draws={"memory": "8Gi"}, memory="8Gi")),
            of_kind("b", shared("e", draws={"memory": "8Gi"}, memory="8Gi")),
            sets=EIGHT,
        ),
        [claim(asking("1Gi", selectors=where(kind="b")))],
        NO,
        (share("d", memory="1Gi"),),
    ),
    "backtracking-from-a-second-share-keeps-what-the-first-drew": Row(
        partitioned(
            of_kind("red", shared("d", draws={"memory": "8Gi"})),
            of_kind("blue", sized("e")),
            of_kind("blue", sized("f", draws=None)),
            sets=EIGHT,
        ),
        [
            claim(exactly(selectors=where(kind="red")), name="a"),
            claim(
                exactly("b"),
                exactly("c", selectors=where(kind="blue")),
                exactly("d", selectors=where(kind="red")),
                constraints=[{"matchAttribute": f"{DRIVER}/kind", "requests": ["b", "c"]}],
                name="b",
            ),
        ],
        [["r=d share"], ["b=e", "c=f", "d=d share"]],
    ),
    "admin-access-draws-too": Row(
        partitioned(part("d"), part("e"), part("f"), sets=EIGHT),
        [claim(exactly(count=2, adminAccess=True), name="a"), claim(exactly(), name="b")],
        NO,
    ),
    "admin-access-to-a-partition-that-somebody-has-draws-again": Row(
        partitioned(part("d", "6Gi"), sets=EIGHT), [claim(exactly(adminAccess=True))], NO, (whole("d"),)
    ),
    "counters-that-allow-it-a-second-time-for-admin-access": Row(
        partitioned(part("d"), sets=EIGHT), [claim(exactly(adminAccess=True))], [["r=d admin"]], (whole("d"),)
    ),
}


@for_each_case([pytest.param(row, id=name) for name, row in ROWS.items()])
def test_partitions(row):
    assert outcome(row) == row.expected


@pytest.mark.parametrize(
    "slices",
    [
        pytest.param(
            partitioned(sized("d"), sets=[counters(memory="1"), counters(memory="2")]), id="a-counter-set-twice"
        ),
        pytest.param(
            [
                slice_of(sized("d"), name="a", count=3),
                slice_of(name="b", count=3, node_name=NODE, shared_counters=EIGHT),
                slice_of(name="c", count=3, node_name=NODE, shared_counters=EIGHT),
            ],
            id="a-counter-set-in-two-slices",
        ),
        pytest.param(
            partitioned(drawing("d", consumes("other", memory="1")), sized("e"), sets=EIGHT),
            id="an-unknown-counter-set",
        ),
        pytest.param(partitioned(drawing("d", consumes(cores="1")), sized("e"), sets=EIGHT), id="an-unknown-counter"),
        pytest.param(
            [
                slice_of(drawing("d", consumes("other", memory="1")), sized("e"), name="a"),
                slice_of(name="b", pool="q", node_name=NODE, shared_counters=[counters("other", memory="1")]),
            ],
            id="a-counter-set-of-another-pool",
        ),
        pytest.param(
            [
                slice_of(sized("e"), name="a", count=3),
                slice_of(drawing("d", consumes(cores="1")), name="b", count=3, node_name="n2"),
                slice_of(name="c", count=3, node_name=NODE, shared_counters=EIGHT),
            ],
            id="an-unknown-counter-on-another-node",
        ),
    ],
)
def test_a_pool_is_invalid_with(slices):
    assert outcome(Row(slices, [claim(exactly())], NO)) == NO
    assert PoolState.INVALID in [share.state for share in inventory(*slices).node_devices("n1", {}).pools]


def test_devices_of_other_pools_can_be_had_beside_an_invalid_one():
    slices = [
        *partitioned(drawing("d", consumes(cores="1")), sets=EIGHT),
        slice_of(device("e"), name="other", pool="q"),
    ]
    assert outcome(Row(slices, [claim(exactly())], None)) == [["r=q/e"]]
    refusal = "request r: asks for all devices, but resource pool gpu.example.com/p is currently invalid"
    assert outcome(Row(slices, [claim(exactly(count=None))], None)) == refusal
