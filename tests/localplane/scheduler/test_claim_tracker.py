"""Who has which device, as far as the scheduler knows."""

from dra.model.claims import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimStatus,
)
from dra.model.meta import ObjectMeta
from localplane.scheduler.claim_tracker import ClaimTracker
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
    holdings = ClaimTracker()
    holdings.observe(claim("a", 2, "d"))

    assert not holdings.observe(claim("a", 1))
    assert holdings.get(("ml", "a")).metadata.resource_version == "2"


def test_an_allocation_in_flight_is_not_freed_by_what_the_watch_shows():
    holdings = ClaimTracker()
    holdings.observe(claim("a", 1))
    holdings.assume(claim("a", 1), allocation("d"))

    holdings.observe(claim("a", 2))
    assert holdings.in_flight("a")
    assert not holdings.ledger.is_free(item("d"))
    assert holdings.settle(claim("a", 1))
    assert holdings.ledger.is_free(item("d"))


def test_a_device_with_two_owners_is_free_when_both_have_left():
    holdings = ClaimTracker()
    holdings.observe(claim("a", 1, "d"))
    holdings.observe(claim("b", 2, "d", "e"))

    assert not holdings.ledger.is_free(item("e"))
    holdings.observe(claim("a", 3))
    assert not holdings.ledger.is_free(item("d"))
    assert holdings.forget(claim("b", 4))
    assert holdings.ledger.is_free(item("d"))
    assert holdings.ledger.is_free(item("e"))


def test_another_claim_under_the_name_frees_the_former():
    holdings = ClaimTracker()
    holdings.observe(claim("a", 1, "d"))
    holdings.observe(claim("a", 2, uid="new"))

    assert holdings.ledger.is_free(item("d"))
    assert [each.metadata.uid for each in holdings] == ["new"]
    holdings.forget(claim("a", 1, "d"))
    assert holdings.get(("ml", "a")) is not None
