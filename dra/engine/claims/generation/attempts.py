"""When claims are generated: `dra.engine.claims.generation.decide` says what is lacking, what failed before says when.

A refused claim is not requested again at each event: other controllers write pods that wait. Before a claim replaces
one that the owner's status names, owner and claim are read live.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from dra.engine.claims.generation.claim_owners import ClaimOwner, ClaimOwnerView
from dra.engine.claims.generation.decide import CreateClaim, HandOverClaim, RecordClaims
from dra.engine.claims.generation.decide import decide as decide_claims
from dra.engine.claims.reasons import Reason
from dra.engine.instants import NEVER, Instant, doubled
from dra.engine.plan import Plan
from dra.model.meta import Struct, Uid

RETRY: Final = (0.2, 60.0)
"""Seconds, minimum and maximum, before an owner is decided about again; an event does so at once, but repeats no claim
that was refused."""


class ConfirmLost(Struct, frozen=True):
    """Read an owner live, and the claims that its status names and no watch shows."""

    owner: ClaimOwner
    names: tuple[str, ...]


OwnerAction: TypeAlias = ConfirmLost | CreateClaim | HandOverClaim | RecordClaims
OwnerPlan: TypeAlias = Plan[OwnerAction, Reason]


class Attempts(Struct, frozen=True):
    """The failed attempts for one owner."""

    refused: CreateClaim | None = None
    refused_until: Instant = -NEVER
    refusals: int = 0
    """Number of refusals in a row."""

    waiting_since: Instant | None = None
    """Since when the owner has waited for something, such as its template."""

    def is_refused(self, create: Sequence[CreateClaim], *, now: Instant) -> bool:
        """Return whether one of these claims was refused a moment ago; a changed template may be accepted."""
        refused = self.refused
        return (
            refused is not None
            and now < self.refused_until
            and any((action.entry, action.template) == (refused.entry, refused.template) for action in create)
        )

    def looked_at_again(self, *, now: Instant) -> Instant:
        """Return when to look at a waiting owner again: it waits for as long as it has waited, within `RETRY`."""
        waited = 0.0 if self.waiting_since is None else now - self.waiting_since
        return now + min(max(waited, RETRY[0]), RETRY[1])


NO_ATTEMPTS: Final = Attempts()


def decide(view: ClaimOwnerView | None, attempts: Attempts, *, now: Instant, confirmed: bool = False) -> OwnerPlan:
    """Return the plan for an owner, None if it is gone; ``confirmed`` says whether it was just read live."""
    if view is None:
        return OwnerPlan()
    lacking = decide_claims(view)
    if lacking.done:
        return OwnerPlan(
            reasons=lacking.reasons, wake_at=attempts.looked_at_again(now=now) if lacking.reasons else NEVER
        )
    if attempts.is_refused(lacking.create, now=now):
        return OwnerPlan(reasons=lacking.reasons, wake_at=attempts.refused_until)
    lost = () if confirmed else _lost_claims(lacking.create, view)
    if lost:
        return OwnerPlan(actions=(ConfirmLost(owner=view.owner, names=lost),), reasons=lacking.reasons)
    record = (lacking.record,) if lacking.record is not None else ()
    return OwnerPlan(actions=(*lacking.create, *lacking.hand_over, *record), reasons=lacking.reasons)


def _lost_claims(create: Sequence[CreateClaim], view: ClaimOwnerView) -> tuple[str, ...]:
    """Return the names of deleted claims in the owner's status that new claims will replace."""
    records = (view.owner.record(action.entry) for action in create)
    names = (record.resource_claim_name for record in records if record is not None)
    return tuple(name for name in names if name and name not in view.named)


class GenerationAttempts:
    """The failed attempts for all owners; only owners that lack something are remembered."""

    def __init__(self) -> None:
        self._attempts: dict[Uid, Attempts] = {}

    def of(self, uid: Uid) -> Attempts:
        """Return the failed attempts for an owner."""
        return self._attempts.get(uid, NO_ATTEMPTS)

    def refuse(self, uid: Uid, action: CreateClaim, *, now: Instant) -> None:
        """Record that a claim was refused, or that its template cannot be read."""
        before = self.of(uid)
        until = now + doubled(RETRY, before.refusals)
        self._attempts[uid] = msgspec.structs.replace(
            before, refused=action, refused_until=until, refusals=before.refusals + 1
        )

    def observe_plan(self, uid: Uid, plan: OwnerPlan, *, now: Instant) -> None:
        """Record whether an owner waits for something other than the end of a refusal; without need, forget it."""
        before = self.of(uid)
        if plan.wake_at == NEVER:
            self.forget(uid)
        elif plan.wake_at != before.refused_until and before.waiting_since is None:
            self._attempts[uid] = msgspec.structs.replace(before, waiting_since=now)

    def forget(self, uid: Uid) -> None:
        """Forget the failed attempts for an owner whose claims were created, or that is gone."""
        self._attempts.pop(uid, None)
