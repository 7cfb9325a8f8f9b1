"""A cluster state that follows a cluster: objects are observed one by one, and what they affect becomes dirty.

Diagnoses must equal those of a snapshot read at the same moment, or a page and a command would disagree. So a claim
keeps no history here: `prepare_claim` resets its record before the claim is diagnosed again, and pods are observed as
if each had just been read.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from dra.engine.allocator import ConsumedCapacityCollection, ResourceSliceTracker, allocator_release
from dra.engine.claims.view import WorkloadPhase
from dra.engine.claims.workload_index import WorkloadKey
from dra.engine.colocation.batch_pod import BatchPod, batch_pod
from dra.engine.devices.ledger import DeviceID, allocated_devices
from dra.engine.diagnosis.cluster_state import SNAPSHOT_INSTANT, ClusterState, is_claim_related, slice_taints
from dra.engine.diagnosis.devices import DeviceUsage, device_usage
from dra.engine.diagnosis.snapshot import ReferencedWorkload, Snapshot
from dra.model.claims import ResourceClaim
from dra.model.diagnosed_pods import PodEvent
from dra.model.meta import Key, Uid, UnstructuredObject
from dra.model.node_metrics import NodeMetric
from dra.model.node_pods import AgentNode
from dra.model.pods import claim_names
from dra.model.scheduling import SchedulerPod
from dra.model.slices import ResourceSlice

NODE_PODS_MAX: Final = 200
"""Maximum number of pods that are named for one node."""


class LiveCluster(ClusterState):
    """The objects of a cluster as last observed, with the keys of everything whose diagnosis may have changed."""

    def __init__(self) -> None:
        super().__init__(Snapshot())
        self.dirty_claims = self.claim_cache.dirty
        self.dirty_devices: set[DeviceID] = set()
        self.dirty_pods: set[Key] = set()
        self.dirty_nodes: set[str] = set()
        self.dirty_use: set[str] = set()
        """Nodes of which only the row may have changed: what they use, what their pods hold, labels, conditions."""

        self.inventory = ResourceSliceTracker()
        self.shares = ConsumedCapacityCollection()
        self.reservations: dict[str, UnstructuredObject] | None = None
        """Reservations by name; None if the API server does not serve the kind."""

        self.node_metrics: dict[str, NodeMetric] | None = None
        """NodeMetrics by name; None if the API server does not serve the kind."""

        self.migrations: dict[str, UnstructuredObject] | None = None
        """PodMigrationJobs by name; None if the API server does not serve the kind."""

        self._claims: dict[Key, ResourceClaim] = {}
        self._slices: dict[str, ResourceSlice] = {}
        self._pods_by_claim: dict[Key, dict[Uid, SchedulerPod]] = {}
        self._pod_keys_by_node: dict[str, dict[Uid, Key]] = {}
        self._batch_pods: dict[Uid, BatchPod] = {}
        """Pods as the sum of batch resources sees them, as far as that was asked."""

        self._pod_uids: set[Uid] = set()
        self._listed_by: dict[Uid, set[Key]] = {}
        self._holders: dict[DeviceID, dict[Key, None]] = {}
        self._held: dict[Key, frozenset[DeviceID]] = {}
        self._device_nodes: dict[DeviceID, str] = {}
        """The devices that slices offer, with their nodes; empty for devices that several nodes can use."""

        self._devices_by_node: dict[str, set[DeviceID]] = {}
        self._pools: dict[tuple[str, str], set[DeviceID]] = {}
        self._workloads: dict[WorkloadKey, ReferencedWorkload] = {}

    @property
    def is_dirty(self) -> bool:
        """Report whether any diagnosis may have changed."""
        return bool(self.dirty_claims or self.dirty_devices or self.dirty_pods or self.dirty_nodes or self.dirty_use)

    # Objects:

    def observe_claim(self, claim: ResourceClaim) -> None:
        """Record a claim that is new or has changed."""
        key = claim.metadata.key
        known = self._claims.get(key)
        if known is None or known.metadata.deleting != claim.metadata.deleting:
            self._mark_pods_dirty(key)
        if known is None:
            self._similar_claims.clear()
        self._claims[key] = claim
        self._set_listed(key, known, claim)
        self.claim_cache.observe_claim(claim, now=SNAPSHOT_INSTANT)
        self.shares.observe_allocation(claim.metadata.uid, claim.status.allocation)
        allocation = claim.status.allocation
        devices = (device.whole for device in allocated_devices(allocation)) if allocation is not None else ()
        self._set_held(key, frozenset(devices))

    def forget_claim(self, claim: ResourceClaim) -> None:
        """Forget a deleted claim."""
        key, uid = claim.metadata.key, claim.metadata.uid
        self._set_listed(key, self._claims.pop(key, None), None)
        self._mark_pods_dirty(key)
        self._similar_claims.clear()
        self.claim_cache.forget_claim(key, uid)
        self.shares.observe_allocation(uid, None)
        self._set_held(key, frozenset())

    def _set_listed(self, key: Key, before: ResourceClaim | None, after: ResourceClaim | None) -> None:
        """Keep the index from pods to the claims that list them, also of pods that do not name the claim."""
        for entry in before.entries if before is not None else ():
            if entry.is_pod:
                self._listed_by.get(entry.uid, set()).discard(key)
                if not self._listed_by.get(entry.uid):
                    self._listed_by.pop(entry.uid, None)
        for entry in after.entries if after is not None else ():
            if entry.is_pod:
                self._listed_by.setdefault(entry.uid, set()).add(key)

    def _mark_pods_dirty(self, claim: Key) -> None:
        self.dirty_pods.update(pod.metadata.key for pod in self.pods_of(claim))

    def observe_pod(self, pod: SchedulerPod) -> None:
        """Record a pod that is new or has changed."""
        self._remove_pod(pod)
        key, uid = pod.metadata.key, pod.metadata.uid
        self.pods[key] = pod
        self._pod_uids.add(uid)
        for name in claim_names(pod):
            self._pods_by_claim.setdefault((key[0], name), {})[uid] = pod
        if is_claim_related(pod):
            self.claim_cache.observe_pod(pod, now=SNAPSHOT_INSTANT)
        self._pod_keys_by_node.setdefault(pod.spec.node_name, {})[uid] = key
        self._mark_use_dirty(pod)
        self.dirty_claims.update(self._listed_by.get(uid, ()))
        self.dirty_pods.add(key)

    def forget_pod(self, pod: SchedulerPod) -> None:
        """Forget a deleted pod: as in a snapshot, nothing remembers it."""
        self._remove_pod(pod)
        self.dirty_claims.update(self._listed_by.get(pod.metadata.uid, ()))
        self.dirty_pods.add(pod.metadata.key)

    def _mark_use_dirty(self, pod: SchedulerPod) -> None:
        if self.node_metrics is not None and pod.spec.node_name in self.nodes:
            self.dirty_use.add(pod.spec.node_name)

    def _remove_pod(self, pod: SchedulerPod) -> None:
        key, uid = pod.metadata.key, pod.metadata.uid
        known = self.pods.get(key)
        if known is None or known.metadata.uid != uid:
            return
        del self.pods[key]
        self._pod_uids.discard(uid)
        self._pod_keys_by_node.get(known.spec.node_name, {}).pop(uid, None)
        self._batch_pods.pop(uid, None)
        self._mark_use_dirty(known)
        for name in claim_names(known):
            users = self._pods_by_claim.get((key[0], name), {})
            users.pop(uid, None)
            if not users:
                self._pods_by_claim.pop((key[0], name), None)
        self.claim_cache.forget_pod(uid, certain=False)

    def observe_node(self, node: AgentNode) -> None:
        """Record a node that is new or has changed."""
        name = node.metadata.name
        known = self.nodes.get(name)
        self.nodes[name] = node
        self.claim_cache.observe_node(node, now=SNAPSHOT_INSTANT)
        if known is None or (known.ready, known.spec, known.metadata.annotations) != (
            node.ready,
            node.spec,
            node.metadata.annotations,
        ):
            self._node_changed(name)
        elif _without_version(known) != _without_version(node):
            self.dirty_use.add(name)

    def forget_node(self, node: AgentNode) -> None:
        """Forget a deleted node."""
        self.nodes.pop(node.metadata.name, None)
        self.claim_cache.forget_node(node.metadata.name)
        self._node_changed(node.metadata.name)

    def _node_changed(self, name: str) -> None:
        """Mark a node, its pods and the claims of these pods as dirty."""
        self.dirty_nodes.add(name)
        self.dirty_devices |= self._devices_by_node.get(name, set())
        for key in self._pod_keys_by_node.get(name, {}).values():
            self.dirty_pods.add(key)
            self.dirty_claims.update((key[0], claim) for claim in claim_names(self.pods[key]))

    def observe_slice(self, resource_slice: ResourceSlice) -> None:
        """Record a ResourceSlice that is new or has changed."""
        self._slices[resource_slice.metadata.name] = resource_slice
        self.inventory.observe(resource_slice)
        self.claim_cache.taints_changed(self.claim_cache.taints.observe_slice(slice_taints(resource_slice)))
        self._pool_changed(resource_slice)
        spec = resource_slice.spec
        pool = self._pools.setdefault((spec.driver, spec.pool.name), set())
        for device in spec.devices or ():
            item = DeviceID(driver=spec.driver, pool=spec.pool.name, device=device.name)
            node = self._device_nodes[item] = spec.node_name or device.node_name or ""
            self._devices_by_node.setdefault(node, set()).add(item)
            pool.add(item)
        self._pool_changed(resource_slice)

    def forget_slice(self, resource_slice: ResourceSlice) -> None:
        """Forget a deleted ResourceSlice."""
        self._slices.pop(resource_slice.metadata.name, None)
        self.inventory.forget(resource_slice.metadata.name)
        self.claim_cache.taints_changed(self.claim_cache.taints.forget_slice(resource_slice.metadata.name))
        self._pool_changed(resource_slice)

    def _pool_changed(self, resource_slice: ResourceSlice) -> None:
        """Mark the devices of a pool, and the claims that hold them, as dirty."""
        items = self._pools.get((resource_slice.spec.driver, resource_slice.spec.pool.name), set())
        self.dirty_devices |= items
        for item in items:
            self.dirty_claims.update(self._holders.get(item, ()))
            self.dirty_nodes.add(self._device_nodes.get(item, ""))
        self.__dict__.pop("cards", None)

    def _set_held(self, key: Key, devices: frozenset[DeviceID]) -> None:
        before = self._held.get(key, frozenset())
        for item in before - devices:
            self._holders[item].pop(key, None)
            if not self._holders[item]:
                del self._holders[item]
        for item in devices - before:
            self._holders.setdefault(item, {})[key] = None
        self.dirty_devices |= before | devices
        for item in before ^ devices:
            self._mark_overlapping_dirty(item)
        if devices:
            self._held[key] = devices
        else:
            self._held.pop(key, None)

    def _mark_overlapping_dirty(self, item: DeviceID) -> None:
        """Mark the devices of a pool as dirty if their counters change with one that is taken or given back."""
        candidate = self.inventory.candidate(item)
        if candidate is not None and candidate.device.consumes_counters:
            self.dirty_devices |= self._pools.get((item.driver, item.pool), set())

    def set_served(self, *, reservations: bool, migrations: bool, node_metrics: bool = False) -> None:
        """Record whether the API server serves Reservations, PodMigrationJobs and NodeMetrics."""
        self.node_metrics = {} if node_metrics else None
        self.reservations = {} if reservations else None
        self.migrations = {} if migrations else None

    def observe_reservation(self, obj: UnstructuredObject) -> None:
        """Record a Reservation that is new or has changed."""
        if self.reservations is not None:
            self.reservations[obj.metadata.name] = obj

    def forget_reservation(self, obj: UnstructuredObject) -> None:
        """Forget a deleted Reservation."""
        if self.reservations is not None:
            self.reservations.pop(obj.metadata.name, None)

    def observe_migration(self, obj: UnstructuredObject) -> None:
        """Record a PodMigrationJob that is new or has changed."""
        if self.migrations is not None:
            self.migrations[obj.metadata.name] = obj

    def forget_migration(self, obj: UnstructuredObject) -> None:
        """Forget a deleted PodMigrationJob."""
        if self.migrations is not None:
            self.migrations.pop(obj.metadata.name, None)

    def observe_node_metric(self, metric: NodeMetric) -> None:
        """Record a NodeMetric that is new or has changed."""
        if self.node_metrics is not None:
            self.node_metrics[metric.metadata.name] = metric
            self.dirty_use.add(metric.metadata.name)

    def forget_node_metric(self, metric: NodeMetric) -> None:
        """Forget a deleted NodeMetric."""
        if self.node_metrics is not None:
            self.node_metrics.pop(metric.metadata.name, None)
            self.dirty_use.add(metric.metadata.name)

    # Everything else:

    def set_surroundings(self, surroundings: Snapshot) -> None:
        """Replace the kinds that are read again now and then: classes, leases, workloads, gaps and others."""
        before, templates, failures = self.snapshot, self.templates, self.start_failures
        self._set_workloads(surroundings.workloads)
        self._set_rules(surroundings)
        self.inventory.observe_release(allocator_release(surroundings.server))
        self.snapshot = msgspec.structs.replace(
            surroundings, claims=before.claims, pods=before.pods, nodes=before.nodes, slices=before.slices
        )
        for name in ("classes", "templates", "start_failures"):
            self.__dict__.pop(name, None)
        self._mark_failures_dirty(failures)
        changed = {key[0] for key in templates ^ self.templates}
        changed |= {name for name, _ in before.enabled_namespaces.items() ^ surroundings.enabled_namespaces.items()}
        if changed:
            self.dirty_pods.update(key for key in self.pods if key[0] in changed)
        if before.colocation_config != surroundings.colocation_config:
            self.dirty_use.update(self.nodes)
        if _decides(before) != _decides(surroundings):
            self.mark_all_dirty()
        elif before.classes != surroundings.classes:
            self.dirty_claims.update(key for key, claim in self._claims.items() if claim.status.allocation is None)

    def _mark_failures_dirty(self, before: Mapping[tuple[str, Uid], PodEvent]) -> None:
        """Mark the pods whose kubelet has reported another failure since."""
        after = self.start_failures
        changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
        if changed:
            self.dirty_pods.update(
                key for key, pod in self.pods.items() if (pod.metadata.namespace, pod.metadata.uid) in changed
            )

    def _set_workloads(self, workloads: Iterable[ReferencedWorkload]) -> None:
        now = {workload.key: workload for workload in workloads}
        changed = [workload for key, workload in now.items() if self._workloads.get(key) != workload]
        gone = self._workloads.keys() - now.keys()
        self._workloads = now
        self._observe_workloads(changed)
        for workload in changed:
            known = self.claim_cache.workloads.get(workload.key)
            if workload.phase is WorkloadPhase.ABSENT and known.uid:  # seen before, perhaps by a claim that is gone
                self.claim_cache.workloads.forget(workload.key, known.uid)
        if changed or gone:
            keys = {workload.key for workload in changed} | gone
            self.dirty_claims.update(
                key for key, claim in self._claims.items() if not keys.isdisjoint(_referenced(self, key, claim))
            )

    def _set_rules(self, surroundings: Snapshot) -> None:
        before = {rule.metadata.name: rule for rule in self.snapshot.rules}
        after = {rule.metadata.name: rule for rule in surroundings.rules}
        taints = self.claim_cache.taints
        for name in before.keys() - after.keys():
            self.inventory.forget_rule(name)
            self.claim_cache.taints_changed(taints.forget_rule(name))
        for name, rule in after.items():
            if before.get(name) != rule:
                self.inventory.observe_rule(rule)
                self.claim_cache.taints_changed(taints.observe_rule(rule))
        if before != after:
            self.dirty_devices.update(self._device_nodes)

    def claims(self) -> tuple[ResourceClaim, ...]:
        """Return all claims of the cluster."""
        return tuple(self._claims.values())

    def mark_all_dirty(self) -> None:
        """Mark everything as dirty, after a change that may concern every diagnosis."""
        self.dirty_claims.update(self._claims)
        self.dirty_devices.update(self._device_nodes, self._holders)
        self.dirty_pods.update(self.pods)
        self.dirty_nodes.update(self.nodes)

    def refresh(self) -> None:
        """Bring the snapshot up to date with the observed objects; a diagnosis may read it."""
        self.snapshot = msgspec.structs.replace(
            self.snapshot,
            claims=tuple(self._claims.values()),
            pods=tuple(self.pods.values()),
            nodes=tuple(self.nodes.values()),
            slices=tuple(self._slices.values()),
            reservations=None if self.reservations is None else tuple(self.reservations.values()),
            migrations=None if self.migrations is None else tuple(self.migrations.values()),
            node_metrics=None if self.node_metrics is None else tuple(self.node_metrics.values()),
        )

    def mark_use_dirty(self) -> None:
        """Mark the use of all nodes as dirty: samples grow old without an event."""
        if self.node_metrics is not None:
            self.dirty_use.update(self.nodes)

    def drop_node_infos(self) -> None:
        """Let the next diagnosis that compares nodes count their pods again."""
        self.__dict__.pop("node_infos", None)

    # Diagnoses:

    def pods_of(self, claim: Key) -> Iterable[SchedulerPod]:
        """Return the pods that name a claim."""
        return tuple(self._pods_by_claim.get(claim, {}).values())

    def pods_on(self, node: str) -> Iterable[SchedulerPod]:
        """Return the pods on a node."""
        return [self.pods[key] for key in self._pod_keys_by_node.get(node, {}).values()]

    def batch_pod_of(self, pod: SchedulerPod) -> BatchPod:
        """Return a pod as the sum of batch resources sees it, computed once."""
        batch = self._batch_pods.get(pod.metadata.uid)
        if batch is None:
            batch = self._batch_pods[pod.metadata.uid] = batch_pod(pod)
        return batch

    def claim_pods_on(self, node: str) -> list[Key]:
        """Return the pods on a node that use claims, at most `NODE_PODS_MAX`."""
        keys = self._pod_keys_by_node.get(node, {}).values()
        return sorted(key for key in keys if claim_names(self.pods[key]))[:NODE_PODS_MAX]

    def prepare_claim(self, key: Key) -> None:
        """Reset the record of a claim to what a process would know that has just read the cluster."""
        self.holds.pop(key, None)
        claim = self._claims.get(key)
        if claim is None:
            return
        self.claim_cache.reset_claim(key, now=SNAPSHOT_INSTANT)
        self._forget_absent(claim, self._workloads, self._pod_uids)

    def devices_of(self, claim: Key) -> frozenset[DeviceID]:
        """Return the devices that a claim holds."""
        return self._held.get(claim, frozenset())

    def holders_of(self, item: DeviceID) -> tuple[Key, ...]:
        """Return the claims that hold a device or a share of it."""
        return tuple(self._holders.get(item, ()))

    def device(self, item: DeviceID) -> DeviceUsage | None:
        """Return the usage of a device; None if no slice offers it and no claim holds it."""
        candidate, holders = self.inventory.candidate(item), self._holders.get(item, {})
        if candidate is None:
            self._devices_by_node.get(self._device_nodes.pop(item, ""), set()).discard(item)
            self._pools.get((item.driver, item.pool), set()).discard(item)
            return device_usage(self, item, sorted(holders), offered=False) if holders else None
        node, taints = self._device_nodes.get(item, ""), candidate.device.taints or ()
        return device_usage(self, item, sorted(holders), node=node, taints=taints)


def _without_version(node: AgentNode) -> AgentNode:
    """Return a node as all but the API server see it: a heartbeat of its kubelet changes nothing else that is read."""
    return msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, resource_version=""))


def _decides(snapshot: Snapshot) -> tuple[object, ...]:
    """Return the parts of a snapshot that diagnoses of any claim may depend on."""
    gaps = tuple(sorted((gap.resource, gap.why) for gap in snapshot.gaps))
    return (
        snapshot.leader.presence,
        snapshot.leader.name,
        snapshot.descheduler.presence,
        snapshot.namespace,
        gaps,
        snapshot.server,
    )


def _referenced(cluster: LiveCluster, key: Key, claim: ResourceClaim) -> set[WorkloadKey]:
    view = cluster.view(key)
    references = [entry for entry in claim.entries if not entry.is_pod]
    if view is not None and view.reservation is not None:
        references.append(view.reservation.reference)
    return {WorkloadKey.from_reference(reference, key[0]) for reference in references}
