"""Claims as a scheduler counts them: as watched, as its own writes returned them, and as decided but not yet written.

Upstream's terms: the assume cache (responses to own writes count until the watch has caught up) and in-flight
allocations (decided, not yet written). A `Ledger` holds the devices of both. If two claims hold the same device, for
whatever reason, each keeps what it can: the device is free only once neither claim holds it.
"""

from collections.abc import Iterator

from dra.engine.allocator import ConsumedCapacityCollection
from dra.engine.devices.ledger import DeviceID, Holder, Ledger, allocated_devices
from dra.model.claims import AllocationResult, ResourceClaim
from dra.model.meta import Key, Uid
from dra.model.resource_versions import is_older


class ClaimTracker:
    """Tracks all claims and the claim that holds each device."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.shares = ConsumedCapacityCollection()
        self._claims: dict[Key, ResourceClaim] = {}
        self._in_flight: dict[Uid, AllocationResult] = {}
        self._contested: dict[Uid, tuple[Holder, frozenset[DeviceID]]] = {}

    def get(self, key: Key) -> ResourceClaim | None:
        """Return the newest known version of a claim."""
        return self._claims.get(key)

    def is_in_flight(self, uid: Uid) -> bool:
        """Report whether an allocation of the claim is decided but not yet written."""
        return uid in self._in_flight

    def observe(self, claim: ResourceClaim) -> bool:
        """Store a version of a claim; return whether devices may have become free."""
        meta = claim.metadata
        known = self._claims.get(meta.key)
        if known is not None:
            if known.metadata.uid != meta.uid:
                self.forget(known)
            elif is_older(meta.resource_version, known.metadata.resource_version):
                return False
        self._claims[meta.key] = claim
        return self._track_devices(claim)

    def forget(self, claim: ResourceClaim) -> bool:
        """Remove a deleted claim; return whether devices may have become free."""
        known = self._claims.get(claim.metadata.key)
        if known is not None and known.metadata.uid == claim.metadata.uid:
            del self._claims[claim.metadata.key]
        self._in_flight.pop(claim.metadata.uid, None)
        return self._release(claim.metadata.uid)

    def assume(self, claim: ResourceClaim, allocation: AllocationResult) -> None:
        """Reserve the devices of a decided allocation, so that no other claim gets them."""
        self._in_flight[claim.metadata.uid] = allocation
        self.shares.observe_allocation(claim.metadata.uid, allocation)
        self._hold_devices(_holder(claim), allocated_devices(allocation))

    def remove_pending_allocation(self, claim: ResourceClaim) -> bool:
        """End an in-flight allocation, written or given up; return whether devices may have become free."""
        self._in_flight.pop(claim.metadata.uid, None)
        known = self._claims.get(claim.metadata.key)
        if known is None or known.metadata.uid != claim.metadata.uid:
            return self._release(claim.metadata.uid)
        return self._track_devices(known)

    def __iter__(self) -> Iterator[ResourceClaim]:
        return iter(tuple(self._claims.values()))

    def _track_devices(self, claim: ResourceClaim) -> bool:
        allocation = claim.status.allocation
        if allocation is None:
            if claim.metadata.uid in self._in_flight:
                return False
            return self._release(claim.metadata.uid)
        self.shares.observe_allocation(claim.metadata.uid, allocation)
        items = allocated_devices(allocation)
        before = self.ledger.items(claim.metadata.uid)
        if before == items:
            return False
        self._hold_devices(_holder(claim), items)
        return bool(before - items)

    def _hold_devices(self, holder: Holder, items: frozenset[DeviceID]) -> None:
        self._contested.pop(holder.uid, None)
        if self.ledger.hold(holder, items) is None:
            return
        self._contested[holder.uid] = (holder, items)
        own = self.ledger.items(holder.uid)
        self.ledger.hold(holder, [item for item in items if item in own or self.ledger.is_free(item)])

    def _release(self, uid: Uid) -> bool:
        self._contested.pop(uid, None)
        self.shares.observe_allocation(uid, None)
        freed = self.ledger.release(uid)
        for holder, items in tuple(self._contested.values()):
            self._hold_devices(holder, items)
        return bool(freed)


def _holder(claim: ResourceClaim) -> Holder:
    return Holder(kind="claim", key=claim.metadata.key, uid=claim.metadata.uid)
