"""Pods by uid and by name, and what is remembered of deleted ones."""

import pytest

from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.consumer_index import ConsumerIndex, DeletedPods
from dra.engine.claims.consumers import DEFAULT_GRACE_PERIOD, Stage
from dra.engine.claims.node_index import NodeIndex
from dra.model.deleted_uids import DELETED_UIDS_MAX
from dra.model.meta import Uid
from tests.dra.engine.examples import KEY, NOON, claim, pod, uid


@pytest.fixture
def pods():
    return ConsumerIndex(NodeIndex())


def test_a_state_that_is_not_newer_changes_nothing(pods):
    before, after = pods.observe(pod("a", version=2), now=NOON)
    assert (before, after.stage) == (None, Stage.WAITING)
    assert pods.observe(pod("a", version=2, node="n1"), now=NOON) is None
    before, after = pods.observe(pod("a", version=3, node="n1"), now=NOON)
    assert (before.stage, after.stage) == (Stage.WAITING, Stage.STARTING)


def test_a_name_goes_from_pod_to_pod(pods):
    _, first = pods.observe(pod("a"), now=NOON)
    assert pods.take_name(first) == first.uid
    _, second = pods.observe(pod("a", identity="second"), now=NOON)
    assert pods.take_name(second) == first.uid


@pytest.mark.parametrize(
    ("state", "certain", "grace"),
    [
        pytest.param({"node": "n1"}, True, DEFAULT_GRACE_PERIOD, id="its-containers-may-run-on"),
        pytest.param({"node": "n1", "phase": "Succeeded"}, True, None, id="it-has-ended"),
    ],
)
def test_a_deleted_pod_does_not_come_back(pods, state, certain, grace):
    pods.observe(pod("a", **state), now=NOON)
    assert pods.forget(uid("a"), certain=certain) is not None
    assert uid("a") not in pods
    assert pods.deleted.grace(uid("a")) == grace
    assert pods.observe(pod("a", version=9), now=NOON) is None


def test_a_pod_that_is_no_longer_relevant_may_come_back(pods):
    pods.observe(pod("a"), now=NOON)
    pods.forget(uid("a"), certain=False)
    assert pods.observe(pod("a", version=2), now=NOON) is not None


def test_the_oldest_deleted_pods_are_forgotten():
    deleted = DeletedPods()
    for number in range(DELETED_UIDS_MAX + 1):
        deleted.add(Uid(str(number)))
    assert Uid("0") not in deleted
    assert Uid("1") in deleted


def test_a_lookup_of_a_claim_that_is_unknown_changes_nothing():
    cache = ClaimCache()
    cache.lookups.observe_pod_absent(KEY, uid("a"))
    cache.lookups.observe_pod_vanished(KEY, uid("a"))
    cache.lookups.observe_pod_present(KEY, uid("a"), now=NOON)
    cache.lookups.observe_node_read(KEY, "n1", now=NOON)
    assert not set(cache.dirty)
    cache.observe_claim(claim(), now=NOON)
    assert set(cache.dirty) == {KEY}
