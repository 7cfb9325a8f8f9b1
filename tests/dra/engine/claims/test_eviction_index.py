"""Which claims evictions are decided about, and what becomes of evictions that failed."""

import msgspec
import pytest

from dra.engine.claims.eviction_index import NOTHING_POSTPONED, RETRY, PostponedEvictions
from dra.engine.instants import NEVER
from dra.model.taints import DeviceTaintRule
from tests.dra.engine.examples import KEY, NOON, allocation, claim, observe_all, uid

A, B = uid("a"), uid("b")
TAINT = {"key": "sick", "effect": "NoExecute", "timeAdded": "2026-11-20T12:00:00Z"}
RULE = {"metadata": {"name": "r"}, "spec": {"deviceSelector": {}, "taint": TAINT}}


def taint(world):
    world.taints.observe_rule(msgspec.convert(RULE, DeviceTaintRule))
    world.taints.slices_known()


@pytest.mark.parametrize(
    ("of", "tainted", "marked"),
    [
        pytest.param(claim(allocation=allocation()), True, True, id="its-device-is-tainted"),
        pytest.param(claim(allocation=allocation()), False, False, id="no-device-is"),
        pytest.param(claim(allocation=None), True, False, id="it-has-no-device"),
        pytest.param(None, True, False, id="gone"),
    ],
)
def test_a_reconciled_claim_is_marked_if_its_pods_may_be_evicted(world, of, tainted, marked):
    if of is not None:
        observe_all(world, of)
    if tainted:
        taint(world)
    assert world.evictions.mark_reconciled(KEY) is marked
    assert set(world.evictions.dirty) == ({KEY} if marked else set())


def test_a_claim_with_failed_evictions_is_marked_until_none_is_left(world):
    world.evictions.postpone(KEY, [A], now=NOON)
    assert world.evictions.mark_reconciled(KEY)
    world.evictions.succeed(KEY, wake_at=NOON + 60.0, now=NOON + RETRY[0])
    assert not world.evictions.mark_reconciled(KEY)


def test_failed_evictions_are_forgotten_with_the_last_pod_to_evict(world):
    """No later decision would forget them: the claim may be gone."""
    world.evictions.postpone(KEY, [A], now=NOON)
    world.evictions.succeed(KEY, wake_at=NEVER, now=NOON + 0.1)
    assert world.evictions.postponed(KEY) == NOTHING_POSTPONED


def test_a_replica_that_begins_to_act_reconciles_claims_before_it_evicts(world):
    observe_all(world, claim(allocation=allocation()))
    taint(world)
    world.evictions.mark_all_dirty()
    assert not world.evictions.dirty


def test_failures_in_a_row_are_retried_ever_more_slowly(world):
    now, pauses = NOON, []
    for _ in range(10):
        until = world.evictions.postpone(KEY, [A], now=now)
        pauses.append(until - now)
        now = until
    assert pauses[:3] == pytest.approx([0.5, 1.0, 2.0])
    assert pauses[-1] == RETRY[1]
    world.evictions.succeed(KEY, wake_at=now + 60.0, now=now)
    assert world.evictions.postponed(KEY) == NOTHING_POSTPONED


def test_pods_that_fail_meanwhile_are_retried_with_those_that_failed_before(world):
    until = world.evictions.postpone(KEY, [A], now=NOON)
    assert world.evictions.postpone(KEY, [B], now=NOON + 0.1) == until
    assert world.evictions.postponed(KEY) == PostponedEvictions(until=until, pods=frozenset({A, B}), failures=2)
    world.evictions.succeed(KEY, wake_at=until, now=NOON + 0.2)
    assert world.evictions.postponed(KEY).pods == {A, B}, "others that were evicted say nothing about these"
