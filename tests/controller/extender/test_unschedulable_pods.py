"""Which pods the scheduler is made to look at again."""

import msgspec

from controller.extender.unschedulable_pods import UnschedulablePods
from dra.engine.scheduling.scheduler_cache import SchedulerCache
from dra.kube.clock import SYSTEM
from dra.model.pods import POD_SCHEDULED, PodCondition
from tests.dra.engine.scheduling.examples import pod

UNSCHEDULABLE = PodCondition(type=POD_SCHEDULED, status="False", reason="Unschedulable")


def refused_of():
    return UnschedulablePods(cache=SchedulerCache(), writer=None, clock=SYSTEM)


def waiting(name, *conditions):
    found = pod(name, node="")
    return msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, conditions=list(conditions)))


def test_after_a_start_pods_are_due_that_somebody_has_refused():
    refused = refused_of()
    refused.adopt([waiting("judged", UNSCHEDULABLE), waiting("new")])
    assert list(refused._due) == ["uid-judged"]


def test_after_a_start_pods_are_not_due_that_were_refused_since():
    refused = refused_of()
    refused.add(waiting("judged", UNSCHEDULABLE))
    refused.adopt([waiting("judged", UNSCHEDULABLE)])
    assert list(refused._due) == []
    refused.move_all_to_due()
    assert list(refused._due) == ["uid-judged"]
