"""From one claim's view to a plan: rules define the desired state, a comparison yields the writes that establish it.

The list is written in batches. Every write of the claim wakes all pods that the scheduler has put aside because of that
claim, and costs every watcher an event. So a change that can wait does so, for at most a second; a change that blocks a
pod is written at once.
"""

import math
from typing import Final

from dra.engine.claims import scheduling_gates
from dra.engine.claims.actions import (
    Action,
    AddEntries,
    ClaimPlan,
    Deallocate,
    DeleteClaim,
    PatchMetadata,
    ResyncPod,
    SetReservedFor,
)
from dra.engine.claims.codes import Code
from dra.engine.claims.consumer_entries import tombstone_entries
from dra.engine.claims.consumers import Stage
from dra.engine.claims.desired import Desired
from dra.engine.claims.policy import Policy, alongside_stock
from dra.engine.claims.rules import apply_rules
from dra.engine.claims.view import ENTRY_API_GROUP, TOMBSTONE_RESOURCE, ClaimView, guard_entry
from dra.engine.claims.window import SCHEDULER_HEADROOM
from dra.engine.instants import NEVER, Instant
from dra.model.claims import RESERVED_FOR_MAX_SIZE
from dra.model.references import ConsumerReference

LISTING_INTERVAL: Final = 1.0
"""Seconds between writes that list waiting pods, unless `LISTING_BATCH` is reached."""

LISTING_BATCH: Final = 32
"""Number of pods to list that are written at once."""

CROWDED: Final = RESERVED_FOR_MAX_SIZE - SCHEDULER_HEADROOM
"""Entries above which the list has no headroom left because ungated pods crowd in; then `CROWD_INTERVAL` and
`CROWD_BATCH` apply."""

CROWD_INTERVAL: Final = 5.0
"""Seconds between writes of a crowded list, unless `CROWD_BATCH` is reached."""

CROWD_BATCH: Final = 64
"""Number of slots that are written at once into a crowded list: the scheduler's clients need a list that changes
rarely."""

PRUNING_INTERVAL: Final = 5.0
"""Seconds between writes that only remove entries, unless `PRUNING_BATCH` is reached."""

PRUNING_BATCH: Final = 64
"""Number of entries that are removed at once."""

PRUNING_PATIENCE: Final = 30.0
"""Seconds between such writes while ungated pods wait: each write fails the scheduler's concurrent writes, and a cycle
that has to start over costs the scheduler's client limit ten requests instead of two."""

STOCK_CONTROLLER_RETURNS: Final = 3
"""Entries that must reappear before the stock controller is assumed to run: a single one may be a late write."""


def decide(view: ClaimView, *, policy: Policy, now: Instant) -> ClaimPlan:
    """Return the plan for one claim now. The function is idempotent.

    After the plan's own writes it plans nothing further.
    """
    adapted = _policy_beside_stock(view, policy)
    desired = apply_rules(view, policy=adapted, now=now)
    if adapted is not policy:
        reason = view.reason(Code.STOCK_CONTROLLER_ACTIVE)
        desired = desired.with_reasons(reason)
    plan = plan_writes(view, desired, now=now)
    if now < view.previous_writes_until:
        plan = _defer_deallocation(plan, view, now=now)
    return _without_precondition(plan, view, adapted) if view.contended else plan


def plan_writes(view: ClaimView, desired: Desired, *, now: Instant) -> ClaimPlan:
    """Return the plan whose writes turn the present claim into the desired one."""
    actions: list[Action] = list(desired.lookups)
    wake_at = desired.wake_at
    if view.allocation is not None and not desired.allocated:
        actions.append(
            Deallocate(claim=view.key, confirm=desired.confirm, given_up=desired.given_up, nominated=desired.nominated)
        )
    elif view.allocation is not None:
        entries = compose_entries(view, desired)
        due = _write_due_at(view, entries, desired, now=now)
        if due <= now:
            actions.append(SetReservedFor(claim=view.key, entries=entries))
        wake_at = min(wake_at, due)
    if desired.annotations or desired.finalizers is not None or desired.owners is not None:
        # After the status: an annotation must never claim an entry that was not made.
        marks = tuple(desired.annotations.items())
        metadata = PatchMetadata(
            claim=view.key, annotations=marks, finalizers=desired.finalizers, owners=desired.owners
        )
        actions.insert(len(desired.lookups) if desired.allocated and desired.metadata_first else len(actions), metadata)
    if desired.deleted:
        actions.append(DeleteClaim(claim=view.key, uid=view.claim.metadata.uid))
    actions.extend(scheduling_gates.ungate_action(c) for c in desired.ungate)
    actions.extend(_resyncs(view, desired, actions))
    written = any(isinstance(a, SetReservedFor | Deallocate) for a in actions)
    reasons = tuple(dict.fromkeys(r for r in desired.reasons if written or not r.done))
    return ClaimPlan(actions=tuple(actions), reasons=reasons, wake_at=wake_at if wake_at > now else NEVER)


def _policy_beside_stock(view: ClaimView, policy: Policy) -> Policy:
    """Return the policy for a claim, adapted if an unannounced stock controller turns out to run."""
    active = policy.prune_started and view.history.returned >= STOCK_CONTROLLER_RETURNS
    return alongside_stock(policy) if active else policy


def _defer_deallocation(plan: ClaimPlan, view: ClaimView, *, now: Instant) -> ClaimPlan:
    """Return the plan without a deallocation: writes of the previous leader, made for the allocation, may still arrive.

    Other writes of the claim wait with the deallocation, since they belong to it; lookups and pods do not wait.
    """
    if not any(isinstance(write, Deallocate) for write in plan.claim_writes):
        return plan
    waits = view.reason(Code.LEADER_CHANGED, seconds=math.ceil(view.previous_writes_until - now))
    return ClaimPlan(
        actions=tuple(a for a in plan.actions if a not in plan.claim_writes and not isinstance(a, DeleteClaim)),
        reasons=(*(r for r in plan.reasons if not r.done), waits),
        wake_at=min(plan.wake_at, view.previous_writes_until),
    )


def _without_precondition(plan: ClaimPlan, view: ClaimView, policy: Policy) -> ClaimPlan:
    """Return the first writes to make when other clients write the claim faster than its plan can be carried out.

    A scheduler with many ungated pods adds one entry every few milliseconds, the stock controller restores finished
    pods as fast, and no compare-and-swap succeeds in between. Some entries need no compare-and-swap: the workload's
    entry, as long as none was made, and tombstones are right wherever there is an allocation, and the API server
    rejects entries without one. Tombstones also precede a deallocation: the stock controller then rests until the claim
    is deallocated.
    """
    present = {e.reference.uid: e.reference for e in view.entries}
    lists = (w for w in plan.claim_writes if isinstance(w, SetReservedFor))
    wanted = [e for w in lists for e in w.entries if _needs_no_precondition(e)]
    if any(isinstance(w, Deallocate) for w in plan.claim_writes):
        wanted += tombstone_entries(view, policy)
    missing = tuple(e for e in wanted if present.get(e.uid) != e)
    # The two kinds need patches of two forms (`dra.engine.claims.patches`); entries that keep the claim go first.
    added = tuple(e for e in missing if e.resource != TOMBSTONE_RESOURCE) or missing
    if not added or len({*present, *(e.uid for e in added)}) > RESERVED_FOR_MAX_SIZE:
        return plan
    reasons = tuple(r for r in plan.reasons if not r.done or r.code is Code.WORKLOAD_ENTERED)
    return ClaimPlan(actions=(AddEntries(claim=view.key, entries=added),), reasons=reasons, wake_at=plan.wake_at)


def _needs_no_precondition(entry: ConsumerReference) -> bool:
    return not entry.is_pod and (entry.api_group != ENTRY_API_GROUP or entry.resource == TOMBSTONE_RESOURCE)


def compose_entries(view: ClaimView, desired: Desired) -> tuple[ConsumerReference, ...]:
    """Return the new list, with the entries that keep the claim first: ``kubectl get`` shows the beginning."""
    head = [desired.workload] if desired.workload is not None else []
    # Uids must be unique. Another client may have listed an object under this claim's or a pod's uid: such an entry has
    # the same effect as the entry that this controller would add.
    taken = {entry.uid for entry in (*head, *desired.kept_entries)}
    tombstones = [
        e for e in desired.kept_entries if e.resource == TOMBSTONE_RESOURCE and e.api_group == ENTRY_API_GROUP
    ]
    kept = [e for e in desired.kept_entries if e not in tombstones]
    # A full list of foreign entries protects the claim as a guard does.
    free_slots = RESERVED_FOR_MAX_SIZE - len(head) - len(kept)
    if desired.guard and view.claim.metadata.uid not in taken and free_slots > 0:
        head.append(guard_entry(view.claim))
        free_slots -= 1
    pods = [c.entry for c in desired.pods if c.uid not in taken][:free_slots]  # a pod may be the workload itself, too
    return (*head, *kept, *tombstones[: free_slots - len(pods)], *pods)


def _write_due_at(
    view: ClaimView, entries: tuple[ConsumerReference, ...], desired: Desired, *, now: Instant
) -> Instant:
    """Return when the list must be written: now, later, or never if it is up to date."""
    present = {e.reference for e in view.entries}
    wanted = set(entries)
    added, removed = wanted - present, present - wanted
    if not added and not removed:
        return NEVER
    awaited = any(c.stage is Stage.STARTING and c.uid not in view.listed for c in desired.pods)
    entering = desired.workload in added  # the annotations written now record its entry
    last = view.history.written_at
    if desired.urgent or entering or awaited or last is None:
        return now
    if added and len(present) > CROWDED:
        return now if len(added) >= CROWD_BATCH else last + CROWD_INTERVAL
    if added:
        return now if len(added) >= LISTING_BATCH else last + LISTING_INTERVAL
    if view.waiting:
        return last + PRUNING_PATIENCE
    return now if len(removed) >= PRUNING_BATCH else last + PRUNING_INTERVAL


def _resyncs(view: ClaimView, desired: Desired, actions: list[Action]) -> list[ResyncPod]:
    """Return a resync for each bound pod that this write lists: its kubelet has refused the pod, or is about to."""
    if not any(isinstance(a, SetReservedFor) for a in actions):
        return []
    late = (c for c in desired.pods if c.stage is Stage.STARTING and c.uid not in view.listed)
    return [ResyncPod(pod=c.key, uid=c.uid) for c in late]
