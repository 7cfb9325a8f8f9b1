"""Which devices satisfy claims on a node: pure, deterministic, and complete.

`Inventory` knows what drivers offer, `prepare` reads what a claim asks for, `allocate` searches. A device is looked up
in a `Ledger`, one that is shared in `Shares`; whoever allocates enters the result there before anybody else is asked.
"""

from dra.engine.allocator.allocation_results import allocation_results
from dra.engine.allocator.claims_to_allocate import ClaimToAllocate, UnsatisfiableError, claim_to_allocate
from dra.engine.allocator.consumable_capacity import ConsumedCapacityCollection
from dra.engine.allocator.resource_slice_tracker import NodeDevices, ResourceSliceTracker
from dra.engine.allocator.search import AllocationFailure, allocate

__all__ = [
    "AllocationFailure",
    "ClaimToAllocate",
    "ConsumedCapacityCollection",
    "NodeDevices",
    "ResourceSliceTracker",
    "UnsatisfiableError",
    "allocate",
    "allocation_results",
    "claim_to_allocate",
]
