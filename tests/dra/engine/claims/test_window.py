import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.engine.claims.consumers import SCHEDULING_GATE, Stage
from dra.engine.claims.window import CAPACITY, PARKED_AFTER, UNLISTED, EntryHistory, Need, choose, need, turn_changes_at
from dra.engine.instants import NEVER
from dra.model.claims import RESERVED_FOR_MAX_SIZE
from tests.dra.engine.examples import (
    FOREIGN_GATE,
    NOON,
    consumer,
    finished,
    gated,
    many,
    parked,
    started,
    starting,
    uid,
    unschedulable,
    waiting,
)
from tests.violations import for_each_case


def uids(names):
    return {uid(name) for name in names}


def names(consumers):
    return [c.name for c in consumers]


@for_each_case(
    [
        pytest.param(starting("a"), Need.STARTING, id="starting"),
        pytest.param(starting("a", deleting=True), Need.RUNNING, id="starting-but-deleted"),
        pytest.param(starting("a", stage_since=NOON - PARKED_AFTER), Need.PARKED, id="starting-for-a-minute"),
        pytest.param(waiting("a"), Need.WAITING, id="waiting"),
        pytest.param(waiting("a", stage_since=0.0), Need.WAITING, id="waiting-long-is-no-verdict"),
        pytest.param(unschedulable("a", since=NOON - 59.0), Need.WAITING, id="unschedulable"),
        pytest.param(parked("a"), Need.PARKED, id="unschedulable-for-a-minute"),
        pytest.param(gated("a"), Need.WAITING, id="gated-by-us"),
        pytest.param(gated("a", gates=(SCHEDULING_GATE, FOREIGN_GATE)), None, id="gated-by-others-too"),
        pytest.param(started("a"), Need.RUNNING, id="started"),
        pytest.param(finished("a"), None, id="finished"),
    ]
)
def test_why_a_pod_wants_a_slot(of, wanted):
    assert need(of, now=NOON) is wanted


@for_each_case(
    [
        pytest.param([waiting("a"), starting("b")], [], ["b", "a"], id="starting-comes-before-waiting"),
        pytest.param([started("a"), waiting("b")], ["a"], ["b", "a"], id="waiting-comes-before-started"),
        pytest.param(
            [parked("a"), started("b")], [], ["a", "b"], id="parked-comes-before-started-which-asks-for-nothing"
        ),
        pytest.param([parked("a"), waiting("b")], ["a"], ["b", "a"], id="parked-yields-even-when-listed"),
        pytest.param([waiting("a"), waiting("b")], ["b"], ["b", "a"], id="listed-first-among-equals"),
        pytest.param([waiting("a"), waiting("b", priority=1)], ["a"], ["b", "a"], id="priority-comes-before-listed"),
        pytest.param(
            [waiting("a", created="2"), waiting("b", created="1")], [], ["b", "a"], id="the-older-among-equals"
        ),
        pytest.param([waiting("b"), waiting("a")], [], ["a", "b"], id="the-uid-decides-the-rest"),
        pytest.param([gated("b"), waiting("a")], [], ["a", "b"], id="gated-and-waiting-are-equals"),
        pytest.param([finished("a"), gated("b", gates=("x",))], ["a", "b"], [], id="no-need-no-slot"),
    ]
)
def test_order_of_the_window(consumers, listed, chosen):
    assert names(choose(consumers, listed=uids(listed), now=NOON)) == chosen


@pytest.mark.parametrize(
    ("listings", "chosen"),
    [
        pytest.param({}, ["a"], id="nobody-had-a-turn"),
        pytest.param({"a": EntryHistory(listed_since=NOON - 59.0)}, ["a"], id="a-turn-is-kept-for-a-minute"),
        pytest.param({"a": EntryHistory(listed_since=NOON - 60.0)}, ["b"], id="and-then-passed-on"),
        pytest.param({"a": EntryHistory(last_listed=NOON - 10.0)}, ["b"], id="who-had-none-yet-is-first"),
        pytest.param(
            {"a": EntryHistory(last_listed=NOON - 10.0), "b": EntryHistory(last_listed=NOON - 20.0)},
            ["b"],
            id="who-waited-longest-is-first",
        ),
    ],
)
def test_parked_pods_take_turns(listings, chosen):
    by_uid = {uid(name): listing for name, listing in listings.items()}
    held = {u for u, listing in by_uid.items() if listing.listed_since is not None}
    assert (
        names(choose([parked("a"), parked("b")], listed=held, entry_histories=by_uid, now=NOON, capacity=1)) == chosen
    )


@pytest.mark.parametrize(
    ("listing", "held_up", "wanted"),
    [
        pytest.param(UNLISTED, True, Need.WAITING, id="it-has-had-no-slot"),
        pytest.param(
            EntryHistory(listed_since=NOON - 59.0), True, Need.WAITING, id="it-has-had-one-for-less-than-a-minute"
        ),
        pytest.param(EntryHistory(listed_since=NOON - 60.0), True, Need.PARKED, id="it-has-had-one-for-a-minute"),
        pytest.param(EntryHistory(last_listed=NOON - 10.0), True, Need.PARKED, id="it-was-made-to-yield"),
        pytest.param(EntryHistory(listed_since=NOON - 60.0), False, Need.WAITING, id="its-other-claims-are-ready"),
    ],
)
def test_a_gated_pod_that_another_claim_is_not_ready_for_takes_turns(listing, held_up, wanted):
    assert need(gated("a"), now=NOON, listing=listing, awaiting_other_claims=held_up) is wanted


@pytest.mark.parametrize(
    ("of", "listing", "when"),
    [
        pytest.param(waiting("a"), UNLISTED, NEVER, id="waiting-pods-keep-their-rank"),
        pytest.param(starting("a"), UNLISTED, NOON + 60.0, id="starting-until-it-parks"),
        pytest.param(unschedulable("a", since=NOON - 20.0), UNLISTED, NOON + 40.0, id="unschedulable-until-it-parks"),
        pytest.param(parked("a"), UNLISTED, NEVER, id="parked-and-unlisted-waits-for-others"),
        pytest.param(
            parked("a"), EntryHistory(listed_since=NOON - 20.0), NOON + 40.0, id="parked-until-its-turn-is-over"
        ),
        pytest.param(parked("a"), EntryHistory(listed_since=NOON - 70.0), NEVER, id="a-turn-that-is-over"),
    ],
)
def test_when_the_window_changes_by_itself(of, listing, when):
    assert turn_changes_at(of, listing, now=NOON) == when


@for_each_case([(0, None), (1, 1.0), (2, 2.0), (3, 4.0), (6, 32.0), (7, 60.0), (50, 60.0)])
def test_a_pod_that_the_scheduler_took_off_comes_back_later_and_later(drops, seconds):
    when = EntryHistory(last_listed=NOON, unreserve_count=drops).relist_at()
    assert when == (-NEVER if seconds is None else NOON + seconds)


@pytest.mark.parametrize(
    ("listing", "until"),
    [
        pytest.param(UNLISTED, -NEVER, id="never-listed"),
        pytest.param(EntryHistory(listed_since=NOON - 500.0, last_listed=NOON - 500.0), NOON + 60.0, id="listed-now"),
        pytest.param(EntryHistory(last_listed=NOON - 20.0), NOON + 40.0, id="listed-lately"),
    ],
)
def test_how_long_a_listed_pod_may_still_be_bound_without_a_write(listing, until):
    assert listing.bindable_until(60.0, now=NOON) == until


def test_the_window_leaves_room_for_the_scheduler():
    chosen = choose(many(waiting, RESERVED_FOR_MAX_SIZE), listed=set(), now=NOON)
    assert len(chosen) == CAPACITY == 240


@pytest.mark.parametrize("capacity", [0, -3])
def test_a_list_full_of_others_has_no_window(capacity):
    assert choose([starting("a")], listed=set(), now=NOON, capacity=capacity) == ()


INSTANTS = st.none() | st.floats(NOON - 200.0, NOON, allow_nan=False)
CONSUMERS = st.lists(
    st.builds(
        lambda name, stage, since, **known: consumer(
            name, stage, unschedulable_since=since if stage is Stage.WAITING else None, **known
        ),
        st.integers(0, 30).map(lambda number: f"p{number:02}"),
        st.sampled_from(Stage),
        INSTANTS,
        stage_since=st.floats(NOON - 200.0, NOON, allow_nan=False),
        priority=st.integers(0, 2),
        deleting=st.booleans(),
        gates=st.sampled_from([(SCHEDULING_GATE,), (SCHEDULING_GATE, FOREIGN_GATE)]),
    ),
    unique_by=lambda c: c.uid,
    max_size=20,
)
LISTED = st.frozensets(st.integers(0, 30).map(lambda number: uid(f"p{number:02}")))


@given(consumers=CONSUMERS, listed=LISTED, capacity=st.integers(0, 12))
def test_a_starting_pod_is_left_out_only_when_the_window_is_full_of_starting_pods(consumers, listed, capacity):
    chosen = choose(consumers, listed=listed, now=NOON, capacity=capacity)
    left_out = [c for c in consumers if need(c, now=NOON) is Need.STARTING and c not in chosen]
    assert not left_out or [need(c, now=NOON) for c in chosen] == [Need.STARTING] * capacity


@given(consumers=CONSUMERS, listed=LISTED, capacity=st.integers(0, 12))
def test_no_slot_stays_free_while_somebody_needs_one(consumers, listed, capacity):
    chosen = choose(consumers, listed=listed, now=NOON, capacity=capacity)
    needy = [c for c in consumers if need(c, now=NOON) is not None]
    assert len(chosen) == min(capacity, len(needy))
    assert set(chosen) <= set(needy)


@given(consumers=CONSUMERS, listed=LISTED, capacity=st.integers(0, 12))
def test_choosing_again_changes_nothing(consumers, listed, capacity):
    chosen = choose(consumers, listed=listed, now=NOON, capacity=capacity)
    again = choose(consumers, listed={c.uid for c in chosen}, now=NOON, capacity=capacity)
    assert {c.uid for c in again} == {c.uid for c in chosen}


@given(consumers=CONSUMERS, listed=LISTED, capacity=st.integers(0, 12), shuffle=st.randoms(use_true_random=False))
def test_the_order_of_events_does_not_matter(consumers, listed, capacity, shuffle):
    shuffled = list(consumers)
    shuffle.shuffle(shuffled)
    assert choose(shuffled, listed=listed, now=NOON, capacity=capacity) == choose(
        consumers, listed=listed, now=NOON, capacity=capacity
    )
