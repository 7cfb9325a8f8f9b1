"""The claims that their nodes refuse to prepare, as this process has seen them.

The driver reports a refusal in the status of the claim; the time is measured from when this process first sees the
report, by its own clock, so a restart begins anew.
"""

from dra.engine.dirty_keys import Cache, DirtyKeys
from dra.engine.instants import Instant
from dra.engine.prepare_refusals.decide import EvictionHistory, Refusal
from dra.engine.prepare_refusals.reasons import PrepareRefusalReason, refusal_reason
from dra.model.claims import ResourceClaim
from dra.model.meta import Key


class RefusalCache(Cache[Key]):
    """The refused claims by key, and the evictions of their pods."""

    def __init__(self) -> None:
        self.dirty: DirtyKeys[Key] = DirtyKeys()
        self.history = EvictionHistory()
        self._refusals: dict[Key, Refusal] = {}

    def observe_claim(self, claim: ResourceClaim, *, now: Instant) -> None:
        """Record whether a claim from a list or a watch is refused."""
        key, reason = claim.metadata.key, refusal_reason(claim)
        if reason is None:
            self.forget_claim(claim)
            return
        known = self._refusals.get(key)
        if known is None or (known.claim, known.reason) != (claim.metadata.uid, reason):
            refusal = self._refusals[key] = Refusal(claim=claim.metadata.uid, reason=reason, since=now)
            self.dirty.add(key, due=refusal.due)

    def forget_claim(self, claim: ResourceClaim) -> None:
        """Forget a claim that is deleted, deallocated or prepared."""
        if self._refusals.pop(claim.metadata.key, None) is not None:
            self.dirty.add(claim.metadata.key)

    def refusal(self, key: Key) -> Refusal | None:
        """Return the refusal of a claim; None if the claim is not refused."""
        return self._refusals.get(key)

    def overdue_reasons(self, *, now: Instant) -> list[PrepareRefusalReason]:
        """Return the reasons of the claims that have been refused for `PATIENCE` or longer."""
        return [refusal.reason for refusal in self._refusals.values() if now >= refusal.due]

    def mark_all_dirty(self) -> None:
        """Mark all refused claims, each from when it is due: a standby has counted as well."""
        for key, refusal in self._refusals.items():
            self.dirty.add(key, due=refusal.due)
