"""The books say what a slow and obviously right model says, whatever happens, and in whatever order it is told."""

import os
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dra.api.reservations.model import Owner
from dra.engine.reservations.amounts import PODS
from dra.engine.reservations.books import Admission, Books
from dra.engine.reservations.placing import Place
from dra.engine.reservations.preemption import victims
from dra.engine.reservations.refusals import Why
from dra.model.meta import OwnerReference, Uid
from tests.dra.engine.reservations.examples import (
    ALIGNED,
    DEFAULT,
    REQUIRED,
    RESTRICTED,
    holding,
    of,
    owner,
    pod,
)
from tests.dra.engine.reservations.slow import Slow

HISTORIES = 10_000 if os.environ.get("HYPOTHESIS_PROFILE") == "deep" else 250
NODES, APPS = ("n1", "n2", "n3"), ("a", "b")
PROBES = [
    *(pod(f"probe-{app}-{cpu}", cpu, app=app) for app in APPS for cpu in (0, 1, 2, 5)),
    pod("probe-memory", 1, memory=3, app="a"),
    pod("probe-required", 2, app="a", affinity=REQUIRED),
    pod("probe-ignoring", 3, app="b", ignores=True),
]
UNPLACED = [
    holding("large", 6, memory=2),
    holding("restricted", 1, policy=RESTRICTED),
    holding("over", 4, policy=RESTRICTED, pre_allocates=True),
]


class History:
    """The books and the model, told the same."""

    def __init__(self):
        self.books, self.slow = Books(), Slow()
        self.numbers = count()
        self.strict = set(NODES)
        """Nodes on which nothing has happened that a scheduler cannot help: shrinking, bypassing, ignoring."""

    def node(self, name, cpu, memory, pods):
        capacity = of(cpu, memory=memory, pods=pods)
        before = self.slow.nodes.get(name)
        if before is None or any(capacity[r] < before.get(r, 0) for r in before):
            self.strict.discard(name)
        self.books.observe_node(name, capacity, labels={})
        self.slow.nodes[name] = capacity

    def node_gone(self, name):
        self.books.forget_node(name)
        self.slow.nodes.pop(name, None)
        self.strict.discard(name)

    def reserve(self, node, app, cpu, memory, policy, once, inner):  # noqa: PLR0917 - a step's own fields
        new = holding(
            f"r{next(self.numbers)}",
            cpu,
            memory=memory,
            app=app,
            policy=policy,
            allocate_once=once,
            inner=of(inner) if inner else {},
        )
        found = self.books.place(new, node)
        clash = any(
            (self.slow.reservations[uid].policy is DEFAULT) != (policy is DEFAULT)
            and not (self.slow.reservations[uid].allocate_once and self.slow.entered(uid))
            for uid in self.slow.on(node)
        )
        room = node in self.slow.nodes and all(
            amount <= self.slow.free(node, r) for r, amount in new.amounts.items() if amount
        )
        assert isinstance(found, Place) is (room and not clash), found
        if isinstance(found, Place):
            self.slow.reservations[new.uid] = replace(new, node=node)

    def expire(self, index, deleted):
        if not self.slow.reservations:
            return
        uid = sorted(self.slow.reservations)[index % len(self.slow.reservations)]
        gone = self.slow.reservations.pop(uid)
        for key, (p, node, inside) in self.slow.pods.items():
            if inside == uid:
                self.slow.pods[key] = (p, node, None)
        if deleted:
            self.books.forget_reservation(uid)
        else:
            self.books.observe_reservation(replace(gone, available=False))

    def admit(self, node, app, cpu, memory, required, ignores):
        name = f"p{next(self.numbers)}"
        new = pod(name, cpu, memory=memory, app=app, affinity=REQUIRED if required else None, ignores=ignores)
        expected = self.slow.filter(new)
        assert set(self.books.filter(new)) == expected
        found = self.books.admit(new, node)
        assert isinstance(found, Admission) is (node in expected), found
        if isinstance(found, Admission):
            inside = self.slow.inside(new, node)
            assert found.inside in inside if inside else found.inside is None
            self.slow.pods[new.uid] = (new, node, found.inside)
            if ignores:
                self.strict.discard(node)

    def bypass(self, node, cpu):
        new = pod(f"p{next(self.numbers)}", cpu)
        self.books.observe_pod(new, node=node)
        self.slow.pods[new.uid] = (new, node, None)
        self.strict.discard(node)

    def end(self, index):
        if not self.slow.pods:
            return
        uid = sorted(self.slow.pods)[index % len(self.slow.pods)]
        self.books.forget_pod(uid)
        del self.slow.pods[uid]

    def preempt(self, node, app, cpu, victims_below):
        wanting = pod(f"p{next(self.numbers)}", cpu, app=app, priority=victims_below)
        if node not in self.slow.nodes:
            return
        there = self.books.occupants(node)
        found = victims(self.books.room(node), wanting, there)
        before = dict(self.slow.pods)
        if found is not None:
            for each in found.pods:
                self.slow.pods.pop(each.uid)
            assert self.slow.fits(wanting, node), "they would die in vain"
            for each in found.pods:
                self.slow.pods[each.uid] = before[each.uid]
                assert not self.slow.fits(wanting, node), "one of them need not die"
                del self.slow.pods[each.uid]
        else:
            for each in there:
                self.slow.pods.pop(each.pod.uid)
            gone = self.slow.fits(wanting, node)
            self.slow.pods = before
            assert self.slow.fits(wanting, node) or not gone
        self.slow.pods = before

    def restart(self, order):
        """Fill new books from what the API has: objects in any order."""
        told = [
            *(("node", name) for name in self.slow.nodes),
            *(("reservation", uid) for uid in self.slow.reservations),
            *(("pod", uid) for uid in self.slow.pods),
        ]
        order.shuffle(told)
        self.books = Books()
        for kind, name in told:
            if kind == "node":
                capacity = self.slow.nodes[name]
                self.books.observe_node(name, capacity, labels={})
            elif kind == "reservation":
                self.books.observe_reservation(self.slow.reservations[name])
            else:
                p, node, inside = self.slow.pods[name]
                self.books.observe_pod(replace(p, reservation=inside or Uid("")), node=node)

    def check(self):
        slow, books = self.slow, self.books
        for name in slow.nodes:
            room = books.room(name)
            for resource in ("cpu", "memory", PODS):
                assert room.charged.get(resource, 0) == slow.charged(name, resource), (name, resource)
                if name in self.strict:
                    assert slow.used(name, resource) <= slow.nodes[name][resource], "more than a node has"
                    assert slow.free(name, resource) >= 0, "promised twice"
        for uid, held in slow.reservations.items():
            label = held.owners[0].label_selector.match_labels["app"]
            assert all(p.labels["app"] == label for p in books.consumers(uid)), "a stranger inside"
            assert {p.uid for p in books.consumers(uid)} == {p.uid for p, _, i in slow.pods.values() if i == uid}
            if held.node not in slow.nodes:
                continue
            for resource in ("cpu", "memory"):
                left = books.room(held.node).held[uid].remainder(resource)
                assert left == slow.remainder(uid, resource), (uid, resource)
            usable = not (held.allocate_once and slow.entered(uid))
            if held.node in self.strict and usable:
                rest = books.room(held.node).held[uid].remainder("cpu")
                due = pod("due", app=label, amounts={"cpu": rest})
                assert books.explain(due, held.node).fits, "an owner was refused what is held for it"
        for probe in PROBES:
            assert set(books.filter(probe)) == slow.filter(probe), probe.key

    def check_all_at_once(self):
        """What is told of all nodes at once is what each of them says."""
        books, slow = self.books, self.slow
        for probe in PROBES:
            each = {name: texts(books.explain(probe, name).refusals) for name in slow.nodes}
            assert told(books.sift(probe)) == each, probe.key
        for new in UNPLACED:
            for only, required in (("", False), ("n1", False), ("", True)):
                each = {name: answer(books._place(new, name, only=only, required=required)) for name in slow.nodes}
                assert told(books.places(new, only=only, required=required)) == each, (new.name, only, required)


def texts(refusals):
    return [each.text for each in refusals]


def answer(found):
    return [] if isinstance(found, Place) else texts(found)


def told(sifted):
    found = {name: texts(each.why) for each in sifted.refused for name in each.nodes}
    assert not found.keys() & set(sifted.fits)
    assert sum(len(each.nodes) for each in sifted.refused) == len(found)
    return found | {name: [] for name in sifted.fits}


nodes, apps = st.sampled_from(["n1", *NODES]), st.sampled_from(["a", *APPS])  # often the same, so that much meets
some, small, flag, never = st.integers(1, 4), st.integers(0, 4), st.booleans(), st.sampled_from([False])
policies = st.sampled_from([RESTRICTED, ALIGNED, DEFAULT])
RESERVE = st.tuples(st.just("reserve"), nodes, apps, some, small, policies, flag, st.integers(0, 1))
ADMIT = st.tuples(st.just("admit"), nodes, apps, some, st.integers(0, 2), never, never)
STEPS = st.one_of(
    *(RESERVE, RESERVE, ADMIT, ADMIT, ADMIT),
    st.tuples(st.just("admit"), nodes, apps, small, st.integers(0, 2), flag, flag),
    st.tuples(st.just("end"), st.integers(0, 20)),
    st.tuples(st.just("expire"), st.integers(0, 5), flag),
    st.tuples(st.just("preempt"), nodes, apps, st.integers(2, 8), st.just(1)),
    st.tuples(st.just("preempt"), nodes, apps, some, st.just(1)),
    st.tuples(st.just("node"), nodes, st.integers(1, 8), st.integers(1, 8), st.integers(1, 6)),
    st.tuples(st.just("node_gone"), nodes),
    st.tuples(st.just("bypass"), nodes, small),
    st.tuples(st.just("restart"), st.randoms(use_true_random=False)),
)


@settings(max_examples=HISTORIES)
@given(st.lists(STEPS, min_size=10, max_size=40))
def test_whatever_happens_the_books_say_what_is_right(steps):
    history = History()
    for name, cpu in zip(NODES, (8, 6, 4), strict=True):
        history.node(name, cpu, 8, 6)
    history.strict = set(NODES)
    for what, *arguments in steps:
        getattr(history, what)(*arguments)
        history.check()
    history.check_all_at_once()


@pytest.fixture
def books():
    found = Books()
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
    assert books.admit(first, "n1") == Admission(node="n1", inside=R)
    books.observe_pod(first, node="n1")
    books.observe_pod(replace(first, reservation=R), node="n1")
    books.observe_pod(replace(first, reservation=R, amounts=pod(cpu=3).amounts), node="n1")
    assert books.room("n1").held[R].remainder("cpu") == of(1)["cpu"]


def test_a_bind_that_is_asked_again_has_the_same_answer_and_no_other_node(books):
    first = pod("p", 4, app="a")
    assert books.admit(first, "n1") == books.admit(first, "n1")
    (refusal,) = books.admit(first, "n2")
    assert (refusal.why, refusal.text) == (Why.ELSEWHERE, "the pod has a place on node n1 already")
    books.forget_pod(first.uid)
    assert isinstance(books.admit(first, "n2"), Admission)


def test_a_place_is_taken_back_unless_the_pod_was_seen_to_have_one(books):
    """While its place was being taken back somebody else has bound it: what it has there is charged."""
    first, second = pod("p", 4, app="a"), pod("q", 1)
    for each in (first, second):
        books.admit(each, "n1")
    books.observe_pod(first, node="n2")
    for each in (first, second):
        books.withdraw(each.uid)
    assert [books.room(name).free("cpu") for name in NODES[:2]] == [of(6)["cpu"], of(6)["cpu"]]


def test_a_second_owner_of_a_reservation_for_one_is_told_so(books):
    books.observe_reservation(replace(books.holding(R), allocate_once=True))
    assert books.enter(pod("p", 1, app="a"), R) == Admission(node="n1", inside=R)
    (refusal,) = books.enter(pod("q", 1, app="a"), R)
    assert refusal.text == "reservation has allocateOnce enabled and has already been allocated"
    assert isinstance(books.admit(pod("q", 1, app="a"), "n1"), Admission), "it runs beside it"
    assert len(books.consumers(R)) == 1


@pytest.mark.parametrize(
    ("change", "text"),
    [
        pytest.param({"terminating": True}, "target reservation is terminating", id="terminating"),
        pytest.param({"available": False}, "cannot find target reservation", id="gone"),
    ],
)
def test_a_reservation_that_ends_lets_nobody_in_any_more(books, change, text):
    books.observe_reservation(replace(books.holding(R), **change))
    assert [each.text for each in books.enter(pod("p", 1, app="a"), R)] == [text]


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
    assert books.scores(wanted, books.filter(wanted)) == {"n1": 10, "n2": 100}
    assert books.scores(pod("q", 4), NODES) == {}


def test_each_reservation_says_why_not(books):
    books.observe_reservation(holding("s", 8, app="b", node="n2"))
    said = {held.name: refusal and refusal.why for held, refusal in books.refusals(pod("p", 1, app="a"))}
    assert said == {"r": None, "s": Why.NOT_OWNER}


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
    books.observe_reservation(replace(books.holding(R), owners=(Owner.model_validate(given),)))
    claimant = pod(
        "p",
        1,
        labels={"app": "x", "job": "y"},
        owners=(OwnerReference(kind="Job", name="job", uid=Uid("u")),),
        affinity=REQUIRED,
    )
    assert books.filter(claimant) == ("n1",)
    assert books.filter(replace(claimant, ignores=True)) == ("n1", "n2")
