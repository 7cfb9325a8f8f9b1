"""Whether the allocation itself keeps pods waiting, and whether revoking it would help: rule Unstick.

A scheduler has found the waiting pods unschedulable, so no node of the allocation takes one. That alone proves nothing:
the nodes may be full for a minute, and no other node may have such a device. So the allocation is revoked only if

* a device of it cannot be bound, by its own conditions (KEP-5007): every scheduler refuses the allocation then, or
* the allocation names its nodes, and a live read shows that none of these Node objects exists, or
* the allocator of this engine finds other devices for a waiting pod, on a node that has room for the pod, and no node
  of the allocation could take a waiting pod at present (`Placements`, a live read).

Pods that no scheduler has judged cannot keep an allocation for ever: their scheduler may not run. Neither can a lasting
nomination: cluster autoscalers and quota systems write ``nominatedNodeName`` too.

An allocation whose nodes were all deleted needs no other placement: cluster autoscaler adds no node for a pod whose
claim is allocated to another node, so controller and autoscaler would wait for each other. No binding cycle begins for
a deleted node, so the wait for cycles counts from the deletion and has mostly passed; entries for many pods may stay.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from dra.engine.claims.actions import LookUpPlacements
from dra.engine.claims.codes import Code
from dra.engine.claims.consumers import Consumer
from dra.engine.claims.lost_nodes import may_run_without_object
from dra.engine.claims.reasons import Reason
from dra.engine.claims.view import ClaimView, EntryKind, Placements, ReservedForEntry
from dra.engine.claims.workload_entry import WorkloadFate, fate_of_known
from dra.engine.instants import NEVER, Instant, doubled
from dra.model import claims

PATIENCE: Final = 10.0
"""Seconds for which a pod must have been unschedulable before its claim's allocation is doubted; doubles each time."""

FULL_PATIENCE: Final = 30.0
"""The same patience in seconds where the allocation's nodes exist but have no room."""

LONGEST_PATIENCE: Final = 600.0

SCHEDULER_VERDICT_WITHIN: Final = 5.0
"""Seconds within which a scheduler has examined a new pod: a younger pod does not prevent a revocation."""

UNJUDGED_PATIENCE: Final = 60.0
"""Seconds that pods which no scheduler has judged add to the patience, however many of them there are."""

BINDING_TIMEOUT: Final = 600.0
"""Seconds after which kube-scheduler gives up on binding conditions (``bindingTimeout``, DynamicResourcesArgs)."""

LOOKUP_BACKOFF: Final = (60.0, 600.0)
"""Seconds, first and longest, after which placements are looked up again; doubles while no other placement exists."""

EVIDENCE_VALID: Final = 30.0
"""Seconds for which a placement result justifies a revocation."""

LOOKUP_PODS: Final = 256
"""Maximum number of pods considered for one claim; pods of equal shape are examined once."""

_KEEPING: Final = frozenset({EntryKind.FOREIGN, EntryKind.UNKNOWN, EntryKind.RESERVATION})
"""Kinds of entries that keep an allocation, whichever pods wait for it."""


class StuckCause(StrEnum):
    """The cause for which no pod can use an allocation."""

    NODES_DELETED = "its nodes were deleted"
    NODES_LOST = "its nodes are not ready, cordoned or tainted"
    NODES_FULL = "its nodes are full, and other nodes have room"
    DEVICES_LOST = "its devices are gone or tainted"
    BINDING_FAILED = "a device reports a binding failure"
    BINDING_TIMED_OUT = "a device has not met its binding conditions in time"


NEEDS_EVIDENCE: Final = frozenset(
    {StuckCause.NODES_DELETED, StuckCause.NODES_LOST, StuckCause.NODES_FULL, StuckCause.DEVICES_LOST}
)
"""Causes that a live read must confirm."""


def find_stuck_cause(view: ClaimView, *, now: Instant) -> tuple[StuckCause, Instant] | None:
    """Return why the allocation keeps pods waiting, and from when on it may be revoked; None if it does not."""
    since = waiting_since(view, now=now)
    if since is None:
        return None
    cause = _by_conditions(view, now)
    if cause is None:
        cause = _by_placements(view)
        if cause is None:
            return None
    at = since + _patience(view, FULL_PATIENCE if cause is StuckCause.NODES_FULL else PATIENCE)
    if cause is StuckCause.NODES_DELETED:
        return cause, at
    if any(c.unschedulable_since is None and now - c.stage_since >= SCHEDULER_VERDICT_WITHIN for c in view.waiting):
        at += UNJUDGED_PATIENCE
    nominated = ((c, c.nominated_since) for c in view.waiting if c.nominated_since is not None)
    return cause, max((at, *(when + view.bind_horizon(c) for c, when in nominated)))


def waiting_since(view: ClaimView, *, now: Instant) -> Instant | None:
    """Return since when a pod has been unschedulable for which the allocation could be revoked; None if it cannot.

    A revocation requires that no pod consumes the claim and that no foreign or doubtful entry is in the list. Gated
    pods do not count: no scheduler has tried them. It also requires that pods can be unlisted one by one: a pod that an
    entry for many pods admits may be bound at any moment.

    Where all nodes of the allocation were deleted, an entry for many pods may stay, and each waiting pod counts:
    some schedulers never say that a pod is unschedulable.
    """
    if view.allocation is None or view.consuming or not view.waiting or view.claim.metadata.deleting:
        return None
    if any(_keeps_allocation(entry) for entry in view.entries):
        return None
    if may_run_without_object(view, now):  # vanished pods may be the last on a lost node
        return None
    if view.usable_nodes.all_deleted:
        return min(c.stage_since for c in view.waiting)
    if view.admits_any_pod or any(e.reference.is_pod_group and not _is_leaving(e) for e in view.entries):
        return None
    return min((c.unschedulable_since for c in view.waiting if c.unschedulable_since is not None), default=None)


def placements_due_at(view: ClaimView, *, now: Instant) -> Instant | None:
    """Return when placements are to be looked up; None if nothing depends on the result."""
    since = waiting_since(view, now=now)
    if since is None or _by_conditions(view, now) is not None:
        return None
    if view.placements is None:
        return since + _patience(view, FULL_PATIENCE if view.usable_nodes.inside else PATIENCE)
    if view.usable_nodes.all_deleted and not view.placements.nodes_deleted:  # looked up before the deletion
        return view.placements.at + PATIENCE
    if any(c.uid not in view.placements.pods for c in _unschedulable(view)[:LOOKUP_PODS]):
        return view.placements.at + LOOKUP_BACKOFF[0]
    return view.placements.at + doubled(LOOKUP_BACKOFF, view.placements.repeated)


def placements_lookup(view: ClaimView) -> LookUpPlacements:
    """Return the lookup of placements for the pods that a scheduler has found unschedulable, and for nominated pods."""
    judged = sorted(_unschedulable(view), key=lambda c: c.scheduling_order)
    nominated = (c for c in view.waiting if c.nominated and c.unschedulable_since is None)
    return LookUpPlacements(claim=view.key, pods=tuple(c.uid for c in (*judged, *nominated))[:LOOKUP_PODS])


def is_proven(view: ClaimView, cause: StuckCause, now: Instant) -> bool:
    """Return whether the evidence for the cause is fresh enough to act on."""
    placements = view.placements
    return cause not in NEEDS_EVIDENCE or (placements is not None and now <= placements.at + EVIDENCE_VALID)


def unusable_reasons(view: ClaimView, now: Instant) -> Iterator[Reason]:
    """Yield the reason that no waiting pod can use the allocation, which stays because no better placement is known."""
    placements = view.placements
    if placements is None or waiting_since(view, now=now) is None or _by_conditions(view, now) is not None:
        return
    judged = {c.uid for c in _unschedulable(view)}
    if not judged or judged & placements.fit_here or judged & placements.fit_elsewhere or not judged & placements.pods:
        return
    why = placements.error or "no other node has both such devices and room"
    yield view.reason(Code.ALLOCATION_UNUSABLE, pods=len(judged), why=why)


def _keeps_allocation(entry: ReservedForEntry) -> bool:
    """Return whether an entry keeps the allocation; the entry of a pod gated by a live read does not."""
    gated = entry.kind is EntryKind.UNKNOWN and entry.live_read_at is not None
    return entry.kind in _KEEPING and not gated


def _is_leaving(entry: ReservedForEntry) -> bool:
    """Return whether the next write removes the entry of a PodGroup because the PodGroup is certainly gone."""
    return entry.kind is EntryKind.GROUP and fate_of_known(entry.group, entry.reference) is WorkloadFate.GONE


def _unschedulable(view: ClaimView) -> list[Consumer]:
    return [c for c in view.waiting if c.unschedulable_since is not None]


def binding_conditions_end_at(view: ClaimView) -> Instant:
    """Return when kube-scheduler gives up waiting for binding conditions; `NEVER` if it awaits none."""
    since = view.history.allocated_at
    return NEVER if since is None or not claims.awaits_binding_conditions(view.claim) else since + BINDING_TIMEOUT


def _patience(view: ClaimView, first: float) -> float:
    return doubled((first, LONGEST_PATIENCE), view.history.revocations)


def _by_conditions(view: ClaimView, now: Instant) -> StuckCause | None:
    """Return why every scheduler refuses the allocation, whatever the node (KEP-5007).

    Where all its nodes were deleted, that is the cause: only then may the list have entries that admit many pods.
    """
    if view.usable_nodes.all_deleted:
        return None
    if claims.has_binding_failure(view.claim):
        return StuckCause.BINDING_FAILED
    allocation = view.allocation
    if allocation is None or allocation.allocation_timestamp is None:  # kube-scheduler never gives up either
        return None
    return StuckCause.BINDING_TIMED_OUT if now >= binding_conditions_end_at(view) else None


def _by_placements(view: ClaimView) -> StuckCause | None:
    placements = view.placements
    if placements is None or placements.error:
        return None
    if view.usable_nodes.all_deleted:
        return StuckCause.NODES_DELETED if placements.nodes_deleted else None
    judged = {c.uid for c in _unschedulable(view)}
    if judged & placements.fit_here or not judged & placements.fit_elsewhere:
        return None
    return _cause(placements)


def _cause(placements: Placements) -> StuckCause:
    if placements.lost_device:
        return StuckCause.DEVICES_LOST
    return StuckCause.NODES_FULL if placements.only_lacks_room else StuckCause.NODES_LOST
