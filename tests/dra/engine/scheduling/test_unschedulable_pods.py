"""The pods that kube-scheduler is made to retry, and their order."""

import msgspec
import pytest

from dra.engine.scheduling.scheduler_cache import SchedulerCache
from dra.engine.scheduling.unschedulable_pods import BATCH_SIZE, PODS_MAX, UnschedulablePods
from dra.model.pods import POD_SCHEDULED, PodCondition
from tests.dra.engine.scheduling.examples import pod

UNSCHEDULABLE = PodCondition(type=POD_SCHEDULED, status="False", reason="Unschedulable")
GATED = PodCondition(type=POD_SCHEDULED, status="False", reason="SchedulingGated")


def waiting(name, *conditions, priority=0):
    made = pod(name, node="")
    return msgspec.structs.replace(
        made,
        spec=msgspec.structs.replace(made.spec, priority=priority),
        status=msgspec.structs.replace(made.status, conditions=list(conditions)),
    )


@pytest.fixture
def unschedulable():
    return UnschedulablePods()


def batch(unschedulable, *, now=0.0):
    return [key[1] for _, key in unschedulable.next_batch(now=now)]


@pytest.mark.parametrize(
    ("conditions", "due"),
    [
        pytest.param([UNSCHEDULABLE], ["p"], id="rejected-by-the-previous-process"),
        pytest.param([], [], id="not-tried-yet"),
        pytest.param([GATED], [], id="not-to-be-scheduled-yet"),
    ],
)
def test_after_a_start_pods_are_due_that_kube_scheduler_marked_unschedulable(unschedulable, conditions, due):
    unschedulable.adopt([waiting("p", *conditions)])
    assert batch(unschedulable) == due


def test_after_a_start_pods_are_not_due_that_were_rejected_since(unschedulable):
    rejected = waiting("p", UNSCHEDULABLE)
    unschedulable.add(rejected)
    unschedulable.adopt([rejected])
    assert batch(unschedulable) == []
    unschedulable.move_all_to_due()
    assert batch(unschedulable) == ["p"]


def test_a_pod_that_is_rejected_again_waits_for_the_next_change(unschedulable):
    unschedulable.add(waiting("p"))
    unschedulable.move_all_to_due()
    unschedulable.add(waiting("p"))
    assert batch(unschedulable) == []


def test_batches_begin_with_the_highest_priority_and_leave_the_others_due(unschedulable):
    for number in range(BATCH_SIZE + 1):
        unschedulable.add(waiting(f"p{number}", priority=number))
    unschedulable.move_all_to_due()
    assert batch(unschedulable) == [f"p{number}" for number in range(BATCH_SIZE, 0, -1)]
    assert batch(unschedulable) == ["p0"]
    assert batch(unschedulable) == []


@pytest.mark.parametrize(
    ("change", "first", "later"),
    [
        pytest.param(lambda _: None, ["timed"], [], id="only-that-pod"),
        pytest.param(lambda pods: pods.add(waiting("timed")), [], [], id="not-if-rejected-again"),
        pytest.param(lambda pods: pods.forget("uid-timed"), [], [], id="not-if-bound"),
        pytest.param(lambda pods: pods.move_all_to_due(), ["other", "timed"], [], id="once-if-capacity-is-freed"),
        pytest.param(
            lambda pods: pods.add(waiting("timed"), retry_at=5.0), [], ["timed"], id="later-if-rejected-until-later"
        ),
    ],
)
def test_a_pod_is_due_by_time_alone(unschedulable, change, first, later):
    unschedulable.add(waiting("other"))
    unschedulable.add(waiting("timed"), retry_at=3.0)
    change(unschedulable)
    assert batch(unschedulable, now=3.0) == first
    assert batch(unschedulable, now=5.0) == later


@pytest.mark.parametrize("leave", [SchedulerCache.observe_pod, SchedulerCache.forget_pod], ids=["bound", "deleted"])
def test_a_pod_that_is_bound_or_deleted_is_not_requeued(leave):
    cache = SchedulerCache()
    for name in ("gone", "waiting"):
        cache.observe_pod(waiting(name))
        cache.unschedulable.add(waiting(name))
    cache.unschedulable.move_all_to_due()
    leave(cache, pod("gone"))
    assert batch(cache.unschedulable) == ["waiting"]


def test_of_too_many_pods_the_first_are_dropped(unschedulable):
    for number in range(PODS_MAX + 1):
        unschedulable.add(waiting(f"p{number}"), retry_at=float(number))
    assert len(unschedulable) == PODS_MAX
    assert len(batch(unschedulable, now=float(PODS_MAX))) == BATCH_SIZE


def test_a_pod_that_is_dropped_at_once_since_too_many_are_due_is_not_retried(unschedulable):
    for number in range(PODS_MAX):
        unschedulable.add(waiting(f"p{number}"))
    unschedulable.move_all_to_due()
    unschedulable.add(waiting("owner"), retry_at=3.0)
    assert "owner" not in batch(unschedulable, now=4.0)
