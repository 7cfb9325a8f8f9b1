"""What Prometheus gets to see."""

import pytest

from controller.metrics import Metrics
from dra.engine.actions import SetReservedFor
from dra.engine.claims.view import History
from dra.engine.window import Listing
from tests.dra.engine.examples import JOB, KEY, NOON, allocation, claim, uid, view, waiting

A = waiting("a")


@pytest.mark.parametrize(
    ("history", "listing", "expected"),
    [
        pytest.param(History(), None, ("free", 3.0), id="from-the-first-sight-of-the-pod"),
        pytest.param(History(allocated_at=NOON + 2.0), None, ("free", 1.0), id="or-of-the-allocation"),
        pytest.param(History(full_at=NOON + 1.0), None, ("full", 3.0), id="the-list-had-no-room-meanwhile"),
        pytest.param(History(full_at=NOON - 1.0), None, ("free", 3.0), id="the-list-had-no-room-before"),
        pytest.param(History(), Listing(last=NOON, drops=1), None, id="not-for-the-first-time"),
        pytest.param(History(), Listing(last=NOON, assumed=True), ("free", 3.0), id="perhaps-not-for-the-first-time"),
    ],
)
def test_how_long_pods_waited_for_their_entry_is_measured(history, listing, expected):
    metrics = Metrics()
    listings = {uid("a"): listing} if listing else {}
    waited = view(claim(workload=JOB, allocation=allocation()), A, history=history, listings=listings)
    metrics.observe_listed(waited, SetReservedFor(claim=KEY, entries=(A.entry,)), now=NOON + 3.0)
    sums = {
        room: metrics.registry.get_sample_value("dra_reserve_pod_listing_seconds_sum", {"room": room})
        for room in ("free", "full")
    }
    assert {room: value for room, value in sums.items() if value is not None} == (dict([expected]) if expected else {})
