"""Tenures: from an allocation of a claim to its end, with what was done to the list meanwhile.

Two allocations of one claim may be equal in every field (the timestamp has whole seconds), so they are told apart by
when they were made. Whoever relies on an allocation relies on a tenure.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from dra.model import workload_reservations
from dra.model.claims import AllocationResult, ResourceClaim
from dra.model.meta import Uid
from tests.dra.engine.simulation.server import Actor, Event


@dataclass(eq=False)
class AllocationLifetime:
    """One allocation of one claim."""

    claim: ResourceClaim
    allocation: AllocationResult
    unlisted: dict[Uid, Actor] = field(default_factory=dict)
    """Who removed an entry last."""

    ended_by: Actor | None = None
    remembered: set[Uid] = field(default_factory=set)
    """Entries that were in the list when our marks said so: if such an entry is missing, its owner removed it."""

    left_by: Actor | None = None
    """Who removed the last entry, while the list is empty."""

    def breaks_promise(self, uid: Uid) -> bool:
        """Whether it is our doing that the allocation on which this pod relied is gone."""
        if self.ended_by in {Actor.SCHEDULER, Actor.STOCK}:
            return self.unlisted.get(uid) is Actor.US  # they did not know of the pod because of us
        return self.ended_by is Actor.US


class AllocationLifetimes:
    """The tenure of each version of each claim."""

    def __init__(self) -> None:
        self._of: dict[str, AllocationLifetime] = {}
        self._saved: dict[Uid, dict[Uid, Actor]] = {}
        """Of each claim in the backup, who had removed which entry until then."""

    def of(self, claim: ResourceClaim) -> AllocationLifetime | None:
        """Return the tenure of a version of a claim; None if it is not allocated."""
        return self._of.get(claim.metadata.resource_version)

    def save(self, claims: Iterable[ResourceClaim]) -> None:
        """Take a backup: what was done to a list counts again when that list is restored."""
        known = {claim.metadata.uid: self.of(claim) for claim in claims}
        self._saved = {uid: dict(tenure.unlisted) for uid, tenure in known.items() if tenure is not None}

    def record(self, event: Event) -> None:
        """Take in a write on a claim."""
        before = event.before if isinstance(event.before, ResourceClaim) else None
        after = event.after if isinstance(event.after, ResourceClaim) else None
        tenure = self.of(before) if before is not None else None
        allocation = after.status.allocation if after is not None else None
        if tenure is not None and allocation is None:
            tenure.ended_by = event.by
        if after is None or allocation is None:
            return
        if tenure is None:
            tenure = AllocationLifetime(claim=after, allocation=allocation)
        self._of[after.metadata.resource_version] = tenure
        listed = {entry.uid for entry in after.entries}
        for entry in before.entries if before is not None else ():
            if entry.uid not in listed:
                tenure.unlisted[entry.uid] = event.by
        tenure.unlisted |= self._saved.get(after.metadata.uid, {}) if event.by is Actor.BACKUP else {}
        for uid in listed:
            tenure.unlisted.pop(uid, None)
        if before is not None and before.entries and not listed:
            tenure.left_by = event.by
        elif listed:
            tenure.left_by = None
        if after.metadata.annotation(
            workload_reservations.ENTERED_ALLOCATION
        ) == workload_reservations.allocation_digest(allocation):
            tenure.remembered |= listed
