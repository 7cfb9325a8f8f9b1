"""Rule 13: a claim that was made for a pod goes when that pod needs it no more.

The garbage collector would delete it with the pod, but finished pods stay for hours, and a device that nobody can use
any more looks as if it were asked for.
"""

from typing import Final

from dra.engine.claims.desired import Desired
from dra.engine.claims.policy import Policy
from dra.engine.claims.view import ClaimView, OwningPodPhase
from dra.engine.instants import Instant
from dra.engine.reservations.claim_holders import HolderState

_OWNER_NEEDS_NO_CLAIM: Final = frozenset({OwningPodPhase.DONE, OwningPodPhase.REPLACED})
"""A pod that is not to be seen may be one whose watch event is still to come: the garbage collector knows."""


_NO_OWNING_POD: Final = frozenset({OwningPodPhase.NONE, OwningPodPhase.GONE})


def generated_claim_rule(view: ClaimView, policy: Policy, now: Instant, desired: Desired) -> Desired:
    """Delete a generated claim whose list is empty, as soon as its pod was seen done or replaced.

    What was made for a reservation goes when that is over, and until then never.
    """
    del now
    holds = [hold for hold in view.holds if hold.owns]
    if any(hold.standing is not HolderState.OVER for hold in holds):
        return desired
    left = bool(holds) and view.owner in _NO_OWNING_POD and not view.unfinished
    if not policy.generate_claims or view.claim.metadata.deleting or not (left or view.owner in _OWNER_NEEDS_NO_CLAIM):
        return desired
    freed = view.allocation is None or not desired.allocated
    unused = freed or not (view.entries or desired.workload or desired.guard or desired.kept or desired.pods)
    return desired.but(deleted=True) if unused else desired
