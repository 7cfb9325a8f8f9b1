import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dra.engine.devices.ledger import DeviceID, Holder, Ledger, allocated_devices
from dra.model.claims import DeviceAllocationResult
from dra.model.meta import Uid
from tests.dra.engine.examples import allocation, uid


def holder(name):
    return Holder(kind="claim", key=("ml", name), uid=uid(name))


def item(device, share=""):
    return DeviceID(driver="d", pool="p", device=device, share=share)


@pytest.fixture
def ledger():
    return Ledger()


def test_a_device_is_held_by_one_claim_and_the_refusal_names_both(ledger):
    assert ledger.hold(holder("a"), [item("gpu-3")]) is None
    conflict = ledger.hold(holder("b"), [item("gpu-3")])
    assert str(conflict) == ("device d/p/gpu-3 is held by claim ml/a (uid uid-a), refused to claim ml/b (uid uid-b)")
    assert ledger.holder(item("gpu-3")) == holder("a")


def test_a_hold_is_all_or_nothing(ledger):
    ledger.hold(holder("a"), [item("gpu-1")])
    assert ledger.hold(holder("b"), [item("gpu-0"), item("gpu-1")]) is not None
    assert ledger.holder(item("gpu-0")) is None
    assert ledger.items(uid("b")) == frozenset()


def test_a_refused_hold_leaves_what_was_held_before(ledger):
    ledger.hold(holder("a"), [item("gpu-1")])
    ledger.hold(holder("b"), [item("gpu-0")])
    ledger.hold(holder("b"), [item("gpu-1")])
    assert ledger.items(uid("b")) == {item("gpu-0")}


def test_a_hold_takes_the_place_of_the_last_one(ledger):
    ledger.hold(holder("a"), [item("gpu-0"), item("gpu-1")])
    assert ledger.hold(holder("a"), [item("gpu-1"), item("gpu-2")]) is None
    assert ledger.items(uid("a")) == {item("gpu-1"), item("gpu-2")}
    assert ledger.hold(holder("b"), [item("gpu-0")]) is None


def test_a_claim_is_told_by_its_uid_and_not_by_its_name(ledger):
    ledger.hold(holder("a"), [item("gpu-0")])
    namesake = msgspec.structs.replace(holder("a"), uid=Uid("another"))
    assert ledger.hold(namesake, [item("gpu-0")]) is not None


@pytest.mark.parametrize(
    ("first", "second", "fits"),
    [
        pytest.param(item("gpu", "x"), item("gpu", "y"), True, id="two-shares"),
        pytest.param(item("gpu", "x"), item("gpu", "x"), False, id="the-same-share"),
        pytest.param(item("gpu", "x"), item("gpu"), False, id="a-share-then-the-whole"),
        pytest.param(item("gpu"), item("gpu", "x"), False, id="the-whole-then-a-share"),
        pytest.param(item("gpu", "x"), item("gpu-1"), True, id="another-device"),
        pytest.param(item("gpu"), DeviceID(driver="e", pool="p", device="gpu"), True, id="another-driver"),
        pytest.param(item("gpu"), DeviceID(driver="d", pool="q", device="gpu"), True, id="another-pool"),
    ],
)
def test_shares_of_a_device_coexist_the_whole_does_not(ledger, first, second, fits):
    assert ledger.hold(holder("a"), [first]) is None
    assert (ledger.hold(holder("b"), [second]) is None) is fits


def test_a_device_is_free_when_its_last_share_is(ledger):
    ledger.hold(holder("a"), [item("gpu", "x")])
    ledger.hold(holder("b"), [item("gpu", "y")])
    ledger.release(uid("a"))
    assert ledger.hold(holder("c"), [item("gpu")]) is not None
    assert ledger.release(uid("b")) == {item("gpu", "y")}
    assert ledger.hold(holder("c"), [item("gpu")]) is None


def test_an_allocation_with_admin_access_holds_nothing():
    found = allocation("gpu-0", "gpu-1")
    results = found.devices.results
    seen = msgspec.structs.replace(results[0], admin_access=True)
    shared = msgspec.structs.replace(results[1], share_id="x")
    mixed = msgspec.structs.replace(found, devices=DeviceAllocationResult(results=[seen, shared]))
    assert {str(i) for i in allocated_devices(mixed)} == {"gpu.example.com/pool/gpu-1 (share x)"}
    assert allocated_devices(msgspec.structs.replace(found, devices=DeviceAllocationResult())) == frozenset()


def test_a_released_claim_has_no_devices(ledger):
    ledger.hold(holder("a"), [item("gpu-0")])
    assert ledger.release(uid("a")) == {item("gpu-0")}
    assert ledger.release(uid("a")) == frozenset()
    assert len(ledger) == 0


ITEMS = st.frozensets(st.builds(item, st.sampled_from(["gpu-0", "gpu-1"]), st.sampled_from(["", "x", "y"])), max_size=4)
HOLDERS = st.sampled_from("abcd").map(holder)


def excludes(one, other):
    """The rule in one line: the same item, or a share and the whole it is a share of."""
    return one == other or (one.whole == other.whole and "" in {one.share, other.share})


class Bookkeeping(RuleBasedStateMachine):
    """The ledger beside a list of who holds what, which is slow and obvious."""

    def __init__(self):
        super().__init__()
        self.ledger = Ledger()
        self.held = {}

    @rule(of=HOLDERS, items=ITEMS)
    def hold(self, of, items):
        legal = not any(
            excludes(one, other)
            for name, held in self.held.items()
            if name != of.uid
            for one in held
            for other in items
        )
        conflict = self.ledger.hold(of, items)
        assert (conflict is None) is legal
        if legal:
            self.held[of.uid] = items
        else:
            assert any(excludes(conflict.item, i) for i in self.held[conflict.holder.uid])

    @rule(of=HOLDERS)
    def release(self, of):
        assert self.ledger.release(of.uid) == self.held.pop(of.uid, frozenset())

    @invariant()
    def nothing_is_held_twice(self):
        assert len(self.ledger) == sum(len(items) for items in self.held.values())
        for name, items in self.held.items():
            assert self.ledger.items(name) == items
            assert all(self.ledger.holder(i).uid == name for i in items)


TestBookkeeping = Bookkeeping.TestCase


@given(st.lists(st.tuples(HOLDERS, ITEMS), max_size=12))
def test_after_all_is_released_nothing_is_left(holds):
    ledger = Ledger()
    for of, items in holds:
        ledger.hold(of, items)
    for of, _ in holds:
        ledger.release(of.uid)
    assert len(ledger) == 0
    assert ledger.hold(holder("z"), [item("gpu-0"), item("gpu-1")]) is None
