"""Who has which device, as far as the scheduler knows."""

from dra.engine.kube_scheduler.claim_tracker import ClaimTracker
from dra.model.claims import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimStatus,
)
from dra.model.meta import ObjectMeta
from tests.dra.engine.allocator.strategies import DRIVER, item


def allocation(*devices):
    results = [DeviceRequestAllocationResult(driver=DRIVER, pool="p", device=each) for each in devices]
    return AllocationResult(devices=DeviceAllocationResult(results=results))


def claim(name, version, *devices, uid=""):
    return ResourceClaim(
        metadata=ObjectMeta(namespace="ml", name=name, uid=uid or name, resource_version=str(version)),
        status=ResourceClaimStatus(allocation=allocation(*devices) if devices else None),
    )


def test_an_older_version_is_no_news():
    tracker = ClaimTracker()
    tracker.observe(claim("a", 2, "d"))

    assert not tracker.observe(claim("a", 1))
    assert tracker.get(("ml", "a")).metadata.resource_version == "2"


def test_an_allocation_in_flight_is_not_freed_by_what_the_watch_shows():
    tracker = ClaimTracker()
    tracker.observe(claim("a", 1))
    tracker.assume(claim("a", 1), allocation("d"))

    tracker.observe(claim("a", 2))
    assert tracker.is_in_flight("a")
    assert not tracker.ledger.is_free(item("d"))
    assert tracker.remove_pending_allocation(claim("a", 1))
    assert tracker.ledger.is_free(item("d"))


def test_a_device_with_two_owners_is_free_when_both_have_left():
    tracker = ClaimTracker()
    tracker.observe(claim("a", 1, "d"))
    tracker.observe(claim("b", 2, "d", "e"))

    assert not tracker.ledger.is_free(item("e"))
    tracker.observe(claim("a", 3))
    assert not tracker.ledger.is_free(item("d"))
    assert tracker.forget(claim("b", 4))
    assert tracker.ledger.is_free(item("d"))
    assert tracker.ledger.is_free(item("e"))


def test_another_claim_under_the_name_frees_the_former():
    tracker = ClaimTracker()
    tracker.observe(claim("a", 1, "d"))
    tracker.observe(claim("a", 2, uid="new"))

    assert tracker.ledger.is_free(item("d"))
    assert [each.metadata.uid for each in tracker] == ["new"]
    tracker.forget(claim("a", 1, "d"))
    assert tracker.get(("ml", "a")) is not None
