"""A snapshot in the indexes of the engine, so that the rules can be applied to the snapshot.

All objects are observed at one instant, `SNAPSHOT_INSTANT`. The rules are also applied at `SETTLED_INSTANT`, when every
scheduling cycle that might have been in progress is over: what they would do at the latest, if nothing else happened.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from difflib import get_close_matches
from enum import StrEnum
from functools import cached_property
from typing import Any, Final

from dra.engine.allocator import ConsumedCapacityCollection, ResourceSliceTracker, UnsatisfiableError, allocator_release
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.consumers import SCHEDULING_GATE
from dra.engine.claims.placements import ClusterSnapshot, PlacementSearch
from dra.engine.claims.policy import ALONGSIDE, Policy
from dra.engine.claims.view import ClaimView, Placements, WorkloadPhase
from dra.engine.claims.workload_index import WorkloadKey
from dra.engine.colocation.batch_pod import BatchPod, batch_pod
from dra.engine.diagnosis.snapshot import ReferencedWorkload, Snapshot
from dra.engine.instants import SLOW_BIND_HORIZON, Instant
from dra.engine.kube_scheduler.host_ports import pod_host_ports
from dra.engine.kube_scheduler.node_info import NodeInfo
from dra.engine.kube_scheduler.pod_requests import pod_requests
from dra.engine.pod_reports.cards import CardIndex
from dra.model.claims import ResourceClaim
from dra.model.device_classes import DeviceClass
from dra.model.diagnosed_pods import PodEvent
from dra.model.meta import Key, Uid
from dra.model.node_metrics import NodeMetric
from dra.model.node_pods import AgentNode
from dra.model.pods import claim_names
from dra.model.references import MalformedReferenceError
from dra.model.scheduling import SchedulerPod
from dra.model.slices import (
    GpuAttributes,
    ResourceSlice,
    ResourceSliceTaints,
    ResourceSliceTaintsSpec,
    StringAttribute,
    TaintedDevice,
)
from dra.model.workload_reservations import workload_reservation

SNAPSHOT_INSTANT: Final[Instant] = 0.0
YOUNG: Final = timedelta(seconds=10)
"""Age up to which it is no problem that a controller or a scheduler has not yet done its part for a pod."""

SETTLED_INSTANT: Final[Instant] = 2 * SLOW_BIND_HORIZON

_PLACEMENT_RESOURCES: Final = frozenset({"pods", "nodes", "resourceslices", "deviceclasses", "devicetaintrules"})
"""Resources whose objects are all needed to decide where a pod can run."""

_EXISTING_PHASES: Final = frozenset({WorkloadPhase.PRESENT, WorkloadPhase.FINISHED})


class AllocationHold(StrEnum):
    """Something that keeps an allocation; the comment of each value names the rule."""

    WORKLOAD = "workload"  # Enter, Release: the workload that the claim is reserved for may still use it
    CONSUMING = "consuming"  # Deallocate: bound pods use it
    WAITING = "waiting"  # Pre-list, Deallocate: listed pods may be bound at any moment
    FOREIGN = "foreign"  # List: entries of other components are never touched
    UNKNOWN = "unknown"  # Doubt: listed pods whose existence is not known
    LOST_NODE = "lost-node"  # Doubt: pods vanished from a node whose kubelet did not report
    VANISHED = "vanished-pods"  # Doubt: pods vanished before the end of their containers was reported
    GROUP = "group"  # Stock duties: an existing PodGroup has it
    RESERVATION = "reservation"  # a Reservation keeps it for its owners, until the Reservation is over
    FORMER = "former"  # Release: an entry for an earlier object of the same name
    DOUBT = "doubt"  # Doubt: it is not known whether the workload has the claim
    TIME = "time"  # Deallocate: a scheduling cycle may still bind a pod; it passes
    NOTHING = "nothing"  # Deallocate: no user and an empty list; only the removal of the last entry deallocates


class ClusterState:
    """The objects of a snapshot, indexed for the rules and the allocator."""

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        policy: Policy = ALONGSIDE,
        claim_cache: ClaimCache | None = None,
        now: Instant = SNAPSHOT_INSTANT,
    ) -> None:
        """Index a snapshot; ``claim_cache`` may have observed earlier snapshots and remembers the times."""
        self.snapshot = snapshot
        self.policy = policy
        self.now = now
        self.claim_cache = ClaimCache() if claim_cache is None else claim_cache
        self.holds: dict[Key, tuple[AllocationHold, ...]] = {}
        """The holds of claims, as far as they have been computed."""

        self.request_findings: dict[tuple[str, tuple[str, ...]], tuple[int, tuple[str, int | None]]] = {}
        """(class, expressions of a request) → version of the inventory, and what was found about such requests."""

        self._similar_claims: dict[Key, str] = {}
        self.pods: dict[Key, SchedulerPod] = {pod.metadata.key: pod for pod in snapshot.pods}
        self.nodes: dict[str, AgentNode] = {node.metadata.name: node for node in snapshot.nodes}
        self._observe_snapshot()

    def pod(self, uid: Uid) -> SchedulerPod | None:
        """Return a pod by its uid; None if the snapshot does not have it."""
        consumer = self.claim_cache.consumer(uid)
        return self.pods.get(consumer.key) if consumer is not None else None

    def view(self, key: Key, *, now: Instant = SNAPSHOT_INSTANT) -> ClaimView | None:
        """Return the view that the rules have of a claim."""
        return self.claim_cache.view(key, now=now)

    def has_all_pods(self, namespace: str) -> bool:
        """Report whether all pods of a namespace were read, so that a pod that is not found is gone."""
        if any(gap.resource == "pods" for gap in self.snapshot.gaps):
            return False
        return self.snapshot.namespace in {None, namespace}

    def is_younger(self, created: str, *, than: timedelta) -> bool:
        """Report whether a time in RFC 3339 was shortly before the snapshot; False where a time is unknown."""
        if not (created and self.snapshot.taken):
            return False
        age = datetime.fromisoformat(self.snapshot.taken) - datetime.fromisoformat(created)
        return timedelta() <= age < than

    def is_node_lost(self, name: str) -> bool:
        """Report whether a node is known and not Ready: its kubelet does not report what its pods do."""
        node = self.nodes.get(name)
        return node is not None and not node.ready

    @property
    def has_all_nodes(self) -> bool:
        """Report whether all nodes were read, so that a node that is not found is gone."""
        return not any(gap.resource == "nodes" for gap in self.snapshot.gaps)

    def similar_claim(self, missing: Key) -> str:
        """Return NAMESPACE/NAME of a claim that a pod with a missing claim may mean; empty if there is none.

        A similar name in the pod's namespace comes before the same name in another namespace.
        """
        if missing not in self._similar_claims:
            namespace, name = missing
            keys = [claim.metadata.key for claim in self.snapshot.claims]
            near = get_close_matches(name, (key[1] for key in keys if key[0] == namespace), n=1, cutoff=0.8)
            similar = [(namespace, near[0])] if near else sorted(key for key in keys if key[1] == name)
            self._similar_claims[missing] = "/".join(similar[0]) if similar else ""
        return self._similar_claims[missing]

    @cached_property
    def inventory(self) -> ResourceSliceTracker:
        """The devices that drivers publish."""
        tracker = ResourceSliceTracker(allocator_release(self.snapshot.server))
        for rule in self.snapshot.rules:
            tracker.observe_rule(rule)
        for resource_slice in self.snapshot.slices:
            tracker.observe(resource_slice)
        return tracker

    @cached_property
    def shares(self) -> ConsumedCapacityCollection:
        """The capacity that claims consume of shared devices."""
        consumed = ConsumedCapacityCollection()
        for claim in self.snapshot.claims:
            consumed.observe_allocation(claim.metadata.uid, claim.status.allocation)
        return consumed

    @cached_property
    def cards(self) -> CardIndex:
        """The GPUs that the driver publishes, by pool and device."""
        index = CardIndex()
        for resource_slice in self.snapshot.slices:
            index.observe(resource_slice)
        return index

    @cached_property
    def start_failures(self) -> dict[tuple[str, Uid], PodEvent]:
        """Namespace and uid of a pod → the last Event by which its kubelet reports that the pod cannot start.

        An Event counts in its own namespace only: users can write Events that name any uid.
        """
        events = sorted(self.snapshot.start_failures, key=_time_of_event)
        return {(event.metadata.namespace, event.regarding.uid): event for event in events}

    @cached_property
    def templates(self) -> frozenset[Key]:
        """The keys of the existing ResourceClaimTemplates."""
        return frozenset(template.metadata.key for template in self.snapshot.templates)

    @cached_property
    def classes(self) -> dict[str, DeviceClass]:
        """The DeviceClasses of the snapshot, by name."""
        return {device_class.metadata.name: device_class for device_class in self.snapshot.classes}

    @cached_property
    def node_infos(self) -> dict[str, NodeInfo]:
        """The nodes with the resources and host ports that their pods use."""
        infos: dict[str, NodeInfo] = {}
        for name, node in self.nodes.items():
            infos[name] = NodeInfo(name)
            infos[name].observe(node)
        for pod in self.snapshot.pods:
            info = infos.get(pod.spec.node_name)
            if info is not None and not pod.terminal:
                requested = pod_requests(pod, release=self.inventory.release)
                info.add(pod.metadata.uid, requested, host_ports=pod_host_ports(pod))
        return infos

    @cached_property
    def node_metrics(self) -> dict[str, NodeMetric] | None:
        """The NodeMetrics of the snapshot, by name of the node; None if there are none to read."""
        metrics = self.snapshot.node_metrics
        return None if metrics is None else {metric.metadata.name: metric for metric in metrics}

    def pods_on(self, node: str) -> Iterable[SchedulerPod]:
        """Return the pods on a node."""
        return self._pods_by_node.get(node, ())

    def batch_pod_of(self, pod: SchedulerPod) -> BatchPod:
        """Return a pod as the sum of batch resources sees it."""
        return batch_pod(pod)

    @property
    def has_all_pods_of_nodes(self) -> bool:
        """Report whether the pods of all namespaces were read, so that sums over the pods of a node are right."""
        return self.snapshot.namespace is None and not any(
            gap.resource.partition(" ")[0] == "pods" for gap in self.snapshot.gaps
        )

    @cached_property
    def _pods_by_node(self) -> dict[str, list[SchedulerPod]]:
        by_node: defaultdict[str, list[SchedulerPod]] = defaultdict(list)
        for pod in self.snapshot.pods:
            by_node[pod.spec.node_name].append(pod)
        return dict(by_node)

    def placements(self, view: ClaimView) -> Placements | None:
        """Return where the waiting pods of an allocated claim could run; None if too little was read to decide."""
        unread = {gap.resource.partition(".")[0] for gap in self.snapshot.gaps}
        if self.snapshot.namespace is not None or not unread.isdisjoint(_PLACEMENT_RESOURCES):
            return None
        # In a live cluster, the infos may be older than the deletion of a node.
        nodes = self.nodes
        ready = {name: info for name, info in self.node_infos.items() if name in nodes and nodes[name].ready}
        snapshot = ClusterSnapshot(
            ready, self.inventory, self.classes, self.claim_cache.ledger, self.shares, taints=self.claim_cache.taints
        )
        pods = (self.pods[c.key] for c in view.waiting if c.unschedulable_since is not None and c.key in self.pods)
        try:
            search = PlacementSearch(view.claim, pods, snapshot=snapshot, claim_of=self.claim_cache.claim)
        except UnsatisfiableError:
            return None
        for _ in search.steps():
            pass
        return search.placements(at=self.now, read_at=self.now)

    @cached_property
    def pods_by_claim(self) -> dict[Key, list[SchedulerPod]]:
        """Claim → the pods that name the claim."""
        by_claim: defaultdict[Key, list[SchedulerPod]] = defaultdict(list)
        for pod in self.snapshot.pods:
            for name in claim_names(pod):
                by_claim[pod.metadata.namespace, name].append(pod)
        return dict(by_claim)

    def pods_of(self, claim: Key) -> Iterable[SchedulerPod]:
        """Return the pods that name a claim."""
        return self.pods_by_claim.get(claim, ())

    def _observe_snapshot(self) -> None:
        cache = self.claim_cache
        fresh = not cache.keys()
        cache.watch_reservations()  # a Reservation that is not in the snapshot does not count as ended
        for node in self.snapshot.nodes:
            cache.observe_node(node, now=self.now)
        self._observe_taints()
        for claim in self.snapshot.claims:
            cache.observe_claim(claim, now=self.now)
        for pod in self.snapshot.pods:
            if is_claim_related(pod):
                cache.observe_pod(pod, now=self.now)
        seen = {workload.key: workload for workload in self.snapshot.workloads}
        self._observe_workloads(seen.values())
        existing = {pod.metadata.uid for pod in self.snapshot.pods}
        for claim in self.snapshot.claims:
            self._forget_absent(claim, seen, existing)
        if fresh:
            cache.mark_synced(now=self.now)
        cache.dirty.clear()

    def _observe_workloads(self, workloads: Iterable[ReferencedWorkload]) -> None:
        cache = self.claim_cache
        for workload in workloads:
            if workload.phase in _EXISTING_PHASES:
                finished = workload.phase is WorkloadPhase.FINISHED
                cache.workloads.observe(workload.key, uid=workload.uid, finished=finished, suspended=workload.suspended)
            else:
                cache.workloads.observe_kind(workload.key.kind, workload.phase)

    def _observe_taints(self) -> None:
        cache = self.claim_cache
        for resource_slice in self.snapshot.slices:
            cache.taints.observe_slice(slice_taints(resource_slice))
        for rule in self.snapshot.rules:
            cache.taints.observe_rule(rule)
        cache.taints.slices_known()

    def _forget_absent(
        self, claim: ResourceClaim, seen: Mapping[WorkloadKey, ReferencedWorkload], existing: Container[Uid]
    ) -> None:
        """Mark pods and workloads that the claim names and that do not exist as gone: a snapshot is a live read.

        A snapshot does not show how a pod that is gone has ended.
        """
        key, cache = claim.metadata.key, self.claim_cache
        references = [entry for entry in claim.entries if not entry.is_pod]
        with suppress(MalformedReferenceError):
            reservation = workload_reservation(claim)
            references += [reservation.reference] if reservation is not None else []
        for reference in references:
            workload = seen.get(WorkloadKey.from_reference(reference, key[0]))
            if workload is not None and reference.uid and _workload_is_gone(workload, reference.uid):
                cache.workloads.forget(workload.key, reference.uid)
        for entry in claim.entries:
            if not entry.is_pod or cache.consumer(entry.uid) is not None:
                continue
            if entry.uid in existing:
                cache.lookups.observe_pod_present(key, entry.uid, now=self.now)
            elif self.has_all_pods(key[0]):
                cache.lookups.observe_pod_vanished(key, entry.uid)


def _time_of_event(event: PodEvent) -> str:
    return event.last


def is_claim_related(pod: SchedulerPod) -> bool:
    """Report whether the controller would keep the pod in its cache."""
    spec = pod.spec
    return bool(spec.resource_claims or pod.status.extended_resource_claim_status or SCHEDULING_GATE in pod.gates)


def _workload_is_gone(workload: ReferencedWorkload, expected: Uid) -> bool:
    return workload.phase is WorkloadPhase.ABSENT or (workload.phase in _EXISTING_PHASES and workload.uid != expected)


def slice_taints(resource_slice: ResourceSlice) -> ResourceSliceTaints:
    """Return the part of a slice that decides about taints, with the UUIDs of devices."""
    spec = resource_slice.spec
    devices = [
        TaintedDevice(name=device.name, taints=device.taints, attributes=_gpu_attributes(device.attributes))
        for device in spec.devices or ()
    ]
    return ResourceSliceTaints(
        metadata=resource_slice.metadata,
        spec=ResourceSliceTaintsSpec(driver=spec.driver, pool=spec.pool, node_name=spec.node_name, devices=devices),
    )


def _gpu_attributes(attributes: Mapping[str, Any] | None) -> GpuAttributes | None:
    uuid = ((attributes or {}).get("uuid") or {}).get("string")
    return GpuAttributes(uuid=StringAttribute(string=uuid)) if isinstance(uuid, str) else None
