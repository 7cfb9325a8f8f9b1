"""Held claims: a reservation's entry, from its placeholder's binding to its end, and the return of claims from owners.

1. The entry is made when the claim is allocated and its reservation is available. While the reservation waits for a
   node, and its placeholder may still move, the scheduler may move the allocation.
2. The entry stays until the reservation was seen to be over, or is certainly gone. Unknown reservations are looked up.
3. A pod that got the claim is its controller. When that pod has ended, and no pod uses the claim, the claim has no
   controller again: the entry alone keeps it, and the allocation is not touched. The pod's own entry is removed at
   once, also where the garbage collector removed the controller first: until then the next owner waits.
4. When the reservation is over its entry is removed, and with the last pod the allocation.
"""

from typing import Final

from dra.engine.claims.actions import LookUpWorkload
from dra.engine.claims.claim_holders import ClaimHolder, HolderState
from dra.engine.claims.codes import Code
from dra.engine.claims.desired import Desired
from dra.engine.claims.lost_nodes import may_run_without_object
from dra.engine.claims.policy import Policy
from dra.engine.claims.view import ClaimView, EntryKind, OwningPodPhase
from dra.engine.instants import Instant
from dra.engine.reservations import placeholders
from dra.model.claims import POD_CLAIM_NAME

_OWNER_NEEDS_NO_CLAIM: Final = frozenset({OwningPodPhase.DONE, OwningPodPhase.REPLACED})
"""Phases in which the owning pod needs no claim. A pod that is not observed may be one whose watch event is still to
come: the garbage collector handles that case."""

_NO_OWNING_POD: Final = frozenset({OwningPodPhase.NONE, OwningPodPhase.GONE})

_ENDED: Final = frozenset({OwningPodPhase.DONE, OwningPodPhase.REPLACED, OwningPodPhase.GONE})


def reservation_entries_rule(view: ClaimView, policy: Policy, now: Instant, desired: Desired) -> Desired:
    """Keep, add or remove the entries of reservations that hold the claim."""
    del policy, now
    for hold in view.holds:
        listed = hold.reference.uid in view.listed
        if hold.state is HolderState.UNKNOWN:
            desired = desired.with_lookups(LookUpWorkload(claim=view.key, reference=hold.reference))
        if hold.state is HolderState.OVER:
            if (
                hold.is_owner
                and view.allocation is not None
                and view.owning_pod not in {OwningPodPhase.PRESENT, OwningPodPhase.UNKNOWN}
            ):
                desired = desired.replace(released=True, urgent=True)
            if listed:
                released = view.reason(Code.HOLD_ENDED, done=True, reservation=hold.reference.name)
                desired = desired.replace(urgent=True).with_reasons(released)
            continue
        if _has_lost_devices(view, hold):
            desired = desired.with_reasons(view.reason(Code.HOLD_LOST, reservation=hold.reference.name))
        if view.allocation is None or desired.revoking or not _needs_entry(view, hold, listed=listed):
            continue
        if not listed and not desired.has_room:
            continue  # foreign entries fill the list and keep other components off
        desired = desired.replace(kept_entries=(*desired.kept_entries, hold.reference))
        if not listed:
            held = view.reason(Code.HELD, done=True, reservation=hold.reference.name)
            desired = desired.replace(urgent=True).with_reasons(held)
    return desired


def _has_lost_devices(view: ClaimView, hold: ClaimHolder) -> bool:
    """Return whether an available reservation has no devices; with its placeholder present, news may be on the way."""
    made = hold.is_owner and hold.state is HolderState.AVAILABLE and view.claim.controller is None
    return made and view.allocation is None and not view.claim.metadata.deleting


def _needs_entry(view: ClaimView, hold: ClaimHolder, *, listed: bool) -> bool:
    if view.claim.metadata.deleting:  # the list can only shrink, and this entry goes once no pod consumes
        return listed and view.consuming > 0
    if hold.state is HolderState.AVAILABLE:
        return True
    if hold.is_owner:  # generated for this reservation alone: no other pod could have it allocated
        return not _is_being_placed(view, hold)
    return listed


def _is_being_placed(view: ClaimView, hold: ClaimHolder) -> bool:
    """Return whether the placeholder is unbound: the scheduler, or the rule Unstick, may move the allocation."""
    name = placeholders.placeholder_name(hold.reference.uid)
    return any(consumer.name == name for consumer in (*view.gated, *view.waiting))


def return_to_reservation_rule(view: ClaimView, policy: Policy, now: Instant, desired: Desired) -> Desired:
    """Return the claim to its reservation: an ended pod is no longer the claim's controller.

    The pod's entry is removed at once, too.
    """
    controller = view.claim.controller
    if not policy.generate_claims or view.claim.metadata.deleting or view.consuming:
        return desired
    # The next owner would share the devices with containers that still run, or may: of a listed pod that was not looked
    # up yet, as after a restart, only the uid is known.
    if may_run_without_object(view, now) or view.entries_of(EntryKind.UNKNOWN):
        return desired
    if not any(h.is_owner and h.state is not HolderState.OVER for h in view.holds):
        return desired
    if controller is None:
        # The garbage collector removed the owner reference before this rule did. The next owner waits for the entry
        # alone, which would be pruned seconds later.
        return desired.replace(urgent=True) if view.entries_of(EntryKind.FINISHED) else desired
    if view.owning_pod not in _ENDED:
        return desired
    owners = tuple(owner for owner in view.claim.metadata.owner_references or () if owner is not controller)
    return desired.replace(owners=owners, annotations={**desired.annotations, POD_CLAIM_NAME: None}, urgent=True)


def generated_claim_rule(view: ClaimView, policy: Policy, now: Instant, desired: Desired) -> Desired:
    """Delete a generated claim whose list is empty, as soon as its pod was seen done or replaced.

    The garbage collector would delete the claim with the pod, but finished pods stay for hours, and a device that no
    pod can use any longer would look as if it were in demand. A claim generated for a reservation is deleted when the
    reservation is over, and never before.
    """
    del now
    holds = [hold for hold in view.holds if hold.is_owner]
    if any(hold.state is not HolderState.OVER for hold in holds):
        return desired
    left = bool(holds) and view.owning_pod in _NO_OWNING_POD and not view.unfinished
    if (
        not policy.generate_claims
        or view.claim.metadata.deleting
        or not (left or view.owning_pod in _OWNER_NEEDS_NO_CLAIM)
    ):
        return desired
    freed = view.allocation is None or not desired.allocated
    unused = freed or not (view.entries or desired.workload or desired.guard or desired.kept_entries or desired.pods)
    return desired.replace(deleted=True) if unused else desired
