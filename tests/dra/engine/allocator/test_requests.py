"""Requests: all devices, alternatives, admin access, taints, the limit of 32, and what a claim is told of devices."""

import msgspec
import pytest

from dra.engine.allocator import UnsatisfiableError, claim_to_allocate
from dra.model.device_classes import DeviceClass, DeviceClassSpec
from dra.model.meta import ObjectMeta
from dra.model.taints import DeviceTaint
from tests.dra.engine.allocator.strategies import CLASSES, claim, device, exactly, first_of, slice_of, wanted
from tests.dra.engine.allocator.tables import DRIVER, NO, Row, cel, outcome, sized, where, whole
from tests.dra.engine.allocator.test_allocation_results import OPAQUE, written
from tests.violations import for_each_case

TWO = [slice_of(device("d"), device("e"))]
COLORED = [slice_of(device("d", color="red"), device("e", color="red"), device("f", color="blue"))]
MANY = [slice_of(*(device(f"d{i:02}") for i in range(40)))]
KEYS = [{"matchAttribute": f"{DRIVER}/color"}]


def admin(name="r", **fields):
    return exactly(name, adminAccess=True, **fields)


def first(number):
    return [f"d{i:02}" for i in range(number)]


def tainted(name, *keys, effect="NoSchedule"):
    return msgspec.structs.replace(device(name), taints=[DeviceTaint(key=k, value="v", effect=effect) for k in keys])


def tolerating(*keys, **fields):
    return exactly(tolerations=[{"key": key, "operator": "Exists"} for key in keys], **fields)


ROWS = {
    "all-when-one-is-held": Row(TWO, [claim(exactly(count=None))], NO, (whole("d"),)),
    "all-when-there-are-none": Row([slice_of()], [claim(exactly(count=None))], NO),
    "all-of-a-class-that-has-none": Row(TWO, [claim(exactly(cls="red", count=None))], NO),
    "all-and-another-claim": Row(
        COLORED, [claim(exactly(cls="red", count=None)), claim(exactly(), name="b")], [["r=d", "r=e"], ["r=f"]]
    ),
    "another-claim-and-all": Row(
        COLORED,
        [claim(exactly(selectors=where(color="blue"))), claim(exactly(cls="red", count=None), name="b")],
        [["r=f"], ["r=d", "r=e"]],
    ),
    "all-after-a-claim-that-has-one-of-them": Row(TWO, [claim(exactly()), claim(exactly(count=None), name="b")], NO),
    "all-goes-back-to-the-request-before": Row(
        [slice_of(device("d", color="red"), device("f", color="blue"))],
        [claim(exactly("a"), exactly("b", cls="red", count=None))],
        [["a=f", "b=d"]],
    ),
    "an-alternative-when-not-all-can-be-had": Row(
        COLORED,
        [claim(first_of("r", exactly("all", cls="red", count=None), exactly("one")))],
        [["r/one=e"]],
        (whole("d"),),
    ),
    "an-alternative-when-there-are-none-for-all": Row(
        TWO, [claim(first_of("r", exactly("all", cls="red", count=None), exactly("one")))], [["r/one=d"]]
    ),
    "the-first-alternative": Row(TWO, [claim(first_of("r", exactly("a"), exactly("b")))], [["r/a=d"]]),
    "the-second-alternative": Row(TWO, [claim(first_of("r", exactly("a", cls="red"), exactly("b")))], [["r/b=d"]]),
    "no-alternative": Row(TWO, [claim(first_of("r", exactly("a", cls="red"), exactly("b", count=3)))], NO),
    "alternatives-of-two-requests": Row(
        COLORED,
        [
            claim(
                first_of("a", exactly("x", cls="red", count=3), exactly("y", cls="red", count=2)),
                first_of("b", exactly("x", cls="red"), exactly("y")),
            )
        ],
        [["a/y=d", "a/y=e", "b/y=f"]],
    ),
    "a-worse-alternative-so-that-the-next-request-gets-something": Row(
        TWO, [claim(first_of("a", exactly("two", count=2), exactly("one")), exactly("b"))], [["a/one=d", "b=e"]]
    ),
    "alternatives-of-two-claims": Row(
        TWO,
        [claim(first_of("r", exactly("two", count=2), exactly("one"))), claim(exactly(), name="b")],
        [["r/one=d"], ["r=e"]],
    ),
    "a-constraint-on-a-request-with-alternatives": Row(
        COLORED,
        [
            claim(
                exactly("a", selectors=where(color="blue")),
                first_of("b", exactly("x", cls="red"), exactly("y", count=1)),
                constraints=[{"matchAttribute": f"{DRIVER}/color", "requests": ["a", "b"]}],
            )
        ],
        NO,
    ),
    "a-constraint-on-one-alternative": Row(
        COLORED,
        [
            claim(
                exactly("a", selectors=where(color="blue")),
                first_of("b", exactly("x", cls="red"), exactly("y", cls="red")),
                constraints=[{"matchAttribute": f"{DRIVER}/color", "requests": ["a", "b/x"]}],
            )
        ],
        [["a=f", "b/y=d"]],
    ),
    "all-with-a-constraint-that-they-do-not-satisfy": Row(
        COLORED,
        [claim(exactly(count=None), constraints=KEYS)],
        "request r: cannot add device gpu.example.com/p/f because a claim constraint would not be satisfied",
    ),
    # d and e are alike, but which of them is left decides what the request for all meets first: one that is in use, or
    # one that the constraint refuses, and only the latter ends the search
    "all-with-a-constraint-meets-devices-in-their-order": Row(
        COLORED,
        [
            claim(
                exactly("a", selectors=where(color="blue")),
                exactly("b"),
                exactly("c", cls="red", count=None),
                constraints=[{"matchAttribute": f"{DRIVER}/color", "requests": ["a", "c"]}],
            )
        ],
        "request c: cannot add device gpu.example.com/p/d because a claim constraint would not be satisfied",
    ),
    "all-with-a-constraint-ends-the-search-before-the-next-alternative": Row(
        COLORED,
        [claim(first_of("r", exactly("all", count=None), exactly("one")), constraints=KEYS)],
        "request r/all: cannot add device gpu.example.com/p/f because a claim constraint would not be satisfied",
    ),
    "all-in-an-alternative-that-would-not-be-needed-while-a-pool-is-updated": Row(
        [*TWO, slice_of(device("x"), name="t", pool="q", count=2)],
        [claim(first_of("r", exactly("one"), exactly("all", count=None)))],
        "request r/all: asks for all devices, but resource pool gpu.example.com/q is currently being updated",
    ),
    "admin-access-to-held-devices": Row(TWO, [claim(admin(count=2))], [["r=d admin", "r=e admin"]], (whole("d"),)),
    "admin-access-to-all-devices": Row(
        TWO, [claim(admin(count=None))], [["r=d admin", "r=e admin"]], (whole("d"), whole("e"))
    ),
    "admin-access-to-more-than-there-are": Row(TWO, [claim(admin(count=3))], NO),
    "admin-access-to-all-beside-one-of-the-same-claim": Row(TWO, [claim(admin("a"), admin("b", count=None))], NO),
    "admin-access-of-two-requests-of-a-claim": Row(TWO, [claim(admin("a"), admin("b"))], [["a=d admin", "b=e admin"]]),
    "admin-access-of-two-claims": Row(TWO, [claim(admin()), claim(admin(), name="b")], [["r=d admin"], ["r=d admin"]]),
    "admin-access-to-what-another-claim-gets": Row(
        TWO, [claim(exactly()), claim(admin(), name="b")], [["r=d"], ["r=d admin"]]
    ),
    "what-admin-access-of-another-claim-gets-is-in-use": Row(
        TWO, [claim(admin()), claim(exactly(), name="b")], [["r=d admin"], ["r=e"]]
    ),
    "all-after-admin-access-to-one-of-them": Row(TWO, [claim(admin()), claim(exactly(count=None), name="b")], NO),
    "admin-access-beside-a-request-of-the-same-claim": Row(
        TWO, [claim(exactly("a"), admin("b"))], [["a=d", "b=e admin"]]
    ),
    "thirty-two-devices": Row(MANY, [claim(exactly(count=32))], [[f"r={d}" for d in first(32)]]),
    "thirty-three-devices-of-two-requests-with-alternatives": Row(
        MANY,
        [claim(exactly("a", count=30), first_of("b", exactly("x", count=3), exactly("y", count=2)))],
        [[*(f"a={d}" for d in first(30)), "b/y=d30", "b/y=d31"]],
    ),
    "all-devices-are-more-than-thirty-two": Row(
        MANY, [claim(exactly(count=None))], "claim ml/c: 40 devices are more than the 32 that a claim can have"
    ),
    "all-devices-are-more-than-thirty-two-but-an-alternative-is-not": Row(
        MANY, [claim(first_of("r", exactly("all", count=None), exactly("one")))], [["r/one=d00"]]
    ),
    "each-claim-has-its-own-limit": Row(
        MANY,
        [claim(exactly(count=20)), claim(exactly(count=20), name="b")],
        [[f"r={d}" for d in first(20)], [f"r=d{i}" for i in range(20, 40)]],
    ),
    "a-tainted-device-is-left-out": Row([slice_of(tainted("d", "sick"), device("e"))], [claim(exactly())], [["r=e"]]),
    "a-tainted-device-that-is-tolerated": Row([slice_of(tainted("d", "sick"))], [claim(tolerating("sick"))], [["r=d"]]),
    "one-of-two-taints-is-tolerated": Row([slice_of(tainted("d", "sick", "old"))], [claim(tolerating("sick"))], NO),
    "both-taints-are-tolerated": Row(
        [slice_of(tainted("d", "sick", "old"))], [claim(tolerating("sick", "old"))], [["r=d"]]
    ),
    "a-taint-of-an-effect-that-is-not-known": Row(
        [slice_of(tainted("d", "sick", effect="Later"))], [claim(exactly())], [["r=d"]]
    ),
    "a-toleration-of-an-operator-that-is-not-known": Row(
        [slice_of(tainted("d", "sick"))],
        [claim(exactly(tolerations=[{"key": "sick", "operator": "Like", "value": "v"}]))],
        NO,
    ),
    "an-alternative-that-tolerates-the-taint": Row(
        [slice_of(tainted("d", "sick"))],
        [claim(first_of("r", exactly("a"), exactly("b", tolerations=[{"operator": "Exists"}])))],
        [["r/b=d"]],
    ),
    "admin-access-does-not-tolerate-taints": Row([slice_of(tainted("d", "sick"))], [claim(admin())], NO),
    "all-devices-when-one-is-tainted": Row(
        [slice_of(tainted("d", "sick"), device("e"))], [claim(exactly(count=None))], NO
    ),
    "the-request-with-fewer-devices-to-choose-from-gets-its-device": Row(
        [slice_of(sized("large", memory="2Gi"), sized("small", memory="1Gi"))],
        [
            claim(
                exactly("a"),
                exactly("b", selectors=cel(f'device.capacity["{DRIVER}"].memory.compareTo(quantity("2Gi")) >= 0')),
            )
        ],
        [["a=small", "b=large"]],
    ),
}


@for_each_case([pytest.param(row, id=name) for name, row in ROWS.items()])
def test_requests(row):
    assert outcome(row) == row.expected


@pytest.mark.parametrize(
    ("requests", "constraints", "text"),
    [
        pytest.param(
            [exactly(selectors=[{"rego": {}}])],
            [],
            "request r: a selector is not a CEL expression",
            id="selector",
        ),
        pytest.param([exactly()], [{"near": "x/y"}], "constraint #0: has neither matchAttribute nor", id="constraint"),
    ],
)
def test_what_is_not_known_here_is_not_left_out(requests, constraints, text):
    with pytest.raises(UnsatisfiableError, match=text):
        claim_to_allocate(claim(*requests, constraints=constraints), CLASSES)


def configured():
    other = DeviceClass(metadata=ObjectMeta(name="other"), spec=DeviceClassSpec(config=[OPAQUE, OPAQUE]))
    return CLASSES | {"other": other, "plain": DeviceClass(metadata=ObjectMeta(name="plain"))}


@for_each_case(
    [
        pytest.param(["other"], [], [("FromClass", None)] * 2, id="of-a-class"),
        pytest.param(["other", "other"], [], [("FromClass", None)] * 2, id="of-a-class-of-all-requests"),
        pytest.param(
            ["other", "plain", "other"], [], [("FromClass", ["r0", "r2"])] * 2, id="of-a-class-of-several-requests"
        ),
        pytest.param(["plain", "other"], [], [("FromClass", ["r1"])] * 2, id="of-a-class-of-one-request"),
        pytest.param(["plain"], [OPAQUE], [("FromClaim", None)], id="of-the-claim"),
        pytest.param(
            ["plain", "plain", "plain"],
            [OPAQUE | {"requests": ["r0", "r1"]}],
            [("FromClaim", ["r0", "r1"])],
            id="of-the-claim-for-two-requests-comes-once",
        ),
        pytest.param(
            ["plain", "plain"],
            [OPAQUE | {"requests": ["r0", "r1"]}],
            [("FromClaim", None)],
            id="of-the-claim-for-all-requests-by-name",
        ),
        pytest.param(["plain"], [OPAQUE | {"requests": ["gone"]}], [], id="of-the-claim-for-no-request"),
        pytest.param(
            ["other", "plain"],
            [OPAQUE | {"requests": ["r1"]}, OPAQUE],
            [("FromClass", ["r0"])] * 2 + [("FromClaim", ["r1"]), ("FromClaim", None)],
            id="of-classes-before-the-claim",
        ),
    ]
)
def test_configuration(classes, config, expected):
    asked = [exactly(f"r{i}", cls=cls) for i, cls in enumerate(classes)]
    made = claim_to_allocate(claim(*asked, config=config), configured())
    found = written(made, slice_of(*(device(f"d{i}") for i in range(3))))["devices"].get("config", [])
    assert [(each["source"], each.get("requests")) for each in found] == expected
    assert all(each["opaque"] == OPAQUE["opaque"] for each in found)


def test_binding_conditions_are_told_with_the_device_and_bind_the_claim_to_its_node():
    conditions = {"binding_conditions": ["Ready"], "binding_failure_conditions": ["Failed"], "binds_to_node": True}
    found = msgspec.structs.replace(device("d"), **conditions)

    made = written(wanted(exactly()), slice_of(found, all_nodes=True), conditional=True)
    [result] = made["devices"]["results"]
    assert (result["bindingConditions"], result["bindingFailureConditions"]) == (["Ready"], ["Failed"])
    assert made["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]["values"] == ["n1"]
