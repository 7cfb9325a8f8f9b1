"""The snapshot of a round: the cluster as it was at the start, with the moves that the round has decided since.

Plugins read the snapshot and write nothing. A pod whose migration is accepted, or was in progress when the round began,
counts on the node that is to hold its place, and is no candidate any more: otherwise every round would add the same
excess again. What reservations and the annotations of nodes hold is never free.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dra.api.migration.model import PodMigrationJob
from dra.engine.colocation.node_usage import NodeUsage
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.instants import WallTime
from dra.engine.migration.pod_index import WorkloadKey, controller_of
from dra.engine.reservations.pod_requests import pod_requests
from dra.model import quantities
from dra.model.claims import ResourceClaim
from dra.model.device_classes import DeviceClass
from dra.model.meta import OwnerReference, Uid, UnstructuredObject
from dra.model.node_metrics import NodeMetric
from dra.model.nodes import UNSCHEDULABLE_TAINT, Taint
from dra.model.preemption import PodDisruptionBudget, PodUnavailableBudget
from dra.model.quantities import Amounts
from dra.model.scheduling import SchedulerNode
from dra.model.slices import ResourceSlice
from dra.model.volumes import PersistentVolume, PersistentVolumeClaim

WAITING_FOR_ANY_NODE = ""
"""Target of a pod in flight whose Reservation has no node yet: the pod counts nowhere."""


@dataclass(slots=True)
class SnapshotNode:
    """A node with the pods that it runs or is to run."""

    node: SchedulerNode
    pods: dict[Uid, DeschedulingPod] = field(default_factory=dict)
    """Pods that are on the node and stay, those that have ended included."""
    arriving: dict[Uid, DeschedulingPod] = field(default_factory=dict)
    """Pods that are to move to the node: they count as load, and are no candidates."""
    requested: dict[str, int] = field(default_factory=dict)
    """Requests of both that have not ended, one of ``pods`` each, in billionths."""
    usage: NodeUsage | None = None
    """What the node's NodeMetric reports; None without a report in time."""

    @property
    def name(self) -> str:
        """The name of the node."""
        return self.node.metadata.name

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the node."""
        return self.node.metadata.labels or {}

    @property
    def taints(self) -> tuple[Taint, ...]:
        """All taints of the node, that of a cordoned node included."""
        taints = tuple(self.node.spec.taints or ())
        if self.node.spec.unschedulable and not any(taint.key == UNSCHEDULABLE_TAINT.key for taint in taints):
            return (UNSCHEDULABLE_TAINT, *taints)
        return taints

    @property
    def is_schedulable(self) -> bool:
        """Whether the node is ready and not cordoned."""
        return self.node.ready and not self.node.spec.unschedulable

    @property
    def allocatable(self) -> Amounts:
        """What the node's status offers to pods, in billionths, without regard to its node reservation."""
        return quantities.from_validated_list(self.node.status.allocatable)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterObjects:
    """The objects that a snapshot is made of; what is empty by default restricts nothing, or is not in the cluster."""

    nodes: tuple[SchedulerNode, ...]
    pods: tuple[DeschedulingPod, ...]
    reservations: tuple[UnstructuredObject, ...] = ()
    jobs: tuple[PodMigrationJob, ...] = ()
    """Unfinished PodMigrationJobs, of people as well."""
    disruption_budgets: tuple[PodDisruptionBudget, ...] = ()
    unavailable_budgets: tuple[PodUnavailableBudget, ...] = ()
    node_metrics: tuple[NodeMetric, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Namespace → its labels."""
    priority_classes: Mapping[str, int] = field(default_factory=dict)
    """PriorityClass → its value."""
    replicas: Mapping[WorkloadKey, int] = field(default_factory=dict)
    """Workload → the replicas that it wants, where that is known."""
    volumes: tuple[PersistentVolume, ...] = ()
    volume_claims: tuple[PersistentVolumeClaim, ...] = ()
    claims: tuple[ResourceClaim, ...] = ()
    slices: tuple[ResourceSlice, ...] = ()
    device_classes: tuple[DeviceClass, ...] = ()


class Snapshot:
    """The cluster of a round."""

    def __init__(self, objects: ClusterObjects, *, now: WallTime, memory: dict[str, Any] | None = None) -> None:
        """Create a snapshot; ``memory`` is what plugins remember of earlier rounds, which they change in place."""
        self.objects = objects
        self.now = now
        self.nodes: dict[str, SnapshotNode] = {node.metadata.name: SnapshotNode(node) for node in objects.nodes}
        self.moved: dict[Uid, str] = {}
        """Pod that moves or was removed → its target node; `WAITING_FOR_ANY_NODE` if it has none."""
        self.memory: dict[str, Any] = {} if memory is None else memory
        """Key of a plugin in a profile (``PROFILE/PLUGIN``) → what the plugin keeps until the next round."""
        self._pods: dict[Uid, DeschedulingPod] = {}
        for pod in objects.pods:
            self._pods[pod.metadata.uid] = pod
            if (host := self.nodes.get(pod.spec.node_name)) is not None:
                host.pods[pod.metadata.uid] = pod
                if not pod.terminal:
                    host.requested = quantities.add(host.requested, pod_requests(pod))

    def pods(self) -> Iterator[DeschedulingPod]:
        """Yield all pods of the cluster but those that move, pending ones included."""
        return (pod for uid, pod in self._pods.items() if uid not in self.moved)

    def age(self, pod: DeschedulingPod) -> int:
        """Return the age of a pod in whole seconds, rounded down; 0 for a pod from the future."""
        raise NotImplementedError

    def owner(self, pod: DeschedulingPod) -> OwnerReference | None:
        """Return the controller of a pod; None for a bare pod."""
        return controller_of(pod)

    def unfit_reason(self, pod: DeschedulingPod, node: str) -> str:
        """Return why a pod could not run on a node if it were created now; empty if it could.

        The filters of kube-scheduler, and what reservations and node reservations hold. The pod itself does not count
        where it is now.
        """
        raise NotImplementedError

    def fitting_node(self, pod: DeschedulingPod, *, among: Collection[str] | None = None) -> str:
        """Return the node other than its own that has the most free for a pod; empty if it fits on none.

        ``among``: the only nodes that may receive the pod; None: all.
        """
        raise NotImplementedError

    def move(self, pod: DeschedulingPod, node: str) -> None:
        """Take a pod from its node, and count it on another one; with an empty name it counts nowhere any more."""
        raise NotImplementedError
