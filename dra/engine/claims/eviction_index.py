"""The claims whose pods a device taint may evict, and the evictions that failed."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from dra.engine.claims.claim_state import ClaimState
from dra.engine.devices.taints import TaintIndex, TaintScope
from dra.engine.dirty_keys import Cache, DirtyKeys
from dra.engine.instants import NEVER, Instant, doubled
from dra.model.meta import Key, Struct, Uid

RETRY: Final = (0.5, 60.0)
"""Seconds, minimum and maximum, before a failed eviction is retried, whatever happens to the claim meanwhile."""


class PostponedEvictions(Struct, frozen=True):
    """The pods of a claim whose eviction failed, and until when these pods are left alone."""

    until: Instant = -NEVER
    pods: frozenset[Uid] = frozenset()
    failures: int = 0
    """Number of failures in a row."""


NOTHING_POSTPONED: Final = PostponedEvictions()


class EvictionIndex(Cache[Key]):
    """The claims to decide evictions about; each is marked after the claim itself was reconciled."""

    def __init__(self, taints: TaintIndex, *, records: Mapping[Key, ClaimState]) -> None:
        self.dirty: DirtyKeys[Key] = DirtyKeys()
        self._taints = taints
        self._records = records
        self._postponed: dict[Key, PostponedEvictions] = {}

    def mark_all_dirty(self) -> None:
        """Mark nothing: a replica that begins to act reconciles all claims first."""

    def mark_reconciled(self, key: Key) -> bool:
        """Mark a claim that was reconciled, if evictions depend on it; return whether they do."""
        concerned = key in self._postponed or self.is_tainted(key)
        if concerned:
            self.dirty.add(key)
        return concerned

    def is_tainted(self, key: Key) -> bool:
        """Return whether a claim has a device with a taint that evicts pods: hardly ever, so no view is built."""
        record = self._records.get(key)
        return (
            record is not None
            and record.claim is not None
            and bool(self._taints.taints_of(record.claim.status.allocation))
        )

    def claims_in(self, scopes: Iterable[TaintScope]) -> Iterator[Key]:
        """Yield the claims with a device in these scopes. Taints are rare, so all claims are checked."""
        changed = tuple(scopes)
        for key, record in self._records.items() if changed else ():
            allocation = record.claim.status.allocation if record.claim is not None else None
            results = allocation.devices.results or () if allocation is not None else ()
            if any(scope.covers(result) for scope in changed for result in results):
                yield key

    def postponed(self, key: Key) -> PostponedEvictions:
        """Return the evictions of a claim that failed."""
        return self._postponed.get(key, NOTHING_POSTPONED)

    def postpone(self, key: Key, pods: Iterable[Uid], *, now: Instant) -> Instant:
        """Record that evictions of these pods failed; return until when they are left alone."""
        before = self.postponed(key)
        until, left = now + doubled(RETRY, before.failures), frozenset(pods)
        if now < before.until:
            until, left = min(until, before.until), left | before.pods
        self._postponed[key] = PostponedEvictions(until=until, pods=left, failures=before.failures + 1)
        return until

    def succeed(self, key: Key, *, wake_at: Instant, now: Instant) -> None:
        """Record that no eviction failed; pods that are left alone for a while yet are not forgotten.

        ``wake_at`` is when evictions are decided about again: never if no pod is left, such as of a deleted claim.
        """
        if wake_at == NEVER or now >= self.postponed(key).until:
            self._postponed.pop(key, None)
