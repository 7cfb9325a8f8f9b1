"""The claim cache: objects as last observed, and indexes from claims to their consumers.

Observations (``observe_…``, ``forget_…``) update the cache; decisions read views. An observation costs the same however
many pods a claim has, and marks only the affected claims as ``dirty``. Observations of one object may come late but
never backwards: an older resourceVersion is ignored, since the responses to this controller's own writes overtake the
watch.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec

from dra.api.reservations.model import Reservation
from dra.engine.claims import consumers, kept_nodes, vanished_pods
from dra.engine.claims.bind_latency import BindLatency
from dra.engine.claims.claim_state import ClaimState
from dra.engine.claims.consumers import DEFAULT_GRACE_PERIOD, Consumer, Stage
from dra.engine.claims.device_conflicts import DeviceConflicts
from dra.engine.claims.eviction_index import EvictionIndex
from dra.engine.claims.generation.claim_owners import ClaimOwnerView
from dra.engine.claims.generation.owner_index import ClaimOwnerIndex
from dra.engine.claims.kept_nodes import KeptNodes
from dra.engine.claims.node_dependents import NodeDependents
from dra.engine.claims.node_index import NodeChange, NodeIndex, SandboxTracker
from dra.engine.claims.other_claims import waits_for_other_claim
from dra.engine.claims.view import (
    ClaimView,
    OwningPodPhase,
    Placements,
    ReservedForEntry,
    UsableNodes,
    VanishedPod,
    WorkloadState,
    classify_entry,
)
from dra.engine.claims.workload_index import WorkloadIndex, WorkloadKey
from dra.engine.devices.ledger import Ledger
from dra.engine.devices.taints import TaintIndex, TaintScope
from dra.engine.dirty_keys import Cache, DirtyKeys
from dra.engine.instants import Instant
from dra.engine.reservations import placeholders
from dra.model import annotations
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, Uid
from dra.model.nodes import Node, NodeSelector
from dra.model.pods import Pod
from dra.model.resource_versions import is_newer, list_covers

REMEMBERED_DELETED_UIDS: Final = 10_000
"""Uids of deleted objects that are remembered; requests last seconds, so the latest uids are enough."""

NO_CLAIM: Final = ""
"""Placeholder for the claim of pods that name none."""


class ClaimCache(Cache[Key]):
    """The cache of a cluster's claims and of everything that decisions about claims read."""

    def __init__(self, *, annotates_nodes: bool = False) -> None:
        """Create the cache; ``annotates_nodes``: autoscalers are kept from nodes on which claims are kept."""
        self.ledger = Ledger()
        self.taints = TaintIndex()
        self.dirty: DirtyKeys[Key] = DirtyKeys()
        self.owners = ClaimOwnerIndex()
        self.holders = self.owners.holders
        self._gated_without_claim: dict[Uid, Consumer] = {}
        """Pods behind this project's gate that name no claim yet: only templates, whose claims are generated later."""

        self._gone: dict[Uid, float | None] = {}
        """Uids of deleted objects: the response to a request may arrive after the last watch event.

        The value is the number of seconds that the containers of such a pod have to end: an entry may reveal later that
        the pod was bound. The value is None if the pod had ended by then, or was never bound.
        """

        self._records: dict[Key, ClaimState] = {}
        self._consumers: dict[Uid, Consumer] = {}
        self._names: dict[Key, Uid] = {}
        """The pod that currently has a name."""

        self._sandboxes = SandboxTracker()
        self._nodes = NodeIndex()
        self.evictions = EvictionIndex(self.taints, records=self._records)
        self.kept_nodes = KeptNodes(is_enabled=annotates_nodes)
        self._node_dependents = NodeDependents(self._nodes, records=self._records, dirty=self.dirty)
        self._bind_latency = BindLatency()
        self.workloads = WorkloadIndex(dirty=self.dirty)
        self._conflicts = DeviceConflicts(self.ledger, records=self._records, dirty=self.dirty)

    # Claims:

    def observe_claim(self, claim: ResourceClaim, *, now: Instant, ours: bool = False) -> None:
        """Record a claim from a list, a watch, a live read or the response to a write of this controller."""
        key, uid = claim.metadata.key, claim.metadata.uid
        if uid in self._gone:
            return
        if ours and claim.metadata.deleting and not claim.metadata.finalizers:
            # Removing the last finalizer deletes the object; up to 1.37 the response carries the version from before.
            self.forget_claim(key, uid)
            return
        annotations.trim_annotations(claim.metadata)
        record = self._records.get(key)
        if record is None:
            record = self._records[key] = ClaimState(key)
        known = record.claim
        if known is not None and not is_newer(claim.metadata.resource_version, known.metadata.resource_version):
            if ours and known.metadata.uid == uid:
                # The watch overtook the response, possibly with another writer's next version.
                record.mark_written(now=now)
            return
        self.owners.observe_claim(claim, known)
        self.holders.observe_claim(claim, known)
        if known is not None and known.metadata.uid != claim.metadata.uid:
            self.ledger.release(known.metadata.uid)
        record.replace(claim, now=now, ours=ours)
        self.workloads.set_references(key, record.references)
        self._conflicts.observe_claim(record)
        self.dirty.add(key)
        moved = known is None or known.status.allocation != claim.status.allocation
        if moved:
            self._node_dependents.set_allocation(key, claim.status.allocation)
        self.kept_nodes.set_claim(key, self._kept_nodes(record))
        if moved or known is None or known.entries != claim.entries:
            self._mark_companions_dirty(record)

    def forget_claim(self, key: Key, uid: Uid) -> None:
        """Forget the claim with that uid, which is certainly deleted."""
        self._remember_deleted(uid)
        record = self._records.get(key)
        if record is None or record.claim is None or record.claim.metadata.uid != uid:
            return
        self.owners.forget_claim(record.claim)
        self.holders.forget_claim(record.claim)
        self.workloads.set_references(key, ())
        self._node_dependents.set_allocation(key, None)
        self.kept_nodes.set_claim(key, kept_nodes.NO_NODES)
        record.mark_deleted()
        self.dirty.add(key)
        self._conflicts.forget(key, uid)
        self._drop_if_empty(record)

    def reset_claim(self, key: Key, *, now: Instant) -> None:
        """Forget the history of a claim: its record becomes that of a process that has just read the objects."""
        record = self._records.get(key)
        if record is not None:
            record.reset(now=now)

    def claim(self, key: Key) -> ResourceClaim | None:
        """Return the claim as last observed."""
        record = self._records.get(key)
        return record.claim if record is not None else None

    def allocated_claim(self, key: Key) -> ResourceClaim | None:
        """Return the claim as last observed, if it is allocated."""
        claim = self.claim(key)
        return claim if claim is not None and claim.status.allocation is not None else None

    def claims(self) -> Iterator[ResourceClaim]:
        """Yield all claims that exist."""
        return (r.claim for r in self._records.values() if r.claim is not None)

    def records(self) -> Iterator[ClaimState]:
        """Yield the state of each claim, for counting."""
        return iter(self._records.values())

    def consumers(self) -> Iterator[Consumer]:
        """Yield all pods that name claims, whether finished or not."""
        return iter(self._consumers.values())

    # Pods:

    def observe_pod(self, pod: Pod, *, now: Instant) -> None:
        """Record a pod from a list, a watch or a live read."""
        uid = pod.metadata.uid
        if uid in self._gone:
            return
        before = self._consumers.get(uid)
        if before is not None and not is_newer(pod.metadata.resource_version, before.resource_version):
            return
        after = consumers.consumer_of(
            pod,
            before=before,
            started=self._sandboxes.started(pod, boot=self._nodes.boot_id(pod.spec.node_name)),
            now=now,
        )
        self._consumers[uid] = after
        self.owners.observe_pod(pod)
        if before is None or before.stage is not after.stage:
            # Claims generated for the pod, or for a predecessor of the same name, may no longer be needed.
            predecessor = self._names.get(after.key, uid)
            self.dirty.update(self.owners.claims_of(after.key, uid) | self.owners.claims_of(after.key, predecessor))
            self._names[after.key] = uid
        self._node_dependents.move_pod(uid, before.node if before is not None else "", after.node)
        self._update_member(before, after)
        if before is not None and before.stage is Stage.WAITING and after.is_consuming:
            self._bind_latency.observe_bound(before, self._records, now=now)

    def forget_pod(self, uid: Uid, *, certain: bool = True) -> None:
        """Forget a pod that is deleted or, without ``certain``, only no longer relevant to any claim."""
        consumer = self._consumers.pop(uid, None)
        if certain and consumer is not None:
            self._remember_deleted(uid, grace=None if consumer.stage is Stage.FINISHED else consumer.grace)
        elif certain:
            self._remember_deleted(uid)
        self._sandboxes.forget(uid)
        self._gated_without_claim.pop(uid, None)
        self.owners.forget(uid)
        if consumer is None:
            return
        if self._names.get(consumer.key) == uid:
            del self._names[consumer.key]
        self._node_dependents.move_pod(uid, consumer.node, "")
        for name in consumer.claims:
            self._remove_member(consumer, name, gone=certain)
            if certain and consumer.is_consuming:
                self._add_vanished_pod(consumer, (consumer.namespace, name))

    def observe_pod_deleted(self, pod: Pod, *, now: Instant) -> None:
        """Record the last state of a deleted pod: that state may show that its containers had ended, or never began."""
        self.observe_pod(pod, now=now)
        self.forget_pod(pod.metadata.uid)
        if not pod.spec.node_name:
            self._remember_deleted(pod.metadata.uid, grace=None)

    def observe_pod_absent(self, claim: Key, uid: Uid) -> None:
        """Record that a live read found no such pod that could ever run: its entry in the claim's list is stale."""
        record = self._records.get(claim)
        if record is not None and uid not in self._consumers:
            record.absent.add(uid)
            record.present.pop(uid, None)
            self.dirty.add(claim)

    def observe_pod_vanished(self, claim: Key, uid: Uid) -> None:
        """Record that a live read found no such pod: its containers may still run, unless its end was observed.

        The claims watch may be behind the pods watch, and show the entry of a pod that has ended and is deleted.
        """
        record = self._records.get(claim)
        if record is None or uid in self._consumers or uid in record.absent:
            return
        self.observe_pod_absent(claim, uid)
        grace = self._gone.get(uid, DEFAULT_GRACE_PERIOD)
        if grace is not None and record.claim is not None and record.claim.status.allocation is not None:
            vanished_pods.add_vanished(record, self._nodes, VanishedPod(uid, grace=grace))

    def observe_node_read(self, claim: Key, name: str, *, now: Instant) -> None:
        """Record a live read of a node: if it is Ready, pods that vanished from it long enough ago have ended."""
        record = self._records.get(claim)
        if record is None:
            return
        vanished_pods.observe_node_read(record, self._nodes, name, now=now)
        self.dirty.add(claim)

    def observe_pod_present(self, claim: Key, uid: Uid, *, now: Instant) -> None:
        """Record that a live read found the pod.

        Either the pod does not reference the claim, or it is gated, or the watch is behind.
        """
        record = self._records.get(claim)
        if record is not None:
            member = record.consumers.get(uid)
            if member is None or member.is_unlistable:
                record.present[uid] = now
                self.dirty.add(claim)

    def observe_placements(self, claim: Key, placements: Placements) -> None:
        """Record where pods that wait for a claim could run."""
        record = self._records.get(claim)
        if record is not None and record.observe_placements(placements):
            self.dirty.add(claim)

    def consumer(self, uid: Uid) -> Consumer | None:
        """Return the consumer with that uid, None if the pod is unknown."""
        return self._consumers.get(uid)

    # Complete lists: no watch reports the deletion of an object that only a live read showed and a newer list lacks.

    def claims_listed(self, there: Mapping[Key, Uid], version: str) -> None:
        """Forget the claims that a complete list lacks."""
        for key, record in tuple(self._records.items()):
            claim = record.claim
            if claim is None or there.get(key) == claim.metadata.uid:
                continue
            if list_covers(version, claim.metadata.resource_version):
                self.forget_claim(key, claim.metadata.uid)

    def pods_listed(self, there: AbstractSet[Uid], version: str) -> None:
        """Forget the pods that a complete list lacks."""
        for uid in self._consumers.keys() - there:
            if list_covers(version, self._consumers[uid].resource_version):
                self.forget_pod(uid)

    def nodes_listed(self, there: AbstractSet[str], version: str) -> None:
        """Forget the nodes that a complete list lacks."""
        for name, seen in self._nodes.versions():
            if name not in there and list_covers(version, seen):
                self.forget_node(name)
        for record in self._records.values():  # a deleted node may have been back before the list
            record.restart_node_deletion()

    # Nodes:

    def observe_node(self, node: Node, *, now: Instant) -> None:
        """Record a node; a new bootID means that the sandboxes of its pods are gone."""
        name = node.metadata.name
        change = self._nodes.observe(node, now=now)
        self.kept_nodes.observe_node(node)
        self._node_dependents.node_changed(name, change)
        if NodeChange.BOOT in change:
            for uid in self._node_dependents.pods_on(name):
                self._observe_reboot(uid, node.status.node_info.boot_id, now=now)

    def forget_node(self, name: str) -> None:
        """Forget a deleted node; its pods stay until a pod observation removes them."""
        self._node_dependents.node_changed(name, self._nodes.forget(name))

    def reach(self, selector: NodeSelector) -> tuple[frozenset[str], UsableNodes]:
        """Return the nodes that a selector matches, and the numbers of usable nodes inside and outside."""
        return self._nodes.reachable_nodes(selector)

    # Reservations:

    def watch_reservations(self) -> None:
        """Announce that reservations are observed from now on; all of them are, before the first decision."""
        self.holders.is_enabled = True

    def observe_reservation(self, uid: Uid, reservation: Reservation) -> None:
        """Record a reservation from a list or a watch."""
        self._reservations_changed(self.holders.observe(uid, reservation))
        self.owners.reservations_changed([placeholders.placeholder_key(reservation)[0]])

    def reservation_unreadable(self, uid: Uid) -> None:
        """Record that a reservation exists but cannot be read: its claims stay held."""
        self._reservations_changed(self.holders.mark_unreadable(uid))

    def forget_reservation(self, uid: Uid) -> None:
        """Forget the reservation with that uid, which is certainly deleted."""
        self._reservations_changed(self.holders.forget(uid))

    def _reservations_changed(self, concerned: AbstractSet[Key]) -> None:
        self.dirty.update(concerned)
        self.owners.reservations_changed({namespace for namespace, _ in concerned})

    # Taints:

    def taints_changed(self, scopes: Iterable[TaintScope]) -> None:
        """Mark claims with a device in these scopes as dirty. Taints are rare, so all claims are checked."""
        self.dirty.update(self.evictions.claims_in(scopes))

    # Views:

    def mark_synced(self, *, now: Instant) -> None:
        """Record that all lists are complete.

        Pods that wait now may have been listed before, and the scheduler may still act on that.
        """
        for record in self._records.values():
            record.assume_listed(now=now)

    def mark_all_dirty(self) -> None:
        """Mark all claims, and the gated pods that name none."""
        self.dirty.update(self._records)
        self.dirty.update((consumer.namespace, NO_CLAIM) for consumer in self._gated_without_claim.values())

    def keys(self) -> Iterable[Key]:
        """Return the keys of all claims, including missing claims that pods name."""
        return tuple(self._records)

    def view(self, key: Key, *, now: Instant) -> ClaimView | None:
        """Return the view for a decision about the claim; None if there is no such claim."""
        record = self._records.get(key)
        if record is None or record.claim is None:
            return None
        record.refresh_usable_nodes(self._nodes)
        record.observe_deleted_nodes(now=now)
        vanished = vanished_pods.still_running(record, self._nodes, now=now)
        reservation = record.reservation
        workload = (
            self.workloads.get(WorkloadKey.from_reference(reservation.reference, key[0]))
            if reservation is not None
            else WorkloadState()
        )
        former = record.former
        starting, started, gated = (record.users(stage) for stage in (Stage.STARTING, Stage.STARTED, Stage.GATED))
        record.observe_use(used=bool(starting or started), now=now)
        return ClaimView(
            claim=record.claim,
            reservation=reservation,
            malformed=record.malformed,
            workload=workload,
            former=self.workloads.get(WorkloadKey.from_reference(former, key[0]))
            if former is not None
            else WorkloadState(),
            entries=tuple(self._entries(record)),
            gated=gated,
            waiting=record.users(Stage.WAITING),
            starting=starting,
            started=started,
            finished=record.users(Stage.FINISHED),
            entry_histories=record.entry_histories.copy(),
            excluded=record.pods_off_allocation(self._nodes),
            awaiting_other_claims=frozenset(
                c.uid for c in gated if waits_for_other_claim(c, key, records=self._records, now=now)
            ),
            conflicts=record.conflicts,
            taints=self.taints.taints_of(record.claim.status.allocation),
            usable_nodes=record.usable_nodes,
            deletion_signs=self._node_dependents.deletion_signs(key),
            placements=record.current_placements,
            lost_nodes=tuple(vanished_pods.lost_nodes(record, self._nodes)),
            vanished=vanished,
            silent_nodes=vanished_pods.silent_nodes(record, self._nodes),
            other_users=self._other_users(record) if record.forced else (),
            pods_on_silent_nodes=self._pods_on_silent_nodes(record) if record.forced else frozenset(),
            history=record.history,
            owning_pod=self._owner(record.claim),
            holds=self.holders.holders_of(record.claim),
            observed_bind_horizon=self._bind_latency.bind_horizon(now=now),
        )

    def owner_view(self, uid: Uid) -> ClaimOwnerView | None:
        """Return the view for a decision about the claims of a pod or PodGroup; None if the owner has none."""
        return self.owners.view(uid, claim=self.claim, is_unfinished=self._is_unfinished)

    def _is_unfinished(self, uid: Uid) -> bool:
        consumer = self._consumers.get(uid)
        return consumer is not None and consumer.stage is not Stage.FINISHED

    def gated_without_claim(self, key: Key) -> tuple[Consumer, ...]:
        """Return the gated pods that name a missing claim, or with `NO_CLAIM` the gated pods that name no claim."""
        if key[1] == NO_CLAIM:
            return tuple(c for c in self._gated_without_claim.values() if c.namespace == key[0])
        record = self._records.get(key)
        if record is None or record.claim is not None:
            return ()
        return tuple(record.stages[Stage.GATED].values())

    # Indexes, below:

    def _remember_deleted(self, uid: Uid, *, grace: float | None = DEFAULT_GRACE_PERIOD) -> None:
        self._gone[uid] = grace
        if len(self._gone) > REMEMBERED_DELETED_UIDS:
            del self._gone[next(iter(self._gone))]

    def _observe_reboot(self, uid: Uid, boot: str, *, now: Instant) -> None:
        consumer = self._consumers.get(uid)
        if consumer is not None and self._sandboxes.rebooted(uid, boot=boot) and consumer.stage is Stage.STARTED:
            after = msgspec.structs.replace(consumer, stage=Stage.STARTING, stage_since=now)
            self._consumers[uid] = after
            self._update_member(consumer, after)

    def _update_member(self, before: Consumer | None, after: Consumer) -> None:
        concerns = before is None or consumers.is_relevant_change(before, after)
        if before is not None and before.claims != after.claims:
            for name in set(before.claims) - set(after.claims):
                self._remove_member(before, name, gone=False)
        for name in after.claims:
            key = (after.namespace, name)
            record = self._records.get(key)
            if record is None:
                record = self._records[key] = ClaimState(key)
            record.put_consumer(after)
            if concerns:
                self.dirty.add(key)
        ours_goes = after.gated_by_us_only or after.precedes_other_gates
        if not after.claims and ours_goes and after.stage is Stage.GATED:
            self._gated_without_claim[after.uid] = after
            self.dirty.add((after.namespace, NO_CLAIM))
        else:
            self._gated_without_claim.pop(after.uid, None)

    def _remove_member(self, consumer: Consumer, name: str, *, gone: bool) -> None:
        key = (consumer.namespace, name)
        record = self._records[key]
        record.drop_consumer(consumer.uid, gone=gone)
        self.dirty.add(key)
        self._drop_if_empty(record)

    def _add_vanished_pod(self, consumer: Consumer, claim: Key) -> None:
        """Record that a consuming pod has vanished: its containers may run until its kubelet has ended them."""
        record, node = self._records.get(claim), consumer.node
        if record is None or record.claim is None or record.claim.status.allocation is None:
            return
        holds = self.holders.holders_of(record.claim)
        if any(consumer.name == placeholders.placeholder_name(hold.reference.uid) for hold in holds):
            return  # deleted by force once its reservation has its place: a placeholder only pauses, and uses no device
        pod = VanishedPod(consumer.uid, node=node, boot_id=self._nodes.boot_id(node), grace=consumer.grace)
        vanished_pods.add_vanished(record, self._nodes, pod)

    def _drop_if_empty(self, record: ClaimState) -> None:
        if record.claim is None and not record.consumers:
            del self._records[record.key]

    def _kept_nodes(self, record: ClaimState) -> frozenset[str]:
        assert record.claim is not None  # noqa: S101 - the caller has looked
        names, holders = self._node_dependents.nodes_of(record.key), self.holders.is_enabled
        return kept_nodes.nodes_kept_by(record.claim, names, reservation=record.reservation, holders=holders)

    def _mark_companions_dirty(self, record: ClaimState) -> None:
        """Mark the other claims of gated pods as dirty: a pod of several claims is ungated when all are ready."""
        for consumer in record.stages[Stage.GATED].values():
            if len(consumer.claims) > 1:
                self.dirty.update((consumer.namespace, name) for name in consumer.claims)

    def _entries(self, record: ClaimState) -> Iterator[ReservedForEntry]:
        assert record.claim is not None  # noqa: S101 - the caller has looked
        strangers = record.strangers
        for entry in record.claim.entries:
            consumer = record.consumers.get(entry.uid) if entry.uid not in strangers else None
            other = self._consumers.get(entry.uid)
            over = other is not None and other.stage is Stage.FINISHED
            live_read_at = record.present.get(entry.uid) if other is None or consumer is other else None
            yield classify_entry(
                entry,
                reservation=record.reservation,
                consumer=consumer,
                gone=over or entry.uid in record.absent,
                vanished=entry.uid in record.vanished and not over,
                stranger=not over and (other is not None or live_read_at is not None),
                live_read_at=live_read_at,
                group=self.workloads.get(WorkloadKey.from_reference(entry, record.key[0]))
                if entry.is_pod_group
                else None,
                holders=self.holders.is_enabled,
            )

    def _owner(self, claim: ResourceClaim) -> OwningPodPhase:
        """Return the phase of the pod that a claim was generated for."""
        owner = claim.owning_pod
        if owner is None:
            return OwningPodPhase.NONE
        named = self._consumers.get(self._names.get((claim.metadata.namespace, owner.name), Uid("")))
        if named is None:
            return OwningPodPhase.GONE if owner.uid in self._gone else OwningPodPhase.UNKNOWN
        if named.uid != owner.uid:
            # The claims watch may be ahead of the pods watch: then the pod of that name is the predecessor of the
            # owner.
            after = is_newer(named.resource_version, claim.metadata.resource_version)
            return OwningPodPhase.REPLACED if after or owner.uid in self._gone else OwningPodPhase.UNKNOWN
        return OwningPodPhase.DONE if named.stage is Stage.FINISHED else OwningPodPhase.PRESENT

    def _other_users(self, record: ClaimState) -> tuple[Consumer, ...]:
        assert record.claim is not None  # noqa: S101 - the caller has looked
        others = (self._consumers.get(e.uid) for e in record.claim.entries if e.uid not in record.consumers)
        return tuple(c for c in others if c is not None)

    def _pods_on_silent_nodes(self, record: ClaimState) -> frozenset[Uid]:
        users = (*record.stages[Stage.STARTING].values(), *record.stages[Stage.STARTED].values())
        users_of_nodes = (*users, *(c for c in self._other_users(record) if c.is_consuming))
        return frozenset(c.uid for c in users_of_nodes if not self._nodes.ready(c.node))
