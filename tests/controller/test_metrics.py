"""What Prometheus gets to see."""

import pytest

from controller.metrics import ControllerMetrics
from dra.engine.claims.actions import SetReservedFor
from dra.engine.claims.generation.claim_owners import ClaimOwnerKind
from dra.engine.claims.view import ObservedHistory
from dra.engine.claims.window import EntryHistory
from tests.dra.engine.examples import JOB, KEY, NOON, allocation, claim, uid, view, waiting

A = waiting("a")


@pytest.mark.parametrize(
    ("history", "listing", "expected"),
    [
        pytest.param(ObservedHistory(), None, ("free", 3.0), id="from-the-first-sight-of-the-pod"),
        pytest.param(ObservedHistory(allocated_at=NOON + 2.0), None, ("free", 1.0), id="or-of-the-allocation"),
        pytest.param(
            ObservedHistory(nearly_full_at=NOON + 1.0), None, ("full", 3.0), id="the-list-had-no-room-meanwhile"
        ),
        pytest.param(ObservedHistory(nearly_full_at=NOON - 1.0), None, ("free", 3.0), id="the-list-had-no-room-before"),
        pytest.param(
            ObservedHistory(), EntryHistory(last_listed=NOON, unreserve_count=1), None, id="not-for-the-first-time"
        ),
        pytest.param(
            ObservedHistory(),
            EntryHistory(last_listed=NOON, assumed=True),
            ("free", 3.0),
            id="perhaps-not-for-the-first-time",
        ),
    ],
)
def test_how_long_pods_waited_for_their_entry_is_measured(history, listing, expected):
    metrics = ControllerMetrics()
    listings = {uid("a"): listing} if listing else {}
    waited = view(claim(workload=JOB, allocation=allocation()), A, history=history, entry_histories=listings)
    metrics.observe_listed(waited, SetReservedFor(claim=KEY, entries=(A.entry,)), now=NOON + 3.0)
    sums = {
        room: metrics.registry.get_sample_value("dra_reserve_pod_listing_seconds_sum", {"room": room})
        for room in ("free", "full")
    }
    assert {room: value for room, value in sums.items() if value is not None} == (dict([expected]) if expected else {})


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        pytest.param(
            "dynamic_resource_allocation_resourceclaim_creates_total",
            {"owner_api_group": "scheduling.k8s.io", "owner_api_kind": "PodGroup"},
            id="since-1.37-for-podgroups",
        ),
        pytest.param(
            "dynamic_resource_allocation_resourceclaim_creates_total",
            {"owner_api_group": "", "owner_api_kind": "Pod"},
            id="since-1.37-for-pods",
        ),
        pytest.param("resourceclaim_controller_creates_total", {}, id="up-to-1.36"),
    ],
)
def test_a_claim_that_is_made_counts_under_the_names_of_both_stock_controllers(name, labels):
    metrics = ControllerMetrics()
    metrics.created("success", admin_access=False, owner=ClaimOwnerKind.POD)
    metrics.created("success", admin_access=False, owner=ClaimOwnerKind.POD_GROUP)
    made = metrics.registry.get_sample_value(name, {"status": "success", "admin_access": "false", **labels})
    assert made == (1.0 if labels else 2.0)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("dynamic_resource_allocation_resource_claims", id="since-1.37"),
        pytest.param("resourceclaim_controller_resource_claims", id="up-to-1.36"),
    ],
)
def test_claims_are_counted_under_the_names_of_both_stock_controllers(name):
    metrics = ControllerMetrics()
    metrics.count_claims(
        lambda: [claim(allocation=allocation()), claim("free", allocation=None), claim("free-too", allocation=None)]
    )
    counted = {
        allocated: metrics.registry.get_sample_value(
            name, {"allocated": allocated, "admin_access": "false", "source": ""}
        )
        for allocated in ("true", "false")
    }
    assert counted == {"true": 1.0, "false": 2.0}
