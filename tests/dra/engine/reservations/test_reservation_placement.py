"""Placing reservations, over running pods, too; making pods leave; resizing: specs/koordinator.md A.3, A.9, A.12."""

import msgspec
import pytest

from dra.api.reservations import well_known
from dra.api.reservations.model import PreAllocationMode
from dra.engine.reservations import filters as filtering
from dra.engine.reservations import reservation_placement
from dra.engine.reservations.accounting import AssumedPod, ReservationAccounting
from dra.engine.reservations.node_usage import PodAssignment, empty_node
from dra.engine.reservations.pod_info import ReservationAffinity
from dra.engine.reservations.preemption import select_victims, suffices
from dra.engine.reservations.rejections import UNRESOLVABLE
from dra.engine.reservations.reservation_placement import ReservationPlacement, place_reservation
from tests.dra.engine.reservations.examples import (
    ALIGNED,
    DEFAULT,
    REQUIRED,
    RESTRICTED,
    node,
    of,
    pod,
    reservation_info,
)
from tests.violations import for_each_case


def answer(found):
    return (
        [pod.key[1] for pod in found.pre_allocated_pods]
        if isinstance(found, ReservationPlacement)
        else [each.text for each in found]
    )


CONFLICT = "node(s) reservation allocate policy conflict"


@for_each_case(
    [
        pytest.param(node(10, used=6), reservation_info(cpu=4), "", [], id="fits"),
        pytest.param(
            msgspec.structs.replace(node(10), is_known=False),
            reservation_info(cpu=4),
            "",
            ["node(s) not found"],
            id="a-node-of-which-only-pods-were-seen",
        ),
        pytest.param(node(10, used=7), reservation_info(cpu=4), "", ["Insufficient cpu by node"], id="does-not"),
        pytest.param(
            node(10),
            reservation_info(cpu=4),
            "m",
            ["node(s) didn't match the nodeName specified by reservation"],
            id="another-node",
        ),
        pytest.param(
            node(10, used=10), reservation_info(cpu=4), "n", ["Insufficient cpu by node"], id="scenario-6-full-node"
        ),
        pytest.param(
            node(10, held=[reservation_info("r1", 1, policy=ALIGNED)]),
            reservation_info(cpu=1),
            "",
            [CONFLICT],
            id="default-aligned",
        ),
        pytest.param(
            node(10, held=[reservation_info("r1", 1)]),
            reservation_info(cpu=1, policy=RESTRICTED),
            "",
            [CONFLICT],
            id="restricted-default",
        ),
        pytest.param(
            node(10, held=[reservation_info("r1", 1, policy=ALIGNED)]),
            reservation_info(cpu=1, policy=RESTRICTED),
            "",
            [],
            id="others-coexist",
        ),
        pytest.param(
            node(10, held=[reservation_info("r1", 1)]), reservation_info(cpu=1), "", [], id="defaults-coexist"
        ),
        pytest.param(
            node(10, held=[(reservation_info("r1", 1, policy=ALIGNED, allocate_once=True), 1)]),
            reservation_info(cpu=1),
            "",
            [],
            id="one-that-is-used-up-does-not-count",
        ),
    ]
)
def test_where_a_reservation_can_be_placed(there, new, only, expected):
    found = place_reservation(there, msgspec.structs.replace(new, required_node=only))
    assert answer(found) == expected
    if expected and expected[0] not in {"Insufficient cpu by node", "node(s) not found"}:
        assert found[0].reason in UNRESOLVABLE


def taking_over(**fields):
    return reservation_info(cpu=4, policy=RESTRICTED, allows_pre_allocation=True, **fields)


def full(*running):
    found = empty_node("n", of(10))
    for each in running:
        found = found.with_pod(each.uid, each.amounts)
    return found


CLUSTER = {well_known.LABEL_PRE_ALLOCATABLE: "true"}


@for_each_case(
    [
        pytest.param([pod("a", 4, app="a"), pod("z", 6)], taking_over(), ["a"], id="over-an-owner"),
        pytest.param([pod("b", 4, app="b"), pod("z", 6)], taking_over(), None, id="over-nobody-else"),
        pytest.param([pod("a", 2, app="a"), pod("z", 8)], taking_over(), None, id="one-is-not-enough"),
        pytest.param([pod("a", 2, app="a"), pod("z", 6)], taking_over(), ["a"], id="one-and-what-is-free"),
        pytest.param(
            [pod("a", 2, app="a"), pod("b", 2, app="a"), pod("z", 6)],
            taking_over(enable_multiple=True),
            ["a", "b"],
            id="over-many",
        ),
        pytest.param(
            [pod("a", 2, app="a"), pod("b", 4, app="a"), pod("c", 2, app="a"), pod("z", 2)],
            taking_over(enable_multiple=True),
            ["b"],
            id="over-as-few-as-are-needed",
        ),
        pytest.param(
            [pod("a", 3, app="a"), pod("b", 2, app="a"), pod("c", 1, app="a"), pod("z", 4)],
            taking_over(enable_multiple=True),
            ["a", "c"],
            id="without-overflowing",
        ),
        pytest.param([pod("a", 7, app="a"), pod("z", 3)], taking_over(), None, id="not-over-a-pod-that-overflows-it"),
        pytest.param(
            [pod("a", 2, app="a"), pod("b", 4, app="a"), pod("z", 4)], taking_over(), ["b"], id="the-largest-pod-first"
        ),
        pytest.param(
            [pod("a", memory=1, app="a"), pod("z", 10)], taking_over(), None, id="not-over-a-pod-of-other-resources"
        ),
        pytest.param(
            [pod("a", 4, app="a"), pod("b", 4, labels=CLUSTER), pod("z", 2)],
            taking_over(pre_allocation_mode=PreAllocationMode.CLUSTER),
            ["b"],
            id="mode-cluster-goes-by-label",
        ),
        pytest.param(
            [pod("a", 4, labels=CLUSTER), pod("b", 4, labels=CLUSTER, pre_allocatable_priority=9), pod("z", 2)],
            taking_over(pre_allocation_mode=PreAllocationMode.CLUSTER),
            ["b"],
            id="the-greatest-priority-first",
        ),
        pytest.param(
            [pod("a", 4, app="a"), pod("z", 6)],
            reservation_info(cpu=4, policy=DEFAULT),
            None,
            id="without-pre-allocation",
        ),
        pytest.param([pod("a", 4, app="a")], taking_over(), [], id="where-there-is-room-over-nobody"),
        pytest.param(
            [pod("a", 4, app="a"), pod("z", 6)], taking_over(unschedulable=True), None, id="cordoned-and-not-tolerated"
        ),
        pytest.param(
            [pod("a", 4, app="a", affinity=ReservationAffinity(name="other")), pod("z", 6)],
            taking_over(),
            None,
            id="a-pod-that-asks-for-another",
        ),
    ],
)
def test_over_which_running_pods_a_reservation_is_placed(running, new, expected):
    found = place_reservation(full(*running), new, running)
    assert answer(found) == (["Insufficient cpu by node"] if expected is None else expected)


def test_one_that_must_be_placed_over_pods_is_not_placed_plainly():
    owner, new = pod("a", 4, app="a"), taking_over(labels={well_known.LABEL_PRE_ALLOCATION_REQUIRED: well_known.TRUE})
    assert answer(place_reservation(full(owner), new, [owner])) == ["a"]
    assert not isinstance(place_reservation(full(), new), ReservationPlacement)


@pytest.mark.parametrize(
    ("known", "over"),
    [
        pytest.param([reservation_info("r0", 1, policy=ALIGNED)], None, id="in-another"),
        pytest.param([], ["a"], id="another-that-is-gone"),
        pytest.param([reservation_info("r0", 1, policy=ALIGNED, available=False)], ["a"], id="another-that-has-ended"),
    ],
)
def test_a_pod_of_another_reservation_is_left_alone(known, over):
    accounting = ReservationAccounting()
    accounting.observe_node("n", of(10))
    for each in known:
        accounting.observe_reservation(each)
    accounting.observe_pod(pod("a", 4, app="a", allocated_reservation="uid-r0"), node="n")
    accounting.observe_pod(pod("z", 6), node="n")
    assert answer(accounting.assume_reservation(taking_over(), "n")) == (
        ["Insufficient cpu by node"] if over is None else over
    )


def test_the_place_of_a_dying_pod_is_kept_for_its_successor():
    accounting = ReservationAccounting()
    accounting.observe_node("n", of(10))
    old, other, new = pod("old", 4, app="a"), pod("other", 6), pod("new", 4, app="a")
    accounting.observe_pod(old, node="n")
    accounting.observe_pod(other, node="n")
    once = taking_over(allocate_once=True)
    assert answer(accounting.assume_reservation(once, "n")) == ["old"]
    assert accounting.filter_nodes(new).feasible == ()

    accounting.forget_pod(old.uid)

    assert accounting.filter_nodes(pod("greedy", 1)).feasible == ()
    assert accounting.assume_pod(new, "n") == AssumedPod(node="n", reservation=once.uid)
    assert accounting.filter_nodes(pod("late", 1, app="a")).feasible == ()


def occupant(name, cpu, priority=0, **fields):
    inside = fields.pop("inside", None)
    return PodAssignment(pod=pod(name, cpu, priority=priority, **fields), node="n", reservation=inside)


def with_occupants(occupants, *, held=()):
    found = node(10, held=held)
    for each in occupants:
        found = found.with_pod(each.pod.uid, each.pod.amounts, into=each.reservation)
    return found


def fits(wanting):
    return lambda node: filtering.filter_node(node, wanting).fits


R = reservation_info("r", 4, policy=RESTRICTED)


@for_each_case(
    [
        pytest.param([occupant("a", 10)], [], pod(cpu=4, priority=1), ["a"], id="the-only-one"),
        pytest.param(
            [occupant("a", 5), occupant("b", 5, 2)], [], pod(cpu=4, priority=9), ["a"], id="the-least-important"
        ),
        pytest.param([occupant("a", 8), occupant("b", 2)], [], pod(cpu=2, priority=1), ["b"], id="no-more-than-needed"),
        pytest.param([occupant("a", 10, 1)], [], pod(cpu=4, priority=1), None, id="nobody-as-important"),
        pytest.param(
            [occupant("a", 10, labels={well_known.LABEL_DISABLE_PREEMPTIBLE: "true"})],
            [],
            pod(cpu=4, priority=1),
            None,
            id="protected",
        ),
        pytest.param(
            [occupant("a", 6)], [reservation_info("r", 4)], pod(cpu=8, priority=1), None, id="reservations-never"
        ),
        pytest.param(
            [occupant("a", 4, app="a", inside=R.uid), occupant("b", 6, 5)],
            [R],
            pod(cpu=4, priority=1, app="a"),
            ["a"],
            id="an-owner-makes-an-owner-leave",
        ),
        pytest.param(
            [occupant("a", 4, app="a", inside=R.uid), occupant("b", 6, 5)],
            [R],
            pod(cpu=4, priority=1),
            None,
            id="what-an-owner-frees-is-no-others",
        ),
        pytest.param([occupant("a", 2)], [], pod(cpu=4, priority=1), None, id="it-fits-as-it-is"),
    ]
)
def test_who_has_to_go(occupants, held, wanting, gone):
    found = select_victims(
        with_occupants(occupants, held=held), occupants, priority=wanting.priority, fits=fits(wanting)
    )
    names = {each.pod.uid: each.pod.key[1] for each in occupants}
    assert (found and [names[uid] for uid in found.uids]) == gone


def test_a_choice_of_others_is_checked_before_anybody_dies():
    chosen = [occupant("a", 4, app="a", inside=R.uid)]
    there = with_occupants([*chosen, occupant("b", 6, 5)], held=[R])
    assert not suffices(chosen, there, fits=fits(pod(cpu=4, priority=1)))
    assert suffices(chosen, there, fits=fits(pod(cpu=4, priority=1, app="a")))


def test_what_is_being_freed_is_held_for_the_pod_that_makes_others_leave():
    accounting = ReservationAccounting()
    accounting.observe_node("n", of(10))
    victim, urgent, thief = pod("victim", 10), pod("urgent", 4, priority=9), pod("thief", 4)
    accounting.observe_pod(victim, node="n")
    assert accounting.reserve_for_preemptor(urgent, "n", {victim.uid}) == ()
    assert accounting.filter_nodes(urgent).feasible == ()

    accounting.forget_pod(victim.uid)

    assert accounting.filter_nodes(pod("small", 6)).feasible == ("n",)
    assert accounting.filter_nodes(pod("large", 7)).feasible == ()
    assert isinstance(accounting.assume_pod(urgent, "n"), AssumedPod)
    accounting.forget_reservation("preemptor-uid-urgent")
    assert accounting.node("n").free("cpu") == of(6)["cpu"]
    assert isinstance(accounting.assume_pod(thief, "n"), AssumedPod)


def test_nobody_is_held_a_place_that_victims_do_not_free():
    accounting = ReservationAccounting()
    accounting.observe_node("n", of(4))
    victim = pod("victim", 4)
    accounting.observe_pod(victim, node="n")
    assert [each.text for each in accounting.reserve_for_preemptor(pod("big", 5), "n", {victim.uid})] == [
        "Insufficient cpu by node"
    ]
    assert accounting.node("n").reservations == {}


def test_what_victims_free_within_a_reservation_is_promised_there():
    accounting = ReservationAccounting()
    accounting.observe_node("n", of(10))
    accounting.observe_reservation(R)
    victim, urgent, other = (pod(name, 4, app="a", affinity=REQUIRED) for name in ("victim", "urgent", "other"))
    accounting.assume_pod(victim, "n")
    accounting.nominate(urgent, R.uid)
    accounting.forget_pod(victim.uid)
    assert (accounting.filter_nodes(other).feasible, accounting.filter_nodes(urgent).feasible) == ((), ("n",))
    accounting.remove_nomination(urgent.uid, R.uid)
    assert accounting.filter_nodes(other).feasible == ("n",)


@pytest.mark.parametrize(
    ("consumed", "wanted", "fits"),
    [
        pytest.param(0, 8, True, id="what-is-free"),
        pytest.param(0, 9, False, id="more-than-that"),
        pytest.param(0, 1, True, id="less"),
        pytest.param(6, 5, True, id="what-consumers-have-is-charged-already"),
        pytest.param(6, 9, False, id="and-no-more"),
    ],
)
def test_a_reservation_is_resized_where_it_is(consumed, wanted, fits):
    there = node(10, used=2, held=[(R, consumed)])
    assert (not reservation_placement.insufficient_for_resize(there, R.uid, of(wanted))) is fits


def test_an_overfull_node_still_lets_a_reservation_shrink():
    there = node(3, used=2, held=[R])
    assert reservation_placement.insufficient_for_resize(there, R.uid, of(3)) == ()
    assert filtering.filter_node(there, pod(cpu=1, app="a")).fits
