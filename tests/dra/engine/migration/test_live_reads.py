import pytest

from dra.api.migration.model import EvictionPolicy
from dra.engine.migration.limits import EvictionPace
from dra.engine.migration.live_reads import LiveReads, LookedAtPod
from dra.engine.migration.plan import EvictPod
from tests.dra.engine.migration.examples import at, pod


def eviction(policy=EvictionPolicy.EVICTION):
    return EvictPod(key=("ns", "a"), uid="uid-a", eviction_policy=policy, delete_options={})


def looked_at(**metadata):
    found = pod("a", metadata=metadata)
    return LookedAtPod(found, {"metadata": {"name": "a", "uid": found.metadata.uid}, "spec": {}})


def test_a_turn_is_kept_until_it_comes():
    pace, first, second = EvictionPace(0.5, 1), LiveReads(), LiveReads()
    assert first.take_turn(pace, now=0.0) == 0.0
    assert [second.take_turn(pace, now=now) for now in (0.0, 1.0, 2.0)] == [2.0, 2.0, 2.0]
    assert second.take_turn(pace, now=2.0) == 4.0, "the next eviction has a turn of its own"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(looked_at(), (False, ""), id="present"),
        pytest.param(None, (True, "uid-a"), id="gone"),
        pytest.param(looked_at(uid="other"), (False, "uid-a"), id="another-pod-of-the-name"),
        pytest.param(looked_at(deletionTimestamp=at(0)), (False, "uid-a"), id="terminating"),
    ],
)
def test_the_last_look_shows_whether_the_pod_is_to_be_evicted(found, expected):
    live = LiveReads()
    kept = live.record_last_look(eviction(), found)
    assert (live.pod_gone, live.evicted) == expected
    assert kept is (None if live.evicted else found)
    assert (live.pod_template is None) == (kept is None)


@pytest.mark.parametrize(
    ("policy", "evicted", "waits"),
    [
        pytest.param(EvictionPolicy.EVICTION, "uid-a", False, id="eviction"),
        pytest.param(EvictionPolicy.DELETE, "uid-a", False, id="delete"),
        pytest.param(EvictionPolicy.SOFT_EVICTION, "", True, id="soft-eviction"),
    ],
)
def test_an_eviction_ends_the_pod_unless_it_only_asks_for_it(policy, evicted, waits):
    live = LiveReads()
    live.record_refusal("the budget is used up", at=5.0)
    assert (live.evict_error, live.evict_failed_at) == ("the budget is used up", 5.0)
    assert live.record_eviction(eviction(policy)) == waits
    assert (live.evict_error, live.evicted) == ("", evicted)
