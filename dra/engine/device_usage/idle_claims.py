"""Claims that hold devices for hours without use: they are reported in Events, and stay as they are.

The time counts from when this process saw the claim without use first; a controller that starts, or takes over, counts
anew. So an Event may come too late, and never comes too early.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from dra.engine.claims.claim_state import ClaimState
from dra.engine.claims.codes import Code
from dra.engine.claims.reasons import Reason, claim_reason
from dra.engine.device_usage.groups import Activity, held_results, used_results
from dra.engine.dirty_keys import Cache, DirtyKeys
from dra.engine.instants import Instant
from dra.engine.plan import Plan
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, Struct, Uid
from dra.model.references import POD_GROUPS, RESERVATIONS
from dra.model.workload_reservations import WorkloadReservation

LOOK_EVERY: Final = 60.0
"""Seconds between two looks at all claims."""

ALL_CLAIMS: Final = "all"
"""The only key: one look is about all claims."""

_HOUR: Final = 3600.0

_KEEPING: Final = frozenset({RESERVATIONS, POD_GROUPS})
"""Kinds whose entries keep a claim allocated without a pod, beside workloads."""


class IdleClaim(Struct, frozen=True):
    """A claim that holds devices of which none is used."""

    key: Key
    uid: Uid
    devices: int
    keeper: str
    """What keeps the claim allocated, such as ``jobs.batch/train``; empty if nothing but pods does."""

    since: Instant
    reported_at: Instant | None = None


class IdleClaims(Cache[str]):
    """The claims that are idle, and since when."""

    def __init__(self) -> None:
        self.dirty: DirtyKeys[str] = DirtyKeys()
        self._idle: dict[Uid, IdleClaim] = {}

    def mark_all_dirty(self) -> None:
        """Mark the look at all claims."""
        self.dirty.add(ALL_CLAIMS)

    def look(self, records: Iterable[ClaimState], is_active: Activity, *, now: Instant) -> tuple[IdleClaim, ...]:
        """Return the claims that are idle now; after use, the time of a claim starts again."""
        self._idle = {
            claim.uid: claim for record in records if (claim := self._idle_claim(record, is_active, now)) is not None
        }
        return tuple(self._idle.values())

    def record_reported(self, claims: Iterable[IdleClaim], *, now: Instant) -> None:
        """Record the claims about which an Event was recorded."""
        for claim in claims:
            self._idle[claim.uid] = msgspec.structs.replace(claim, reported_at=now)

    def _idle_claim(self, record: ClaimState, is_active: Activity, now: Instant) -> IdleClaim | None:
        devices = {(result.driver, result.pool, result.device) for result in held_results(record)}
        if record.claim is None or not devices or used_results(record, is_active):
            return None
        before = self._idle.get(record.claim.metadata.uid)
        return IdleClaim(
            key=record.key,
            uid=record.claim.metadata.uid,
            devices=len(devices),
            keeper=_keeper(record.claim, record.reservation),
            since=now if before is None else before.since,
            reported_at=None if before is None else before.reported_at,
        )


def decide(claims: Iterable[IdleClaim], *, hours: int, now: Instant) -> Plan[IdleClaim, Reason]:
    """Return the claims to report: once they were idle for ``hours``, and again after as long."""
    due = tuple(
        claim
        for claim in claims
        if now - (claim.since if claim.reported_at is None else claim.reported_at) >= hours * _HOUR
    )
    return Plan(actions=due, reasons=tuple(_reason(claim, now=now) for claim in due), wake_at=now + LOOK_EVERY)


def count_overdue(claims: Iterable[IdleClaim], *, hours: int, now: Instant) -> int:
    """Return the number of claims that have been idle for ``hours``."""
    return sum(now - claim.since >= hours * _HOUR for claim in claims)


def _reason(claim: IdleClaim, *, now: Instant) -> Reason:
    return claim_reason(
        Code.CLAIM_IDLE,
        key=claim.key,
        uid=claim.uid,
        devices=claim.devices,
        hours=int((now - claim.since) // _HOUR),
        keeper=claim.keeper or "no workload",
    )


def _keeper(claim: ResourceClaim, reservation: WorkloadReservation | None) -> str:
    """Return the workload that a claim is reserved for, else the Reservation or PodGroup in its list."""
    if reservation is not None:
        return str(reservation.reference)
    listed = (entry for entry in claim.entries if entry.group_resource in _KEEPING)
    return next(map(str, listed), "")
