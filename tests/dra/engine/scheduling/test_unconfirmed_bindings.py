"""The bindings whose capacity stays held, and what a live read makes of them."""

import msgspec
import pytest

from dra.engine.instants import NEVER
from dra.engine.scheduling import bindings
from dra.engine.scheduling.scheduler_cache import SchedulerCache
from dra.engine.scheduling.status_updates import RemoveOwner, WriteRefusedError
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
    ("change", "now", "is_due", "next_check"),
    [
        pytest.param(lambda *_: None, 5.0, False, 10.0, id="its-writes-may-still-arrive"),
        pytest.param(lambda *_: None, 10.0, True, 11.0, id="its-writes-cannot-arrive-any-more"),
        pytest.param(lambda made, _: made.begin(UID), 10.0, False, 11.0, id="a-newer-attempt-is-in-progress"),
        pytest.param(lambda made, _: made.end(UID), 10.0, True, 11.0, id="a-newer-attempt-was-refused"),
        pytest.param(lambda made, _: made.confirm(UID), 10.0, False, NEVER, id="confirmed"),
        pytest.param(
            lambda made, old: made.add(old, writes_possible_until=20.0),
            10.0,
            False,
            20.0,
            id="a-newer-one-fails",
        ),
    ],
)
def test_a_binding_is_read_once_none_of_its_writes_can_arrive(unconfirmed, binding, change, now, is_due, next_check):
    unconfirmed.begin(UID)
    unconfirmed.add(binding, writes_possible_until=10.0)
    assert unconfirmed.dirty.take() == {UID: 10.0}
    change(unconfirmed, binding)
    assert (unconfirmed.due(UID, now=now) is not None) is is_due
    assert unconfirmed.next_check(UID, now=now) == next_check


def test_a_placement_is_confirmed_once_none_of_its_writes_can_arrive(cache, unconfirmed):
    cache.observe_reservation(reservation())
    unconfirmed.add_placement(cache.reservation("uid-r"), writes_possible_until=10.0)
    assert unconfirmed.dirty.take() == {"uid-r": 10.0}
    assert unconfirmed.is_unconfirmed("uid-r")
    assert unconfirmed.due("uid-r", now=9.0) is None
    with (
        unconfirmed.placement("uid-r"),
        pytest.raises(WriteRefusedError, match="is being confirmed"),
        unconfirmed.placement("uid-r"),
    ):
        pytest.fail("two placements at a time")
    unconfirmed.confirm_placement(unconfirmed.due("uid-r", now=10.0))
    assert len(unconfirmed) == 0


def test_a_replica_that_begins_to_act_checks_everything_in_its_time(cache, unconfirmed, binding):
    cache.observe_reservation(reservation())
    unconfirmed.add(binding, writes_possible_until=10.0)
    unconfirmed.add_placement(cache.reservation("uid-r"), writes_possible_until=20.0)
    unconfirmed.discard_dirty()
    unconfirmed.mark_all_dirty()
    assert unconfirmed.dirty.take() == {UID: 10.0, "uid-r": 20.0}


@pytest.mark.parametrize(
    ("is_cached", "removed"), [pytest.param(True, RemoveOwner, id="listed"), pytest.param(False, None, id="deleted")]
)
def test_a_rollback_begins_with_the_status_that_may_name_the_pod(cache, unconfirmed, binding, is_cached, removed):
    if is_cached:
        cache.observe_reservation(reservation())
    inside = msgspec.structs.replace(binding, reservation="uid-r")
    assert unconfirmed.owner_removal(inside) == (removed and removed(binding.pod))
    assert unconfirmed.owner_removal(binding) is None


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
    assert unconfirmed.dirty.take() == dict.fromkeys(adopted, 10.0)
    assert (cache.accounting.assignment(UID) is not None) == bool(adopted)
