"""The bindings whose capacity stays held, and what a live read makes of them."""

import msgspec
import pytest

from dra.engine.scheduling import bindings
from dra.engine.scheduling.scheduler_cache import SchedulerCache
from dra.engine.scheduling.status_updates import WriteRefusedError
from dra.engine.scheduling.unconfirmed_bindings import UnconfirmedBindings
from tests.dra.engine.scheduling.examples import NODE, pod, reservation

UID = pod().metadata.uid


@pytest.fixture
def cache():
    filled = SchedulerCache()
    filled.observe_node(NODE)
    filled.observe_pod(pod(node=""))
    return filled


@pytest.fixture
def unconfirmed(cache):
    return UnconfirmedBindings(cache)


@pytest.fixture
def binding(cache):
    return bindings.assume_pod(cache, pod(node=""), "n1")


def replaced():
    return msgspec.structs.replace(pod(node="n1"), metadata=msgspec.structs.replace(pod().metadata, uid="another"))


@pytest.mark.parametrize(
    ("read", "is_known", "node"),
    [
        pytest.param(pod(node="n1"), True, "n1", id="bound"),
        pytest.param(pod(node="n2"), True, "n2", id="bound-elsewhere"),
        pytest.param(None, True, None, id="deleted"),
        pytest.param(replaced(), True, None, id="replaced"),
        pytest.param(pod(node=""), False, "n1", id="not-bound"),
    ],
)
def test_a_read_shows_the_outcome_before_the_watch_does(cache, unconfirmed, binding, read, is_known, node):
    unconfirmed.add(binding, writes_possible_until=10.0)
    assert unconfirmed.confirm_outcome(binding, read) is is_known
    assignment = cache.accounting.assignment(UID)
    assert (len(unconfirmed), assignment and assignment.node) == (0 if is_known else 1, node)
    assert assignment is None or assignment.assumed is not is_known


@pytest.mark.parametrize(
    ("read", "is_bound"),
    [
        pytest.param(pod(node="n1"), True, id="bound"),
        pytest.param(pod(node=""), False, id="not-bound"),
        pytest.param(None, False, id="deleted"),
        pytest.param(replaced(), False, id="replaced"),
    ],
)
def test_an_earlier_attempt_may_have_bound_the_pod(unconfirmed, binding, read, is_bound):
    unconfirmed.begin(UID)
    assert unconfirmed.confirm_bound(binding, read) is is_bound
    assert unconfirmed.is_in_progress(UID) is not is_bound


def test_an_earlier_attempt_that_has_bound_the_pod_elsewhere_is_an_error(cache, unconfirmed, binding):
    with pytest.raises(WriteRefusedError, match="bound to node n2 already"):
        unconfirmed.confirm_bound(binding, pod(node="n2"))
    assert cache.accounting.assignment(UID).node == "n2"


def test_a_rollback_frees_the_capacity(cache, unconfirmed, binding):
    unconfirmed.add(binding, writes_possible_until=10.0)
    unconfirmed.roll_back(binding)
    assert (len(unconfirmed), cache.accounting.assignment(UID)) == (0, None)


@pytest.mark.parametrize(
    ("change", "now", "due"),
    [
        pytest.param(lambda *_: None, 9.9, [], id="its-writes-may-still-arrive"),
        pytest.param(lambda *_: None, 10.0, [UID], id="its-writes-cannot-arrive-any-more"),
        pytest.param(lambda made, _: made.begin(UID), 10.0, [], id="a-newer-attempt-is-in-progress"),
        pytest.param(lambda made, _: made.confirm(UID), 10.0, [], id="confirmed"),
        pytest.param(
            lambda made, old: made.add(old, writes_possible_until=20.0),
            10.0,
            [],
            id="a-newer-attempt-is-unanswered",
        ),
    ],
)
def test_a_binding_is_read_once_none_of_its_writes_can_arrive(unconfirmed, binding, change, now, due):
    unconfirmed.begin(UID)
    unconfirmed.add(binding, writes_possible_until=10.0)
    change(unconfirmed, binding)
    assert [each.pod.uid for each in unconfirmed.due_bindings(now=now)] == due


def test_an_attempt_that_begins_while_others_are_read_is_not_read(unconfirmed, binding):
    other = msgspec.structs.replace(binding, pod=msgspec.structs.replace(binding.pod, uid="other"))
    for each in (binding, other):
        unconfirmed.add(each, writes_possible_until=0.0)
    due = unconfirmed.due_bindings(now=1.0)
    assert next(due).pod.uid == UID
    unconfirmed.begin("other")
    assert list(due) == []


def test_a_placement_is_confirmed_once_none_of_its_writes_can_arrive(cache, unconfirmed):
    cache.observe_reservation(reservation())
    known = cache.reservation("uid-r")
    unconfirmed.add_placement(known, writes_possible_until=10.0)
    assert unconfirmed.is_unconfirmed("uid-r")
    assert list(unconfirmed.due_placements(now=9.0)) == []
    (placement,) = unconfirmed.due_placements(now=10.0)
    with (
        unconfirmed.placement("uid-r"),
        pytest.raises(WriteRefusedError, match="is being confirmed"),
        unconfirmed.placement("uid-r"),
    ):
        pytest.fail("two placements at a time")
    unconfirmed.confirm_placement(placement)
    assert len(unconfirmed) == 0


@pytest.mark.parametrize(
    ("status", "adopted"),
    [
        pytest.param({"currentOwners": [{"namespace": "default", "name": "p", "uid": UID}]}, [UID], id="unbound-owner"),
        pytest.param({"currentOwners": [{"namespace": "default", "name": "q", "uid": "q"}]}, [], id="unknown-owner"),
        pytest.param({}, [], id="no-owner"),
    ],
)
def test_after_a_start_unbound_owners_are_held_until_their_binding_is_read(cache, unconfirmed, status, adopted):
    made = reservation()
    made.content["status"] |= status
    cache.observe_reservation(made)
    unconfirmed.adopt_reserved_pods(writes_possible_until=10.0)
    assert [each.pod.uid for each in unconfirmed.due_bindings(now=10.0)] == adopted
    assert (cache.accounting.assignment(UID) is not None) == bool(adopted)
