"""Lifetimes of allocations: from an allocation of a claim to its end, with what was done to the list meanwhile.

Two allocations of one claim may be equal in every field (the timestamp has whole seconds), so they are told apart by
when they were made. Whoever relies on an allocation relies on a lifetime.
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
    entered_marked: set[Uid] = field(default_factory=set)
    """Entries that were in the list when our marks said so: if such an entry is missing, its owner removed it."""

    emptied_by: Actor | None = None
    """Who removed the last entry, while the list is empty."""

    def breaks_promise(self, uid: Uid) -> bool:
        """Whether it is our doing that the allocation on which this pod relied is gone."""
        if self.ended_by in {Actor.SCHEDULER, Actor.STOCK}:
            return self.unlisted.get(uid) is Actor.US  # they did not know of the pod because of us
        return self.ended_by is Actor.US


class AllocationLifetimes:
    """The lifetime of each version of each claim."""

    def __init__(self) -> None:
        self._by_version: dict[str, AllocationLifetime] = {}
        self._saved: dict[Uid, dict[Uid, Actor]] = {}
        """Of each claim in the backup, who had removed which entry until then."""

    def get(self, claim: ResourceClaim) -> AllocationLifetime | None:
        """Return the lifetime of a version of a claim; None if it is not allocated."""
        return self._by_version.get(claim.metadata.resource_version)

    def save(self, claims: Iterable[ResourceClaim]) -> None:
        """Take a backup: what was done to a list counts again when that list is restored."""
        known = {claim.metadata.uid: self.get(claim) for claim in claims}
        self._saved = {uid: dict(lifetime.unlisted) for uid, lifetime in known.items() if lifetime is not None}

    def record(self, event: Event) -> None:
        """Take in a write on a claim."""
        before = event.before if isinstance(event.before, ResourceClaim) else None
        after = event.after if isinstance(event.after, ResourceClaim) else None
        lifetime = self.get(before) if before is not None else None
        allocation = after.status.allocation if after is not None else None
        if lifetime is not None and allocation is None:
            lifetime.ended_by = event.actor
        if after is None or allocation is None:
            return
        if lifetime is None:
            lifetime = AllocationLifetime(claim=after, allocation=allocation)
        self._by_version[after.metadata.resource_version] = lifetime
        listed = {entry.uid for entry in after.entries}
        for entry in before.entries if before is not None else ():
            if entry.uid not in listed:
                lifetime.unlisted[entry.uid] = event.actor
        lifetime.unlisted |= self._saved.get(after.metadata.uid, {}) if event.actor is Actor.BACKUP else {}
        for uid in listed:
            lifetime.unlisted.pop(uid, None)
        if before is not None and before.entries and not listed:
            lifetime.emptied_by = event.actor
        elif listed:
            lifetime.emptied_by = None
        if after.metadata.annotation(
            workload_reservations.ENTERED_ALLOCATION
        ) == workload_reservations.allocation_digest(allocation):
            lifetime.entered_marked |= listed
