"""What the controller remembers of pods that it has asked about."""

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from dra.api.reservations.model import API_VERSION, KIND
from dra.engine.instants import NEVER
from dra.engine.reservations import placeholders
from dra.engine.reservations.pending_pods import PendingPods
from dra.engine.reservations.reservation_cache import ReservationCache
from dra.model.meta import ObjectMeta, OwnerReference, Uid
from dra.model.scheduling import SchedulerPod, SchedulerPodSpec
from tests.dra.engine.reservations.examples import available

R, P = Uid("uid-r"), Uid("uid-p")
WAITS = SchedulerPod(metadata=ObjectMeta(namespace="default", name="p", uid=P))


def test_pods_that_apply_are_told_with_all_reservations_that_they_may_enter():
    pending = PendingPods()
    for uid in ("uid-r", "uid-other"):
        found = available(owners=[{"labelSelector": {"matchLabels": {"app": "a"}}}])
        metadata = found.metadata.model_copy(update={"uid": uid})
        pending.observe_reservation(Uid(uid), found.model_copy(update={"metadata": metadata}))
    content = {
        "metadata": {"namespace": "default", "name": "p", "uid": P, "labels": {"app": "a"}},
        "status": {"conditions": [{"type": "PodScheduled", "status": "False"}]},
    }
    pod = msgspec.convert(content, SchedulerPod)
    pending.observe(pod)
    ((found_pod, info, candidates),) = pending.candidate_pods(R)
    assert (found_pod, info.uid, set(candidates)) == (pod, P, {R, "uid-other"})


def test_a_pod_that_only_a_read_has_shown_is_in_until_another_read_shows_its_end():
    """Its annotation was taken off, or it came and went while the watch had to begin anew."""
    cache = ReservationCache()
    cache.observe(
        R, "1", available(status={"currentOwners": [{"namespace": "default", "name": "p", "uid": P}]}), now=0.0
    )
    cache.observe_live_pod(R, P, replace(WAITS, spec=SchedulerPodSpec(node_name="n")), now=0.0)
    (inside,) = cache.view(R, nodes={}).unbound_pods
    assert (inside.uid, inside.binding) == (P, False)
    assert cache.unbound_pods(R)[0] < NEVER
    cache.observe_live_pod(R, P, None, now=60.0)
    assert cache.view(R, nodes={}).ended_pods == {P}
    assert cache.unbound_pods(R) == (NEVER, ())


@given(began=st.floats(min_value=0.0, max_value=1e7))
@example(began=4.1)  # 64.1 - 4.1 is less than 60
def test_a_pod_that_is_asked_about_again_when_it_is_due_is_not_due_again_at_the_same_instant(began):
    """Else time stands still in a simulation, and a core is busy outside (seed 382 of the histories, once)."""
    cache = ReservationCache()
    cache.observe(R, "1", available(), now=0.0)
    cache.observe_live_pod(R, P, WAITS, now=began)
    again, (consumer,) = cache.unbound_pods(R)
    assert consumer.uid == P
    cache.observe_live_pod(R, P, WAITS, now=again)
    assert cache.unbound_pods(R) == (NEVER, ())


def test_nothing_is_left_of_a_reservation_that_is_gone():
    cache = ReservationCache()
    cache.observe(R, "1", available(), now=0.0)
    cache.observe_live_pod(R, P, WAITS, now=0.0)
    cache.record_create_error(R, "no such namespace")
    cache.forget(R)
    assert (cache.get(R), cache.uids(), cache.view(R, nodes={})) == (None, (), None)
    assert cache.unbound_pods(R) == (NEVER, ())
    assert R in cache.changed
    cache.observe(R, "2", available(), now=0.0)
    seen = cache.view(R, nodes={})
    assert (seen.unbound_pods, seen.create_error) == ((), "")


def placeholder(uid, *, number=""):
    owner = OwnerReference(api_version=API_VERSION, kind=KIND, name="demo", uid=Uid("uid-demo"), controller=True)
    name = f"{placeholders.placeholder_name('uid-demo')}{number}"
    return SchedulerPod(metadata=ObjectMeta(namespace="default", name=name, uid=Uid(uid), owner_references=[owner]))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["first-seen-first", "first-seen-last"])
def test_the_first_placeholder_is_told_from_its_successors_by_its_name(order):
    both = (placeholder("first"), placeholder("standby", number="-1"))
    cache = ReservationCache()
    cache.observe(Uid("uid-demo"), "1", available(), now=0.0)
    for each in order:
        cache.observe_pod(both[each])
    view = cache.view(Uid("uid-demo"), nodes={})
    assert (view.placeholder, view.other_placeholders) == (both[0], (both[1],))


def versioned(pod, version):
    return replace(pod, metadata=replace(pod.metadata, resource_version=version))


@pytest.mark.parametrize("pod", [placeholder("first"), WAITS], ids=["placeholder", "owner-pod"])
def test_a_response_that_comes_after_the_watch_events_of_later_changes_is_ignored(pod):
    """Seen on 1.37.1: kube-scheduler's condition was lost with it, and the Reservation had no status for ever."""
    cache = ReservationCache()
    cache.observe(Uid("uid-demo"), "1", available(), now=0.0)
    for version in ("12", "9"):
        cache.observe_pod(versioned(pod, version))
    known = [*cache._placeholders.get(Uid("uid-demo"), {}).values(), *cache._pods.values()]
    assert [each.metadata.resource_version for each in known] == ["12"]


def test_a_response_that_comes_after_the_deletion_of_its_pod_is_ignored():
    cache = ReservationCache()
    cache.observe(Uid("uid-demo"), "1", available(), now=0.0)
    cache.observe_pod(versioned(placeholder("first"), "12"))
    cache.forget_pod(versioned(placeholder("first"), "13"))
    cache.observe_pod(versioned(placeholder("first"), "12"))
    assert cache.view(Uid("uid-demo"), nodes={}).placeholder is None


def test_a_pod_that_only_left_the_selection_of_the_watch_comes_back():
    cache = ReservationCache()
    cache.observe(Uid("uid-demo"), "1", available(), now=0.0)
    cache.forget_pod(versioned(placeholder("first"), "12"), certain=False)
    cache.observe_pod(versioned(placeholder("first"), "13"))
    assert cache.view(Uid("uid-demo"), nodes={}).placeholder is not None
