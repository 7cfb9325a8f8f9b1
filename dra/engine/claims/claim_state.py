"""The cached state of one claim: the object, its consumers by stage, and its history."""

from dataclasses import dataclass, field
from typing import Final

import msgspec

from dra.engine.claims.consumers import Consumer, Stage
from dra.engine.claims.node_index import NodeIndex
from dra.engine.claims.view import (
    ENTRY_API_GROUP,
    ObservedHistory,
    Placements,
    UsableNodes,
    VanishedPod,
    guard_entry,
    lost_node_boot_id,
)
from dra.engine.claims.window import CAPACITY, SCHEDULER_HEADROOM, UNLISTED, EntryHistory
from dra.engine.devices.ledger import DeviceConflict
from dra.engine.instants import BIND_HORIZON, SLOW_BIND_HORIZON, Instant
from dra.model import workload_reservations
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, Uid
from dra.model.references import ConsumerReference, MalformedReferenceError
from dra.model.workload_reservations import WorkloadReservation

_NEARLY_FULL: Final = CAPACITY - SCHEDULER_HEADROOM
"""Entries from which on waiting pods may be waiting for a slot."""

LIVE_READ_VALID: Final = 10.0
"""Seconds for which a live read of a listed pod is trusted, however often other clients write the claim meanwhile."""

_RETURN_WITHIN: Final = 5.0
"""Seconds within which a removed entry must reappear to count as returned; the stock controller needs 3 ms."""


@dataclass(slots=True, eq=False)
class ClaimState:
    """One claim as observed, with incrementally maintained buckets, so that no event costs a scan."""

    key: Key
    claim: ResourceClaim | None = None
    reservation: WorkloadReservation | None = None
    malformed: str = ""
    consumers: dict[Uid, Consumer] = field(default_factory=dict)
    stages: dict[Stage, dict[Uid, Consumer]] = field(default_factory=lambda: {stage: {} for stage in Stage})
    status_only_consumers: set[Uid] = field(default_factory=set)
    """Members that name the claim only in their status."""

    entry_histories: dict[Uid, EntryHistory] = field(default_factory=dict)
    absent: set[Uid] = field(default_factory=set)
    present: dict[Uid, Instant] = field(default_factory=dict)
    """Listed pods that exist and do not reference the claim, and when a live read last confirmed that."""

    lost_nodes: dict[str, str] = field(default_factory=dict)
    """Nodes that did not report in when pods vanished from them, with the bootID of that time."""

    lost_node_graces: dict[str, float] = field(default_factory=dict)
    """For each lost node, the longest grace period of its vanished pods, where that exceeds the default."""

    vanished: dict[Uid, VanishedPod] = field(default_factory=dict)
    """Pods whose containers may still run although their objects are gone.

    A guard that the claim was first seen with, as after a restart, stands for such pods as well, under its own uid.
    """

    unlisted: dict[Uid, Instant] = field(default_factory=dict)
    """Started and finished pods whose entries were removed, and when: usually by this controller.

    The writer is not checked: the watch may deliver this controller's write, and the stock controller's reaction to
    it, before the response to the write arrives.
    """

    placements: Placements | None = None
    """The latest result of the placement lookup for the rule Unstick."""

    conflicts: tuple[DeviceConflict, ...] = ()
    history: ObservedHistory = field(default_factory=ObservedHistory)
    reachable_nodes: frozenset[str] | None = None
    usable_nodes: UsableNodes = field(default_factory=UsableNodes)
    usable_nodes_version: object = None

    @property
    def references(self) -> tuple[ConsumerReference, ...]:
        """Return the objects whose end matters to the claim: the workload it is reserved for, and listed PodGroups."""
        if self.claim is None:
            return ()
        groups = tuple(entry for entry in self.claim.entries if entry.is_pod_group)
        if self.reservation is None:
            return groups
        former = self.former
        return (self.reservation.reference, *([former] if former is not None else ()), *groups)

    @property
    def former(self) -> ConsumerReference | None:
        """Return the listed object that the claim was reserved for before its reference was edited."""
        if self.claim is None or self.reservation is None or not self.reservation.former:
            return None
        return next((e for e in self.claim.entries if e.uid == self.reservation.former and not e.is_pod), None)

    @property
    def strangers(self) -> frozenset[Uid]:
        """Return the pods whose status names the claim although the claim was generated for another owner."""
        claim = self.claim
        if claim is None or not self.status_only_consumers:
            return frozenset()
        return frozenset(uid for uid in self.status_only_consumers if not self.consumers[uid].may_use(claim))

    def users(self, stage: Stage) -> tuple[Consumer, ...]:
        """Return the consumers of one stage that may use the claim."""
        consumers, strangers = self.stages[stage], self.strangers
        if not strangers:
            return tuple(consumers.values())
        return tuple(c for c in consumers.values() if c.uid not in strangers)

    def put_consumer(self, consumer: Consumer) -> None:
        """Add a consumer, or move it to its present stage."""
        before = self.consumers.get(consumer.uid)
        if before is not None and before.stage is not consumer.stage:
            del self.stages[before.stage][consumer.uid]
        self.consumers[consumer.uid] = consumer
        self.present.pop(consumer.uid, None)
        self.stages[consumer.stage][consumer.uid] = consumer
        if self.key[1] in consumer.generated_claims:
            self.status_only_consumers.add(consumer.uid)
        else:
            self.status_only_consumers.discard(consumer.uid)
        if consumer.is_consuming and self.history.revocations:
            self.history = msgspec.structs.replace(self.history, revocations=0)

    def drop_consumer(self, uid: Uid, *, gone: bool) -> None:
        """Remove a consumer whose pod is certainly gone, or no longer references the claim."""
        consumer = self.consumers.pop(uid, None)
        if consumer is None:
            return
        del self.stages[consumer.stage][uid]
        self.status_only_consumers.discard(uid)
        listing = self.entry_histories.get(uid)
        if gone and listing is not None and listing.listed_since is not None:
            self.absent.add(uid)
        else:
            self.entry_histories.pop(uid, None)

    def replace(self, claim: ResourceClaim, *, now: Instant, ours: bool) -> None:
        """Replace the claim with a newer version; ``ours`` says whether this controller wrote that version."""
        before = self.claim
        if before is not None and before.metadata.uid != claim.metadata.uid:
            self._forget_history()
            before = None
        self.claim = claim
        if not ours:  # another writer may know more about the listed pods
            self.present = {uid: when for uid, when in self.present.items() if now < when + LIVE_READ_VALID}
        covered = self._covered(before)
        self._read_reservation(claim)
        self._compare_lists(claim, now=now, ours=ours)
        for uid in covered - self._covered(claim):  # treat each pod as listed until now
            self.entry_histories[uid] = msgspec.structs.replace(
                self.entry_histories.get(uid, UNLISTED), last_listed=now
            )
        self._compare_lost(before, claim, now=now, ours=ours)
        self._advance_history(before, claim, now=now, ours=ours)

    @property
    def current_placements(self) -> Placements | None:
        """Return the placement result if it concerns the present allocation."""
        placements = self.placements
        allocation = self.claim.status.allocation if self.claim is not None else None
        return placements if placements is not None and placements.allocation == allocation else None

    def observe_placements(self, placements: Placements) -> bool:
        """Record a result of the placement lookup; return whether it concerns the present allocation."""
        claim, before = self.claim, self.placements
        if claim is None or claim.status.allocation != placements.allocation:
            return False
        again = before is not None and before.allocation == placements.allocation
        repeated = before.repeated + 1 if before is not None and again and not placements.fit_elsewhere else 0
        self.placements = msgspec.structs.replace(placements, repeated=repeated)
        return True

    @property
    def forced(self) -> bool:
        """Return whether the user requests a forced release."""
        claim = self.claim
        return claim is not None and claim.metadata.annotation(workload_reservations.FORCE_RELEASE) is not None

    def mark_written(self, *, now: Instant) -> None:
        """Record that this controller wrote the version that the watch has already delivered."""
        self.history = msgspec.structs.replace(self.history, written_at=now)

    def observe_use(self, *, used: bool, now: Instant) -> None:
        """Record whether a bound pod uses the present allocation; the time without such a pod starts now."""
        since = self.history.unused_since
        allocated = self.claim is not None and self.claim.status.allocation is not None
        unused = since if since is not None else now
        after = unused if allocated and not used else None
        if after != since:
            self.history = msgspec.structs.replace(self.history, unused_since=after)

    def observe_deleted_nodes(self, *, now: Instant) -> None:
        """Record whether all nodes of the present allocation are deleted; the time without them starts now."""
        since = self.history.nodes_deleted_since
        if self.usable_nodes.all_deleted is (since is None):
            after = now if since is None else None
            self.history = msgspec.structs.replace(self.history, nodes_deleted_since=after)

    def restart_node_deletion(self) -> None:
        """Forget since when the nodes are deleted: one exists, or may have existed, and may be deleted again unseen."""
        if self.history.nodes_deleted_since is not None:
            self.history = msgspec.structs.replace(self.history, nodes_deleted_since=None)

    def mark_deleted(self) -> None:
        """Forget the deleted claim; pods may still reference its name."""
        self.claim = None
        self._forget_history()

    def reset(self, *, now: Instant) -> None:
        """Replace everything remembered about the claim by what its present object shows."""
        claim = self.claim
        self.mark_deleted()
        if claim is not None:
            self.replace(claim, now=now, ours=False)
            self.assume_listed(now=now)

    def assume_listed(self, *, now: Instant) -> None:
        """Assume that any waiting pod was listed before this process started, since the scheduler may be binding it.

        The assumption prevents a deallocation under such a pod.
        """
        for uid in self.stages[Stage.WAITING]:
            if uid not in self.entry_histories:
                self.entry_histories[uid] = EntryHistory(last_listed=now, assumed=True)

    def _forget_history(self) -> None:
        self.entry_histories.clear()
        self.absent.clear()
        self.present.clear()
        self.lost_nodes.clear()
        self.lost_node_graces.clear()
        self.vanished.clear()
        self.unlisted.clear()
        self.placements = None
        self.history = ObservedHistory()

    def _read_reservation(self, claim: ResourceClaim) -> None:
        try:
            self.reservation, self.malformed = workload_reservations.workload_reservation(claim), ""
        except MalformedReferenceError as error:
            self.reservation, self.malformed = None, str(error)

    def _compare_lost(self, before: ResourceClaim | None, claim: ResourceClaim, *, now: Instant, ours: bool) -> None:
        """Add the lost nodes that the list names; drop the nodes whose entries this controller has removed.

        The remembered state of a node is newer than the list: a pod may have vanished from its present boot since.
        """
        named = {e.name: boot for e in claim.entries if (boot := lost_node_boot_id(e)) is not None}
        if claim.status.allocation is None:
            self.lost_nodes.clear()
            self.lost_node_graces.clear()
            self.vanished.clear()
        for entry in before.entries if before is not None and ours else ():
            boot = lost_node_boot_id(entry)
            if boot is not None and entry.name not in named and self.lost_nodes.get(entry.name) == boot:
                del self.lost_nodes[entry.name]
        self.lost_nodes = named | self.lost_nodes
        # The previous process may have added the guard for unlisted pods that were deleted by force.
        unexplained = guard_entry(claim)
        if before is None and claim.status.allocation is not None and unexplained in claim.entries:
            self.vanished[unexplained.uid] = VanishedPod(uid=unexplained.uid, since=now, guard=True)

    def _compare_lists(self, claim: ResourceClaim, *, now: Instant, ours: bool) -> None:
        listed = {e.uid for e in claim.entries}
        for uid in listed:
            listing = self.entry_histories.get(uid, UNLISTED)
            if listing.listed_since is None:
                self.entry_histories[uid] = msgspec.structs.replace(
                    listing, listed_since=now, last_listed=now, assumed=False, by_others=not ours
                )
                if not ours and self._has_returned(uid, now):
                    self.history = msgspec.structs.replace(self.history, returned=self.history.returned + 1)
        for uid, listing in tuple(self.entry_histories.items()):
            if listing.listed_since is not None and uid not in listed:
                self._unlist(uid, now=now, ours=ours)
            elif uid not in self.consumers and listing.bindable_until(SLOW_BIND_HORIZON, now=now) <= now:
                del self.entry_histories[uid]
        self.absent &= listed
        self.present = {uid: when for uid, when in self.present.items() if uid in listed}

    def refresh_usable_nodes(self, nodes: NodeIndex) -> None:
        """Refresh the nodes that the allocation reaches; computed once per change of nodes or allocation."""
        allocation = self.claim.status.allocation if self.claim is not None else None
        selector = allocation.node_selector if allocation is not None else None
        version = (nodes.version, selector)
        if self.usable_nodes_version == version:
            return
        self.usable_nodes_version = version
        self.reachable_nodes, self.usable_nodes = (
            (None, UsableNodes()) if selector is None else nodes.reachable_nodes(selector)
        )

    def _covered(self, claim: ResourceClaim | None) -> frozenset[Uid]:
        """Return the unbound pods that an entry for many pods admits: the entry of a PodGroup, or an entry for any pod.

        Gated pods are included, since the pods watch may be late.
        """
        if claim is None or not claim.entries:
            return frozenset()
        if claim.admits_any_pod:
            return frozenset((*self.stages[Stage.WAITING], *self.stages[Stage.GATED]))
        groups = {e.name for e in claim.entries if e.is_pod_group}
        if not groups:
            return frozenset()
        unbound = (*self.stages[Stage.WAITING].items(), *self.stages[Stage.GATED].items())
        return frozenset(uid for uid, c in unbound if c.pod_group in groups)

    def _has_returned(self, uid: Uid, now: Instant) -> bool:
        """Return whether another controller restored a pruned entry.

        A waiting pod's entry is the scheduler's to write.
        """
        consumer, unlisted = self.consumers.get(uid), self.unlisted.pop(uid, None)
        if consumer is None or unlisted is None or consumer.stage not in {Stage.STARTED, Stage.FINISHED}:
            return False
        return now - unlisted < _RETURN_WITHIN

    def _unlist(self, uid: Uid, *, now: Instant, ours: bool) -> None:
        consumer = self.consumers.get(uid)
        ended = consumer is not None and consumer.stage in {Stage.STARTED, Stage.FINISHED}
        if ended or uid in self.absent:
            del self.entry_histories[uid]
        else:  # an unknown pod may be waiting: claims and pods come by separate watches
            dropped = not ours and consumer is not None and consumer.stage is Stage.WAITING
            listing = self.entry_histories[uid]
            self.entry_histories[uid] = msgspec.structs.replace(
                listing,
                listed_since=None,
                last_listed=now,
                unreserve_count=listing.unreserve_count + 1 if dropped else 0,
            )
        if ended:
            self.unlisted[uid] = now
            if len(self.unlisted) > 2 * len(self.consumers) + 16:
                self.unlisted = {u: t for u, t in self.unlisted.items() if now - t < _RETURN_WITHIN}

    def _advance_history(self, before: ResourceClaim | None, claim: ResourceClaim, *, now: Instant, ours: bool) -> None:
        history = (
            self.history if before is not None else ObservedHistory(first_seen=now, returned=self.history.returned)
        )
        allocation, earlier = claim.status.allocation, before.status.allocation if before is not None else None
        same = allocation is not None and allocation == earlier
        podless = allocation is not None and not any(e.is_pod or e.is_pod_group for e in claim.entries)
        kept = history.podless_since if same and history.podless_since is not None else now
        allocated_at = history.allocated_at if same and history.allocated_at is not None else now
        # The version before counts as well: a list may be emptied by the very write that this process sees.
        full = any(c is not None and len(c.entries) >= _NEARLY_FULL for c in (before, claim))
        # An allocation of the first version seen may be of any age: only an observed change says when it was made.
        made = before is not None and allocation is not None and not same
        known = made or (same and history.seen_allocated) or self._lists_workload(claim)
        # A write of metadata alone starts no pause between writes of the list.
        written = ours and before is not None and before.status != claim.status
        # Without waiting pods, the end of an allocation is no revocation, and delays no later one.
        taken_back = earlier is not None and allocation is None and bool(self.stages[Stage.WAITING])
        closed = history.closed_since if same else None
        if allocation is None or self._admits_unlisted(claim):
            closed = None
        elif closed is None and self._may_have_been_open(before, same=same):
            closed = now
        guarded = history.guarded_since if same else None
        # An earlier process made this guard, and its memory of the pods that it had unlisted is lost.
        if before is None and guard_entry(claim) in claim.entries:
            guarded = now
        deleting = claim.metadata.deleting
        since = history.deleting_since if history.deleting_since is not None else now
        self.history = msgspec.structs.replace(
            history,
            nearly_full_at=now if full else history.nearly_full_at,
            allocated_at=None if allocation is None else allocated_at,
            unused_since=history.unused_since if same else None,
            nodes_deleted_since=history.nodes_deleted_since if same else None,
            podless_since=kept if podless else None,
            entered=self._entered(before, claim, ours=ours),
            seen_allocated=known,
            closed_since=closed,
            guarded_since=guarded,
            deleting_since=since if deleting else None,
            leftover_at=_leftover_at(history.leftover_at, claim, freed=ours and earlier is not None, now=now),
            written_at=now if written else history.written_at,
            revocations=history.revocations + 1 if taken_back else history.revocations,
        )

    def _entered(self, before: ResourceClaim | None, claim: ResourceClaim, *, ours: bool) -> frozenset[Uid]:
        """Return the workloads whose entries the list of the present allocation has held; see `ObservedHistory`."""
        listed = _workloads_listed(claim)
        if before is None or before.status.allocation != claim.status.allocation:
            return listed
        marks = (version.metadata.annotation(workload_reservations.ENTERED_ALLOCATION) for version in (before, claim))
        if tuple(mark is not None for mark in marks) == (True, False):
            return frozenset()
        earlier = _workloads_listed(before)
        removed = earlier - listed if ours else frozenset()
        return (self.history.entered - removed) | (listed - earlier)

    def _admits_unlisted(self, claim: ResourceClaim) -> bool:
        """Return whether an entry admits unlisted pods: a PodGroup's, or a non-pod entry with the fields of the KEP."""
        return any(e.is_pod_group for e in claim.entries) or claim.admits_any_pod

    def _native_any_pod(self) -> bool:
        reservation = self.reservation
        return reservation is not None and reservation.native and reservation.any_pod

    def _may_have_been_open(self, before: ResourceClaim | None, *, same: bool) -> bool:
        """Return whether an entry for many pods was, or may have been, in the list until a moment ago."""
        if before is None or not same:
            return self._native_any_pod()
        return self._admits_unlisted(before)

    def _lists_workload(self, claim: ResourceClaim) -> bool:
        reference = self.reservation.reference if self.reservation is not None else None
        return reference is not None and any(e.uid == reference.uid for e in claim.entries)

    def pods_off_allocation(self, nodes: NodeIndex) -> frozenset[Uid]:
        """Return the pods that are bound to nodes outside of the allocation, which must not be listed.

        A started pod that is listed stays so: it was admitted when its node was right, and its kubelet does not check
        again.
        """
        inside = self.reachable_nodes
        if inside is None:
            return frozenset()
        unlisted = (
            c
            for c in self.stages[Stage.STARTED].values()
            if self.entry_histories.get(c.uid, UNLISTED).listed_since is None
        )
        bound = (*self.stages[Stage.STARTING].values(), *unlisted)
        return frozenset(c.uid for c in bound if c.node in nodes and c.node not in inside)


def _workloads_listed(claim: ResourceClaim) -> frozenset[Uid]:
    """Return the uids of the entries of workloads, and of other objects that this controller does not know."""
    return frozenset(e.uid for e in claim.entries if not e.is_pod and e.api_group != ENTRY_API_GROUP)


def _leftover_at(known: Instant | None, claim: ResourceClaim, *, freed: bool, now: Instant) -> Instant | None:
    """Return when the finalizer counts as left behind by a deallocation whose second write failed.

    The scheduler adds the finalizer right before it allocates, so a finalizer alone proves nothing until a scheduling
    cycle would have ended. A known deallocation needs no such wait: either this controller wrote it, or the annotation
    of that allocation is still there.
    """
    if claim.status.allocation is not None or not claim.protected:
        return None
    if known is not None:
        return known
    certain = freed or claim.metadata.annotation(workload_reservations.ENTERED_ALLOCATION) is not None
    return now if certain else now + BIND_HORIZON
