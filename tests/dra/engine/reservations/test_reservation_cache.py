"""What the controller remembers of reservations and their pods, and which reservations each observation concerns."""

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from dra.api.configuration import PlaceholderMode
from dra.api.reservations.model import API_VERSION, KIND
from dra.engine.instants import NEVER
from dra.engine.reservations import placeholders
from dra.engine.reservations.actions import RemoveSchedulingGate
from dra.engine.reservations.lifecycle import NODE_CHECK_INTERVAL
from dra.engine.reservations.reservation_cache import (
    BACKOFF_AFTER_UNUSED,
    BINDING_EXPECTED,
    BINDING_TIMEOUT,
    CREATE_BACKOFF,
    STATUS_DEBOUNCE,
    STATUS_INTERVAL,
    ReservationCache,
    is_reservation_or_pending_pod,
    is_reservation_pod,
)
from dra.engine.reservations.view import ReservationPolicy, UnreadableReservation
from dra.model.meta import ObjectMeta, OwnerReference, Uid
from dra.model.nodes import Node
from dra.model.scheduling import SchedulerPod, SchedulerPodSpec
from tests.dra.engine.reservations.examples import available_content, content, observed
from tests.violations import combinations, for_each_case

R, P = Uid("uid-demo"), Uid("uid-p")
OWNER = {"namespace": "default", "name": "p", "uid": P}
WAITS = SchedulerPod(metadata=ObjectMeta(namespace="default", name="p", uid=P))
ALLOCATED = "scheduling.koordinator.sh/reservation-allocated"
REPLACED, YIELDING = (
    ReservationPolicy(placeholders=mode) for mode in (PlaceholderMode.REPLACED, PlaceholderMode.YIELDING)
)
NODES = {("", "n"): msgspec.convert({"metadata": {"name": "n"}}, Node)}


def cache_with(whole=None, *, policy=REPLACED, now=0.0):
    """Return a cache of one reservation, which was reconciled."""
    cache = ReservationCache(policy)
    cache.observe(observed(whole or available_content()), now=now)
    cache.dirty.clear()
    return cache


def owner_pod(*, node="n", uid=P, gates=(), **metadata):
    return msgspec.convert(
        {
            "metadata": {**OWNER, "uid": uid, "annotations": {ALLOCATED: f'{{"uid": "{R}"}}'}, **metadata},
            "spec": {"nodeName": node, "schedulingGates": [{"name": gate} for gate in gates]},
        },
        SchedulerPod,
    )


def test_a_pod_that_only_a_read_has_shown_is_in_until_another_read_shows_its_end():
    """Its annotation was taken off, or it came and went while the watch had to begin anew."""
    cache = cache_with(available_content(status={"currentOwners": [OWNER]}))
    cache.observe_live_pod(R, P, replace(WAITS, spec=SchedulerPodSpec(node_name="n")), now=0.0)
    view = cache.view(R, nodes={})
    (inside,) = view.unbound_pods
    assert (inside.uid, inside.binding, view.reread_at) == (P, False, BINDING_TIMEOUT)
    cache.observe_live_pod(R, P, None, now=60.0)
    view = cache.view(R, nodes={})
    assert (view.ended_pods, view.unbound_pods, view.reread_at) == ({P}, (), NEVER)


@given(began=st.floats(min_value=0.0, max_value=1e7))
@example(began=4.1)  # 64.1 - 4.1 is less than 60
def test_a_pod_that_is_asked_about_again_when_it_is_due_is_not_due_again_at_the_same_instant(began):
    """Else time stands still in a simulation, and a core is busy outside (seed 382 of the histories, once)."""
    cache = cache_with()
    cache.observe_live_pod(R, P, WAITS, now=began)
    view = cache.view(R, nodes={})
    assert [pod.uid for pod in view.unbound_pods] == [P]
    cache.observe_live_pod(R, P, WAITS, now=view.reread_at)
    assert cache.view(R, nodes={}).reread_at == NEVER


def test_nothing_is_left_of_a_reservation_that_is_gone():
    cache = cache_with()
    cache.observe_live_pod(R, P, WAITS, now=0.0)
    cache.record_refusal(R, "no such namespace", now=0.0)
    cache.dirty.clear()
    cache.forget(R)
    assert (cache.name(R), cache.view(R, nodes={}), list(cache.dirty)) == ("", None, [R])
    cache.observe(observed(available_content(), "2"), now=0.0)
    view = cache.view(R, nodes={})
    assert (view.unbound_pods, view.create_error, view.create_retry_at) == ((), "", -NEVER)


def placeholder(uid, *, number=""):
    owner = OwnerReference(api_version=API_VERSION, kind=KIND, name="demo", uid=R, controller=True)
    name = f"{placeholders.placeholder_name(R)}{number}"
    return SchedulerPod(metadata=ObjectMeta(namespace="default", name=name, uid=Uid(uid), owner_references=[owner]))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["first-seen-first", "first-seen-last"])
def test_the_first_placeholder_is_told_from_its_successors_by_its_name(order):
    both = (placeholder("first"), placeholder("standby", number="-1"))
    cache = cache_with()
    for index in order:
        cache.observe_pod(both[index])
    view = cache.view(R, nodes={})
    assert (view.placeholder, view.other_placeholders) == (both[0], (both[1],))


def versioned(pod, version):
    return replace(pod, metadata=replace(pod.metadata, resource_version=version))


@pytest.mark.parametrize("pod", [placeholder("first"), WAITS], ids=["placeholder", "owner-pod"])
def test_a_response_that_comes_after_the_watch_events_of_later_changes_is_ignored(pod):
    """Seen on 1.37.1: kube-scheduler's condition was lost with it, and the Reservation had no status for ever."""
    cache = cache_with()
    for version in ("12", "9"):
        cache.observe_pod(versioned(pod, version))
    known = [*cache._placeholders.get(R, {}).values(), *cache._pods.values()]
    assert [each.metadata.resource_version for each in known] == ["12"]


def test_a_response_that_comes_after_the_deletion_of_its_pod_is_ignored():
    cache = cache_with()
    cache.observe_pod(versioned(placeholder("first"), "12"))
    cache.forget_pod(versioned(placeholder("first"), "13"))
    cache.observe_pod(versioned(placeholder("first"), "12"))
    assert cache.view(R, nodes={}).placeholder is None


def test_a_pod_that_only_left_the_selection_of_the_watch_comes_back():
    cache = cache_with()
    cache.leave_pod(versioned(placeholder("first"), "12"))
    cache.observe_pod(versioned(placeholder("first"), "13"))
    assert cache.view(R, nodes={}).placeholder is not None


def test_an_older_version_of_a_reservation_is_ignored():
    cache = cache_with()
    cache.observe(observed(content(), "0"), now=0.0)
    assert (list(cache.dirty), cache.view(R, nodes={}).version) == ([], "1")


SHARED = available_content(allocateOnce=False)


@for_each_case(
    combinations(
        [
            pytest.param(SHARED, REPLACED, None, 100.0 + STATUS_DEBOUNCE, id="more-may-come-in-a-moment"),
            pytest.param(SHARED, REPLACED, 99.0, 99.0 + STATUS_INTERVAL, id="written-a-moment-ago"),
            pytest.param(SHARED, REPLACED, 90.0, 100.0 + STATUS_DEBOUNCE, id="written-long-ago"),
            pytest.param(available_content(), REPLACED, None, -NEVER, id="for-one-pod-only"),
            pytest.param(SHARED, YIELDING, None, -NEVER, id="placeholders-give-way-at-once"),
        ],
        ["observe_pod", "forget_pod", "leave_pod"],
    )
)
def test_when_an_owner_pod_that_has_come_or_gone_is_reported(whole, policy, written, due, change):
    cache = cache_with(whole, policy=policy)
    if change != "observe_pod":
        cache.observe_pod(owner_pod())
        cache.settle(now=0.0)
    if written is not None:
        cache.record_write(R, now=written)
    cache.dirty.clear()
    getattr(cache, change)(owner_pod())
    cache.settle(now=100.0)
    assert cache.dirty.take() == {R: due}
    cache.settle(now=101.0)
    assert not cache.dirty


def test_a_refused_placeholder_is_created_again_after_pauses_that_become_longer():
    cache, first, longest = cache_with(), *CREATE_BACKOFF
    pauses = []
    for _ in range(7):
        cache.record_refusal(R, "exceeded quota", now=100.0)
        pauses.append(cache.view(R, nodes={}).create_retry_at - 100.0)
    assert pauses == [first, 2 * first, 4 * first, 8 * first, 16 * first, longest, longest]
    assert cache.view(R, nodes={}).create_error == "exceeded quota"


def test_the_same_refusal_again_concerns_nobody():
    cache = cache_with()
    for message, dirty in (("a", [R]), ("a", []), ("b", [R])):
        cache.record_refusal(R, message, now=0.0)
        assert list(cache.dirty) == dirty
        cache.dirty.clear()


@pytest.mark.parametrize(
    ("event", "message", "paused", "next_pause"),
    [
        pytest.param(lambda _: None, "no", True, 4.0, id="nothing"),
        pytest.param(lambda c: c.observe(observed(available_content(), "2"), now=0.0), "no", True, 4.0, id="any-event"),
        pytest.param(
            lambda c: c.observe(observed(available_content(ttl="2h"), "2"), now=0.0),
            "no",
            False,
            4.0,
            id="another-spec",
        ),
        pytest.param(lambda c: c.observe_pod(placeholder("x")), "", False, 4.0, id="a-placeholder-is-seen"),
        pytest.param(lambda c: c.observe_created(R, placeholder("x")), "", False, 2.0, id="a-placeholder-was-created"),
    ],
)
def test_what_ends_the_pause_after_a_refusal(event, message, paused, next_pause):
    cache = cache_with()
    cache.record_refusal(R, "no", now=100.0)
    event(cache)
    view = cache.view(R, nodes={})
    assert (view.create_error, view.create_retry_at > 100.0) == (message, paused)
    cache.record_refusal(R, "no", now=100.0)
    assert cache.view(R, nodes={}).create_retry_at == 100.0 + next_pause


PENDING = content(status={"phase": "Pending"})


@pytest.mark.parametrize(
    ("before", "acts", "is_new"),
    [
        pytest.param(PENDING, True, True, id="pending-before"),
        pytest.param(PENDING, False, False, id="another-replica-reports-it"),
        pytest.param(available_content(), True, False, id="placed-before"),
        pytest.param(None, True, False, id="first-seen-in-its-place"),
    ],
)
def test_a_placement_is_reported_once_by_the_replica_that_acts(before, acts, is_new):
    cache = cache_with(before) if before is not None else ReservationCache(REPLACED)
    cache.observe(observed(available_content(), "2"), now=0.0)
    if not acts:
        cache.discard_dirty()
    assert cache.view(R, nodes={}).newly_placed is is_new
    cache.placement_reported(R)
    assert not cache.view(R, nodes={}).newly_placed


def test_a_standby_forgets_what_it_has_marked():
    cache = cache_with(SHARED)
    cache.observe_pod(owner_pod())
    cache.forget_node(Node(metadata=ObjectMeta(name="n")))
    cache.discard_dirty()
    cache.settle(now=0.0)
    assert not cache.dirty


def test_a_reservation_that_cannot_be_read_any_more_is_known_by_its_last_state_as_well():
    cache = cache_with()
    cache.observe(observed(content(ttl="soon"), "2"), now=0.0)
    view = cache.view(R, nodes={})
    assert isinstance(view, UnreadableReservation)
    assert (view.name, view.uid, view.version) == (cache.name(R), R, "2")
    assert "spec.ttl" in view.error
    cache.dirty.clear()
    cache.mark_all_dirty()
    assert list(cache.dirty) == [R]
    cache.observe(observed(available_content(), "3"), now=0.0)
    assert cache.view(R, nodes={}).version == "3"


def test_an_unreadable_reservation_is_not_decided_about_again_after_a_write_without_effect():
    """Otherwise its condition would be written for ever where the API server, or a webhook, drops it."""
    cache = cache_with()
    cache.observe(observed(content(ttl="soon"), "2"), now=0.0)
    cache.dirty.clear()
    cache.observe(observed(content(ttl="soon"), "2"), now=1.0)
    assert list(cache.dirty) == []
    cache.observe(observed(content(ttl="soon"), "3"), now=2.0)
    assert list(cache.dirty) == [R]


@pytest.mark.parametrize(
    ("node", "dirty"),
    [
        pytest.param("n", {R: 100.0 + NODE_CHECK_INTERVAL}, id="its-node-which-may-come-back"),
        pytest.param("other", {}, id="another-node"),
    ],
)
def test_a_node_that_goes_concerns_its_reservations(node, dirty):
    cache = cache_with()
    cache.forget_node(Node(metadata=ObjectMeta(name=node)))
    cache.settle(now=100.0)
    assert cache.dirty.take() == dirty


@pytest.mark.parametrize(
    ("now", "expected", "until"),
    [
        pytest.param(11.0, {P}, 10.0 + BINDING_EXPECTED, id="named-a-moment-ago"),
        pytest.param(10.0 + BINDING_EXPECTED, set(), NEVER, id="overdue"),
    ],
)
def test_the_binding_of_a_pod_that_was_just_named_is_expected_from_the_watch(now, expected, until):
    cache = cache_with(now=0.0)
    cache.observe(observed(available_content(status={"currentOwners": [OWNER]}), "2"), now=10.0)
    cache.observe(observed(available_content(status={"currentOwners": [OWNER]}), "3"), now=12.0)
    view = cache.view(R, nodes={}, now=now)
    assert (view.expected_pods, view.expected_until) == (expected, until)
    cache.observe_pod(owner_pod())
    assert cache.view(R, nodes={}, now=now).expected_until == NEVER


def test_a_pod_that_did_not_use_its_capacity_is_a_candidate_again_after_a_while():
    owners = [{"object": {"namespace": "default", "name": "p"}}]
    cache = cache_with(
        available_content(allocateOnce=False, owners=owners, status={"currentOwners": [OWNER]}), policy=YIELDING
    )
    waiting = msgspec.convert(
        {"metadata": OWNER, "spec": {"schedulingGates": [{"name": "reserve.dra/reservation"}]}}, SchedulerPod
    )
    cache.observe_pod(waiting)
    for now in (0.0, BINDING_TIMEOUT):
        cache.observe_live_pod(R, P, waiting, now=now)
    cache.observe(observed(available_content(allocateOnce=False, owners=owners), "2"), now=BINDING_TIMEOUT)
    view = cache.view(R, nodes=NODES, now=BINDING_TIMEOUT)
    assert (view.candidate_pods, view.eligible_at) == ((), BINDING_TIMEOUT + BACKOFF_AFTER_UNUSED)
    assert cache.view(R, nodes=NODES, now=view.eligible_at).eligible_at == NEVER


def test_gates_are_checked_when_a_reservation_has_changed():
    cache = cache_with(policy=YIELDING)
    cache.observe_pod(owner_pod(node="", gates=["reserve.dra/reservation"], annotations={}))
    cache.pending_pods.dirty.clear()
    cache.dirty.clear()
    cache.settle(now=0.0)
    assert not cache.pending_pods.dirty
    cache.observe(observed(available_content(), "2"), now=0.0)
    cache.settle(now=0.0)
    assert list(cache.pending_pods.dirty) == [P]
    assert cache.gate_to_remove(P, nodes=NODES) == RemoveSchedulingGate(key=("default", "p"), uid=P)
    assert cache.gate_to_remove(Uid("uid-unknown"), nodes=NODES) is None


@pytest.mark.parametrize(
    ("pod", "kept", "kept_where_placeholders_yield"),
    [
        pytest.param(placeholder("x"), True, True, id="placeholder"),
        pytest.param(owner_pod(), True, True, id="owner-pod"),
        pytest.param(WAITS, False, True, id="pending"),
        pytest.param(owner_pod(annotations={}), False, False, id="any-other"),
    ],
)
def test_which_pods_are_kept_in_memory(pod, kept, kept_where_placeholders_yield):
    assert (is_reservation_pod(pod), is_reservation_or_pending_pod(pod)) == (kept, kept_where_placeholders_yield)


@pytest.mark.parametrize(("scheduler", "seen"), [("busy", 1_800_000_003.0), ("another", -NEVER)])
def test_a_reservation_that_is_placed_shows_that_its_scheduler_runs(scheduler, seen):
    placed = available_content()
    placed["status"]["conditions"] = [
        {"type": "Scheduled", "status": "True", "reason": "Scheduled", "lastTransitionTime": "2027-01-15T08:00:03Z"}
    ]
    waiting = {**content(), "metadata": {**content()["metadata"], "name": "waiting", "uid": "uid-waiting"}}
    before = {**placed, "status": {}, "metadata": {**placed["metadata"], "resourceVersion": "1"}}
    for made, name in ((placed, "busy"), (before, "busy"), (waiting, scheduler)):
        made["spec"] = {**made["spec"], "template": {"spec": {"schedulerName": name}}}
    cache = ReservationCache(REPLACED)
    for made in (waiting, before, placed):
        cache.observe(observed(made), now=0.0)
    assert cache.view(Uid("uid-waiting"), nodes=NODES).scheduler_seen_at == seen
