"""The allocator: picks devices for the claims of a pod on one node; pure, deterministic and complete.

`ResourceSliceTracker` keeps the devices that drivers publish, `claim_to_allocate` reads the requests of a claim, and
`allocate` searches. A `Ledger` records who holds a device, a `ConsumedCapacityCollection` what is consumed of shared
devices. The caller of `allocate` must record the result in both before the next call.
"""

from dra.engine.allocator.allocation_results import allocation_results
from dra.engine.allocator.claims_to_allocate import ClaimToAllocate, UnsatisfiableError, claim_to_allocate
from dra.engine.allocator.consumable_capacity import ConsumedCapacityCollection
from dra.engine.allocator.fatal_failures import FatalFailures
from dra.engine.allocator.resource_slice_tracker import NodeDevices, ResourceSliceTracker
from dra.engine.allocator.search import AllocationFailure, allocate
from dra.engine.devices.allocator_releases import AllocatorRelease, allocator_release

__all__ = [
    "AllocationFailure",
    "AllocatorRelease",
    "ClaimToAllocate",
    "ConsumedCapacityCollection",
    "FatalFailures",
    "NodeDevices",
    "ResourceSliceTracker",
    "UnsatisfiableError",
    "allocate",
    "allocation_results",
    "allocator_release",
    "claim_to_allocate",
]
