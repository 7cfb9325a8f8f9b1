"""Which claims are refused, since when, and when each is to be reconciled."""

import msgspec
import pytest

from dra.engine.instants import NEVER
from dra.engine.prepare_refusals.cache import RefusalCache
from dra.engine.prepare_refusals.decide import PATIENCE
from dra.engine.prepare_refusals.reasons import PrepareRefusalReason
from dra.model.claims import ResourceClaim
from tests.dra.engine.prepare_refusals.refused import claim_document, ready

KEY = ("ml", "p-cpus")


def claim(*devices, uid="uid-claim", **parts):
    document = claim_document(*devices, **parts)
    document["metadata"]["uid"] = uid
    return msgspec.convert(document, ResourceClaim)


@pytest.fixture
def cache():
    """Returns a cache with a claim that is refused since 0."""
    cache = RefusalCache()
    cache.observe_claim(claim(), now=0.0)
    assert cache.dirty.take() == {KEY: PATIENCE}
    return cache


@pytest.mark.parametrize(
    ("observed", "since", "dirty"),
    [
        pytest.param(claim(), 0.0, {}, id="refused-as-before"),
        pytest.param(
            claim(ready(reason=PrepareRefusalReason.CPUS_UNSUITABLE)),
            10.0,
            {KEY: 10.0 + PATIENCE},
            id="refused-for-another-reason",
        ),
        pytest.param(claim(uid="uid-new"), 10.0, {KEY: 10.0 + PATIENCE}, id="another-claim-of-the-name"),
        pytest.param(claim(ready("True")), None, {KEY: -NEVER}, id="prepared"),
        pytest.param(claim(allocated=False), None, {KEY: -NEVER}, id="deallocated"),
    ],
)
def test_a_refusal_counts_from_when_it_was_first_seen(cache, observed, since, dirty):
    cache.observe_claim(observed, now=10.0)
    refusal = cache.refusal(KEY)
    assert (refusal and refusal.since, cache.dirty.take()) == (since, dirty)


def test_a_deleted_claim_is_forgotten_and_reconciled_once(cache):
    cache.forget_claim(claim())
    assert (cache.refusal(KEY), cache.dirty.take()) == (None, {KEY: -NEVER})
    cache.forget_claim(claim())
    assert not cache.dirty


def test_claims_that_are_not_refused_are_not_reconciled():
    cache = RefusalCache()
    cache.observe_claim(claim(ready("True")), now=0.0)
    assert not cache.dirty


def test_a_replica_that_begins_to_act_counts_from_what_it_saw_as_a_standby(cache):
    cache.mark_all_dirty()
    assert cache.dirty.take() == {KEY: PATIENCE}


@pytest.mark.parametrize(("now", "count"), [(PATIENCE - 0.1, 0), (PATIENCE, 1)])
def test_only_refusals_that_last_are_counted(cache, now, count):
    assert cache.overdue_reasons(now=now) == [PrepareRefusalReason.CPUS_IN_USE] * count
