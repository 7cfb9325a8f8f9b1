"""When a claim is deallocated: rules Deallocate, Unstick and Deletion.

A deallocation that comes too early gives one device to two claims, or makes a kubelet hand out the devices of an
allocation that no longer exists. So a deallocation is an edge, never a conclusion from a state: "allocated and unused"
is legal.
"""

from collections.abc import Iterator
from typing import Final

from dra.engine.claims.claim_holders import HolderState
from dra.engine.claims.codes import Code
from dra.engine.claims.consumers import Consumer, Stage
from dra.engine.claims.desired import Desired
from dra.engine.claims.policy import Policy
from dra.engine.claims.reasons import Reason, list_names, pod_reason
from dra.engine.claims.stuck_allocations import (
    NEEDS_EVIDENCE,
    StuckCause,
    binding_conditions_end_at,
    find_stuck_cause,
    is_proven,
    placements_due_at,
    placements_lookup,
    unusable_reasons,
)
from dra.engine.claims.view import ClaimView, EntryKind, WorkloadPhase
from dra.engine.claims.window import UNLISTED
from dra.engine.instants import NEVER, SLOW_BIND_HORIZON, Instant
from dra.model import workload_reservations
from dra.model.claims import DELETE_PROTECTION
from dra.model.meta import Uid

_ADMITS_MANY: Final = frozenset(
    {EntryKind.WORKLOAD, EntryKind.FORMER, EntryKind.GUARD, EntryKind.GROUP, EntryKind.RESERVATION}
)
"""Kinds of entries that admit pods without entries of their own."""


def revocation_rule(view: ClaimView, policy: Policy, now: Instant, desired: Desired) -> Desired:
    """Unlist waiting pods behind a guard, wait until no cycle can bind one, then deallocate.

    The rule Unstick.
    """
    del policy
    desired = _ask_for_placements(view, now, desired)
    stuck = find_stuck_cause(view, now=now)
    if stuck is None:
        return desired.with_reasons(*unusable_reasons(view, now))
    cause, at = stuck
    if now < at:
        return desired.wake_by(at)
    if cause is StuckCause.NODES_DELETED:
        return _revoke_from_deleted_nodes(view, cause, now, desired)
    return _revoke_once_unbindable(view, cause, now, desired)


def _revoke_once_unbindable(view: ClaimView, cause: StuckCause, now: Instant, desired: Desired) -> Desired:
    """Unlist the waiting pods behind a guard, and deallocate when no cycle that saw an entry can bind one of them."""
    horizon = max((_revocation_horizon(view, c, cause) for c in view.waiting), default=view.unseen_bind_horizon)
    quiet = view.history.podless_since
    explained = view.reason(Code.ALLOCATION_STUCK, cause=cause.value, pods=len(view.waiting), seconds=int(horizon))
    desired = desired.replace(revoking=True, urgent=True).with_reasons(explained)
    if quiet is None:
        return desired
    if now < quiet + horizon:
        return desired.wake_by(quiet + horizon)
    return _revoke(view, cause, now, desired)


def _revoke_from_deleted_nodes(view: ClaimView, cause: StuckCause, now: Instant, desired: Desired) -> Desired:
    """Deallocate when no cycle that chose one of the deleted nodes can still bind a pod without writing the claim.

    No cycle begins for a deleted node, so the time counts from the deletion; a cycle that began before goes on. If a
    node of that name registers again, the pod that a cycle binds right before the deallocation starts with the old
    devices. So the pods are unlisted, and a live read confirms after that that no node is back: a cycle that begins
    later writes the claim, and the deallocation fails. Entries for many pods cannot be removed in advance.
    """
    since = view.history.nodes_deleted_since
    horizon = max(_deleted_nodes_horizons(view), default=0.0)
    until = (now if since is None else since) + horizon
    if now < until:
        seconds = int(horizon)
        desired = desired.with_reasons(
            view.reason(Code.ALLOCATION_STUCK, cause=cause.value, pods=len(view.waiting), seconds=seconds)
        )
    if not view.open:
        desired = desired.replace(revoking=True, urgent=True)
        quiet, placements = view.history.podless_since, view.placements
        if quiet is None:
            return desired
        if placements is None or placements.read_at <= quiet:
            return desired.with_lookups(placements_lookup(view))
    return desired.wake_by(until) if now < until else _revoke(view, cause, now, desired)


def _deleted_nodes_horizons(view: ClaimView) -> Iterator[float]:
    """Yield the seconds for which cycles that chose a deleted node may bind pods without writing the claim.

    VolumeBinding ends a cycle whose node is gone (``checkBindings``), so a pod's volumes do not extend that time. A
    Permit plugin and binding conditions do.
    """
    admitted = view.open or view.closed_since is not None
    if admitted:
        yield view.unseen_bind_horizon
    for consumer in (*view.waiting, *view.gated):
        if admitted or view.entry_histories.get(consumer.uid, UNLISTED).last_listed is not None:
            yield SLOW_BIND_HORIZON if consumer.nominated else view.unseen_bind_horizon


def _revoke(view: ClaimView, cause: StuckCause, now: Instant, desired: Desired) -> Desired:
    if not is_proven(view, cause, now):
        return desired.with_lookups(placements_lookup(view)) if cause in NEEDS_EVIDENCE else desired
    return _deallocate(view, desired.replace(revoking=True), cause=f"no pod can use the allocation ({cause.value})")


def _ask_for_placements(view: ClaimView, now: Instant, desired: Desired) -> Desired:
    """Request a placement lookup once the waiting pods have waited long enough, and again from time to time."""
    when = placements_due_at(view, now=now)
    if when is None:
        return desired
    ends_at = binding_conditions_end_at(view)
    if now < ends_at:  # later it changes nothing: the nodes are deleted
        desired = desired.wake_by(ends_at)
    return desired.wake_by(when) if now < when else desired.with_lookups(placements_lookup(view))


def _horizon(view: ClaimView, consumer: Consumer) -> float:
    """Return the seconds for which a cycle that saw the pod's entry may still bind the pod.

    The slow horizon applies as long as the pod is nominated: a live read cannot distinguish a lasting nomination
    without a cycle from a cycle that waits for a Permit plugin or a volume.
    """
    return SLOW_BIND_HORIZON if consumer.nominated else view.bind_horizon(consumer)


def _revocation_horizon(view: ClaimView, consumer: Consumer, cause: StuckCause) -> float:
    """Return the seconds for which a cycle that saw the pod's entry may still bind the pod to the revoked allocation.

    A nomination usually extends that time to `SLOW_BIND_HORIZON`; a nomination to a node that cannot take the pod does
    not. The evidence is as fresh as that for the cause, which is read live right before the deallocation.
    """
    known = view.placements.unbindable_nominations if view.placements is not None else ()
    if cause in NEEDS_EVIDENCE and (consumer.uid, consumer.nominated) in known:
        return view.bind_horizon(consumer)
    return _horizon(view, consumer)


def nominated_pods(view: ClaimView) -> frozenset[tuple[Uid, str]]:
    """Return the nominated pods with their nodes, which the live read may ignore.

    Valid only once `still_bindable` returns no pod, or the horizon of a revocation has passed: then no cycle that saw
    an entry of these pods runs any longer, whichever component nominated them, and a cycle that saw no entry writes the
    claim before it binds.
    """
    return frozenset((c.uid, c.nominated) for c in (*view.waiting, *view.gated) if c.nominated)


def deallocation_rule(view: ClaimView, policy: Policy, now: Instant, desired: Desired) -> Desired:
    """Clear the allocation instead of removing the last entry, or after a release.

    The write that clears the allocation also removes the entries.
    """
    del policy
    if view.allocation is None or view.consuming or desired.revoking or desired.kept_unlisted:
        return desired
    desired = desired.with_reasons(*_kept_by_others(view, desired))
    if view.claim.metadata.deleting:
        return _decide_deletion(view, now, desired)
    if (
        desired.workload is not None
        or desired.release_uncertain
        or desired.pods
        or desired.kept_entries
        # No edge: an empty list of an unused allocation is legal, and a scheduler may be about to fill it.
        or not (view.entries or desired.released)
    ):
        return desired
    late = still_bindable(view, now, gated=view.gated)
    until = max((when for _, when in late), default=now)
    until = max(until, view.unseen_bindable_until(now=now))
    if until <= now:
        return _deallocate(view, desired, cause=_deallocation_cause(view, desired))
    waits = view.reason(
        Code.DEALLOCATION_WAITS,
        pods=len(late),
        seconds=int(max((_horizon(view, c) for c, _ in late), default=view.unseen_bind_horizon)),
    )
    # The guard preserves the edge: an empty list looks the same as that of a claim that is merely unused. Where the
    # allocation admits any pod, its own field marks the difference, and a guard would go on admitting pods.
    return desired.replace(guard=not view.admits_any_pod).wake_by(until).with_reasons(waits)


def _decide_deletion(view: ClaimView, now: Instant, desired: Desired) -> Desired:
    """Deallocate a claim under deletion once no cycle can bind a waiting pod; the gates go with the claim."""
    if desired.kept_entries:
        return desired
    until = max((when for _, when in still_bindable(view, now, gated=view.gated)), default=now)
    until = max(until, view.unseen_bindable_until(now=now))
    if now < until:
        return desired.replace(guard=EntryKind.GUARD in view.kinds).wake_by(until)
    return _deallocate(view, desired, cause="the claim is being deleted and no pod uses it")


def still_bindable(
    view: ClaimView, now: Instant, *, gated: tuple[Consumer, ...] = ()
) -> list[tuple[Consumer, Instant]]:
    """Return the waiting pods that were listed lately, or are still covered by an entry for many pods.

    A cycle that saw such a pod listed binds it without a write. ``gated`` are gated pods to consider as well: the pods
    watch may be late, and a pod may have been ungated by now.
    """
    until = ((c, _bindable_until(view, c, now)) for c in (*view.waiting, *gated))
    return [(consumer, when) for consumer, when in until if when > now]


def _bindable_until(view: ClaimView, consumer: Consumer, now: Instant) -> Instant:
    """Return until when a cycle that saw an entry for the pod may bind the pod.

    No cycle that begins after the deletion of the claim does, except on an older copy of the claim.
    """
    horizon, closed = _horizon(view, consumer), view.closed_since
    until = view.entry_histories.get(consumer.uid, UNLISTED).bindable_until(horizon, now=now)
    if closed is not None:  # the pods watch may have been behind when that entry for many pods went
        until = max(until, closed + horizon)
    if view.is_admitted(consumer):
        until = now + horizon
    deleted = view.history.deleting_since if view.claim.metadata.deleting else None
    return until if deleted is None else min(until, deleted + horizon)


def _kept_by_others(view: ClaimView, desired: Desired) -> Iterator[Reason]:
    """Yield the reason that only foreign entries keep a claim: their writers may be long gone."""
    others = view.entries_of(EntryKind.FOREIGN)
    if not others or desired.workload is not None or view.unfinished:
        return
    yield view.reason(Code.KEPT_BY_OTHERS, entries=list_names(str(e.reference) for e in others))


def _deallocation_cause(view: ClaimView, desired: Desired) -> str:
    ended = [hold.reference.name for hold in view.holds if hold.state is HolderState.OVER]
    if ended:
        return f"Reservation {list_names(ended)} ended and no pod uses the claim"
    workload = str(view.reservation.reference) if view.reservation is not None else ""
    if desired.workload_over:
        return f"{workload} {desired.workload_over} and no pod uses the claim"
    if desired.released:
        return f"the controller of {workload} released the claim and no pod uses it"
    return "the last pod that used the claim ended"


def _deallocate(view: ClaimView, desired: Desired, *, cause: str) -> Desired:
    freed = view.reason(Code.DEALLOCATED, done=True, cause=cause)
    # The pods watch may be behind the claims watch: a waiting pod that was ever listed may have been bound unnoticed.
    # An entry for many pods also stands for pods that were never observed.
    unbound = (*view.waiting, *view.gated)
    promised = any(view.entry_histories.get(c.uid, UNLISTED).last_listed is not None for c in unbound)
    unwatched = (desired.revoking or view.claim.metadata.deleting) and bool(unbound)
    confirm = promised or unwatched or desired.released or not view.kinds.isdisjoint(_ADMITS_MANY)
    desired = desired.replace(allocated=False, confirm=confirm, nominated=nominated_pods(view))
    return desired.replace(guard=False, pods=(), urgent=True).with_reasons(freed)


def metadata_rule(view: ClaimView, policy: Policy, now: Instant, desired: Desired) -> Desired:
    """Make the annotations of an entry, and the finalizer, follow the allocation."""
    del policy
    meta, allocation = view.claim.metadata, view.allocation
    marks = dict(desired.annotations)
    leftover_at = _leftover_at(view)
    finalizers = None
    if allocation is None or not desired.allocated:
        ended = bool(desired.workload_over) and not desired.suspended
        if ended:  # no annotation records a workload that is over
            marks = {
                key: value for key, value in marks.items() if key not in workload_reservations.RESOLVED_UID_ANNOTATIONS
            }
        marks |= workload_reservations.annotation_removals(view.claim, uid_too=ended)
        if marks.get(workload_reservations.RESOLVED_UID, "") is None and view.workload.phase is WorkloadPhase.PRESENT:
            marks |= workload_reservations.resolved_uid_annotations(
                view.claim, view.workload.uid
            )  # the successor of that name exists already
        # A scheduler adds the finalizer right before it allocates: without an allocation it may belong to a running
        # cycle until `leftover_at`.
        if view.claim.protected and (allocation is not None or meta.deleting or now >= leftover_at):
            finalizers = tuple(f for f in meta.finalizers or () if f != DELETE_PROTECTION)
    # The annotation asserts that the entry was made. Written without that knowledge, a missing entry would count as
    # released by its owner.
    elif (_entry_is_known(view, desired) or (desired.released and not desired.workload_over)) and not (
        desired.suspended or meta.deleting or view.admits_any_pod
    ):
        wanted = workload_reservations.entry_annotations(allocation)
        marks |= {key: value for key, value in wanted.items() if meta.annotation(key) != value}
    return desired.replace(annotations=marks, finalizers=finalizers).wake_by(leftover_at)


def _entry_is_known(view: ClaimView, desired: Desired) -> bool:
    """Return whether the annotations record an entry: it is made or kept, or removed since its workload is over."""
    return desired.workload is not None or (bool(desired.workload_over) and EntryKind.WORKLOAD in view.kinds)


def _leftover_at(view: ClaimView) -> Instant:
    """Return when the finalizer of an unallocated claim may be removed; waiting pods will need it again."""
    known = view.history.leftover_at
    return NEVER if known is None or view.waiting else known


def inconsistency_rule(view: ClaimView, policy: Policy, now: Instant, desired: Desired) -> Desired:
    """Report states that must never occur; nothing else can be done about them here."""
    del policy, now
    if view.allocation is not None:
        twice = (
            view.reason(Code.DEVICE_HELD_TWICE, device=str(conflict.item), other="/".join(conflict.holder.key))
            for conflict in view.conflicts
        )
        return desired.with_reasons(*twice)
    unallocated = (
        pod_reason(
            Code.ALLOCATION_LOST if has_lost_allocation(view, c) else Code.BOUND_WITHOUT_ALLOCATION,
            key=c.key,
            uid=c.uid,
            node=c.node,
            claim=view.claim.metadata.name,
        )
        for c in (*view.starting, *view.started)
    )
    return desired.with_reasons(*unallocated)


def has_lost_allocation(view: ClaimView, consumer: Consumer) -> bool:
    """Return whether an unallocated claim was allocated when a pod was bound, so that the pod may use its devices.

    A kubelet starts no pod before the claim is allocated. A scheduler adds the finalizer before it allocates the claim,
    and a client that clears the status leaves the finalizer and the annotations of the entry.
    """
    meta = view.claim.metadata
    return (
        consumer.stage is Stage.STARTED
        or view.claim.protected
        or meta.annotation(workload_reservations.ENTERED_ALLOCATION) is not None
    )
