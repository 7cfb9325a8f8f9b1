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
def cache():
    return SchedulerCache()


@pytest.fixture
def unschedulable(cache):
    return UnschedulablePods(cache)


def batch(unschedulable):
    return [key[1] for _, key in unschedulable.next_batch()]


@pytest.mark.parametrize(
    ("conditions", "due"),
    [
        pytest.param([UNSCHEDULABLE], ["p"], id="rejected-by-the-previous-process"),
        pytest.param([], [], id="not-tried-yet"),
        pytest.param([GATED], [], id="not-to-be-scheduled-yet"),
    ],
)
def test_after_a_start_pods_are_due_that_kube_scheduler_marked_unschedulable(cache, unschedulable, conditions, due):
    cache.observe_pod(waiting("p", *conditions))
    unschedulable.adopt()
    assert batch(unschedulable) == due


def test_after_a_start_pods_are_not_due_that_were_rejected_since(cache, unschedulable):
    rejected = waiting("p", UNSCHEDULABLE)
    cache.observe_pod(rejected)
    unschedulable.add(rejected)
    unschedulable.adopt()
    assert batch(unschedulable) == []
    unschedulable.move_all_to_due()
    assert batch(unschedulable) == ["p"]


def test_a_pod_that_is_rejected_again_waits_for_the_next_change(cache, unschedulable):
    cache.observe_pod(waiting("p"))
    unschedulable.add(waiting("p"))
    unschedulable.move_all_to_due()
    unschedulable.add(waiting("p"))
    assert (unschedulable.has_due, batch(unschedulable)) == (False, [])


def test_batches_begin_with_the_highest_priority_and_leave_the_others_due(cache, unschedulable):
    for number in range(BATCH_SIZE + 1):
        each = waiting(f"p{number}", priority=number)
        cache.observe_pod(each)
        unschedulable.add(each)
    unschedulable.move_all_to_due()
    assert batch(unschedulable) == [f"p{number}" for number in range(BATCH_SIZE, 0, -1)]
    assert unschedulable.has_due
    assert batch(unschedulable) == ["p0"]
    assert not unschedulable.has_due


def test_a_pod_that_is_bound_meanwhile_is_not_requeued(cache, unschedulable):
    for name in ("bound", "waiting"):
        cache.observe_pod(waiting(name))
        unschedulable.add(waiting(name))
    unschedulable.move_all_to_due()
    cache.observe_pod(pod("bound"))
    assert batch(unschedulable) == ["waiting"]
    assert len(unschedulable) == 0


def test_of_too_many_pods_the_first_are_dropped(unschedulable):
    for number in range(PODS_MAX + 1):
        unschedulable.add(waiting(f"p{number}"))
    assert len(unschedulable) == PODS_MAX
