"""Where kube-scheduler 1.38 allocates otherwise than 1.37: names, fractions, versions, pools that are being updated.

`make allocator` asks the allocators of both releases all rows.
"""

import pytest

from dra.engine.allocator import AllocationFailure, ConsumedCapacityCollection, allocate, claim_to_allocate
from dra.engine.devices.allocator_releases import RELEASE_1_37, RELEASE_1_38
from dra.engine.devices.ledger import Ledger
from dra.model.slices import Device
from tests.dra.engine.allocator import strategies
from tests.dra.engine.allocator.strategies import claim, exactly, slice_of
from tests.dra.engine.allocator.tables import DRIVER, NO, Row, asking, cel, outcome, share, shared, sized, whole
from tests.violations import for_each_case

FULL = f"{DRIVER}/memory"
QUARTERS = {"default": "250m", "validRange": {"min": "250m", "step": "250m"}}
FROM_ZERO = {"default": "1", "validRange": {"min": "0", "step": "1"}}
LONG = "99999999999999999999.0.0"
UNSUPPORTED = "device gpu.example.com/p/{}: unsupported attribute value for gpu.example.com/x"
TWICE = f"capacity {FULL} is requested twice, with the domain of the driver and without it"


def wanting(name="r", **amounts):
    """Return a request for amounts by the names of capacities."""
    return exactly(name, capacity={"requests": amounts})


def one(device, request, held=()):
    return Row([slice_of(device)], [claim(request)], None, held)


def two(*attributes, distinct=False, count=2):
    devices = [Device(name=f"d{i}", attributes={"x": each} if each else None) for i, each in enumerate(attributes)]
    kind = "distinctAttribute" if distinct else "matchAttribute"
    return Row([slice_of(*devices)], [claim(exactly(count=count), constraints=[{kind: f"{DRIVER}/x"}])], None)


def versions(*texts, **fields):
    return two(*({"version": text} for text in texts), **fields)


TAKES_ALL = shared("d", memory="10")
BOTH = [["r=d0", "r=d1"]]

QUESTIONS = {
    # what is asked, the answer up to 1.37, the answer since 1.38
    "requested-with-the-domain": (one(TAKES_ALL, wanting(**{FULL: "3"})), NO, [["r=d memory:3 share"]]),
    "published-with-the-domain": (
        one(shared("d", **{FULL: "10"}), wanting(memory="3")),
        NO,
        [[f"r=d {FULL}:3 share"]],
    ),
    "requested-and-published-with-the-domain": (
        one(shared("d", **{FULL: "10"}), wanting(**{FULL: "3"})),
        [[f"r=d {FULL}:3 share"]],
        [[f"r=d {FULL}:3 share"]],
    ),
    "requested-of-another-domain": (one(TAKES_ALL, wanting(**{"other.org/memory": "3"})), NO, NO),
    "requested-under-both-names": (one(TAKES_ALL, wanting(memory="3", **{FULL: "3"})), NO, TWICE),
    "requested-under-both-names-of-a-device-without-it": (
        one(shared("d", cores="1"), wanting(memory="3", **{FULL: "3"})),
        NO,
        NO,
    ),
    "published-under-both-names": (
        one(shared("d", memory="2", **{FULL: "10"}), wanting(memory="3")),
        NO,
        [[f"r=d {FULL}:3 share"]],
    ),
    "held-with-the-domain": (
        one(TAKES_ALL, wanting(memory="3"), (share("d", **{FULL: "8"}),)),
        [["r=d memory:3 share"]],
        NO,
    ),
    "held-with-the-domain-and-enough-left": (
        one(TAKES_ALL, wanting(memory="2"), (share("d", **{FULL: "8"}),)),
        [["r=d memory:2 share"]],
        [["r=d memory:2 share"]],
    ),
    "held-under-both-names-by-two-claims": (
        one(TAKES_ALL, wanting(memory="3"), (share("d", **{FULL: "4"}), share("d", memory="4"))),
        [["r=d memory:3 share"]],
        NO,
    ),
    "requested-with-the-domain-of-a-device-that-is-not-shared": (
        one(sized("d", memory="10"), wanting(**{FULL: "3"})),
        NO,
        [["r=d"]],
    ),
    "a-fractional-step": (
        one(shared("d", policy=QUARTERS, memory="4"), asking("600m")),
        [["r=d memory:1 share"]],
        [["r=d memory:750m share"]],
    ),
    "versions-that-differ-in-build-metadata": (versions("1.0.0+a", "1.0.0+b"), NO, BOTH),
    "distinct-versions-that-differ-in-build-metadata": (versions("1.0.0+a", "1.0.0+b", distinct=True), BOTH, NO),
    "versions-that-differ-before-release": (versions("1.0.0-a", "1.0.0-b"), NO, NO),
    "distinct-versions-that-differ-before-release": (versions("1.0.0-a", "1.0.0-b", distinct=True), BOTH, BOTH),
    "a-version-with-and-without-build-metadata": (versions("1.0.0", "1.0.0+b"), NO, BOTH),
    "a-version-of-too-many-digits": (versions(LONG, LONG), BOTH, UNSUPPORTED.format("d0")),
    "a-version-of-many-digits-that-are-no-number": (
        versions(f"1.0.0-rc{'9' * 20}", f"1.0.0-rc{'9' * 20}+{'9' * 20}"),
        NO,
        BOTH,
    ),
    "the-greatest-number-of-a-version": (versions(f"{2**64 - 1}.0.0", f"{2**64 - 1}.0.0"), BOTH, BOTH),
    "a-version-of-a-number-of-65-bits": (
        versions(f"{2**64}.0.0", f"{2**64}.0.0"),
        BOTH,
        UNSUPPORTED.format("d0"),
    ),
    "an-attribute-of-an-unknown-type": (two({"decimal": "1"}, {"int": 1}), NO, UNSUPPORTED.format("d0")),
    "an-attribute-of-an-unknown-type-that-is-not-looked-at": (
        two({"int": 1}, {"int": 1}, {"decimal": "1"}),
        BOTH,
        BOTH,
    ),
    "a-device-without-the-attribute": (two(None, {"int": 1}, {"int": 1}), [["r=d1", "r=d2"]], [["r=d1", "r=d2"]]),
    "a-share-of-a-device-that-became-exclusive": (
        one(sized("d", memory="10"), asking(), (share("d", memory="1"),)),
        NO,
        NO,
    ),
    "a-whole-device-that-became-shared": (one(TAKES_ALL, asking("1"), (whole("d"),)), NO, NO),
    "a-negative-amount": (
        one(TAKES_ALL, asking("-1")),
        "capacity value -1 is negative",
        "capacity value -1 is negative",
    ),
    "a-negative-amount-that-the-policy-would-round": (
        one(shared("d", policy=FROM_ZERO, memory="4"), asking("-1")),
        "capacity value -1 is negative",  # 1.37 takes it for 0
        "capacity value -1 is negative",
    ),
}

ROWS = {name: row._replace(expected=old) for name, (row, old, _) in QUESTIONS.items()}
ROWS_1_38 = {name: row._replace(expected=new, release=RELEASE_1_38) for name, (row, _, new) in QUESTIONS.items()}


ROWS_1_38["a-selector-on-an-attribute-under-both-names"] = Row(  # 1.37 takes any of them
    [slice_of(Device(name="d", attributes={f"{DRIVER}/x": {"int": 2}, "x": {"int": 1}}))],
    [claim(exactly(selectors=cel(f'device.attributes["{DRIVER}"].x == 2')))],
    [["r=d"]],
    release=RELEASE_1_38,
)


@for_each_case([pytest.param(row, id=name) for name, row in ROWS.items()])
def test_up_to_1_37(row):
    assert outcome(row) == row.expected


@for_each_case([pytest.param(each, id=name) for name, each in ROWS_1_38.items()])
def test_since_1_38(row):
    assert outcome(row) == row.expected


@pytest.mark.parametrize(
    ("release", "fatal"), [pytest.param(RELEASE_1_37, True, id="1.37"), pytest.param(RELEASE_1_38, False, id="1.38")]
)
@pytest.mark.parametrize(
    ("slices", "state"),
    [
        pytest.param([slice_of(Device(name="d"), count=2)], "currently being updated", id="incomplete"),
        pytest.param([slice_of(Device(name="d"), Device(name="d"))], "currently invalid", id="invalid"),
    ],
)
def test_all_devices_of_a_pool_that_cannot_be_used_give_up_the_pod_or_the_node(slices, state, release, fatal):
    failure = _asked_for_all(slices, release)
    assert failure == AllocationFailure(
        f"request r: asks for all devices, but resource pool {DRIVER}/p is {state}", fatal
    )


def test_a_selector_that_fails_before_the_pool_is_looked_at_gives_up_the_pod():
    """kube-scheduler looks at one pool after the other."""
    slices = [slice_of(Device(name="d"), name="one", pool="a"), slice_of(Device(name="d"), pool="b", count=2)]
    failure = _asked_for_all(slices, RELEASE_1_38, selectors=cel(f'device.attributes["{DRIVER}"].nothing == 1'))
    assert failure.fatal


def _asked_for_all(slices, release, **fields):
    offer = strategies.inventory(*slices, release=release).node_devices(strategies.NODE, {})
    wanted = [claim_to_allocate(claim(exactly(count=None, **fields)), strategies.CLASSES)]
    return allocate(wanted, node_devices=offer, ledger=Ledger(), consumed_capacity=ConsumedCapacityCollection())
