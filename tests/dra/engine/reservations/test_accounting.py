"""What the accounting say of single things; what they say whatever happens is in `test_histories`."""

import pytest
from msgspec.structs import replace

from dra.api.reservations.model import ReservationOwner
from dra.engine.reservations.accounting import AssumedPod, ReservationAccounting
from dra.engine.reservations.rejections import RejectionReason
from dra.model import quantities
from dra.model.meta import OwnerReference, Uid
from dra.model.quantities import PODS
from tests.dra.engine.reservations.examples import REQUIRED, RESTRICTED, of, owner, pod, reservation_info

NODES = ("n1", "n2", "n3")


@pytest.fixture
def accounting():
    found = ReservationAccounting()
    found.observe_node("n1", of(10), labels={})
    found.observe_node("n2", of(10), labels={})
    found.observe_reservation(reservation_info("r", 4, app="a", node="n1", policy=RESTRICTED))
    return found


R = Uid("uid-r")


def test_an_annotation_alone_lets_nobody_in(accounting):
    accounting.observe_pod(pod("thief", 4, app="b", allocated_reservation=R), node="n1")
    assert accounting.owner_pods(R) == ()
    assert accounting.node("n1").free("cpu") == of(2)["cpu"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"current_owners": frozenset({Uid("uid-p")})}, id="the-status-lists-it"),
        pytest.param({"owners": (owner("b"),)}, id="its-owners-name-it-now"),
        pytest.param({"pre_allocated_pods": frozenset({Uid("uid-p")})}, id="it-was-placed-over-it"),
    ],
)
def test_a_pod_is_let_in_once_the_reservation_says_so(accounting, change):
    accounting.observe_pod(pod("p", 4, app="b", allocated_reservation=R), node="n1")
    accounting.observe_reservation(replace(accounting.reservation(R), **change))
    assert [each.uid for each in accounting.owner_pods(R)] == ["uid-p"]


def test_who_was_in_stays_in_when_labels_and_owners_change(accounting):
    accounting.observe_pod(pod("p", 4, app="a", allocated_reservation=R), node="n1")
    accounting.observe_reservation(replace(accounting.reservation(R), owners=(owner("b"),)))
    accounting.observe_pod(pod("p", 4, app="c", allocated_reservation=R), node="n1")
    assert len(accounting.owner_pods(R)) == 1


def test_an_admitted_pod_stays_in_before_and_after_its_annotation_is_seen(accounting):
    first = pod("p", 2, app="a")
    assert accounting.assume_pod(first, "n1") == AssumedPod(node="n1", reservation=R)
    accounting.observe_pod(first, node="n1")
    accounting.observe_pod(replace(first, allocated_reservation=R), node="n1")
    accounting.observe_pod(replace(first, allocated_reservation=R, amounts=pod(cpu=3).amounts), node="n1")
    held = accounting.node("n1").reservations[R]
    assert (held.remaining("cpu"), held.remaining("example.com/never-held")) == (of(1)["cpu"], 0)


def test_a_bind_that_is_asked_again_has_the_same_answer_and_no_other_node(accounting):
    first = pod("p", 4, app="a")
    assert accounting.assume_pod(first, "n1") == accounting.assume_pod(first, "n1")
    (rejection,) = accounting.assume_pod(first, "n2")
    assert (rejection.reason, rejection.text) == (
        RejectionReason.PLACED_ELSEWHERE,
        "the pod is already assigned to node n1",
    )
    accounting.forget_pod(first.uid)
    assert isinstance(accounting.assume_pod(first, "n2"), AssumedPod)


def test_a_place_is_taken_back_unless_the_pod_was_seen_to_have_one(accounting):
    """While its place was being taken back somebody else has bound it: what it has there is charged."""
    first, second = pod("p", 4, app="a"), pod("q", 1)
    for each in (first, second):
        accounting.assume_pod(each, "n1")
    accounting.observe_pod(first, node="n2")
    for each in (first, second):
        accounting.forget_assumed_pod(each.uid)
    assert [accounting.node(name).free("cpu") for name in NODES[:2]] == [of(6)["cpu"], of(6)["cpu"]]


def test_a_reservation_with_allocate_once_takes_one_owner(accounting):
    accounting.observe_reservation(replace(accounting.reservation(R), allocate_once=True))
    assert accounting.assume_pod(pod("p", 1, app="a"), "n1") == AssumedPod(node="n1", reservation=R)
    assert accounting.assume_pod(pod("q", 1, app="a"), "n1") == AssumedPod(node="n1"), "it runs beside it"
    assert len(accounting.owner_pods(R)) == 1


@pytest.mark.parametrize("change", [{"terminating": True}, {"available": False}], ids=["terminating", "gone"])
def test_a_reservation_that_ends_admits_no_pod(accounting, change):
    accounting.observe_reservation(replace(accounting.reservation(R), **change))
    assert accounting.assume_pod(pod("p", 1, app="a"), "n1") == AssumedPod(node="n1")


def test_a_terminating_reservation_holds_until_it_is_gone(accounting):
    accounting.observe_reservation(replace(accounting.reservation(R), terminating=True))
    assert accounting.node("n1").free("cpu") == of(6)["cpu"]
    accounting.forget_reservation(R)
    assert accounting.node("n1").free("cpu") == of(10)["cpu"]


def test_a_deleted_reservation_leaves_its_pods_where_they_are(accounting):
    accounting.assume_pod(pod("p", 3, app="a"), "n1")
    accounting.forget_reservation(R)
    assert accounting.assignment(Uid("uid-p")).reservation is None
    assert accounting.node("n1").free("cpu") == of(7)["cpu"]


def test_a_reservation_that_moves_holds_on_the_new_node_only(accounting):
    accounting.assume_pod(pod("p", 3, app="a"), "n1")
    accounting.observe_reservation(replace(accounting.reservation(R), node="n2"))
    assert [accounting.node(name).free("cpu") for name in NODES[:2]] == [of(7)["cpu"], of(6)["cpu"]]


def test_a_resized_reservation_holds_what_it_says_now(accounting):
    accounting.assume_pod(pod("p", 3, app="a"), "n1")
    accounting.observe_reservation(replace(accounting.reservation(R), allocatable={**of(2), PODS: of(pods=1)[PODS]}))
    assert accounting.node("n1").free("cpu") == of(7)["cpu"]


def test_nodes_with_a_fitting_reservation_come_first(accounting):
    accounting.observe_reservation(reservation_info("s", 8, app="a", node="n2", policy=RESTRICTED, order=3))
    wanted = pod("p", 4, app="a")
    assert accounting.prioritize(wanted, accounting.filter_nodes(wanted).feasible) == {"n1": 10, "n2": 100}
    assert accounting.prioritize(pod("q", 4), NODES) == {}


def test_each_reservation_says_why_not(accounting):
    accounting.observe_reservation(reservation_info("s", 8, app="b", node="n2"))
    reasons = {
        held.name: rejection and rejection.reason for held, rejection in accounting.rejections(pod("p", 1, app="a"))
    }
    assert reasons == {"r": None, "s": RejectionReason.NOT_OWNER}


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"object": {"uid": "uid-p"}}, id="uid"),
        pytest.param({"object": {"name": "p"}}, id="name"),
        pytest.param({"object": {"namespace": "default"}}, id="namespace"),
        pytest.param({"controller": {"uid": "u"}}, id="controller-uid"),
        pytest.param({"controller": {"name": "job", "kind": "Job"}}, id="controller-name"),
        pytest.param({"controller": {"kind": "Job"}}, id="controller-kind"),
        pytest.param({"labelSelector": {"matchLabels": {"app": "x", "job": "y"}}}, id="labels"),
        pytest.param(
            {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["w", "x"]}]}}, id="in"
        ),
        pytest.param({"labelSelector": {"matchExpressions": [{"key": "no", "operator": "DoesNotExist"}]}}, id="not"),
        pytest.param({}, id="everybody"),
    ],
)
def test_a_reservation_is_found_by_whatever_its_owners_say(accounting, given):
    accounting.observe_reservation(replace(accounting.reservation(R), owners=(ReservationOwner.model_validate(given),)))
    candidate = pod(
        "p",
        1,
        labels={"app": "x", "job": "y"},
        owner_references=(OwnerReference(kind="Job", name="job", uid=Uid("u")),),
        affinity=REQUIRED,
    )
    assert accounting.filter_nodes(candidate).feasible == ("n1",)
    assert accounting.filter_nodes(replace(candidate, ignores_reservations=True)).feasible == ("n1", "n2")


def test_pods_that_are_counted_as_a_sum_take_what_they_take_one_by_one():
    pods = [pod("p", 1), pod("q", 2), pod("owner", 1, app="a", allocated_reservation=Uid("uid-r"))]
    at_once, one_by_one = ReservationAccounting(), ReservationAccounting()
    at_once.observe_node("n", of(16), unreserved=quantities.total(each.amounts for each in pods[:2]))
    one_by_one.observe_node("n", of(16))
    for accounting in (at_once, one_by_one):
        accounting.observe_reservation(reservation_info("r", 4, app="a", node="n"))
    at_once.observe_pod(pods[2], node="n")
    for each in pods:
        one_by_one.observe_pod(each, node="n")
    assert at_once.node("n") == one_by_one.node("n")
    for cpu in (1, 9, 10):
        assert at_once.feasible_nodes(pod("x", cpu)) == one_by_one.feasible_nodes(pod("x", cpu))
        assert bool(at_once.feasible_nodes(pod("x", cpu))) is (at_once.filter_nodes(pod("x", cpu)).feasible == ("n",))
