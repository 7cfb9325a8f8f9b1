"""The immutable snapshot for one decision about one claim: everything known at one instant, possibly stale."""

from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from typing import Final

import msgspec

from dra.engine.claims.claim_holders import ClaimHolder
from dra.engine.claims.codes import Code
from dra.engine.claims.consumers import DEFAULT_GRACE_PERIOD, Consumer, Stage
from dra.engine.claims.reasons import Reason, claim_reason
from dra.engine.claims.window import NO_ENTRY_HISTORIES, EntryHistory
from dra.engine.devices.ledger import DeviceConflict
from dra.engine.devices.taints import TaintedResult
from dra.engine.instants import BIND_HORIZON, NEVER, SLOW_BIND_HORIZON, WATCH_OUTAGE_UNNOTICED, Instant
from dra.model import workload_reservations
from dra.model.autoscalers import DeletionSign
from dra.model.claims import AllocationResult, ResourceClaim
from dra.model.meta import Key, Struct, Uid
from dra.model.references import ConsumerReference
from dra.model.workload_reservations import WorkloadReservation

ENTRY_API_GROUP: Final = "reserve.dra"
GUARD_RESOURCE: Final = "guards"
"""Resource of the guard entry: no scheduler deallocates a claim whose list holds an unknown kind of entry."""

NODE_MONITOR_GRACE: Final = 70.0
"""Seconds within which the kubelet of a Ready node has been at work: the grace period of the node controller (40 s, 50
s since 1.32), its period of 5 s, and a margin for the kubelet to end the pods it was ordered to end."""

TOMBSTONE_RESOURCE: Final = "finishedpods"
"""Resource of a tombstone, which replaces the entry of a finished pod that the stock controller would list
repeatedly."""


LOST_NODE_RESOURCE: Final = "lostnodes"
"""Resource of an entry for pods that vanished from a node while it did not report in."""


class EntryKind(StrEnum):
    """The kind of object that an entry of ``status.reservedFor`` stands for."""

    WORKLOAD = "workload"  # the object of the claim's own reference, by uid
    FORMER = "former"  # entered for a predecessor of that name, or before the reference was edited
    GUARD = "guard"
    TOMBSTONE = "tombstone"
    LIVE = "live"  # a pod that exists and is unfinished
    FINISHED = "finished"  # a pod that ended, or is certainly deleted
    UNKNOWN = "unknown"  # a pod not looked up yet, or whose entry contradicts its observed state: counts as live
    VANISHED = "vanished"  # a pod whose object was deleted before its containers were reported to have ended
    LOST_NODE = "lost-node"  # a node that does not report in, on which pods without objects may run
    GROUP = "group"  # a PodGroup: its pods need no entries of their own
    RESERVATION = "reservation"  # keeps the claim for future pods
    FOREIGN = "foreign"  # neither a pod nor this project's: untouched


KEEPING_KINDS: Final = frozenset({EntryKind.WORKLOAD, EntryKind.FORMER, EntryKind.GROUP, EntryKind.RESERVATION})
"""Kinds of entries that keep a claim allocated for future pods."""


class WorkloadPhase(StrEnum):
    """The known state of the object that a claim is reserved for."""

    UNKNOWN = "unknown"  # not read yet, or unreachable
    ABSENT = "absent"  # no object of that name exists now
    PRESENT = "present"
    FINISHED = "finished"  # its release rule says that it creates no further pods
    FORBIDDEN = "forbidden"  # reading the kind is not permitted
    NO_KIND = "no-kind"  # the API server does not serve the kind
    OVER_LIMIT = "over-limit"  # claims of the namespace name more kinds than are watched for one namespace


class WorkloadState(Struct, frozen=True):
    """The object that has the name of the reference, and the uids of its predecessors that are certainly gone."""

    phase: WorkloadPhase = WorkloadPhase.UNKNOWN
    uid: Uid = workload_reservations.NO_UID
    gone: frozenset[Uid] = frozenset()
    rule_error: str = ""
    """Why the release rule could not be evaluated; empty if it was, or if there is no rule."""

    suspended: bool = False
    """Whether the object exists and is suspended: its controller creates no pods until the object is resumed."""


class ReservedForEntry(Struct, frozen=True):
    """An entry of ``status.reservedFor`` with the known state of its object."""

    reference: ConsumerReference
    kind: EntryKind
    consumer: Consumer | None = None
    group: WorkloadState = WorkloadState()
    """For the entry of a PodGroup: the known state of the object under its name."""

    live_read_at: Instant | None = None
    """When a live read last showed that the pod exists, if the pod does not reference the claim or is not bound."""


class OwningPodPhase(StrEnum):
    """The known state of the pod that a claim was generated for."""

    NONE = "none"  # the claim was not generated for a pod
    UNKNOWN = "unknown"  # deleted or not seen yet: left to the garbage collector
    PRESENT = "present"
    DONE = "done"  # ended, or deleted before it was bound
    REPLACED = "replaced"  # another pod has its name
    GONE = "gone"  # certainly deleted; the garbage collector handles its dependents


class LostNode(Struct, frozen=True):
    """A node on which pods may still run although their objects are deleted."""

    name: str
    boot_id: str = ""
    """BootID that these pods ran under; empty if unknown."""

    ready_since: Instant | None = None
    """When its kubelet began to report in again; None while it does not."""

    grace: float = DEFAULT_GRACE_PERIOD
    """Longest known grace period of these pods in seconds. The list of the claim does not record grace periods."""

    live_read_at: Instant = -NEVER
    """When the node was last read live: the nodes watch may be behind."""


class VanishedPod(Struct, frozen=True):
    """A pod whose object was deleted before its containers were reported to have ended.

    The deletion was forced, or happened while this process was down. The kubelet learns of the deletion from its watch,
    and then grants the containers their grace period.
    """

    uid: Uid
    node: str = ""
    """Node that the pod ran on; empty if unknown."""

    boot_id: str = ""
    """BootID that the pod ran under; empty if unknown."""

    grace: float = DEFAULT_GRACE_PERIOD
    since: Instant | None = None
    """When the pod was found to have vanished; None stands for the next decision."""

    guard: bool = False
    """Whether this is the guard that the claim was first seen with, as after a restart: a guard may stand for such
    pods."""

    @property
    def seconds_to_end(self) -> float:
        """Return the seconds within which a kubelet that reports in ends the containers."""
        return self.grace + NODE_MONITOR_GRACE + (0.0 if self.node else WATCH_OUTAGE_UNNOTICED)

    @property
    def ended_at(self) -> Instant:
        """Return the instant by which a kubelet that reports in has ended the containers."""
        return (NEVER if self.since is None else self.since) + self.seconds_to_end


class NodeDeletionSign(Struct, frozen=True):
    """A node of the allocation with the sign that an autoscaler may delete the node."""

    node: str
    sign: DeletionSign


class UsableNodes(Struct, frozen=True):
    """The numbers of usable nodes (ready, not cordoned) that the allocation reaches and does not reach."""

    inside: int = 0
    outside: int = 0
    all_deleted: bool = False
    """Whether the allocation names its nodes, and no Node object of these names exists."""


class Placements(Struct, frozen=True):
    """Evidence for the rule Unstick from a live read: where pods that wait for an allocated claim could run."""

    allocation: AllocationResult
    """Allocation that the lookup was about."""

    at: Instant
    read_at: Instant = -NEVER
    """When the read of nodes and pods began; the search for placements may take seconds."""

    pods: frozenset[Uid] = frozenset()
    """Pods that were examined."""

    fit_here: frozenset[Uid] = frozenset()
    """Pods that a node of the allocation could take at present."""

    fit_elsewhere: frozenset[Uid] = frozenset()
    """Pods that could run with other devices if the allocation were revoked."""

    only_lacks_room: bool = False
    """Whether a node of the allocation suits a pod and only lacks room."""

    nodes_deleted: bool = False
    """Whether the allocation names its nodes, and no Node object of these names exists."""

    unbindable_nominations: frozenset[tuple[Uid, str]] = frozenset()
    """Pods with the node of their nomination, if no binding cycle is expected there: the node does not exist, the
    allocation does not name the node, or the node has no room for the pod."""

    lost_device: str = ""
    """A device of the allocation that no driver offers any longer, or whose taint evicts pods."""

    error: str = ""
    """Why the lookup failed; empty if it succeeded."""

    repeated: int = 0
    """Number of consecutive lookups that found no other placement."""


class ObservedHistory(Struct, frozen=True):
    """The observed history of a claim; lost at a restart, so every rule must be safe without it."""

    first_seen: Instant = 0.0
    written_at: Instant | None = None
    """When this controller last wrote the status."""

    nearly_full_at: Instant | None = None
    """When the list was last nearly full."""

    allocated_at: Instant | None = None
    """When the present allocation was first seen; None while there is none."""

    unused_since: Instant | None = None
    """Since when no bound pod has used the present allocation; None while a pod uses it, or without an allocation."""

    nodes_deleted_since: Instant | None = None
    """Since when no node that the present allocation names has existed; None while one exists, or if it names none."""

    podless_since: Instant | None = None
    """Since when the list of the present allocation has held no pod; None while it holds one."""

    closed_since: Instant | None = None
    """Since when no entry of the present allocation admits unlisted pods; None while an entry does, or if none ever
    did.

    If that is unknown, as after a restart, the value is the instant at which the claim was first seen.
    """

    guarded_since: Instant | None = None
    """When the present allocation was first seen, if its list held a guard then, as after a restart."""

    deleting_since: Instant | None = None
    """When the deletion timestamp was first seen."""

    leftover_at: Instant | None = None
    """When the finalizer of an unallocated claim counts as left behind; None while it does not."""

    entered: frozenset[Uid] = frozenset()
    """Workloads whose entries the list of the present allocation has held, whether or not an annotation records that.

    Entries that this controller removed do not count, and none does once the annotations of the entry are removed.
    """

    seen_allocated: bool = False
    """Whether the present allocation was seen to be made, or to have the workload's entry in its list."""

    returned: int = 0
    """Entries of started or finished pods that reappeared after this controller had removed them."""

    revocations: int = 0
    """Number of revocations of the allocation since the claim was last consumed."""


class ClaimView(msgspec.Struct, frozen=True, dict=True, kw_only=True):
    """The snapshot of one claim and its consumers that a decision reads."""

    claim: ResourceClaim
    reservation: WorkloadReservation | None = None
    malformed: str = ""
    workload: WorkloadState = WorkloadState()
    former: WorkloadState = WorkloadState()
    """Known state of the object that the claim was reserved for before its reference was edited."""

    entries: tuple[ReservedForEntry, ...] = ()
    gated: tuple[Consumer, ...] = ()
    waiting: tuple[Consumer, ...] = ()
    starting: tuple[Consumer, ...] = ()
    started: tuple[Consumer, ...] = ()
    finished: tuple[Consumer, ...] = ()
    entry_histories: Mapping[Uid, EntryHistory] = NO_ENTRY_HISTORIES
    excluded: frozenset[Uid] = frozenset()
    """Bound pods on nodes that the allocation's nodeSelector excludes."""

    awaiting_other_claims: frozenset[Uid] = frozenset()
    """Gated pods whose other claims are not ready."""

    conflicts: tuple[DeviceConflict, ...] = ()
    """Devices of the allocation that another claim holds as well."""

    taints: tuple[TaintedResult, ...] = ()
    """Devices of the allocation with taints that evict pods, unless tolerated."""

    owning_pod: OwningPodPhase = OwningPodPhase.NONE
    holds: tuple[ClaimHolder, ...] = ()
    """Reservations that hold, or held, the claim; empty where reservations are not observed."""

    usable_nodes: UsableNodes = UsableNodes()
    deletion_signs: tuple[NodeDeletionSign, ...] = ()
    """Nodes that an autoscaler may delete: all existing nodes that the allocation names, or none."""

    placements: Placements | None = None
    """Where waiting pods could run, if that was looked up for the present allocation."""

    lost_nodes: tuple[LostNode, ...] = ()
    vanished: tuple[VanishedPod, ...] = ()
    """Pods whose containers may still run although their objects are gone."""

    silent_nodes: tuple[str, ...] = ()
    """Nodes that do not report in and may have run a vanished pod whose node is unknown."""

    other_users: tuple[Consumer, ...] = ()
    """Listed pods that exist and do not reference the claim; set only if a forced release is requested."""

    pods_on_silent_nodes: frozenset[Uid] = frozenset()
    """Bound pods whose node is gone or does not report in; set only if a forced release is requested."""

    history: ObservedHistory = ObservedHistory()
    observed_bind_horizon: float = BIND_HORIZON
    """Seconds for which a scheduling cycle that already runs may still bind its pod, by recent observations."""

    previous_writes_until: Instant = -NEVER
    """Until when late writes of another leader may arrive: nothing is deallocated before."""

    contended: bool = False
    """Whether a write of this reconciliation failed with a conflict: other clients write the claim as well."""

    @property
    def key(self) -> Key:
        """Return namespace and name of the claim."""
        return self.claim.metadata.key

    @property
    def allocation(self) -> AllocationResult | None:
        """Return the claim's present allocation."""
        return self.claim.status.allocation

    @cached_property
    def listed(self) -> frozenset[Uid]:
        """Return the uids of all entries."""
        return frozenset(e.reference.uid for e in self.entries)

    @property
    def consuming(self) -> int:
        """Return the number of pods known to consume the claim."""
        return len(self.starting) + len(self.started)

    @property
    def users(self) -> tuple[Consumer, ...]:
        """Return the consuming pods, and other listed pods that are bound and not finished."""
        return (*self.starting, *self.started, *(c for c in self.other_users if c.is_consuming))

    @property
    def unfinished(self) -> int:
        """Return the number of unfinished pods that reference the claim."""
        return self.consuming + len(self.waiting) + len(self.gated)

    @property
    def entered_before(self) -> bool:
        """Return whether the workload entry was made for this very allocation.

        If the entry is missing now, the owner released it.
        """
        reservation, allocation = self.reservation, self.allocation
        if reservation is None or allocation is None:
            return False
        if self.admits_any_pod or reservation.reference.uid in self.history.entered:
            return True
        return reservation.entered == workload_reservations.allocation_digest(allocation)

    @property
    def is_reserved(self) -> bool:
        """Return whether the claim is reserved for a workload whose pods share the claim."""
        return self.reservation is not None and not self.reservation.single_user

    def was_entered(self, reference: ConsumerReference) -> bool:
        """Return whether the workload's entry was made for this allocation, by the annotations or by what was seen.

        The owner may release the claim before the annotations record the entry.
        """
        return self.entered_before or reference.uid in self.history.entered

    @property
    def admits_any_pod(self) -> bool:
        """Return whether the allocation itself admits any referencing pod by a field of the API."""
        return self.reservation is not None and self.reservation.native and self.reservation.any_pod

    @property
    def is_release_uncertain(self) -> bool:
        """Return whether a release is uncertain, as the entry's annotation may be that of an equal earlier allocation.

        This concerns allocations without a timestamp (made by schedulers up to 1.35) that predate this process.
        """
        allocation = self.allocation
        timeless = allocation is not None and allocation.allocation_timestamp is None
        seen = self.history.seen_allocated or (
            self.reservation is not None and self.reservation.reference.uid in self.history.entered
        )
        return timeless and not seen and self.entered_before

    def reason(self, code: Code, *, done: bool = False, **numbers: str | int) -> Reason:
        """Return a reason about the claim.

        ``done`` marks a reason that reports the effect of this decision's own write.
        """
        return claim_reason(code, key=self.key, uid=self.claim.metadata.uid, done=done, **numbers)

    @property
    def unseen_bind_horizon(self) -> float:
        """Return the seconds for which a cycle that already runs may still bind a pod that was never observed."""
        results = self.allocation.devices.results if self.allocation is not None else None
        slow = any(result.binding_conditions for result in results or ())
        return SLOW_BIND_HORIZON if slow else self.observed_bind_horizon

    def bind_horizon(self, consumer: Consumer) -> float:
        """Return the seconds for which a cycle that already runs may still bind the pod to this allocation."""
        return max(self.unseen_bind_horizon, consumer.bind_horizon)

    @property
    def open(self) -> bool:
        """Return whether an entry admits unlisted pods, so that binding such a pod does not write the claim."""
        return bool(self.groups) or self.claim.admits_any_pod

    @property
    def closed_since(self) -> Instant | None:
        """Return since when no entry admits unlisted pods; None while an entry does, or if none ever did.

        A guard that predates this process may have replaced a PodGroup's entry a moment before. So a guard counts as a
        PodGroup's entry where a PodGroup is known: pods of a PodGroup use the claim, or the claim is reserved for a
        PodGroup. A guard counts likewise during a forced release, which removes the entries of existing PodGroups ahead
        of their future pods.
        """
        known, guarded = self.history.closed_since, self.history.guarded_since
        if known is not None or guarded is None or self.open:
            return known
        users = (*self.gated, *self.waiting, *self.starting, *self.started, *self.finished)
        reserved = self.reservation is not None and self.reservation.reference.is_pod_group
        forced = self.claim.metadata.annotation(workload_reservations.FORCE_RELEASE) == self.claim.metadata.uid
        return guarded if reserved or forced or any(consumer.pod_group for consumer in users) else None

    def unseen_bindable_until(self, *, now: Instant) -> Instant:
        """Return until when pods, including unobserved pods, may be bound without a write of the claim.

        While an entry for many pods is in the list, that is a bind horizon from now. A claim under deletion admits no
        further pod.
        """
        closed = now if self.open else self.closed_since
        if closed is None:
            return -NEVER
        if self.claim.metadata.deleting and self.history.deleting_since is not None:
            closed = min(closed, self.history.deleting_since)
        return closed + self.unseen_bind_horizon

    def is_admitted(self, consumer: Consumer) -> bool:
        """Return whether an entry for many pods admits the pod, so that binding writes nothing.

        The entry is that of the pod's PodGroup, or one for any pod. Upstream compares only the names of PodGroups.
        """
        if self.claim.admits_any_pod:
            return True
        return bool(consumer.pod_group) and consumer.pod_group in self.groups

    @cached_property
    def groups(self) -> frozenset[str]:
        """Return the names of the PodGroups in the list."""
        return frozenset(e.reference.name for e in self.entries if e.reference.is_pod_group)

    def entries_of(self, kind: EntryKind) -> tuple[ReservedForEntry, ...]:
        """Return the entries of one kind."""
        return tuple(e for e in self.entries if e.kind is kind)

    @cached_property
    def kinds(self) -> frozenset[EntryKind]:
        """Return the kinds of entries in the list."""
        return frozenset(e.kind for e in self.entries)


def guard_entry(claim: ResourceClaim) -> ConsumerReference:
    """Return the guard entry of a claim, with the claim's own uid, so that the entry can never be duplicated."""
    return ConsumerReference(
        api_group=ENTRY_API_GROUP, resource=GUARD_RESOURCE, name=claim.metadata.name, uid=claim.metadata.uid
    )


def tombstone_entry(entry: ConsumerReference) -> ConsumerReference:
    """Return the entry that replaces a finished pod's entry: with the same uid, so the list changes in place."""
    return ConsumerReference(api_group=ENTRY_API_GROUP, resource=TOMBSTONE_RESOURCE, name=entry.name, uid=entry.uid)


def lost_node_entry(node: str, boot: str) -> ConsumerReference:
    """Return the one entry for all pods that vanished from a node in that boot."""
    return ConsumerReference(
        api_group=ENTRY_API_GROUP, resource=LOST_NODE_RESOURCE, name=node, uid=Uid(f"{node}/{boot}")
    )


def lost_node_boot_id(entry: ConsumerReference) -> str | None:
    """Return the bootID of a lost node's entry; None for any other entry."""
    if entry.api_group != ENTRY_API_GROUP or entry.resource != LOST_NODE_RESOURCE:
        return None
    return entry.uid.removeprefix(f"{entry.name}/")


def classify_entry(  # noqa: PLR0913 - keyword-only: what is known of whoever it names
    entry: ConsumerReference,
    *,
    reservation: WorkloadReservation | None,
    consumer: Consumer | None,
    gone: bool = False,
    vanished: bool = False,
    stranger: bool = False,
    live_read_at: Instant | None = None,
    group: WorkloadState | None = None,
    holders: bool = False,
) -> ReservedForEntry:
    """Return an entry with its kind, by the known state of the pod with that uid.

    ``consumer`` is that pod if it references the claim. ``gone`` says that the pod certainly ended or no longer exists.
    ``vanished`` says that the pod no longer exists although its containers may run. ``stranger`` says that the pod
    exists and does not reference the claim: its writer had an unknown reason. ``group`` is the known state of the
    PodGroup that the entry names, if any. ``holders`` says whether reservations are observed.
    """
    kind = EntryKind.FOREIGN
    # The uid decides before the kind: a workload may be a pod, or an object that the other branches know as well.
    if reservation is not None and entry.uid == reservation.reference.uid:
        kind = EntryKind.WORKLOAD
    elif reservation is not None and reservation.former and entry.uid == reservation.former and not entry.is_pod:
        kind = EntryKind.FORMER
    elif reservation is not None and _is_same_object_name(entry, reservation.reference):
        # Another uid of the same name is an earlier object; while the reference has no uid, it may be the one meant.
        kind = EntryKind.FORMER if reservation.reference.uid else EntryKind.WORKLOAD
    elif (ours := _kind_of_own_entry(entry)) is not None:
        kind = ours
    elif group is not None:
        return ReservedForEntry(reference=entry, kind=EntryKind.GROUP, group=group)
    elif entry.is_reservation and holders:
        kind = EntryKind.RESERVATION
    elif entry.is_pod:
        if consumer is not None:
            kind = _kind_of_pod_entry(consumer)
        elif not stranger:
            kind = EntryKind.VANISHED if vanished else EntryKind.FINISHED if gone else EntryKind.UNKNOWN
    return ReservedForEntry(reference=entry, kind=kind, consumer=consumer, live_read_at=live_read_at)


def _kind_of_pod_entry(consumer: Consumer) -> EntryKind:
    """Return the kind of a pod's own entry; the claims watch may be ahead of the pods watch."""
    if consumer.stage is Stage.FINISHED:
        return EntryKind.FINISHED
    return EntryKind.UNKNOWN if consumer.is_unlistable else EntryKind.LIVE


def _kind_of_own_entry(entry: ConsumerReference) -> EntryKind | None:
    if entry.api_group == ENTRY_API_GROUP and entry.resource == GUARD_RESOURCE:
        return EntryKind.GUARD
    if entry.api_group == ENTRY_API_GROUP and entry.resource == TOMBSTONE_RESOURCE:
        return EntryKind.TOMBSTONE
    return EntryKind.LOST_NODE if lost_node_boot_id(entry) is not None else None


def _is_same_object_name(entry: ConsumerReference, reference: ConsumerReference) -> bool:
    return (entry.api_group, entry.resource, entry.name) == (reference.api_group, reference.resource, reference.name)
