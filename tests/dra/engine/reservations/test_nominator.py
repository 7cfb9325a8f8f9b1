"""No pod leaves in vain: what it frees is kept for whom it leaves for, until that one has it or wants it no more."""

import pytest

from dra.engine.reservations.accounting import AssumedPod, ReservationAccounting
from dra.engine.reservations.preemption import Nominator
from tests.dra.engine.reservations.examples import REQUIRED, holding, of, pod

R = holding("r", cpu=4, app="a")


@pytest.fixture
def books():
    """A node of ten CPUs, four of them held for owners."""
    found = ReservationAccounting()
    found.observe_node("n", of(10))
    found.observe_node("m", of(10))
    found.observe_reservation(R)
    return found


@pytest.fixture
def nominations(books):
    return Nominator(books)


def leaves(books, nominations, victim, urgent, *, inside=False):
    """The scheduler asks who would leave, chooses the node and ends the victim."""
    if inside:
        assert isinstance(books.admit(victim, "n"), AssumedPod)
    else:
        books.observe_pod(victim, node="n")
    nominations.record_victims(urgent.uid, {"n": {victim.uid}, "m": set()})
    nominations.observe(urgent, "n")
    books.forget_pod(victim.uid)


def test_beside_what_is_held_room_on_the_node_is_kept(books, nominations):
    urgent, thief = pod("urgent", 6, priority=9), pod("thief", 6)
    leaves(books, nominations, pod("victim", 6), urgent)
    assert (books.sift(thief).fits, set(books.sift(urgent).fits)) == (("m",), {"m", "n"})


def test_in_a_reservation_its_place_is_kept_there(books, nominations):
    urgent = pod("urgent", 4, app="a", affinity=REQUIRED, priority=9)
    thief = pod("thief", 7, app="a", affinity=REQUIRED)  # four of the reservation, three beside it
    leaves(books, nominations, pod("victim", 4, app="a"), urgent, inside=True)
    assert (books.sift(thief).fits, books.sift(urgent).fits) == ((), ("n",))


@pytest.mark.parametrize(
    "ends",
    [
        pytest.param(lambda found, urgent: found.observe(urgent, ""), id="it-is-nominated-no-more"),
        pytest.param(lambda found, urgent: found.observe(urgent, "m"), id="for-another-node"),
        pytest.param(lambda found, urgent: found.lift(urgent.uid), id="it-takes-it"),
        pytest.param(lambda found, urgent: found.forget(urgent.uid), id="it-is-gone"),
    ],
)
@pytest.mark.parametrize("inside", [False, True], ids=["on-the-node", "in-a-reservation"])
def test_until_when_it_is_kept(books, nominations, ends, inside):
    app = "a" if inside else "b"
    urgent, other = pod("urgent", 4, app=app, priority=9), pod("other", 4 if inside else 6, app=app)
    leaves(books, nominations, pod("victim", 4 if inside else 6, app=app), urgent, inside=inside)
    before = books.room("n")
    ends(nominations, urgent)
    assert books.room("n") != before
    assert isinstance(books.admit(other, "n"), AssumedPod)


def test_seen_again_it_is_kept_once(books, nominations):
    urgent = pod("urgent", 6, priority=9)
    leaves(books, nominations, pod("victim", 6), urgent)
    before = books.room("n")
    nominations.observe(urgent, "n")
    assert books.room("n") == before


@pytest.mark.parametrize(
    ("victims", "node"),
    [
        pytest.param({}, "n", id="nobody-leaves-for-it"),
        pytest.param({"m": {"uid-victim"}}, "n", id="they-leave-elsewhere"),
        pytest.param({"n": {"uid-gone-since"}}, "n", id="not-enough-leave-any-more"),
        pytest.param({"x": {"uid-victim"}}, "x", id="the-node-is-gone"),
    ],
)
def test_nothing_is_kept_that_nobody_frees(books, nominations, victims, node):
    urgent, victim = pod("urgent", 6, priority=9), pod("victim", 6)
    books.observe_pod(victim, node="n")
    before = books.room("n")
    nominations.record_victims(urgent.uid, victims)
    nominations.observe(urgent, node)
    assert books.room("n") == before
