"""The entries of the list other than the workload's: rules List, Pre-list, Prune and guard, Re-list, and others.

A pre-listed pod skips the scheduler's only compare-and-swap, so its entry is a promise; a consuming pod without an
entry is safe only while a guard entry keeps all other components from deallocating.
"""

from collections.abc import Iterator
from functools import partial
from typing import Final

from dra.engine.claims import window
from dra.engine.claims.actions import LookUpPod, LookUpWorkload
from dra.engine.claims.codes import Code
from dra.engine.claims.consumers import Consumer, Stage
from dra.engine.claims.desired import Desired
from dra.engine.claims.policy import Policy
from dra.engine.claims.reasons import Reason, list_names, pod_reason
from dra.engine.claims.view import TOMBSTONE_RESOURCE, ClaimView, EntryKind, ReservedForEntry, tombstone_entry
from dra.engine.claims.window import UNLISTED, Need
from dra.engine.claims.workload_entry import WorkloadFate, fate_of_known
from dra.engine.instants import NEVER, WATCH_OUTAGE_UNNOTICED, Instant
from dra.model.claims import RESERVED_FOR_MAX_SIZE
from dra.model.references import ConsumerReference
from dra.model.workload_reservations import PRE_LIST

LOOKUP_BATCH: Final = 32
"""Maximum number of live reads of listed pods that do not use the claim, in one decision; the responses trigger the
next decision."""

STRANGER_RECHECK: Final = 60.0
"""Seconds after which a listed pod that does not reference the claim, or is gated, is looked up again."""

POD_GROUP_PATIENCE: Final = 5.0
"""Seconds after which a bound pod of a listed PodGroup that has no sandbox is listed itself: its kubelet may be older
than the entry, or run without the feature."""

FINISHING_DELAY: Final = 2.0
"""Seconds for which a started pod may be without a sandbox before it is listed. When all containers have ended, the
kubelet stops the sandbox and reports that it is not ready; only afterwards it reports that the pod has ended."""

LIMIT_EVENTS: Final = 16
"""Number of waiting pods, the next in order, that get Events of their own: thousands of Events would help no user."""


def kept_entries_rule(view: ClaimView, policy: Policy, now: Instant, desired: Desired) -> Desired:
    """Leave foreign entries alone, keep doubtful pods, set tombstones for finished pods.

    Rules List, Alongside and Doubt.
    """
    if view.allocation is None:
        return desired
    kept: list[ConsumerReference] = []
    asked: list[LookUpPod] = []
    for entry in view.entries:
        match entry.kind:
            case EntryKind.UNKNOWN if entry.live_read_at is not None and desired.revoking:
                pass  # gated by a live read: removing the gate from now on starts a new scheduling cycle
            case EntryKind.FOREIGN | EntryKind.UNKNOWN if entry.live_read_at is not None:
                # A pod that does not reference the claim, so that no watch reports its end, or a gated pod.
                kept.append(entry.reference)
                when = entry.live_read_at + STRANGER_RECHECK
                if now >= when:
                    asked.append(_look_up(view, entry))
                else:
                    desired = desired.wake_by(when)
            case EntryKind.FOREIGN | EntryKind.VANISHED:
                kept.append(entry.reference)
            case EntryKind.UNKNOWN:
                kept.append(entry.reference)
                asked.append(_look_up(view, entry))
            case EntryKind.FINISHED | EntryKind.TOMBSTONE if _needs_tombstone(view, entry.consumer, policy, desired):
                kept.append(tombstone_entry(entry.reference))
            case _:
                pass
    if any(e.resource == TOMBSTONE_RESOURCE for e in kept):
        # The stock controller adds and removes the others at this moment: a pod missing from the list now will return.
        others = (c for c in view.finished if c.uid not in view.listed and _needs_tombstone(view, c, policy, desired))
        kept.extend(tombstone_entry(consumer.entry) for consumer in others)
    return desired.replace(kept_entries=desired.kept_entries + tuple(kept)).with_lookups(*asked[:LOOKUP_BATCH])


def _look_up(view: ClaimView, entry: ReservedForEntry) -> LookUpPod:
    return LookUpPod(pod=(view.claim.metadata.namespace, entry.reference.name), uid=entry.reference.uid)


def tombstone_entries(view: ClaimView, policy: Policy) -> list[ConsumerReference]:
    """Return tombstones of all pods that the stock controller restores while the claim is allocated."""
    return [tombstone_entry(c.entry) for c in view.finished if _is_put_back(view, c, policy)]


def _is_put_back(view: ClaimView, consumer: Consumer | None, policy: Policy) -> bool:
    """Return whether the stock controller restores the pod's entry.

    It does so only for a bound pod whose object still exists, and not for a claim under deletion.
    """
    if not policy.tombstones or consumer is None or consumer.stage is not Stage.FINISHED:
        return False  # a tombstone for a running pod is an error: the pod's own entry replaces it
    return bool(consumer.node) and not consumer.deleting and not view.claim.metadata.deleting


def _needs_tombstone(view: ClaimView, consumer: Consumer | None, policy: Policy, desired: Desired) -> bool:
    """Return whether a finished pod is restored while something else keeps the allocation.

    Otherwise the claim is freed.
    """
    if not _is_put_back(view, consumer, policy):
        return False
    kept = desired.workload is not None or desired.revoking  # a revocation keeps it for one more bind horizon
    return kept or bool(view.consuming) or any(c.uid in view.listed for c in view.waiting)


def pod_groups_rule(view: ClaimView, policy: Policy, now: Instant, desired: Desired) -> Desired:
    """Keep the entries of PodGroups that exist, or may exist.

    Scheduler, kubelet and eviction treat such an entry as entries of all pods of the group. The scheduler that bound
    the first pod of the group made the entry. The entry is removed when the PodGroup is gone, whatever its pods do
    (KEP-5729; upstream's ``syncClaim``). If the API server does not serve PodGroups, their entries stay.
    """
    del policy, now
    if view.allocation is None or desired.revoking:  # revoked here only by a forced release
        return desired
    for entry in view.entries_of(EntryKind.GROUP):
        outcome = fate_of_known(entry.group, entry.reference)
        if outcome is WorkloadFate.GONE:
            continue
        desired = desired.replace(kept_entries=(*desired.kept_entries, entry.reference))
        if outcome is WorkloadFate.ASKED:
            desired = desired.with_lookups(LookUpWorkload(claim=view.key, reference=entry.reference))
    return desired


def consumer_entries_rule(view: ClaimView, policy: Policy, now: Instant, desired: Desired) -> Desired:
    """Choose the pods of the window, and report which are left out.

    Rules Pre-list, Prune, Re-list and Off the allocation.
    """
    if view.allocation is None:
        return desired
    if view.claim.metadata.deleting:
        return _keep_live_entries(view, desired)
    if _admits_any_pod(view, desired):
        return desired
    candidates: list[Consumer] = []
    wake_at = desired.wake_at
    for consumer in (*view.gated, *view.waiting, *view.starting, *view.started):
        if _is_excluded(view, consumer, policy) or window.need(consumer, now=now) is None:
            continue
        when = _listable_from(view, consumer, policy, desired)
        if when <= now:
            candidates.append(consumer)
            listing, awaiting_other_claims = (
                view.entry_histories.get(consumer.uid, UNLISTED),
                consumer.uid in view.awaiting_other_claims,
            )
            when = window.turn_changes_at(consumer, listing, now=now, awaiting_other_claims=awaiting_other_claims)
        wake_at = min(wake_at, when)
    desired = desired.wake_by(wake_at)
    chosen = _choose_consumers(view, policy, now, desired, candidates)
    taken = () if chosen else tuple(_list_taken_reasons(view, candidates))
    desired = desired.with_reasons(*taken)
    if not taken and not policy.prune_started:
        desired = _explain_limit(view, desired, candidates, chosen)
    desired = desired.with_reasons(*_pod_reasons(view, now))
    return desired.replace(pods=chosen)


def guard_entry_rule(view: ClaimView, policy: Policy, now: Instant, desired: Desired) -> Desired:
    """Add a guard once a consuming pod is unlisted, and keep the guard until no pod consumes.

    A pod that vanished consumes until its containers have certainly ended.
    """
    if view.allocation is None or not desired.allocated:
        return desired
    # Under deletion the list only shrinks: no guard is added, and the present one stays while something relies on it.
    present = EntryKind.GUARD in view.kinds
    if view.claim.metadata.deleting:
        relied_on = view.consuming or desired.pods or desired.kept_entries or desired.kept_unlisted or desired.revoking
        return desired.replace(guard=present and bool(relied_on))
    if _admits_any_pod(view, desired) or (view.admits_any_pod and desired.revoking):  # a guard would admit pods
        return desired
    listed = sum(1 for c in desired.pods if c.is_consuming)
    of_groups = sum(1 for c in (*view.starting, *view.started) if _is_covered_by_pod_group(c, desired))
    unlisted = view.consuming > listed + of_groups
    last = bool(view.entries) and not (desired.workload or desired.kept_entries or desired.pods)
    last_of_vanished = desired.kept_unlisted and not (desired.workload or _has_firm_entry(view, desired))
    stays = present and (
        view.consuming > 0 or desired.kept_unlisted
    )  # the guard informs the next process of a vanished pod
    # In doubt about a release the list must not become empty: others deallocate the claim with its last entry.
    wanted = desired.revoking or unlisted or (desired.release_uncertain and last) or stays
    wanted = wanted or last_of_vanished
    if not policy.prune_started:  # beside the workload's entry, too: the owner may release it at any time
        wanted = wanted or _is_watch_behind(view)
        until = _maybe_bound_until(view, now, desired, present=present)
        if until > now:
            desired, wanted = desired.wake_by(until), True
    if unlisted and not present and desired.workload is None:
        windowed = view.reason(Code.LIST_WINDOWED, done=True, consuming=view.consuming)
        desired = desired.with_reasons(windowed)
    return desired.replace(guard=wanted)


def _has_firm_entry(view: ClaimView, desired: Desired) -> bool:
    """Return whether the list has an entry that kube-scheduler does not remove.

    The scheduler removes the entry of a pod that it could not bind, and deallocates a claim whose list names no pod but
    the one that it fails to schedule (``PostFilter`` of the DynamicResources plugin).
    """
    vanished = {entry.reference.uid for entry in view.entries_of(EntryKind.VANISHED)}
    kept = any(not entry.is_pod or entry.uid in vanished for entry in desired.kept_entries)
    return kept or any(consumer.is_consuming for consumer in desired.pods)


def _is_watch_behind(view: ClaimView) -> bool:
    """Return whether the pods watch is behind the list of a claim without workload: unknown pods may use the claim.

    The stock controller deallocates such a claim with the last pod of the list. If another pod is being bound at that
    moment, kube-scheduler may allocate the freed device to a second claim (docs/explanation/guarantees.md).
    """
    return not view.is_reserved and any(entry.live_read_at is None for entry in view.entries_of(EntryKind.UNKNOWN))


def _maybe_bound_until(view: ClaimView, now: Instant, desired: Desired, *, present: bool) -> Instant:
    """Return until when a seemingly unbound pod that this controller unlists may have been bound unnoticed.

    A scheduler lists a pod right before it binds it, and the pods watch may be behind. The stock controller deallocates
    the claim with the last pod of the list, so a guard has to stay until that binding must have been observed. After a
    restart, an existing guard may serve this purpose. An empty list gets a guard only as long as the deallocation would
    wait, because with the guard the claim is deallocated: that needs no allowance for the watch, since it reads the
    pods live.

    A pod whose entry its scheduler has removed is in no binding cycle. Unless this controller lists the pod itself, it
    needs no guard: the stock scheduler frees the claim for other devices within seconds, and a guard would stop that.
    """
    chosen = {c.uid for c in desired.pods}
    unnoticed = WATCH_OUTAGE_UNNOTICED if view.entries else 0.0
    until = -NEVER
    for consumer in (*view.gated, *view.waiting):
        listing = view.entry_histories.get(consumer.uid, UNLISTED)
        gave_up = listing.listed_since is None and listing.unreserve_count > 0
        if gave_up and not _is_pre_listed(view, consumer):
            continue
        if consumer.uid not in chosen and (listing.by_others or (present and listing.assumed)):
            until = max(until, listing.bindable_until(view.bind_horizon(consumer), now=now) + unnoticed)
    return until


def _is_covered_by_pod_group(consumer: Consumer, desired: Desired) -> bool:
    """Return whether the entry of its PodGroup covers the pod; upstream compares names only."""
    if not consumer.pod_group:
        return False
    entries = desired.kept_entries if desired.workload is None else (desired.workload, *desired.kept_entries)
    return any(entry.is_pod_group and entry.name == consumer.pod_group for entry in entries)


def _admits_any_pod(view: ClaimView, desired: Desired) -> bool:
    """Return whether the allocation itself admits any referencing pod (KEP-5194): the list then names no pods."""
    return view.admits_any_pod and desired.workload is not None


def _keep_live_entries(view: ClaimView, desired: Desired) -> Desired:
    """Return the list of a claim under deletion: it only shrinks, and keeps the entries of live pods."""
    live = [e.consumer for e in view.entries_of(EntryKind.LIVE) if e.consumer is not None]
    if not view.unfinished:
        return desired.replace(pods=tuple(live))
    waits = view.reason(Code.DELETION_WAITS, pods=view.unfinished)
    return desired.replace(pods=tuple(live)).with_reasons(waits)


def _is_excluded(view: ClaimView, consumer: Consumer, policy: Policy) -> bool:
    """Return whether the pod is kept off the list because the allocation excludes its node.

    An entry that the stock controller made stays: it would be restored for ever.
    """
    return consumer.uid in view.excluded and (policy.prune_started or consumer.uid not in view.listed)


def _is_eligible(view: ClaimView, consumer: Consumer, policy: Policy, desired: Desired) -> bool:
    listed = consumer.uid in view.listed
    match consumer.stage:
        # A new entry would let a scheduling cycle bind the pod to the allocation that is about to go.
        case Stage.GATED | Stage.WAITING if desired.revoking:
            eligible = False
        case Stage.GATED:
            # A pod behind another gate may stay there for days, and would hold a slot. The scheduler enters the
            # PodGroup, whose entry admits its pods.
            eligible = not consumer.pod_group and consumer.gated_by_us_only
        case Stage.WAITING:
            eligible = listed or (not consumer.pod_group and _is_pre_listed(view, consumer))
        # The kubelet creates no sandbox for a pod that the list does not name.
        case Stage.STARTING if not consumer.deleting:
            eligible = True
        case Stage.STARTING | Stage.STARTED if policy.prune_started and desired.workload is not None:
            eligible = False
        # Its kubelet creates no sandbox any more, so a new entry would be of no use.
        case Stage.STARTING | Stage.STARTED if consumer.deleting:
            eligible = listed
        case Stage.STARTING | Stage.STARTED:
            eligible = listed or (policy.list_consuming and EntryKind.GUARD not in view.kinds)
        case Stage.FINISHED:
            eligible = False
    return eligible


def _listable_from(view: ClaimView, consumer: Consumer, policy: Policy, desired: Desired) -> Instant:
    """Return from when on the pod may have an entry; `NEVER` if it needs none."""
    if _is_covered_by_pod_group(consumer, desired):
        doubted = consumer.stage is Stage.STARTING and not consumer.deleting
        return consumer.stage_since + POD_GROUP_PATIENCE if doubted else NEVER
    return _relistable_from(view, consumer) if _is_eligible(view, consumer, policy, desired) else NEVER


def _is_pre_listed(view: ClaimView, consumer: Consumer) -> bool:
    """Return whether this controller lists a waiting, ungated pod.

    It does so if the claim is reserved, the claim or the pod opts in, or the pod was behind this project's gate.
    """
    return (
        view.is_reserved
        or consumer.opted_in
        or consumer.was_gated
        or view.claim.metadata.annotation(PRE_LIST) == "true"
    )


def _relistable_from(view: ClaimView, consumer: Consumer) -> Instant:
    """Return when a pod may be listed: at once, unless a scheduler unlisted the pod or the pod may be about to end."""
    if consumer.was_started and consumer.uid not in view.listed:
        return consumer.stage_since + FINISHING_DELAY
    if consumer.stage is not Stage.WAITING or consumer.uid in view.listed:
        return -NEVER
    return view.entry_histories.get(consumer.uid, UNLISTED).relist_at()


def _slots(desired: Desired) -> int:
    """Return the number of slots for pods; the guard's slot always stays free, so that a guard never has to wait."""
    return RESERVED_FOR_MAX_SIZE - len(desired.kept_entries) - (2 if desired.workload is not None else 1)


def _choose_consumers(
    view: ClaimView, policy: Policy, now: Instant, desired: Desired, candidates: list[Consumer]
) -> tuple[Consumer, ...]:
    """Fill the slots, and leave some to the scheduler where that helps a pod.

    Where nothing is pruned, a started pod's entry stays: the stock controller would put it back within 3 ms.
    """
    pinned = [c for c in candidates if c.stage is Stage.STARTED and not policy.prune_started]
    others = [c for c in candidates if c.stage is not Stage.STARTED or policy.prune_started]
    choose = partial(
        window.choose,
        listed=view.listed,
        entry_histories=view.entry_histories,
        awaiting_other_claims=view.awaiting_other_claims,
        now=now,
    )
    slots = _slots(desired)
    stay = choose(pinned, capacity=slots)
    free = slots - len(stay)
    chosen = choose(others, capacity=free)
    first = free - window.SCHEDULER_HEADROOM
    if len(chosen) <= first:
        return chosen + stay
    needed = _any_left_to_scheduler(view, policy, desired)
    first = max(first, int(free > needed))  # of few slots this controller takes one, else no pod leaves its gate
    if policy.prune_started:
        keep = chosen if not needed and _is_crowded(candidates, chosen[:first]) else chosen[:first]
    elif needed:  # not at the cost of pods that make progress: pods listed here stay listed
        keep = chosen[:first] + tuple(c for c in chosen[first:] if not _is_parked(view, c, now))
    else:
        keep = chosen
    return keep + stay


def _is_parked(view: ClaimView, consumer: Consumer, now: Instant) -> bool:
    listing, awaiting_other_claims = (
        view.entry_histories.get(consumer.uid, UNLISTED),
        consumer.uid in view.awaiting_other_claims,
    )
    return window.need(consumer, now=now, listing=listing, awaiting_other_claims=awaiting_other_claims) is Need.PARKED


def _is_crowded(candidates: list[Consumer], chosen: tuple[Consumer, ...]) -> bool:
    """Return whether ungated pods are left out: headroom then only does harm.

    Each of these pods makes the scheduler try, and try again. Into a list with room the scheduler writes itself, which
    fails all other concurrent writes; a full list answers with one 422 (bench/README.md: three requests instead of
    ten).
    """
    slots = {c.uid for c in chosen}
    return any(c.stage is Stage.WAITING and c.uid not in slots for c in candidates)


def _any_left_to_scheduler(view: ClaimView, policy: Policy, desired: Desired) -> bool:
    """Return whether a pod waits that only the scheduler lists: a list full of idle pods would never admit it.

    No further pod is to be admitted while the allocation is being revoked.
    """
    return not desired.revoking and any(
        c.uid not in view.listed
        and not _is_covered_by_pod_group(c, desired)
        and not _is_eligible(view, c, policy, desired)
        for c in view.waiting
    )


def _explain_limit(
    view: ClaimView, desired: Desired, candidates: list[Consumer], chosen: tuple[Consumer, ...]
) -> Desired:
    """Add reasons for the claim and for the next pods in order: no pod follows before a listed pod leaves."""
    slots = {c.uid for c in chosen}
    left_out = sorted((c for c in candidates if c.uid not in slots), key=lambda c: c.scheduling_order)
    if not left_out:
        return desired
    limit = view.reason(
        Code.CONSUMER_LIMIT,
        pods=len(left_out),
        listed=len(view.entries),
        finished=sum(1 for e in view.entries if e.kind in {EntryKind.FINISHED, EntryKind.TOMBSTONE}),
    )
    waits = (
        pod_reason(Code.WAITS_FOR_SLOT, key=c.key, uid=c.uid, claim=view.claim.metadata.name)
        for c in left_out[:LIMIT_EVENTS]
    )
    return desired.with_reasons(limit, *waits)


def _list_taken_reasons(view: ClaimView, candidates: list[Consumer]) -> Iterator[Reason]:
    """Yield the reason that foreign entries leave pods without slots.

    Only the writers of these entries may remove them.
    """
    left_out = [c for c in candidates if c.uid not in view.listed]
    others = [e for e in view.entries if e.kind in {EntryKind.FOREIGN, EntryKind.UNKNOWN}]
    if left_out and others:
        whose = list_names(str(e.reference) for e in others)
        yield view.reason(Code.LIST_TAKEN, pods=len(left_out), taken=len(others), entries=whose)


def _pod_reasons(view: ClaimView, now: Instant) -> Iterator[Reason]:
    yield from (_off_allocation_reason(view, c) for c in view.starting if c.uid in view.excluded)
    yield from (_no_sandbox_reason(view, c) for c in view.starting if window.need(c, now=now) is Need.PARKED)


def _no_sandbox_reason(view: ClaimView, consumer: Consumer) -> Reason:
    return pod_reason(
        Code.SANDBOX_NOT_READY,
        key=consumer.key,
        uid=consumer.uid,
        node=consumer.node,
        seconds=int(window.PARKED_AFTER),
        claim=view.claim.metadata.name,
    )


def _off_allocation_reason(view: ClaimView, consumer: Consumer) -> Reason:
    return pod_reason(
        Code.POD_OFF_ALLOCATION, key=consumer.key, uid=consumer.uid, node=consumer.node, claim=view.claim.metadata.name
    )
