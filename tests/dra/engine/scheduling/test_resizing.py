"""When a reservation gets the amounts that its annotation asks for, and what is held meanwhile."""

import json

import pytest

from dra.api.reservations.well_known import ANNOTATION_RESIZE_ALLOCATABLE
from dra.engine.instants import NEVER
from dra.engine.plan import Plan
from dra.engine.scheduling import resizing
from dra.engine.scheduling.resizing import RETRY_AFTER
from dra.engine.scheduling.scheduler_cache import SchedulerCache
from tests.dra.engine.reservations.examples import of
from tests.dra.engine.scheduling.examples import NODE, pod, reservation

LACKING = ("node n1: Insufficient cpu by node; its holding is unchanged until the node has capacity",)


def cache_of(cpu, *pods, metadata=None, phase="Available"):
    """A reservation of five CPUs on a node of eight that asks for others."""
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "5"}}}]}}
    made = reservation(phase=phase, template=template)
    resize = json.dumps({"resources": {"cpu": cpu}})
    made.content["metadata"] |= {"annotations": {ANNOTATION_RESIZE_ALLOCATABLE: resize}} | (metadata or {})
    cache = SchedulerCache()
    cache.observe_node(NODE)
    for each in (*pods, made):
        (cache.observe_reservation if each is made else cache.observe_pod)(each)
    return cache


@pytest.mark.parametrize(
    ("cache", "asked", "held", "reasons"),
    [
        pytest.param(cache_of("8"), 8, 8, (), id="increase"),
        pytest.param(cache_of("3"), 3, 5, (), id="decrease-holds-the-old-amounts-meanwhile"),
        pytest.param(cache_of("5"), None, None, (), id="unchanged"),
        pytest.param(cache_of("9"), None, None, LACKING, id="more-than-the-node-has"),
        pytest.param(
            cache_of("8", metadata={"deletionTimestamp": "2026-11-20T10:00:00Z"}), None, None, (), id="being-deleted"
        ),
        pytest.param(cache_of("8", phase="Pending"), None, None, (), id="without-a-node"),
    ],
)
def test_an_increase_needs_a_node_that_has_all_of_it_free(cache, asked, held, reasons):
    plan = resizing.decide(cache, cache.reservation("uid-r"), now=100.0)
    assert [(action.update.requests, action.held["cpu"]) for action in plan.actions] == (
        [] if asked is None else [(of(asked), of(held)["cpu"])]
    )
    assert plan.reasons == reasons
    assert plan.wake_at == (100.0 + RETRY_AFTER if reasons else NEVER)


def test_what_pods_have_on_the_node_is_not_given_to_the_reservation():
    cache = cache_of("8", pod())
    assert resizing.decide(cache, cache.reservation("uid-r"), now=0.0).reasons == LACKING


@pytest.mark.parametrize("cpu", ["x", "-1"])
def test_an_annotation_that_cannot_be_read_changes_nothing_and_is_reported(cpu):
    cache = cache_of(cpu)
    plan = resizing.decide(cache, cache.reservation("uid-r"), now=0.0)
    (reason,) = plan.reasons
    assert reason.startswith(f"annotation {ANNOTATION_RESIZE_ALLOCATABLE}: resources.cpu: ")
    assert (plan.actions, plan.wake_at) == ((), NEVER)


def test_a_reservation_that_the_accounting_does_not_have_on_its_node_is_not_resized():
    cache = cache_of("8")
    cache.accounting.forget_reservation("uid-r")
    assert resizing.decide(cache, cache.reservation("uid-r"), now=0.0) == Plan()


@pytest.mark.parametrize("cpu", ["abc", "-1"])
def test_amounts_of_a_template_that_cannot_be_read_change_nothing_and_are_reported(cpu):
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}
    obj = reservation(phase="Available", template=template)
    obj.content["status"]["allocatable"] = {"cpu": "5"}
    cache = SchedulerCache()
    cache.observe_node(NODE)
    cache.observe_reservation(obj)
    plan = resizing.decide(cache, cache.reservation("uid-r"), now=0.0)
    (text,) = plan.reasons
    assert (plan.actions, cpu in text, "its holding is unchanged" in text) == ((), True, True)
