"""From one claim's view to a plan: the rules say what should be, the comparison says which writes make it so.

The list is written in batches. Every write of the claim wakes all pods that the scheduler has put aside because of it
and costs every watcher an event, so a change that can wait does, at most a second; one that somebody stands still for
does not.
"""

from typing import Final

from dra.engine.actions import Action, Annotate, Deallocate, DeleteClaim, Enter, Kick, Plan, SetReservedFor
from dra.engine.claims import gates
from dra.engine.claims.desired import Desired
from dra.engine.claims.listing import tombstones
from dra.engine.claims.policy import Policy, beside_stock
from dra.engine.claims.rules import fold
from dra.engine.claims.view import FINISHED_PODS, GROUP, ClaimView, guard
from dra.engine.consumers import Stage
from dra.engine.instants import NEVER, Instant
from dra.engine.reasons import Code
from dra.engine.window import SCHEDULER_HEADROOM
from dra.model.claims import RESERVED_FOR_MAX_SIZE
from dra.model.references import ConsumerReference

LISTING_INTERVAL: Final = 1.0
"""Seconds between writes that list waiting pods, unless …"""

LISTING_BATCH: Final = 32
"""… so many can be listed at once."""

CROWDED: Final = RESERVED_FOR_MAX_SIZE - SCHEDULER_HEADROOM
"""Entries above which the list has no headroom left, since ungated pods crowd in: then …"""

CROWD_INTERVAL: Final = 5.0
"""… these seconds …"""

CROWD_BATCH: Final = 64
"""… and so many slots make a batch: the scheduler's clients need a list that holds still."""

PRUNING_INTERVAL: Final = 5.0
"""Seconds between writes that only take entries away, unless …"""

PRUNING_BATCH: Final = 64
"""… there are so many of them."""

PRUNING_PATIENCE: Final = 30.0
"""Seconds between such writes while ungated pods wait: each write fails the scheduler's own writes that are under way,
and a cycle that has to start over costs its client limit ten requests instead of two."""

RETURNS: Final = 3
"""Entries that came back by themselves before we believe that the stock controller runs: one may be a late write."""


def decide(view: ClaimView, *, policy: Policy, now: Instant) -> Plan:
    """Return what to do about one claim now. Idempotent: after its own writes it wants no more."""
    heeding = _heeding_stock(view, policy)
    desired = fold(view, policy=heeding, now=now)
    if heeding is not policy:
        reason = view.reason(Code.STOCK_CONTROLLER_ACTIVE)
        desired = desired.because(reason)
    return plan(view, desired, now=now)


def plan(view: ClaimView, desired: Desired, *, now: Instant) -> Plan:
    """Compare what is with what should be."""
    actions: list[Action] = list(desired.lookups)
    wake_at = desired.wake_at
    if view.allocation is not None and not desired.allocated:
        actions.append(
            Deallocate(claim=view.key, confirm=desired.confirm, given_up=desired.given_up, nominated=desired.nominated)
        )
    elif view.allocation is not None:
        entries = compose(view, desired)
        due = _due(view, entries, desired, now=now)
        if due <= now:
            actions.append(SetReservedFor(claim=view.key, entries=entries))
        wake_at = min(wake_at, due)
    if desired.marks or desired.finalizers is not None or desired.owners is not None:
        # After the status: a mark must never tell of an entry that was not made.
        marks = tuple(desired.marks.items())
        actions.append(
            Annotate(claim=view.key, annotations=marks, finalizers=desired.finalizers, owners=desired.owners)
        )
    if desired.deleted:
        actions.append(DeleteClaim(claim=view.key, uid=view.claim.metadata.uid))
    actions.extend(gates.ungating(c) for c in desired.ungate)
    actions.extend(_kicks(view, desired, actions))
    written = any(isinstance(a, SetReservedFor | Deallocate) for a in actions)
    reasons = tuple(dict.fromkeys(r for r in desired.reasons if written or not r.done))
    return Plan(actions=tuple(actions), reasons=reasons, wake_at=wake_at if wake_at > now else NEVER)


def _heeding_stock(view: ClaimView, policy: Policy) -> Policy:
    """Return the policy for a claim: another one where a stock controller turns out to run, which nobody told us of."""
    active = policy.prune_started and view.history.returned >= RETURNS
    return beside_stock(policy) if active else policy


def insisting(plan: Plan, view: ClaimView, policy: Policy) -> Plan:
    """Return what to do first if somebody else writes the claim faster than a plan for it can be carried out.

    A scheduler with many ungated pods enters one every few milliseconds, the stock controller puts finished pods back
    as fast, and no compare-and-swap gets between. Some entries need none: the workload's, as long as none was made, and
    the tombstones are right wherever there is an allocation, and elsewhere the API server takes none. Tombstones go
    before a deallocation, too: the stock controller rests until the claim is free.
    """
    present = {e.reference.uid: e.reference for e in view.entries}
    lists = (w for w in plan.claim_writes if isinstance(w, SetReservedFor))
    wanted = [e for w in lists for e in w.entries if _right_in_any_list(e)]
    if any(isinstance(w, Deallocate) for w in plan.claim_writes):
        wanted += tombstones(view, _heeding_stock(view, policy))
    missing = tuple(e for e in wanted if present.get(e.uid) != e)
    # The two kinds go by patches of two forms (`dra.engine.patches`); what keeps the claim goes first.
    added = tuple(e for e in missing if e.resource != FINISHED_PODS) or missing
    if not added or len({*present, *(e.uid for e in added)}) > RESERVED_FOR_MAX_SIZE:
        return plan
    reasons = tuple(r for r in plan.reasons if not r.done or r.code is Code.WORKLOAD_ENTERED)
    return Plan(actions=(Enter(claim=view.key, entries=added),), reasons=reasons, wake_at=plan.wake_at)


def _right_in_any_list(entry: ConsumerReference) -> bool:
    return not entry.is_pod and (entry.api_group != GROUP or entry.resource == FINISHED_PODS)


def compose(view: ClaimView, desired: Desired) -> tuple[ConsumerReference, ...]:
    """Return the list, what keeps the claim first: ``kubectl get`` shows the beginning."""
    head = [desired.workload] if desired.workload is not None else []
    # Uids must be unique. Anybody may have listed something with ours or a pod's: then that does what ours would do.
    taken = {entry.uid for entry in (*head, *desired.kept)}
    stones = [e for e in desired.kept if e.resource == FINISHED_PODS and e.api_group == GROUP]
    kept = [e for e in desired.kept if e not in stones]
    room = RESERVED_FOR_MAX_SIZE - len(head) - len(kept)  # a full list of others' entries is as good as a guard
    if desired.guard and view.claim.metadata.uid not in taken and room > 0:
        head.append(guard(view.claim))
        room -= 1
    pods = [c.entry for c in desired.pods if c.uid not in taken][:room]  # a pod may be the workload itself, too
    return (*head, *kept, *stones[: room - len(pods)], *pods)


def _due(view: ClaimView, entries: tuple[ConsumerReference, ...], desired: Desired, *, now: Instant) -> Instant:
    """Return when the list should be written: now, later, or never if it is right."""
    present = {e.reference for e in view.entries}
    wanted = set(entries)
    added, removed = wanted - present, present - wanted
    if not added and not removed:
        return NEVER
    awaited = any(c.stage is Stage.STARTING and c.uid not in view.listed for c in desired.pods)
    entering = desired.workload in added  # the marks that are written now tell of its entry
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


def _kicks(view: ClaimView, desired: Desired, actions: list[Action]) -> list[Kick]:
    """Return a kick for each bound pod that this write lists: its kubelet has refused it already, or will have."""
    if not any(isinstance(a, SetReservedFor) for a in actions):
        return []
    late = (c for c in desired.pods if c.stage is Stage.STARTING and c.uid not in view.listed)
    return [Kick(pod=c.key, uid=c.uid) for c in late]
