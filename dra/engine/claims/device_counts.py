"""How many devices there are, how many are held, and by what: counted anew whenever somebody asks.

Cheaper than the rules, and rougher: what `dra.engine.diagnosis` finds out for one claim by asking the rules many times
is said here of all by a look at who uses them and what stands in their lists. It decides nothing.
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
    """What holds the devices of a claim; the first that applies."""

    PODS = "pods"  # bound pods use them
    WAITING = "waiting"  # pods that name the claim are not bound yet
    WORKLOAD = "workload"  # reserved for a workload that has no pods now
    OTHERS = "others"  # entries of other controllers alone, or of nodes that do not report in
    NOTHING = "nothing"  # for moments: between two writes. For long: a leak


COUNTED_STAGES: Final = {stage: stage.name.lower() for stage in Stage if stage is not Stage.FINISHED}
"""The pods that are counted, and what they are called."""


class DeviceCounts(Struct, frozen=True):
    """The counts."""

    held: Mapping[tuple[str, HeldBy], int]
    """By (driver, what holds them)."""

    offered: Mapping[str, int]
    """By driver; empty where slices may not be read."""

    pods: Mapping[str, int]
    """Unfinished pods that name claims, by stage."""


def count_devices(world: ClaimCache) -> DeviceCounts:
    """Count: three milliseconds per thousand claims."""
    held: Counter[tuple[str, HeldBy]] = Counter()
    for record in world.records():
        allocation = record.claim.status.allocation if record.claim is not None else None
        if allocation is None:
            continue
        holder = held_by(record)
        for result in allocation.devices.results or ():
            if not result.admin_access:
                held[result.driver, holder] += 1
    stages = Counter(consumer.stage for consumer in world.consumers())
    return DeviceCounts(
        held=held, offered=world.taints.offered(), pods={name: stages[stage] for stage, name in COUNTED_STAGES.items()}
    )


def held_by(record: ClaimState) -> HeldBy:
    """Return what holds an allocated claim."""
    stages = record.stages
    if stages[Stage.STARTING] or stages[Stage.STARTED]:
        return HeldBy.PODS
    if stages[Stage.WAITING] or stages[Stage.GATED]:
        return HeldBy.WAITING
    entries = record.claim.entries if record.claim is not None else ()
    for_many = [each for each in entries if not each.is_pod and each.api_group != ENTRY_API_GROUP]
    reference = record.reservation.reference if record.reservation is not None else None
    if any(reference is not None and each.group_resource == reference.group_resource for each in for_many):
        return HeldBy.WORKLOAD
    lost = any(each.api_group == ENTRY_API_GROUP and each.resource == LOST_NODE_RESOURCE for each in entries)
    return HeldBy.OTHERS if for_many or lost else HeldBy.NOTHING
