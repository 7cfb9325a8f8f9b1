"""Rule 13: a generated claim is deleted when its pod no longer needs it.

The garbage collector would delete the claim with the pod, but finished pods stay for hours, and a device that no pod
can use any longer would look as if it were in demand.
"""

from typing import Final

from dra.engine.claims.desired import Desired
from dra.engine.claims.policy import Policy
from dra.engine.claims.view import ClaimView, OwningPodPhase
from dra.engine.instants import Instant
from dra.engine.reservations.claim_holders import HolderState

_OWNER_NEEDS_NO_CLAIM: Final = frozenset({OwningPodPhase.DONE, OwningPodPhase.REPLACED})
"""Phases in which the owning pod needs no claim. A pod that is not observed may be one whose watch event is still to
come: the garbage collector handles that case."""


_NO_OWNING_POD: Final = frozenset({OwningPodPhase.NONE, OwningPodPhase.GONE})


def generated_claim_rule(view: ClaimView, policy: Policy, now: Instant, desired: Desired) -> Desired:
    """Delete a generated claim whose list is empty, as soon as its pod was seen done or replaced.

    A claim generated for a reservation is deleted when the reservation is over, and never before.
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
