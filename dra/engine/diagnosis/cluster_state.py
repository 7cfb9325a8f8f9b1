"""A snapshot put into the indexes of the engine, so that the rules can be asked about it.

Everything is observed at one instant, `SEEN`. The rules are asked at `LATER` too, when every cycle that might have been
under way then is over: what they would do at the latest, if nothing else happened.
"""

from collections import defaultdict
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from enum import StrEnum
from functools import cached_property
from typing import Final

from dra.engine.allocator import ConsumedCapacityCollection, ResourceSliceTracker, UnsatisfiableError
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.consumers import SCHEDULING_GATE
from dra.engine.claims.placements import ClusterSnapshot, PlacementSearch
from dra.engine.claims.policy import ALONGSIDE, Policy
from dra.engine.claims.view import ClaimView, Placements, WorkloadPhase
from dra.engine.claims.workload_index import WorkloadKey
from dra.engine.diagnosis.snapshot import ReferencedWorkload, Snapshot
from dra.engine.instants import SLOW_BIND_HORIZON, Instant
from dra.engine.scheduling.node_info import NodeInfo, pod_requests
from dra.model.claims import ResourceClaim
from dra.model.device_classes import DeviceClass
from dra.model.meta import Key, Uid
from dra.model.pods import claim_names
from dra.model.references import MalformedReferenceError
from dra.model.scheduling import SchedulerNode, SchedulerPod
from dra.model.slices import ResourceSlice, ResourceSliceTaints, ResourceSliceTaintsSpec, TaintedDevice
from dra.model.workload_reservations import workload_reservation

SNAPSHOT_INSTANT: Final[Instant] = 0.0
SETTLED_INSTANT: Final[Instant] = 2 * SLOW_BIND_HORIZON

_PLACEMENT_RESOURCES: Final = frozenset({"pods", "nodes", "resourceslices", "deviceclasses", "devicetaintrules"})
"""Resources of which all objects decide where a pod can run."""

_EXISTING_PHASES: Final = frozenset({WorkloadPhase.PRESENT, WorkloadPhase.FINISHED})


class AllocationHold(StrEnum):
    """Something that keeps an allocation; the comment says by which rule."""

    WORKLOAD = "workload"  # 2, 7: the workload that the claim is reserved for may still use it
    CONSUMING = "consuming"  # 8: bound pods use it
    WAITING = "waiting"  # 3, 8: listed pods may be bound any moment
    FOREIGN = "foreign"  # 1: entries of others are never touched
    UNKNOWN = "unknown"  # 12: listed pods of which nobody can tell whether they are there
    LOST_NODE = "lost-node"  # 12: pods vanished from a node that did not report in
    VANISHED = "vanished-pods"  # 12: pods vanished before anybody told that their containers had ended
    GROUP = "group"  # 13: a PodGroup that is there has it
    RESERVATION = "reservation"  # a Reservation keeps it for its owners, until that is over
    FORMER = "former"  # 7: an entry for an object of the same name before this one
    DOUBT = "doubt"  # 12: nobody can tell whether the workload has the claim
    TIME = "time"  # 8: a scheduling cycle may still bind a pod; it passes
    NOTHING = "nothing"  # 8: an empty list of an allocation that nobody uses: legal, and no edge that frees it


class ClusterState:
    """What a snapshot says, indexed."""

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        policy: Policy = ALONGSIDE,
        world: ClaimCache | None = None,
        now: Instant = SNAPSHOT_INSTANT,
    ) -> None:
        """``world`` is one that has seen an earlier snapshot, and remembers when it saw what."""
        self.snapshot = snapshot
        self.policy = policy
        self.now = now
        self.world = ClaimCache() if world is None else world
        self.kept: dict[Key, tuple[AllocationHold, ...]] = {}
        """What keeps a claim, once that has been asked."""

        self.pods: dict[Key, SchedulerPod] = {pod.metadata.key: pod for pod in snapshot.pods}
        self.nodes: dict[str, SchedulerNode] = {node.metadata.name: node for node in snapshot.nodes}
        self._fill()

    def pod(self, uid: Uid) -> SchedulerPod | None:
        """Return a pod by its uid."""
        consumer = self.world.consumer(uid)
        return self.pods.get(consumer.key) if consumer is not None else None

    def view(self, key: Key, *, now: Instant = SNAPSHOT_INSTANT) -> ClaimView | None:
        """Return what the rules see of a claim."""
        return self.world.view(key, now=now)

    def complete(self, namespace: str) -> bool:
        """Whether all pods of a namespace were read: whoever is not there is gone."""
        if any(gap.resource == "pods" for gap in self.snapshot.gaps):
            return False
        return self.snapshot.namespace in {None, namespace}

    @cached_property
    def inventory(self) -> ResourceSliceTracker:
        """What drivers offer."""
        found = ResourceSliceTracker()
        for rule in self.snapshot.rules:
            found.observe_rule(rule)
        for each in self.snapshot.slices:
            found.observe(each)
        return found

    @cached_property
    def shares(self) -> ConsumedCapacityCollection:
        """How much is given away of devices that may be shared."""
        found = ConsumedCapacityCollection()
        for claim in self.snapshot.claims:
            found.put(claim.metadata.uid, claim.status.allocation)
        return found

    @cached_property
    def templates(self) -> frozenset[Key]:
        """The templates that there are."""
        return frozenset(each.metadata.key for each in self.snapshot.templates)

    @cached_property
    def classes(self) -> dict[str, DeviceClass]:
        """The device classes."""
        return {each.metadata.name: each for each in self.snapshot.classes}

    @cached_property
    def rooms(self) -> dict[str, NodeInfo]:
        """The nodes, with what runs there."""
        rooms: dict[str, NodeInfo] = {}
        for name, node in self.nodes.items():
            rooms[name] = NodeInfo(name)
            rooms[name].observe(node)
        for pod in self.snapshot.pods:
            room = rooms.get(pod.spec.node_name)
            if room is not None and not pod.terminal:
                room.add(pod.metadata.uid, pod_requests(pod))
        return rooms

    def placements(self, view: ClaimView) -> Placements | None:
        """Return where the pods could run that wait for an allocated claim; None if not enough was read to tell."""
        read = {gap.resource.partition(".")[0] for gap in self.snapshot.gaps}
        if self.snapshot.namespace is not None or not read.isdisjoint(_PLACEMENT_RESOURCES):
            return None
        ready = {name: room for name, room in self.rooms.items() if self.nodes[name].ready}
        picture = ClusterSnapshot(
            ready, self.inventory, self.classes, self.world.ledger, self.shares, taints=self.world.taints
        )
        pods = (self.pods[c.key] for c in view.waiting if c.unschedulable_since is not None and c.key in self.pods)
        try:
            search = PlacementSearch(view.claim, pods, picture=picture, claim_of=self.world.claim)
        except UnsatisfiableError:
            return None
        for _ in search.steps():
            pass
        return search.placements(at=self.now)

    @cached_property
    def users(self) -> dict[Key, list[SchedulerPod]]:
        """Claim → the pods that name it."""
        found: defaultdict[Key, list[SchedulerPod]] = defaultdict(list)
        for pod in self.snapshot.pods:
            for name in claim_names(pod):
                found[pod.metadata.namespace, name].append(pod)
        return dict(found)

    def _fill(self) -> None:
        world = self.world
        fresh = not world.keys()
        world.follow_reservations()  # what is not known of one does not end it
        for node in self.snapshot.nodes:
            world.observe_node(node, now=self.now)
        self._fill_taints()
        for claim in self.snapshot.claims:
            world.observe_claim(claim, now=self.now)
        for pod in self.snapshot.pods:
            if _is_claim_related(pod):
                world.observe_pod(pod, now=self.now)
        seen = {each.key: each for each in self.snapshot.workloads}
        for workload in seen.values():
            if workload.phase in _EXISTING_PHASES:
                finished = workload.phase is WorkloadPhase.FINISHED
                world.observe_workload(workload.key, uid=workload.uid, finished=finished)
            else:
                world.kind_is(workload.key.kind, workload.phase)
        there = {pod.metadata.uid for pod in self.snapshot.pods}
        for claim in self.snapshot.claims:
            self._settle(claim, seen, there)
        if fresh:
            world.mark_synced(now=self.now)
        world.dirty.clear()

    def _fill_taints(self) -> None:
        world = self.world
        for each in self.snapshot.slices:
            world.taints.observe_slice(_slice_taints(each))
        for rule in self.snapshot.rules:
            world.taints.observe_rule(rule)
        world.taints.slices_known()

    def _settle(
        self, claim: ResourceClaim, seen: Mapping[WorkloadKey, ReferencedWorkload], there: AbstractSet[Uid]
    ) -> None:
        """Say of whoever the claim names and is not there that it is gone: a snapshot is a live read.

        How a pod that is gone has ended, no snapshot tells.
        """
        key, world = claim.metadata.key, self.world
        references = [entry for entry in claim.entries if not entry.is_pod]
        with suppress(MalformedReferenceError):
            found = workload_reservation(claim)
            references += [found.reference] if found is not None else []
        for reference in references:
            workload = seen.get(WorkloadKey.of(reference, key[0]))
            if workload is not None and reference.uid and _workload_is_gone(workload, reference.uid):
                world.forget_workload(workload.key, reference.uid)
        for entry in claim.entries:
            if not entry.is_pod or world.consumer(entry.uid) is not None:
                continue
            if entry.uid in there:
                world.pod_present(key, entry.uid, now=self.now)
            elif self.complete(key[0]):
                world.pod_vanished(key, entry.uid)


def _is_claim_related(pod: SchedulerPod) -> bool:
    """Whether the controller would keep the pod in mind."""
    spec = pod.spec
    return bool(spec.resource_claims or pod.status.extended_resource_claim_status or SCHEDULING_GATE in pod.gates)


def _workload_is_gone(found: ReferencedWorkload, expected: Uid) -> bool:
    return found.phase is WorkloadPhase.ABSENT or (found.phase in _EXISTING_PHASES and found.uid != expected)


def _slice_taints(found: ResourceSlice) -> ResourceSliceTaints:
    spec = found.spec
    devices = [TaintedDevice(name=device.name, taints=device.taints) for device in spec.devices or ()]
    return ResourceSliceTaints(
        metadata=found.metadata,
        spec=ResourceSliceTaintsSpec(driver=spec.driver, pool=spec.pool, node_name=spec.node_name, devices=devices),
    )
