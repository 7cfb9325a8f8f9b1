"""The claim cache: objects as last observed, and indexes from claims to their consumers.

Observations (``observe_…``, ``forget_…``) update the cache; decisions read views. An observation costs the same however
many pods a claim has, and marks only the affected claims as ``dirty``. Observations of one object may come late but
never backwards: an older resourceVersion is ignored, since the responses to this controller's own writes overtake the
watch.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from dra.api.reservations.model import Reservation
from dra.engine.claims import consumers, kept_nodes, vanished_pods
from dra.engine.claims.bind_latency import BindLatency
from dra.engine.claims.claim_state import ClaimState
from dra.engine.claims.claim_views import ClaimViews
from dra.engine.claims.consumer_index import ConsumerIndex
from dra.engine.claims.consumers import Consumer, Stage
from dra.engine.claims.device_conflicts import DeviceConflicts
from dra.engine.claims.eviction_index import EvictionIndex
from dra.engine.claims.generation.claim_owners import ClaimOwnerView
from dra.engine.claims.generation.owner_index import ClaimOwnerIndex
from dra.engine.claims.kept_nodes import KeptNodes
from dra.engine.claims.lookup_results import LookupResults
from dra.engine.claims.node_dependents import NodeDependents
from dra.engine.claims.node_index import NodeChange, NodeIndex
from dra.engine.claims.view import (
    ClaimView,
    UsableNodes,
    VanishedPod,
)
from dra.engine.claims.workload_index import WorkloadIndex
from dra.engine.devices.ledger import Ledger
from dra.engine.devices.taints import TaintIndex, TaintScope
from dra.engine.dirty_keys import Cache, DirtyKeys
from dra.engine.instants import Instant
from dra.engine.reservations import placeholders
from dra.model import annotations
from dra.model.claims import ResourceClaim
from dra.model.deleted_uids import DeletedUids
from dra.model.meta import Key, Uid
from dra.model.nodes import Node, NodeSelector
from dra.model.pods import Pod
from dra.model.resource_versions import is_newer, list_covers

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
        self._records: dict[Key, ClaimState] = {}
        self._deleted = DeletedUids()
        self._nodes = NodeIndex()
        self._pods = ConsumerIndex(self._nodes)
        self.lookups = LookupResults(self._records, self._pods, self._nodes, self.dirty)
        self.evictions = EvictionIndex(self.taints, records=self._records)
        self.kept_nodes = KeptNodes(is_enabled=annotates_nodes)
        self._node_dependents = NodeDependents(self._nodes, records=self._records, dirty=self.dirty)
        self._bind_latency = BindLatency()
        self.workloads = WorkloadIndex(dirty=self.dirty)
        self._conflicts = DeviceConflicts(self.ledger, records=self._records, dirty=self.dirty)
        self._views = ClaimViews(
            records=self._records,
            pods=self._pods,
            nodes=self._nodes,
            node_dependents=self._node_dependents,
            workloads=self.workloads,
            holders=self.holders,
            taints=self.taints,
            bind_latency=self._bind_latency,
        )

    # Claims:

    def observe_claim(self, claim: ResourceClaim, *, now: Instant, ours: bool = False) -> None:
        """Record a claim from a list, a watch, a live read or the response to a write of this controller."""
        key, uid = claim.metadata.key, claim.metadata.uid
        # A list page or a response that is older than the deletion must not bring the claim back.
        if uid in self._deleted:
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
        # The watch joined a deletion with the creation of a claim of the same name: the former's devices are free.
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
        self._deleted.add(uid)
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
        return iter(self._pods)

    # Pods:

    def observe_pod(self, pod: Pod, *, now: Instant) -> None:
        """Record a pod from a list, a watch or a live read."""
        change = self._pods.observe(pod, now=now)
        if change is None:
            return
        before, after = change
        self.owners.observe_pod(pod)
        if before is None or before.stage is not after.stage:
            # Claims generated for the pod, or for a predecessor of the same name, may no longer be needed.
            owners = (after.uid, self._pods.take_name(after))
            self.dirty.update(self.owners.claims_of(after.key, owners[0]) | self.owners.claims_of(after.key, owners[1]))
        self._node_dependents.move_pod(after.uid, before.node if before is not None else "", after.node)
        self._update_member(before, after)
        if before is not None and before.stage is Stage.WAITING and after.is_consuming:
            self._bind_latency.observe_bound(before, self._records, now=now)

    def forget_pod(self, uid: Uid, *, certain: bool = True) -> None:
        """Forget a pod that is deleted or, without ``certain``, only no longer relevant to any claim."""
        consumer = self._pods.forget(uid, certain=certain)
        self.owners.forget(uid)
        if consumer is None:
            return
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
            self._pods.deleted.add(pod.metadata.uid, grace=None)

    def consumer(self, uid: Uid) -> Consumer | None:
        """Return the consumer with that uid, None if the pod is unknown."""
        return self._pods.get(uid)

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
        for uid in self._pods.missing_from(there, version):
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

    def reservation_missing(self, name: str, uid: Uid) -> None:
        """Record that a live read found no reservation of that name with that uid."""
        self._reservations_changed(self.holders.forget_named(name, uid))

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
        self.dirty.update((consumer.namespace, NO_CLAIM) for consumer in self._pods.gated_without_claim())

    def keys(self) -> Iterable[Key]:
        """Return the keys of all claims, including missing claims that pods name."""
        return tuple(self._records)

    def view(self, key: Key, *, now: Instant) -> ClaimView | None:
        """Return the view for a decision about the claim; None if there is no such claim."""
        return self._views.view(key, now=now)

    def owner_view(self, uid: Uid) -> ClaimOwnerView | None:
        """Return the view for a decision about the claims of a pod or PodGroup; None if the owner has none."""
        return self.owners.view(uid, claim=self.claim, is_unfinished=self._pods.is_unfinished)

    def gated_without_claim(self, key: Key) -> tuple[Consumer, ...]:
        """Return the gated pods that name a missing claim, or with `NO_CLAIM` the gated pods that name no claim."""
        if key[1] == NO_CLAIM:
            return tuple(c for c in self._pods.gated_without_claim() if c.namespace == key[0])
        record = self._records.get(key)
        if record is None or record.claim is not None:
            return ()
        return tuple(record.stages[Stage.GATED].values())

    # Indexes, below:

    def _observe_reboot(self, uid: Uid, boot: str, *, now: Instant) -> None:
        change = self._pods.observe_reboot(uid, boot, now=now)
        if change is not None:
            self._update_member(*change)

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
        if self._pods.update_gated(after):
            self.dirty.add((after.namespace, NO_CLAIM))

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
