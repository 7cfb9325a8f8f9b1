"""When a claim gets its workload's entry, and when that entry is removed: rules Enter, Release and Doubt.

The owner of a workload removes the entry when no further pod will come; only the owner knows. The safety net for owners
that do not: the object has finished for good, or is certainly gone. "No pods right now" is never a reason, and in doubt
the reservation stays.
"""

from enum import Enum, auto

import msgspec

from dra.engine.claims.actions import LookUpWorkload
from dra.engine.claims.annotation_keys import unknown_annotations
from dra.engine.claims.codes import Code
from dra.engine.claims.desired import Desired
from dra.engine.claims.policy import Policy
from dra.engine.claims.suspension import SUSPENDED, releases_suspended, suspension_advice
from dra.engine.claims.view import ClaimView, EntryKind, WorkloadPhase, WorkloadState
from dra.engine.claims.workload_kinds import KINDS_PER_NAMESPACE
from dra.engine.instants import Instant
from dra.model import workload_reservations
from dra.model.claims import RESERVED_FOR_MAX_SIZE
from dra.model.references import ConsumerReference
from dra.model.workload_reservations import WorkloadReservation


class WorkloadFate(Enum):
    """The fate of a claim's workload, as far as it is known."""

    ALIVE = auto()
    PENDING = auto()  # no object of that name yet, and no uid to identify it
    FINISHED = auto()
    GONE = auto()
    ASKED = auto()  # a lookup at the API server is needed
    DOUBT = auto()


_UNREADABLE = frozenset(
    {WorkloadPhase.FORBIDDEN, WorkloadPhase.NO_KIND, WorkloadPhase.OVER_LIMIT, WorkloadPhase.UNKNOWN}
)

_STAYING = frozenset(
    {
        EntryKind.FOREIGN,
        EntryKind.UNKNOWN,
        EntryKind.VANISHED,
        EntryKind.LOST_NODE,
        EntryKind.GROUP,
        EntryKind.RESERVATION,
    }
)
"""Kinds of entries that do not make way for the workload's entry."""

_OF_WORKLOAD = (EntryKind.WORKLOAD, EntryKind.FORMER)

OVER_TEXTS = {WorkloadFate.FINISHED: "finished", WorkloadFate.GONE: "was deleted"}


def workload_fate(view: ClaimView, reference: ConsumerReference) -> WorkloadFate:
    """Return the fate of the object with the uid of the reference; names prove nothing."""
    return fate_of_known(view.workload, reference)


def fate_of_known(known: WorkloadState, reference: ConsumerReference) -> WorkloadFate:
    """Return the fate of the referenced object, given its known state."""
    if not reference.uid:
        return WorkloadFate.PENDING
    if reference.uid in known.gone:
        return WorkloadFate.GONE
    match known.phase:
        case WorkloadPhase.PRESENT if known.uid == reference.uid:
            return WorkloadFate.ALIVE
        case WorkloadPhase.FINISHED if known.uid == reference.uid:
            return WorkloadFate.FINISHED
        case WorkloadPhase.PRESENT | WorkloadPhase.FINISHED | WorkloadPhase.ABSENT:
            return WorkloadFate.ASKED  # the cached copy may be older than the reference
        case _:
            return WorkloadFate.DOUBT


def resolve_reference(view: ClaimView, reservation: WorkloadReservation) -> ConsumerReference:
    """Return the reference with its uid; if the user gave none, the uid of the object of that name.

    If no such object exists, the uid is that of the entry: the write that was to record the uid may have failed, and
    meanwhile the object may be over.
    """
    reference, known = reservation.reference, view.workload
    if reference.uid and not _has_successor(view, reservation):
        return reference
    if known.phase is WorkloadPhase.PRESENT:
        return msgspec.structs.replace(reference, uid=known.uid)
    return next((e.reference for e in view.entries_of(EntryKind.WORKLOAD)), reference)


def _has_successor(view: ClaimView, reservation: WorkloadReservation) -> bool:
    """Return whether the claim is to be reserved for another object of the workload's name.

    The controller found the uid, its object is gone, and this allocation was not made for that object. A restore from a
    backup leaves such a claim: the annotations are restored, and each restored object has a new uid.
    """
    known, uid = view.workload, reservation.reference.uid
    if (
        not reservation.resolved
        or uid not in known.gone
        or known.phase is not WorkloadPhase.PRESENT
        or known.uid == uid
    ):
        return False
    return not view.entered_before and EntryKind.WORKLOAD not in view.kinds


def workload_rule(view: ClaimView, policy: Policy, now: Instant, desired: Desired) -> Desired:
    """Make, keep, or release the workload entry.

    Rules Enter and Release.
    """
    if view.malformed:
        desired = desired.with_reasons(view.reason(Code.MALFORMED_REFERENCE, error=view.malformed))
    for key, meant in unknown_annotations(view.claim.metadata.annotations):
        if meant:
            desired = desired.with_reasons(view.reason(Code.UNKNOWN_ANNOTATION, annotation=key, meant=meant))
            break  # the claims of a namespace's users must not cost an Event for each annotation
    if view.reservation is None:
        return desired
    if view.reservation.single_user:
        return _release_with_pod(view, view.reservation, desired)
    reference = resolve_reference(view, view.reservation)
    outcome = workload_fate(view, reference)
    desired = _ask_or_explain(view, reference, outcome, desired)
    if outcome is WorkloadFate.GONE and view.unfinished and EntryKind.WORKLOAD not in view.kinds:
        desired = desired.with_reasons(view.reason(Code.WORKLOAD_GONE, workload=str(reference), expected=reference.uid))
    over = OVER_TEXTS.get(outcome, "") if policy.release_finished or outcome is WorkloadFate.GONE else ""
    desired = desired.replace(workload_over=over)
    if outcome is WorkloadFate.ALIVE and view.workload.suspended:
        desired = _release_or_keep_suspended(view, reference, policy, desired)
    # A claim under deletion gets no further entry, and the entry that it has may be another object's.
    if reference.uid != view.reservation.reference.uid and not view.claim.metadata.deleting:
        desired = desired.replace(
            annotations={
                **desired.annotations,
                **workload_reservations.resolved_uid_annotations(view.claim, reference.uid),
            }
        )
    if view.allocation is None:
        return desired
    return _reconcile_former(view, _decide_entry(view, reference, now, desired))


def _release_with_pod(view: ClaimView, reservation: WorkloadReservation, desired: Desired) -> Desired:
    """Ignore the reservation of a claim that was generated for one pod; an entry ends with the claim's last pod.

    Such an entry was made by an earlier release, or by a scheduler that knows ``spec.reservedFor``. It is kept while a
    pod needs it, and needs no look at the workload: whatever the workload does, no other pod gets the claim.
    """
    if view.unfinished:
        ignored = view.reason(
            Code.RESERVATION_IGNORED, workload=str(reservation.reference), user=reservation.single_user
        )
        desired = desired.with_reasons(ignored)
    entries = tuple(entry.reference for kind in _OF_WORKLOAD for entry in view.entries_of(kind))
    if view.allocation is None:
        return desired
    if not view.unfinished:
        return desired.replace(urgent=bool(entries), released=view.entered_before and not entries)
    if not entries:
        return desired
    return desired.replace(workload=entries[0], kept_entries=(*desired.kept_entries, *entries[1:]))


def _release_or_keep_suspended(
    view: ClaimView, reference: ConsumerReference, policy: Policy, desired: Desired
) -> Desired:
    if releases_suspended(view, policy):
        return desired.replace(workload_over=SUSPENDED, suspended=True)
    advice = suspension_advice(view)
    if not advice:
        return desired
    return desired.with_reasons(view.reason(Code.KEPT_WHILE_SUSPENDED, workload=str(reference), advice=advice))


def _decide_entry(view: ClaimView, reference: ConsumerReference, now: Instant, desired: Desired) -> Desired:
    """Decide about the entry of an allocated claim: keep or release it, respect its absence, or make it."""
    if EntryKind.WORKLOAD in view.kinds or _lists_successor(view, reference):
        return _keep_or_release(view, reference, desired)
    if not desired.workload_over and _is_in_doubt(view, reference):
        desired = desired.replace(release_uncertain=True)
        return (
            desired.with_reasons(view.reason(Code.IN_DOUBT, workload=str(reference)))
            if view.is_release_uncertain
            else desired
        )
    if desired.workload_over and not view.entries and not view.unfinished:  # left behind by a failed binding
        return desired.replace(released=True)
    if view.was_entered(reference):
        desired = desired.replace(released=True)
        if not desired.workload_over:  # else this controller removed the entry, and a foreign entry keeps the claim
            desired = desired.with_reasons(view.reason(Code.OWNER_RELEASED, workload=str(reference)))
        return desired
    # The API server refuses an entry without a uid, which only an object that exists has.
    comes = reference.uid and not desired.workload_over and not view.claim.metadata.deleting
    if comes and _is_in_use(view, now) and _has_room(view):
        entered = view.reason(Code.WORKLOAD_ENTERED, done=True, workload=str(reference))
        return desired.replace(workload=reference).with_reasons(entered)
    return desired


def _lists_successor(view: ClaimView, reference: ConsumerReference) -> bool:
    """Return whether the successor of a workload has its entry: the write that records its uid may have failed."""
    return any(entry.reference.uid == reference.uid for entry in view.entries_of(EntryKind.FORMER))


def _is_in_doubt(view: ClaimView, reference: ConsumerReference) -> bool:
    """Return whether the workload may have the claim: its kind cannot be read, or the release is uncertain.

    A uid that the controller recorded earlier is checked before it gets an entry: after a restore from a backup, no
    object has that uid. A uid that the claim's creator gave may be newer than the cached objects.
    """
    if view.is_release_uncertain:
        return True
    if not reference.uid:
        return view.workload.phase in _UNREADABLE
    unchecked = view.workload.phase is WorkloadPhase.UNKNOWN or workload_fate(view, reference) is WorkloadFate.ASKED
    return unchecked and view.reservation is not None and view.reservation.resolved


def _is_in_use(view: ClaimView, now: Instant) -> bool:
    """Return whether pods use the claim or will; "allocated, empty, no pods" is what a failed binding leaves behind.

    Unobserved pods may use the claim as long as a binding that an entry for many pods admitted may be under way. The
    deallocation that waits for the end of that time leaves a guard, and a guard counts as use.
    """
    used = bool(view.unfinished or view.vanished) or EntryKind.GUARD in view.kinds
    return used or view.unseen_bindable_until(now=now) > now


def _has_room(view: ClaimView) -> bool:
    """Return whether the list could take one more entry if pods made way; foreign or possibly foreign entries stay."""
    gone = sum(
        1
        for entry in view.entries_of(EntryKind.GROUP)
        if fate_of_known(entry.group, entry.reference) is WorkloadFate.GONE
    )
    stay = sum(1 for entry in view.entries if entry.kind in _STAYING) - gone
    return stay < RESERVED_FOR_MAX_SIZE


def _keep_or_release(view: ClaimView, reference: ConsumerReference, desired: Desired) -> Desired:
    entry = next((entry.reference for entry in view.entries_of(EntryKind.WORKLOAD)), reference)
    if reference.uid and entry.uid != reference.uid and not view.claim.metadata.deleting:
        entry = reference  # made for a predecessor of that name, and its uid is not recorded
    if not desired.workload_over:
        return desired.replace(workload=entry)
    if view.unfinished:
        waits = view.reason(
            Code.RELEASE_WAITS, workload=str(reference), cause=desired.workload_over, pods=view.unfinished
        )
        return desired.replace(workload=entry).with_reasons(waits)
    released = view.reason(Code.WORKLOAD_RELEASED, done=True, workload=str(reference), cause=desired.workload_over)
    if desired.suspended:
        # The annotations go first: with them, a missing entry means that the owner has released the claim. If the
        # second write were lost, the resumed workload would never be entered again for the same allocation.
        stale = workload_reservations.annotation_removals(view.claim, uid_too=False)
        desired = desired.replace(annotations={**desired.annotations, **stale}, metadata_first=True)
    # Likewise, the annotations of an entry whose second write was lost go first: without them, an object created later
    # under the same name would be entered for this allocation, which pods of the former object may still use.
    return desired.replace(urgent=True, metadata_first=True).with_reasons(released)


def _reconcile_former(view: ClaimView, desired: Desired) -> Desired:
    """Replace entries of earlier objects of the same name with the new entry, or remove them once certainly gone."""
    if view.claim.metadata.deleting and not view.consuming:
        return desired
    for entry in view.entries_of(EntryKind.FORMER):
        gone = entry.reference.uid in view.workload.gone or entry.reference.uid in view.former.gone
        if desired.workload is not None or (gone and not view.unfinished):
            continue
        desired = desired.replace(kept_entries=(*desired.kept_entries, entry.reference))
        if not gone:
            desired = desired.with_lookups(LookUpWorkload(claim=view.key, reference=entry.reference))
    return desired


def _ask_or_explain(view: ClaimView, reference: ConsumerReference, outcome: WorkloadFate, desired: Desired) -> Desired:
    kind = str(reference.group_resource)
    if outcome is WorkloadFate.ASKED:
        return desired.with_lookups(LookUpWorkload(claim=view.key, reference=reference))
    match view.workload.phase:
        case WorkloadPhase.FORBIDDEN:
            code = Code.WORKLOAD_UNREADABLE
        case WorkloadPhase.NO_KIND:
            code = Code.WORKLOAD_UNKNOWN_KIND
        case WorkloadPhase.OVER_LIMIT:
            code = Code.WORKLOAD_KINDS_EXCEEDED
        case WorkloadPhase.PRESENT if view.workload.rule_error and outcome is WorkloadFate.ALIVE:
            cause = view.workload.rule_error
            return desired.with_reasons(view.reason(Code.RULE_FAILED, workload=str(reference), error=cause))
        case WorkloadPhase.ABSENT if outcome is WorkloadFate.PENDING:
            return desired.with_reasons(view.reason(Code.WORKLOAD_PENDING, workload=str(reference)))
        case _:
            return desired
    return desired.with_reasons(view.reason(code, workload=str(reference), kind=kind, limit=KINDS_PER_NAMESPACE))
