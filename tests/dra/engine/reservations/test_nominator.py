"""No pod leaves in vain: what it frees is kept for whom it leaves for, until that one has it or wants it no more."""

import pytest

from dra.engine.reservations.accounting import AssumedPod, ReservationAccounting
from dra.engine.reservations.preemption import Nominator
from tests.dra.engine.reservations.examples import REQUIRED, of, pod, reservation_info

R = reservation_info("r", cpu=4, app="a")


@pytest.fixture
def accounting():
    """A node of ten CPUs, four of them held for owners."""
    found = ReservationAccounting()
    found.observe_node("n", of(10))
    found.observe_node("m", of(10))
    found.observe_reservation(R)
    return found


@pytest.fixture
def nominations(accounting):
    return Nominator(accounting)


def leaves(accounting, nominations, victim, urgent, *, inside=False):
    """The scheduler asks who would leave, chooses the node and ends the victim."""
    if inside:
        assert isinstance(accounting.assume_pod(victim, "n"), AssumedPod)
    else:
        accounting.observe_pod(victim, node="n")
    nominations.record_victims(urgent.uid, {"n": {victim.uid}, "m": set()})
    nominations.update_nomination(urgent, "n")
    accounting.forget_pod(victim.uid)


def test_beside_what_is_held_room_on_the_node_is_kept(accounting, nominations):
    urgent, thief = pod("urgent", 6, priority=9), pod("thief", 6)
    leaves(accounting, nominations, pod("victim", 6), urgent)
    assert (accounting.filter_nodes(thief).feasible, set(accounting.filter_nodes(urgent).feasible)) == (
        ("m",),
        {"m", "n"},
    )


def test_in_a_reservation_its_place_is_kept_there(accounting, nominations):
    urgent = pod("urgent", 4, app="a", affinity=REQUIRED, priority=9)
    thief = pod("thief", 7, app="a", affinity=REQUIRED)  # four of the reservation, three beside it
    leaves(accounting, nominations, pod("victim", 4, app="a"), urgent, inside=True)
    assert (accounting.filter_nodes(thief).feasible, accounting.filter_nodes(urgent).feasible) == ((), ("n",))


@pytest.mark.parametrize(
    "ends",
    [
        pytest.param(lambda found, urgent: found.update_nomination(urgent, ""), id="it-is-nominated-no-more"),
        pytest.param(lambda found, urgent: found.update_nomination(urgent, "m"), id="for-another-node"),
        pytest.param(lambda found, urgent: found.release(urgent.uid), id="it-takes-it"),
        pytest.param(lambda found, urgent: found.forget(urgent.uid), id="it-is-gone"),
    ],
)
@pytest.mark.parametrize("inside", [False, True], ids=["on-the-node", "in-a-reservation"])
def test_until_when_it_is_kept(accounting, nominations, ends, inside):
    app = "a" if inside else "b"
    urgent, other = pod("urgent", 4, app=app, priority=9), pod("other", 4 if inside else 6, app=app)
    leaves(accounting, nominations, pod("victim", 4 if inside else 6, app=app), urgent, inside=inside)
    before = accounting.node("n")
    ends(nominations, urgent)
    assert accounting.node("n") != before
    assert isinstance(accounting.assume_pod(other, "n"), AssumedPod)


def test_seen_again_it_is_kept_once(accounting, nominations):
    urgent = pod("urgent", 6, priority=9)
    leaves(accounting, nominations, pod("victim", 6), urgent)
    before = accounting.node("n")
    nominations.update_nomination(urgent, "n")
    assert accounting.node("n") == before


@pytest.mark.parametrize(
    ("victims", "node"),
    [
        pytest.param({}, "n", id="nobody-leaves-for-it"),
        pytest.param({"m": {"uid-victim"}}, "n", id="they-leave-elsewhere"),
        pytest.param({"n": {"uid-gone-since"}}, "n", id="not-enough-leave-any-more"),
        pytest.param({"x": {"uid-victim"}}, "x", id="the-node-is-gone"),
    ],
)
def test_nothing_is_kept_that_nobody_frees(accounting, nominations, victims, node):
    urgent, victim = pod("urgent", 6, priority=9), pod("victim", 6)
    accounting.observe_pod(victim, node="n")
    before = accounting.node("n")
    nominations.record_victims(urgent.uid, victims)
    nominations.update_nomination(urgent, node)
    assert accounting.node("n") == before
