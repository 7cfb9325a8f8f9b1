"""Claims that hold devices for hours without use: when they are told."""

from __future__ import annotations

import pytest

from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.claim_holders import reserved_for_entry
from dra.engine.device_usage.idle_claims import LOOK_EVERY, IdleClaims, count_overdue, decide
from dra.model.meta import Uid
from dra.model.references import ConsumerReference
from tests.dra.engine.examples import JOB, NOON, allocation, claim, observe_all, pod

HOUR = 3600.0
HELD = claim(workload=JOB, allocation=allocation("gpu-0", "gpu-1"), list=[JOB])


def looked(idle, *objects, at=NOON, computes=None):
    """Look at a cluster of these objects; return the plan."""
    cache = ClaimCache()
    observe_all(cache, *objects)
    claims = idle.look(cache.records(), lambda _: computes, now=at)
    plan = decide(claims, hours=2, now=at)
    idle.record_reported(plan.actions, now=at)
    return plan, count_overdue(claims, hours=2, now=at)


def tellings(*hours, between=()):
    """Return the hours at which the claim is told, of those at which it is looked at; `between`: hours with a pod."""
    idle = IdleClaims()
    moments = {hour: looked(idle, HELD, *used_at(hour, between), at=NOON + hour * HOUR)[0] for hour in hours}
    return [hour for hour, plan in moments.items() if plan.reasons]


def used_at(hour, between):
    return [pod("a", node="n1")] if hour in between else []


@pytest.mark.parametrize(
    ("hours", "between", "expected"),
    [
        pytest.param((0, 1, 1.9), (), [], id="not-before"),
        pytest.param((0, 1, 2, 3), (), [2], id="once-at-first"),
        pytest.param((0, 2, 3, 4, 6), (), [2, 4, 6], id="again-after-as-long"),
        pytest.param((0, 1, 2, 3), (1,), [], id="use-begins-it-anew"),
        pytest.param((0, 1, 2, 3, 4), (1,), [4], id="and-then-it-is-told"),
    ],
)
def test_a_claim_is_told_when_it_was_idle_for_as_long(hours, between, expected):
    assert tellings(*hours, between=between) == expected


@pytest.mark.parametrize(
    ("objects", "computes", "idle"),
    [
        pytest.param([HELD], None, True, id="without-pods"),
        pytest.param([HELD, pod("a")], None, True, id="with-a-pod-that-waits"),
        pytest.param([HELD, pod("a", node="n1")], None, False, id="with-a-pod"),
        pytest.param([HELD, pod("a", node="n1")], True, False, id="with-a-pod-that-computes"),
        pytest.param([HELD, pod("a", node="n1")], False, True, id="with-a-pod-that-computes-nothing"),
        pytest.param([claim(allocation=None)], None, False, id="without-devices"),
    ],
)
def test_a_claim_is_idle_while_none_of_its_devices_is_used(objects, computes, idle):
    known = IdleClaims()
    looked(known, *objects, computes=computes)
    plan, overdue = looked(known, *objects, at=NOON + 2 * HOUR, computes=computes)
    assert (bool(plan.reasons), overdue) == (idle, int(idle))
    assert plan.wake_at == NOON + 2 * HOUR + LOOK_EVERY


@pytest.mark.parametrize(
    ("found", "text"),
    [
        pytest.param(HELD, "claim ml/train: has held 2 devices for 3 h without use, for jobs.batch/train: ", id="for"),
        pytest.param(
            claim(allocation=allocation()),
            "claim ml/train: has held 1 device for 3 h without use, for no workload: ",
            id="for-none",
        ),
        pytest.param(
            claim(allocation=allocation(), list=[reserved_for_entry("r", Uid("uid-r"))]),
            "claim ml/train: has held 1 device for 3 h without use, for reservations.scheduling.koordinator.sh/r: ",
            id="for-a-reservation",
        ),
        pytest.param(
            claim(
                allocation=allocation(),
                list=[
                    ConsumerReference(api_group="scheduling.k8s.io", resource="podgroups", name="g", uid=Uid("uid-g"))
                ],
            ),
            "claim ml/train: has held 1 device for 3 h without use, for podgroups.scheduling.k8s.io/g: ",
            id="for-a-pod-group",
        ),
    ],
)
def test_the_text_has_devices_hours_and_keeper_and_says_that_nothing_is_freed(found, text):
    idle = IdleClaims()
    looked(idle, found)
    (reason,) = looked(idle, found, at=NOON + 3 * HOUR)[0].reasons
    assert reason.text.startswith(text)
    assert "Nothing frees the claim" in reason.text


def test_what_is_gone_is_forgotten():
    idle = IdleClaims()
    looked(idle, HELD)
    looked(idle, at=NOON + HOUR)
    assert looked(idle, HELD, at=NOON + 2 * HOUR)[0].reasons == ()
