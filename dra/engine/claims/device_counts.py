"""Counts of offered and held devices and of what holds them, computed on each request.

Cheaper and rougher than the rules: `dra.engine.diagnosis` examines one claim by evaluating the rules many times; this
module examines all claims by their users and the entries of their lists. The counts decide nothing.
"""

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.claim_state import ClaimState
from dra.engine.claims.consumers import Stage
from dra.engine.claims.view import ENTRY_API_GROUP, LOST_NODE_RESOURCE
from dra.model.meta import Struct


class HeldBy(StrEnum):
    """The holder of a claim's devices; the first value that applies."""

    PODS = "pods"  # bound pods use the devices
    WAITING = "waiting"  # pods that name the claim are not bound yet
    WORKLOAD = "workload"  # reserved for a workload that has no pods now
    OTHERS = "others"  # only entries of other controllers, or of nodes that do not report in
    NOTHING = "nothing"  # briefly, between two writes; permanently, a leak


COUNTED_STAGES: Final = {stage: stage.name.lower() for stage in Stage if stage is not Stage.FINISHED}
"""Stages that are counted, and their names."""


class DeviceCounts(Struct, frozen=True):
    """The counts of held and offered devices and of pods that name claims."""

    held: Mapping[tuple[str, HeldBy], int]
    """Devices by (driver, holder)."""

    offered: Mapping[str, int]
    """Devices by driver; empty where ResourceSlices may not be read."""

    incomplete: Mapping[str, int]
    """Devices by driver that cannot be allocated, since slices of their pool are missing; empty as `offered` is."""

    pods: Mapping[str, int]
    """Unfinished pods that name claims, by stage."""


def count_devices(claim_cache: ClaimCache) -> DeviceCounts:
    """Count devices and pods, in about three milliseconds per thousand claims."""
    held: Counter[tuple[str, HeldBy]] = Counter()
    for record in claim_cache.records():
        allocation = record.claim.status.allocation if record.claim is not None else None
        if allocation is None:
            continue
        holder = held_by(record)
        for result in allocation.devices.results or ():
            if not result.admin_access:
                held[result.driver, holder] += 1
    stages = Counter(consumer.stage for consumer in claim_cache.consumers())
    return DeviceCounts(
        held=held,
        offered=claim_cache.taints.devices_by_driver(),
        incomplete=claim_cache.taints.devices_in_incomplete_pools(),
        pods={name: stages[stage] for stage, name in COUNTED_STAGES.items()},
    )


def held_by(record: ClaimState) -> HeldBy:
    """Return the holder of an allocated claim's devices."""
    stages = record.stages
    if stages[Stage.STARTING] or stages[Stage.STARTED]:
        return HeldBy.PODS
    if stages[Stage.WAITING] or stages[Stage.GATED]:
        return HeldBy.WAITING
    entries = record.claim.entries if record.claim is not None else ()
    for_many = [entry for entry in entries if not entry.is_pod and entry.api_group != ENTRY_API_GROUP]
    reference = record.reservation.reference if record.reservation is not None else None
    if any(reference is not None and entry.group_resource == reference.group_resource for entry in for_many):
        return HeldBy.WORKLOAD
    lost = any(entry.api_group == ENTRY_API_GROUP and entry.resource == LOST_NODE_RESOURCE for entry in entries)
    return HeldBy.OTHERS if for_many or lost else HeldBy.NOTHING
