"""Whose turn it is."""

import pytest

from dra.engine.kube_scheduler.scheduling_queue import (
    FLUSH_UNSCHEDULABLE_SECONDS,
    POD_MAX_IN_UNSCHEDULABLE_PODS,
    ClusterEvent,
    SchedulingQueue,
)
from dra.model.meta import ObjectMeta
from dra.model.pods import PodResourceClaim, SchedulingGate
from dra.model.scheduling import SchedulerPod, SchedulerPodSpec


def pod(name, *, priority=0, claims=(), gates=(), version="1"):
    return SchedulerPod(
        metadata=ObjectMeta(namespace="ml", name=name, uid=name, resource_version=version),
        spec=SchedulerPodSpec(
            priority=priority,
            resource_claims=[PodResourceClaim(name=c, resource_claim_name=c) for c in claims],
            scheduling_gates=[SchedulingGate(name=g) for g in gates],
        ),
    )


def queue(*pods):
    found = SchedulingQueue()
    for each in pods:
        found.add_or_update(each, now=0.0)
    return found


def popped(found, now=0.0):
    names = []
    while (entry := found.pop(now=now)) is not None:
        names.append(entry.pod.metadata.name)
    return names


def test_high_priority_first_then_in_order_of_arrival():
    assert popped(queue(pod("a"), pod("b", priority=5), pod("c"))) == ["b", "a", "c"]


@pytest.mark.parametrize(
    ("awaited", "event", "woken"),
    [
        pytest.param(ClusterEvent.DEVICE_AVAILABLE, ClusterEvent.DEVICE_AVAILABLE, True, id="what-it-waits-for"),
        pytest.param(
            ClusterEvent.NODE | ClusterEvent.ASSIGNED_POD_DELETED,
            ClusterEvent.ASSIGNED_POD_DELETED,
            True,
            id="one-of-several",
        ),
        pytest.param(ClusterEvent.NODE, ClusterEvent.DEVICE_AVAILABLE, False, id="something-else"),
    ],
)
def test_only_what_could_help_wakes_a_pod(awaited, event, woken):
    found = queue(pod("a"))
    found.add_unschedulable(found.pop(now=0.0), awaited, now=0.0)
    found.move_all_to_active_or_backoff(event, now=50.0)

    assert popped(found, 50.0) == (["a"] if woken else [])


def test_a_pod_comes_back_after_its_backoff_which_doubles_up_to_ten_seconds():
    found = queue(pod("a"))
    now, waits = 0.0, []
    for _ in range(6):
        entry = found.pop(now=now)
        found.add_unschedulable(entry, ClusterEvent.DEVICE_AVAILABLE, now=now)
        found.move_all_to_active_or_backoff(ClusterEvent.DEVICE_AVAILABLE, now=now)
        assert found.pop(now=now) is None
        waits.append(found.next_due(now=now) - now)
        now = found.next_due(now=now)

    assert waits == [1, 2, 4, 8, 10, 10]


def test_waiting_for_somebody_elses_write_costs_no_backoff():
    found = queue(pod("a", claims=["c"]))
    found.add_unschedulable(found.pop(now=0.0), ClusterEvent.CLAIM, now=0.0, tried=False)
    found.move_claim_users([("ml", "c")], now=0.0)

    assert popped(found) == ["a"]


def test_a_pod_that_failed_comes_back_by_itself():
    found = queue(pod("a"))
    found.requeue(found.pop(now=0.0), now=0.0)

    assert popped(found, 0.5) == []
    assert popped(found, 1.0) == ["a"]


def test_who_waits_too_long_is_looked_at_anyway():
    found = queue(pod("a"))
    found.pop(now=0.0)
    found = queue(pod("a"))
    found.add_unschedulable(found.pop(now=0.0), ClusterEvent.NODE, now=0.0)

    assert popped(found, POD_MAX_IN_UNSCHEDULABLE_PODS - 1.0) == []
    assert popped(found, POD_MAX_IN_UNSCHEDULABLE_PODS + 60.0) == ["a"]


def test_a_change_of_the_pod_wakes_it_and_its_status_does_not():
    found = queue(pod("a", gates=["x"]))
    found.add_unschedulable(found.pop(now=0.0), ClusterEvent.POD, now=0.0, tried=False)
    found.add_or_update(pod("a", gates=["x"], version="2"), now=0.0)
    assert popped(found) == []

    found.add_or_update(pod("a", version="3"), now=0.0)
    assert popped(found) == ["a"]


def test_a_pod_that_is_gone_never_comes_back():
    found = queue(pod("a", claims=["c"]), pod("b"))
    entry = found.pop(now=0.0)
    found.remove("a")
    found.add_unschedulable(entry, ClusterEvent.CLAIM, now=0.0)
    found.requeue(entry, now=0.0)
    found.move_claim_users([("ml", "c")], now=99.0)
    found.remove("a")

    assert popped(found, 99.0) == ["b"]
    assert len(found) == 1


UNEVEN = 495.43508709194094
"""To which adding thirty, and taking it away again, does not give thirty."""


def test_when_it_is_worth_asking_again_asking_changes_something():
    """Else the scheduler's loop would never wait: simulation seed 5."""
    found = queue(pod("a"))
    found.add_unschedulable(found.pop(now=UNEVEN), ClusterEvent.NODE, now=UNEVEN)

    assert found.next_due(now=UNEVEN) == UNEVEN + FLUSH_UNSCHEDULABLE_SECONDS
    assert found.pop(now=UNEVEN + FLUSH_UNSCHEDULABLE_SECONDS) is None
    assert found.next_due(now=UNEVEN + FLUSH_UNSCHEDULABLE_SECONDS) > UNEVEN + FLUSH_UNSCHEDULABLE_SECONDS
