"""Whether a claim is released while its workload is suspended: part of the rule Release.

Kueue evicts a workload by suspending it, and gives the quota to another workload. The object stays, with its uid, and
its claims stay allocated by default: nobody else can tell whether the resumed workload needs the same devices. The
annotation of a claim, or else the configuration, lets a suspended workload give its devices back. A release waits for
the workload's pods, as that of a finished workload does.
"""

from typing import Final

from dra.engine.claims.policy import Policy
from dra.engine.claims.view import ClaimView
from dra.model.workload_reservations import WHEN_SUSPENDED, SuspensionPolicy

SUSPENDED: Final = "is suspended"
"""Text for the cause of a release."""

_VALID: Final = " or ".join(SuspensionPolicy)


def releases_suspended(view: ClaimView, policy: Policy) -> bool:
    """Return whether the claim is released while its workload is suspended; an unknown value of the annotation keeps.

    KEP-5194 leaves it to the owner when a claim is released; the owner states it by the annotation.
    """
    wanted = view.claim.metadata.annotation(WHEN_SUSPENDED)
    return policy.release_suspended if wanted is None else wanted == SuspensionPolicy.RELEASE


def suspension_advice(view: ClaimView) -> str:
    """Return how a suspended workload gives its devices back; empty if pods use the claim, or if the user kept it."""
    wanted = view.claim.metadata.annotation(WHEN_SUSPENDED)
    if view.allocation is None or view.unfinished or wanted == SuspensionPolicy.KEEP:
        return ""
    if wanted is not None:
        return f"annotation {WHEN_SUSPENDED} has the unknown value {wanted!r}, and {_VALID} are valid"
    return f"to release the claim of a suspended workload, set annotation {WHEN_SUSPENDED} of the claim to release"
