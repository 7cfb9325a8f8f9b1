"""Constraints: attributes of one value and of several (DRAListTypeAttributes), shared and distinct."""

import pytest

from dra.model.slices import Device
from tests.dra.engine.allocator.strategies import claim, exactly, slice_of
from tests.dra.engine.allocator.tables import DRIVER, NO, Row, asking, outcome, sized
from tests.violations import for_each_case

NAME = f"{DRIVER}/x"


def row(attributes, expected, *, distinct=False, requests=("a", "b"), shared=False):
    """Return a search for as many requests over devices d0, d1, …"""
    devices = [
        Device(name=f"d{i}", attributes={"x": each} if each else None, allow_multiple_allocations=shared)
        for i, each in enumerate(attributes)
    ]
    kind = "distinctAttribute" if distinct else "matchAttribute"
    return Row([slice_of(*devices)], [claim(*map(exactly, requests), constraints=[{kind: NAME}])], expected)


BOTH = [["a=d0", "b=d1"]]
PAIRS = {
    # the values of d0, of d1; whether both can be had with matchAttribute, with distinctAttribute
    "the-same-string": ({"string": "v"}, {"string": "v"}, True, False),
    "different-strings": ({"string": "v"}, {"string": "w"}, False, True),
    "the-same-int": ({"int": 1}, {"int": 1}, True, False),
    "different-ints": ({"int": 1}, {"int": 2}, False, True),
    "the-same-bool": ({"bool": True}, {"bool": True}, True, False),
    "different-bools": ({"bool": True}, {"bool": False}, False, True),
    "the-same-version": ({"version": "1.0.0"}, {"version": "1.0.0"}, True, False),
    "different-versions": ({"version": "1.0.0"}, {"version": "2.0.0"}, False, True),
    "a-string-and-a-version": ({"string": "1.0.0"}, {"version": "1.0.0"}, False, True),
    "an-int-and-a-bool": ({"int": 1}, {"bool": True}, False, True),
    "one-device-without-the-attribute": ({"string": "v"}, None, False, False),
    "lists-with-a-value-in-common": ({"strings": ["a", "b"]}, {"strings": ["b", "c"]}, True, False),
    "lists-without-a-value-in-common": ({"strings": ["a", "b"]}, {"strings": ["c"]}, False, True),
    "a-value-in-a-list": ({"string": "a"}, {"strings": ["b", "a"]}, True, False),
    "a-value-not-in-a-list": ({"strings": ["a", "b"]}, {"string": "c"}, False, True),
    "lists-of-ints": ({"ints": [1, 2]}, {"ints": [2]}, True, False),
    "lists-of-bools": ({"bools": [True]}, {"bools": [False]}, False, True),
    "lists-of-versions": ({"versions": ["1.0.0", "2.0.0"]}, {"version": "2.0.0"}, True, False),
    "lists-of-different-types": ({"ints": [1]}, {"strings": ["1"]}, False, True),
    "an-empty-list": ({"strings": ["a"]}, {"strings": []}, False, False),
    "a-type-that-is-not-known": ({"string": "a"}, {"decimal": "a"}, False, False),
}


@for_each_case([pytest.param(*each, id=name) for name, each in PAIRS.items()])
def test_two_devices(one, other, match, distinct):
    assert outcome(row([one, other], BOTH)) == (BOTH if match else NO)
    assert outcome(row([one, other], BOTH, distinct=True)) == (BOTH if distinct else NO)


def lists(*each):
    return [{"strings": list(values)} for values in each]


ROWS = {
    "all-lists-have-one-value-in-common": row(lists("ab", "bc", "bd"), [["a=d0", "b=d1", "c=d2"]], requests="abc"),
    "lists-that-meet-in-pairs-only": row(lists("ab", "bc", "ca"), NO, requests="abc"),
    "goes-back-to-a-list-that-meets-the-others": row(
        lists("a", "bc", "cd", "ce"), [["a=d1", "b=d2", "c=d3"]], requests="abc"
    ),
    "lists-that-are-disjoint-in-pairs": row(
        lists("ab", "bc", "cd", "ef"), [["a=d0", "b=d2", "c=d3"]], requests="abc", distinct=True
    ),
    # 1.36 compares the devices of a request with the last one of them only
    "distinct-among-all-devices-of-a-request-since-1.37": Row(
        [slice_of(*(sized(f"d{i}", attributes={"x": {"string": v}}) for i, v in enumerate("aba")))],
        [claim(exactly(count=3), constraints=[{"distinctAttribute": NAME}])],
        NO,
    ),
    "shares-of-one-device-are-not-distinct": row([{"string": "a"}], NO, distinct=True, shared=True),
    "shares-of-one-device-match": row([{"string": "a"}], [["a=d0 share", "b=d0 share"]], shared=True),
    "shares-of-distinct-devices": row(
        [{"string": "a"}, {"string": "b"}], [["a=d0 share", "b=d1 share"]], distinct=True, shared=True
    ),
    "an-attribute-of-the-drivers-domain": Row(
        [slice_of(sized("d", attributes={NAME: {"int": 1}}), sized("e", attributes={"x": {"int": 1}}))],
        [claim(exactly(count=2), constraints=[{"matchAttribute": NAME}])],
        [["r=d", "r=e"]],
    ),
    "an-attribute-of-another-domain": Row(
        [slice_of(sized("d", attributes={"x": {"int": 1}}))],
        [claim(exactly(), constraints=[{"matchAttribute": "other.org/x"}])],
        NO,
    ),
    "a-constraint-on-other-requests": Row(
        [slice_of(sized("d", attributes={"x": {"int": 1}}), sized("e"))],
        [claim(exactly("a"), exactly("b"), constraints=[{"matchAttribute": NAME, "requests": ["a"]}])],
        [["a=d", "b=e"]],
    ),
    "all-with-a-constraint-ends-the-search-though-a-device-is-full-too": Row(
        [slice_of(sized("d", memory="1", allow_multiple_allocations=True, attributes={"x": {"int": 1}}))],
        [claim(asking("1", "a"), asking("1", "b", count=None), constraints=[{"distinctAttribute": NAME}])],
        "request b: cannot add device gpu.example.com/p/d because a claim constraint would not be satisfied",
    ),
    "several-constraints": Row(
        [
            slice_of(
                sized("d", attributes={"x": {"int": 1}, "y": {"int": 1}}),
                sized("e", attributes={"x": {"int": 1}, "y": {"int": 1}}),
                sized("f", attributes={"x": {"int": 1}, "y": {"int": 2}}),
            )
        ],
        [claim(exactly(count=2), constraints=[{"matchAttribute": NAME}, {"distinctAttribute": f"{DRIVER}/y"}])],
        [["r=d", "r=f"]],
    ),
}


@for_each_case([pytest.param(row, id=name) for name, row in ROWS.items()])
def test_constraints(row):
    assert outcome(row) == row.expected
