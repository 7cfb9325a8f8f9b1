"""What a decision about one claim may look at: everything known of it at one instant, immutable, possibly stale."""

from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from typing import Final

import msgspec

from dra.engine.claims.consumers import DEFAULT_GRACE_PERIOD, Consumer, Stage
from dra.engine.claims.reasons import Code, Reason, claim_reason
from dra.engine.claims.window import NO_LISTINGS, EntryHistory
from dra.engine.devices.ledger import DeviceConflict
from dra.engine.devices.taints import TaintedResult
from dra.engine.instants import BIND_HORIZON, NEVER, SLOW_BIND_HORIZON, WATCH_OUTAGE_UNNOTICED, Instant
from dra.engine.reservations.claim_holders import ClaimHolder
from dra.model import workload_reservations
from dra.model.claims import AllocationResult, ResourceClaim
from dra.model.meta import Key, Struct, Uid
from dra.model.references import ConsumerReference
from dra.model.workload_reservations import WorkloadReservation

ENTRY_API_GROUP: Final = "reserve.dra"
GUARD_RESOURCE: Final = "guards"
"""Resource of the guard entry: no scheduler deallocates a list that holds an entry it does not understand."""

NODE_MONITOR_GRACE: Final = 70.0
"""Seconds within which the kubelet of a node that is Ready has been at work: the node controller's patience (40 s, 50 s
since 1.32) and its period of 5 s, and some for the kubelet to end what it was told to."""

TOMBSTONE_RESOURCE: Final = "finishedpods"
"""Resource of a tombstone: stands in for a finished pod that the stock controller would list again and again."""


LOST_NODE_RESOURCE: Final = "lostnodes"
"""Resource of an entry that stands for pods which vanished from a node while it did not report in."""


class EntryKind(StrEnum):
    """What an entry of ``status.reservedFor`` stands for."""

    WORKLOAD = "workload"  # the claim's own reference, by uid
    FORMER = "former"  # entered for an object of that name before this one, or before the reference was edited
    GUARD = "guard"
    TOMBSTONE = "tombstone"
    LIVE = "live"  # a pod that is there and unfinished
    FINISHED = "finished"  # a pod that ended, or is certainly gone
    UNKNOWN = "unknown"  # a pod nobody has looked up yet, or whose entry contradicts what is seen of it: counts as live
    VANISHED = "vanished"  # a pod whose object went before its containers had ended, as far as anybody has told
    LOST_NODE = "lost-node"  # a node that does not report in, on which pods may run whose objects are gone
    GROUP = "group"  # a PodGroup: its pods need no entries of their own
    RESERVATION = "reservation"  # keeps the claim for pods to come
    FOREIGN = "foreign"  # neither a pod nor ours: untouched


class WorkloadPhase(StrEnum):
    """What is known of the object that a claim is reserved for."""

    UNKNOWN = "unknown"  # not looked at yet, or unreachable
    ABSENT = "absent"  # nothing of that name is there now
    PRESENT = "present"
    FINISHED = "finished"  # its release rule says that it will create no more pods
    FORBIDDEN = "forbidden"  # we may not read the kind
    NO_KIND = "no-kind"  # the API server does not serve the kind
    OVER_LIMIT = "over-limit"  # claims of the namespace name more kinds than are watched for one namespace


class WorkloadState(Struct, frozen=True):
    """The object under the name of the reference, and the uids of its predecessors that are certainly gone."""

    phase: WorkloadPhase = WorkloadPhase.UNKNOWN
    uid: Uid = workload_reservations.NO_UID
    gone: frozenset[Uid] = frozenset()
    rule_error: str = ""
    """Why nobody can tell whether its release rule holds; empty where the rule has an answer, or there is no rule."""


class ReservedForEntry(Struct, frozen=True):
    """An entry with what is known about it."""

    reference: ConsumerReference
    kind: EntryKind
    consumer: Consumer | None = None
    group: WorkloadState = WorkloadState()
    """Of the entry of a PodGroup, what is known of the object under its name."""

    asked: Instant | None = None
    """When a live read last showed that the pod is there, if it does not reference the claim or is not bound."""


class OwningPodPhase(StrEnum):
    """What is known of the pod that a claim was made for."""

    NONE = "none"  # the claim was made for no pod
    UNKNOWN = "unknown"  # gone or not seen yet: the garbage collector's business
    PRESENT = "present"
    DONE = "done"  # it has ended, or was deleted before it was bound
    REPLACED = "replaced"  # another pod has its name
    GONE = "gone"  # certainly; the garbage collector will see to what it leaves


class LostNode(Struct, frozen=True):
    """A node on which pods may still run whose objects are gone."""

    name: str
    boot: str = ""
    """The bootID that they ran under; empty if it is not known."""

    ready_since: Instant | None = None
    """Since when its kubelet reports in again; None while it does not."""

    grace: float = DEFAULT_GRACE_PERIOD
    """Seconds: the longest grace period of these pods, as far as it is known. The list of the claim does not tell."""

    read: Instant = -NEVER
    """When a live read last told of the node: the nodes watch may be behind."""


class VanishedPod(Struct, frozen=True):
    """A pod whose object went before anybody told that its containers had ended: by force, or while we were away.

    Its kubelet learns of that by a watch, and then gives the containers their grace period.
    """

    uid: Uid
    node: str = ""
    """Where it ran; empty if that is not known."""

    boot: str = ""
    """The bootID that it ran under; empty if that is not known."""

    grace: float = DEFAULT_GRACE_PERIOD
    since: Instant | None = None
    """Since when it is known; None: since the next look."""

    guard: bool = False
    """Whether it is the guard that the claim was first seen with, as after a restart: that may stand for such pods."""

    @property
    def patience(self) -> float:
        """Seconds within which a kubelet that reports in ends the containers."""
        return self.grace + NODE_MONITOR_GRACE + (0.0 if self.node else WATCH_OUTAGE_UNNOTICED)

    @property
    def ended_at(self) -> Instant:
        """Return from when on a kubelet that reports in then has ended the containers."""
        return (NEVER if self.since is None else self.since) + self.patience


class UsableNodes(Struct, frozen=True):
    """How many usable nodes (ready, not cordoned) the allocation reaches, and how many it does not."""

    inside: int = 0
    outside: int = 0


class Placements(Struct, frozen=True):
    """Evidence for rule 9: where the pods that wait for an allocated claim could run, by a live read."""

    allocation: AllocationResult
    """The allocation that the question was about."""

    at: Instant
    pods: frozenset[Uid] = frozenset()
    """The pods that were looked at."""

    here: frozenset[Uid] = frozenset()
    """Pods that a node of the allocation could take as things are."""

    elsewhere: frozenset[Uid] = frozenset()
    """Pods that could run with other devices, if the allocation were taken back."""

    only_lacks_room: bool = False
    """Whether a node of the allocation would suit a pod, and only lacks room."""

    gone: str = ""
    """A device of the allocation that no driver offers any more, or that a taint ends pods on."""

    fault: str = ""
    """Why the question could not be answered; empty if it was."""

    repeated: int = 0
    """How often in a row no other placement was found."""


class ObservedHistory(Struct, frozen=True):
    """What was observed of the claim over time; lost at a restart, so every rule must be safe without it."""

    first_seen: Instant = 0.0
    written_at: Instant | None = None
    """When we last wrote the status."""

    full_at: Instant | None = None
    """When the list last had hardly any room."""

    allocated_at: Instant | None = None
    """When the present allocation was first seen; None while there is none."""

    podless_since: Instant | None = None
    """Since when no pod has been in the list of the present allocation; None while one is."""

    closed_since: Instant | None = None
    """Since when no entry of the present allocation lets pods in that are not listed; None while one does, or none did.

    Where nobody knows, as after a restart, that is since the claim was first seen.
    """

    guarded_since: Instant | None = None
    """When the present allocation was first seen, if a guard was in its list then, as after a restart."""

    deleting_since: Instant | None = None
    """When the deletion timestamp was first seen."""

    leftover_at: Instant | None = None
    """From when on the finalizer of an unallocated claim is known to be a leftover; None while there is none."""

    seen_allocated: bool = False
    """Whether we saw the present allocation come into being, or an entry of the workload in its list."""

    returned: int = 0
    """Entries of started or finished pods that came back after we had removed them."""

    revocations: int = 0
    """How often the allocation was taken back since the claim was last consumed."""


class ClaimView(msgspec.Struct, frozen=True, dict=True, kw_only=True):
    """One claim and its consumers."""

    claim: ResourceClaim
    reservation: WorkloadReservation | None = None
    malformed: str = ""
    workload: WorkloadState = WorkloadState()
    former: WorkloadState = WorkloadState()
    """What is known of the object that the claim was reserved for before its reference was edited."""

    entries: tuple[ReservedForEntry, ...] = ()
    gated: tuple[Consumer, ...] = ()
    waiting: tuple[Consumer, ...] = ()
    starting: tuple[Consumer, ...] = ()
    started: tuple[Consumer, ...] = ()
    finished: tuple[Consumer, ...] = ()
    listings: Mapping[Uid, EntryHistory] = NO_LISTINGS
    excluded: frozenset[Uid] = frozenset()
    """Bound pods on nodes that the allocation's nodeSelector excludes."""

    held_up: frozenset[Uid] = frozenset()
    """Gated pods that another of their claims is not ready for."""

    conflicts: tuple[DeviceConflict, ...] = ()
    """Devices of the allocation that another claim holds as well."""

    taints: tuple[TaintedResult, ...] = ()
    """Devices of the allocation with taints that end pods, unless they are tolerated."""

    owner: OwningPodPhase = OwningPodPhase.NONE
    holds: tuple[ClaimHolder, ...] = ()
    """The reservations that hold the claim, or did; none where nobody tells of reservations."""

    nodes: UsableNodes = UsableNodes()
    placements: Placements | None = None
    """Where waiting pods could run, if that was asked for the present allocation."""

    lost_nodes: tuple[LostNode, ...] = ()
    vanished: tuple[VanishedPod, ...] = ()
    """Pods whose containers may still run although their objects are gone."""

    silent_nodes: tuple[str, ...] = ()
    """Nodes that do not report in and that such a pod may have run on, where nobody knows on which it did."""

    other_users: tuple[Consumer, ...] = ()
    """Listed pods that are there and do not reference the claim, if a release by force is asked for."""

    stranded: frozenset[Uid] = frozenset()
    """Bound pods whose node is gone or does not report in; looked up only if a release by force is asked for."""

    history: ObservedHistory = ObservedHistory()
    pace: float = BIND_HORIZON
    """Seconds for which a scheduling cycle that already runs may still bind its pod, by what was observed lately."""

    @property
    def key(self) -> Key:
        """(namespace, name) of the claim."""
        return self.claim.metadata.key

    @property
    def allocation(self) -> AllocationResult | None:
        """The present allocation."""
        return self.claim.status.allocation

    @cached_property
    def listed(self) -> frozenset[Uid]:
        """The uids of all entries."""
        return frozenset(e.reference.uid for e in self.entries)

    @property
    def consuming(self) -> int:
        """How many pods consume the claim, by all that is known."""
        return len(self.starting) + len(self.started)

    @property
    def users(self) -> tuple[Consumer, ...]:
        """The consuming pods, and the other listed ones that are bound and not finished."""
        return (*self.starting, *self.started, *(c for c in self.other_users if c.consuming))

    @property
    def unfinished(self) -> int:
        """How many pods reference the claim and are not finished."""
        return self.consuming + len(self.waiting) + len(self.gated)

    @property
    def entered_before(self) -> bool:
        """Whether the workload entry was made for this very allocation: if it is missing, its owner released it."""
        found, allocation = self.reservation, self.allocation
        if found is None or allocation is None:
            return False
        if self.any_pod:
            return True
        return found.entered == workload_reservations.allocation_digest(allocation)

    @property
    def any_pod(self) -> bool:
        """Whether the allocation itself lets any referencing pod in, and says so in a field of the API."""
        return self.reservation is not None and self.reservation.native and self.reservation.any_pod

    @property
    def unsure(self) -> bool:
        """Whether nobody can tell if the owner released the claim, or the mark is that of an equal allocation before.

        So it is for allocations without a timestamp (made by schedulers up to 1.35) that were there when we came.
        """
        allocation = self.allocation
        timeless = allocation is not None and allocation.allocation_timestamp is None
        return timeless and not self.history.seen_allocated and self.entered_before

    def reason(self, code: Code, *, done: bool = False, **numbers: str | int) -> Reason:
        """Return a reason about the claim; ``done`` if it tells of something that a write of this decision does."""
        return claim_reason(code, key=self.key, uid=self.claim.metadata.uid, done=done, **numbers)

    @property
    def horizon(self) -> float:
        """For how many seconds a cycle that already runs may still bind a pod that nobody has seen."""
        results = self.allocation.devices.results if self.allocation is not None else None
        slow = any(result.binding_conditions for result in results or ())
        return SLOW_BIND_HORIZON if slow else self.pace

    def bind_horizon(self, consumer: Consumer) -> float:
        """Return for how many seconds a cycle that already runs may still bind the pod to this allocation."""
        return max(self.horizon, consumer.bind_horizon)

    @property
    def open(self) -> bool:
        """Whether an entry lets pods in that are not listed, so that binding them writes nothing on the claim."""
        return bool(self.groups) or self.claim.admits_any_pod

    @property
    def closed_since(self) -> Instant | None:
        """Since when no entry lets pods in that are not listed; None while one does, or none did.

        A guard that was there before us may have taken the place of a PodGroup's entry a moment before. So it counts
        for one where a PodGroup is known of: pods of one use the claim, or the claim is reserved for one. And where a
        release by force is under way: it takes out entries of PodGroups that are there, for pods to come.
        """
        known, guarded = self.history.closed_since, self.history.guarded_since
        if known is not None or guarded is None or self.open:
            return known
        users = (*self.gated, *self.waiting, *self.starting, *self.started, *self.finished)
        reserved = self.reservation is not None and self.reservation.reference.is_pod_group
        forced = self.claim.metadata.annotation(workload_reservations.FORCE_RELEASE) == self.claim.metadata.uid
        return guarded if reserved or forced or any(consumer.gang for consumer in users) else None

    def unseen_bindable_until(self, *, now: Instant) -> Instant:
        """Return until when pods may be bound without a write of the claim, pods that nobody has seen included.

        While an entry for many is in the list, that is a bind horizon from now. A claim under deletion lets no pod in.
        """
        closed = now if self.open else self.closed_since
        if closed is None:
            return -NEVER
        if self.claim.metadata.deleting and self.history.deleting_since is not None:
            closed = min(closed, self.history.deleting_since)
        return closed + self.horizon

    def covers(self, consumer: Consumer) -> bool:
        """Whether an entry for many lets the pod in, so that it is bound without a write: its PodGroup's, or any pod's.

        Upstream compares the names of PodGroups only.
        """
        if self.claim.admits_any_pod:
            return True
        return bool(consumer.gang) and consumer.gang in self.groups

    @cached_property
    def groups(self) -> frozenset[str]:
        """The names of the PodGroups in the list."""
        return frozenset(e.reference.name for e in self.entries if e.reference.is_pod_group)

    def of(self, kind: EntryKind) -> tuple[ReservedForEntry, ...]:
        """Return the entries of one kind."""
        return tuple(e for e in self.entries if e.kind is kind)

    @cached_property
    def kinds(self) -> frozenset[EntryKind]:
        """The kinds of entries that are in the list."""
        return frozenset(e.kind for e in self.entries)


def guard_entry(claim: ResourceClaim) -> ConsumerReference:
    """Return the guard entry of a claim: its own uid, so that it can never be doubled."""
    return ConsumerReference(
        api_group=ENTRY_API_GROUP, resource=GUARD_RESOURCE, name=claim.metadata.name, uid=claim.metadata.uid
    )


def tombstone_entry(entry: ConsumerReference) -> ConsumerReference:
    """Return the entry that takes the place of a finished pod's: same uid, so it is a change in place."""
    return ConsumerReference(api_group=ENTRY_API_GROUP, resource=TOMBSTONE_RESOURCE, name=entry.name, uid=entry.uid)


def lost_node_entry(node: str, boot: str) -> ConsumerReference:
    """Return the entry for pods that vanished from a node in that boot: one for all of them."""
    return ConsumerReference(
        api_group=ENTRY_API_GROUP, resource=LOST_NODE_RESOURCE, name=node, uid=Uid(f"{node}/{boot}")
    )


def lost_node_boot_id(entry: ConsumerReference) -> str | None:
    """Return the bootID of such an entry; None if it is another one."""
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
    asked: Instant | None = None,
    group: WorkloadState | None = None,
    holders: bool = False,
) -> ReservedForEntry:
    """Tell what an entry stands for by what is known of the pod of that uid.

    ``consumer`` is that pod if it references the claim, ``gone`` tells that it certainly ended or exists no more, and
    ``vanished`` that it exists no more and its containers may run all the same,
    ``stranger`` that it is there and does not reference the claim: whoever listed it had a reason that we do not know.
    ``group`` is what is known of the PodGroup that the entry names, if it names one. ``holders`` tells whether anybody
    knows of reservations.
    """
    kind = EntryKind.FOREIGN
    if reservation is not None and entry.uid == reservation.reference.uid:
        kind = EntryKind.WORKLOAD
    elif reservation is not None and reservation.former and entry.uid == reservation.former and not entry.is_pod:
        kind = EntryKind.FORMER
    elif reservation is not None and _is_same_object_name(entry, reservation.reference):
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
    return ReservedForEntry(reference=entry, kind=kind, consumer=consumer, asked=asked)


def _kind_of_pod_entry(consumer: Consumer) -> EntryKind:
    """Tell what a pod's own entry stands for: the claims watch may be ahead of the pods watch."""
    if consumer.stage is Stage.FINISHED:
        return EntryKind.FINISHED
    return EntryKind.UNKNOWN if consumer.unlistable else EntryKind.LIVE


def _kind_of_own_entry(entry: ConsumerReference) -> EntryKind | None:
    if entry.api_group == ENTRY_API_GROUP and entry.resource == GUARD_RESOURCE:
        return EntryKind.GUARD
    if entry.api_group == ENTRY_API_GROUP and entry.resource == TOMBSTONE_RESOURCE:
        return EntryKind.TOMBSTONE
    return EntryKind.LOST_NODE if lost_node_boot_id(entry) is not None else None


def _is_same_object_name(entry: ConsumerReference, reference: ConsumerReference) -> bool:
    return (entry.api_group, entry.resource, entry.name) == (
        reference.api_group,
        reference.resource,
        reference.name,
    )
