"""What the books say of single things; what they say whatever happens is in `test_histories`."""

import pytest
from msgspec.structs import replace

from dra.api.reservations.model import ReservationOwner
from dra.engine.reservations.accounting import AssumedPod, ReservationAccounting
from dra.engine.reservations.rejections import RejectionReason
from dra.model.meta import OwnerReference, Uid
from dra.model.quantities import PODS
from tests.dra.engine.reservations.examples import REQUIRED, RESTRICTED, holding, of, owner, pod

NODES = ("n1", "n2", "n3")


@pytest.fixture
def books():
    found = ReservationAccounting()
    found.observe_node("n1", of(10), labels={})
    found.observe_node("n2", of(10), labels={})
    found.observe_reservation(holding("r", 4, app="a", node="n1", policy=RESTRICTED))
    return found


R = Uid("uid-r")


def test_an_annotation_alone_lets_nobody_in(books):
    books.observe_pod(pod("thief", 4, app="b", reservation=R), node="n1")
    assert books.consumers(R) == ()
    assert books.room("n1").free("cpu") == of(2)["cpu"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"listed": frozenset({Uid("uid-p")})}, id="the-status-lists-it"),
        pytest.param({"owners": (owner("b"),)}, id="its-owners-name-it-now"),
        pytest.param({"predecessors": frozenset({Uid("uid-p")})}, id="it-was-placed-over-it"),
    ],
)
def test_a_pod_is_let_in_once_the_reservation_says_so(books, change):
    books.observe_pod(pod("p", 4, app="b", reservation=R), node="n1")
    books.observe_reservation(replace(books.holding(R), **change))
    assert [each.uid for each in books.consumers(R)] == ["uid-p"]


def test_who_was_in_stays_in_when_labels_and_owners_change(books):
    books.observe_pod(pod("p", 4, app="a", reservation=R), node="n1")
    books.observe_reservation(replace(books.holding(R), owners=(owner("b"),)))
    books.observe_pod(pod("p", 4, app="c", reservation=R), node="n1")
    assert len(books.consumers(R)) == 1


def test_an_admitted_pod_stays_in_before_and_after_its_annotation_is_seen(books):
    first = pod("p", 2, app="a")
    assert books.admit(first, "n1") == AssumedPod(node="n1", inside=R)
    books.observe_pod(first, node="n1")
    books.observe_pod(replace(first, reservation=R), node="n1")
    books.observe_pod(replace(first, reservation=R, amounts=pod(cpu=3).amounts), node="n1")
    held = books.room("n1").held[R]
    assert (held.remainder("cpu"), held.remainder("example.com/never-held")) == (of(1)["cpu"], 0)


def test_a_bind_that_is_asked_again_has_the_same_answer_and_no_other_node(books):
    first = pod("p", 4, app="a")
    assert books.admit(first, "n1") == books.admit(first, "n1")
    (refusal,) = books.admit(first, "n2")
    assert (refusal.why, refusal.text) == (RejectionReason.ELSEWHERE, "the pod is already assigned to node n1")
    books.forget_pod(first.uid)
    assert isinstance(books.admit(first, "n2"), AssumedPod)


def test_a_place_is_taken_back_unless_the_pod_was_seen_to_have_one(books):
    """While its place was being taken back somebody else has bound it: what it has there is charged."""
    first, second = pod("p", 4, app="a"), pod("q", 1)
    for each in (first, second):
        books.admit(each, "n1")
    books.observe_pod(first, node="n2")
    for each in (first, second):
        books.withdraw(each.uid)
    assert [books.room(name).free("cpu") for name in NODES[:2]] == [of(6)["cpu"], of(6)["cpu"]]


def test_a_reservation_with_allocate_once_takes_one_owner(books):
    books.observe_reservation(replace(books.holding(R), allocate_once=True))
    assert books.admit(pod("p", 1, app="a"), "n1") == AssumedPod(node="n1", inside=R)
    assert books.admit(pod("q", 1, app="a"), "n1") == AssumedPod(node="n1"), "it runs beside it"
    assert len(books.consumers(R)) == 1


@pytest.mark.parametrize("change", [{"terminating": True}, {"available": False}], ids=["terminating", "gone"])
def test_a_reservation_that_ends_admits_no_pod(books, change):
    books.observe_reservation(replace(books.holding(R), **change))
    assert books.admit(pod("p", 1, app="a"), "n1") == AssumedPod(node="n1")


def test_a_terminating_reservation_holds_until_it_is_gone(books):
    books.observe_reservation(replace(books.holding(R), terminating=True))
    assert books.room("n1").free("cpu") == of(6)["cpu"]
    books.forget_reservation(R)
    assert books.room("n1").free("cpu") == of(10)["cpu"]


def test_a_deleted_reservation_leaves_its_pods_where_they_are(books):
    books.admit(pod("p", 3, app="a"), "n1")
    books.forget_reservation(R)
    assert books.seat(Uid("uid-p")).inside is None
    assert books.room("n1").free("cpu") == of(7)["cpu"]


def test_a_reservation_that_moves_holds_on_the_new_node_only(books):
    books.admit(pod("p", 3, app="a"), "n1")
    books.observe_reservation(replace(books.holding(R), node="n2"))
    assert [books.room(name).free("cpu") for name in NODES[:2]] == [of(7)["cpu"], of(6)["cpu"]]


def test_a_resized_reservation_holds_what_it_says_now(books):
    books.admit(pod("p", 3, app="a"), "n1")
    books.observe_reservation(replace(books.holding(R), amounts={**of(2), PODS: of(pods=1)[PODS]}))
    assert books.room("n1").free("cpu") == of(7)["cpu"]


def test_nodes_with_a_fitting_reservation_come_first(books):
    books.observe_reservation(holding("s", 8, app="a", node="n2", policy=RESTRICTED, order=3))
    wanted = pod("p", 4, app="a")
    assert books.scores(wanted, books.sift(wanted).fits) == {"n1": 10, "n2": 100}
    assert books.scores(pod("q", 4), NODES) == {}


def test_each_reservation_says_why_not(books):
    books.observe_reservation(holding("s", 8, app="b", node="n2"))
    said = {held.name: refusal and refusal.why for held, refusal in books.refusals(pod("p", 1, app="a"))}
    assert said == {"r": None, "s": RejectionReason.NOT_OWNER}


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
def test_a_reservation_is_found_by_whatever_its_owners_say(books, given):
    books.observe_reservation(replace(books.holding(R), owners=(ReservationOwner.model_validate(given),)))
    claimant = pod(
        "p",
        1,
        labels={"app": "x", "job": "y"},
        owners=(OwnerReference(kind="Job", name="job", uid=Uid("u")),),
        affinity=REQUIRED,
    )
    assert books.sift(claimant).fits == ("n1",)
    assert books.sift(replace(claimant, ignores=True)).fits == ("n1", "n2")
