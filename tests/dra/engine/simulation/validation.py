"""What the API server refuses in the status of a claim.

Read from ``validateResourceClaimStatusUpdate`` (pkg/apis/resource/validation/validation.go), 1.36.3. It does not look
whether a consumer exists, whether anybody uses what is deallocated, or whether another claim has the same device.
"""

from dra.model.claims import RESERVED_FOR_MAX_SIZE, ResourceClaim
from tests.dra.engine.simulation.requests import Invalid


def check_status_update(before: ResourceClaim, after: ResourceClaim) -> None:
    """Raise Invalid if the status may not become what it is in ``after``."""
    entries, known = after.entries, before.entries
    allocation, earlier = after.status.allocation, before.status.allocation
    if len(entries) > RESERVED_FOR_MAX_SIZE:
        raise Invalid(f"status.reservedFor: must have at most {RESERVED_FOR_MAX_SIZE} items")
    if len({e.uid for e in entries}) < len(entries):
        raise Invalid("status.reservedFor: duplicate uid")
    if any(not (e.resource and e.name and e.uid) for e in entries):
        raise Invalid("status.reservedFor: resource, name and uid are required")
    if entries and allocation is None:
        raise Invalid("status.reservedFor: may not be specified when `allocated` is not set")
    if entries and after.metadata.deleting and set(entries) - set(known):
        raise Invalid("status.reservedFor: new entries may not be added while `deletionTimestamp` is set")
    if earlier is not None and allocation is not None and earlier != allocation:
        raise Invalid("status.allocation: field is immutable")
