"""The snapshot of a round: the cluster as it was at the start, with the moves that the round has decided since.

Plugins read the snapshot and write nothing. A pod whose migration is accepted, or was in progress when the round began,
counts on the node that is to hold its place, and is no candidate any more: otherwise every round would add the same
excess again. What reservations and the annotations of nodes hold is never free.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any, Final, Self, TypeVar

from dra.engine.colocation.node_usage import NodeUsage
from dra.engine.colocation.watched import reported_usage
from dra.engine.descheduling.cluster_objects import ClusterObjects
from dra.engine.descheduling.migrations_in_flight import migrations_in_flight
from dra.engine.descheduling.node_fit import NodeFit
from dra.engine.descheduling.node_names import NodeNames
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.instants import WallTime
from dra.engine.migration.pod_index import WorkloadKey, workload_of
from dra.engine.reservations.capacity_index import NodeSet
from dra.engine.reservations.node_reservation import NodeReservation, effective_node_reservation
from dra.model import quantities
from dra.model.meta import OwnerReference, Uid
from dra.model.nodes import UNSCHEDULABLE_TAINT, Taint
from dra.model.quantities import Amounts
from dra.model.scheduling import SchedulerNode

__all__ = ["WAITING_FOR_ANY_NODE", "ClusterObjects", "Snapshot", "SnapshotNode"]

Part = TypeVar("Part")

WAITING_FOR_ANY_NODE: Final = ""
"""Target of a pod in flight whose Reservation has no node yet: the pod counts nowhere."""

_NODE_SETS_MAX: Final = 16
"""Maximum sets of receivers that a snapshot remembers."""

_NODE_RESERVATIONS: Final = "node reservations"
"""Key in the memory of a snapshot: node → its last valid node reservation."""


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
    allocatable_for_pods: Amounts = field(default_factory=dict)
    """What the node offers to pods, in billionths, without what its node reservation keeps from pods."""
    reservation_error: str = ""
    """Why the node reservation is unknown: the annotation is invalid, and no valid one is remembered. Then its valid
    fields are kept from new pods."""
    usage: NodeUsage | None = None
    """What the node's NodeMetric reports, however old (``usage.update_time``); None before the first report."""

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
        """The amounts in the node's status, in billionths, without regard to its node reservation."""
        return quantities.from_validated_list(self.node.status.allocatable)


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
        self._parts: dict[Callable[[Self], Any], Any] = {}
        self.own_memory: dict[str, Any] = {}
        """What the plugin that is being asked keeps until the next round, in this profile."""
        self.holds_places = True
        """Whether the evictor of the profile holds the place of a pod before the pod goes."""
        self._profile_nodes: frozenset[str] | None = None
        self._pods: dict[Uid, DeschedulingPod] = {pod.metadata.uid: pod for pod in objects.pods}
        self._subtract_node_reservations()
        for_pods = {name: offering.allocatable_for_pods for name, offering in self.nodes.items()}
        self._fit = NodeFit(objects, for_pods=for_pods)
        self._node_sets: dict[frozenset[str], NodeSet] = {}
        self._place_pods()
        for metric in objects.node_metrics:
            if (host := self.nodes.get(metric.metadata.name)) is not None:
                host.usage = reported_usage(metric)
        self._move_in_flight()

    def ask_for(self, profile: str, plugin: str, *, nodes: frozenset[str] | None, holds_places: bool = True) -> None:
        """Show a plugin what its profile selects: ``nodes``, None for all; and give the plugin its own memory."""
        self.holds_places = holds_places
        self._profile_nodes = nodes
        self.own_memory = self.memory.setdefault(f"{profile}/{plugin}", {})

    def selected_nodes(self) -> list[SnapshotNode]:
        """Return the nodes of the profile that are ready, by name: the only ones that its plugins compare."""
        names = self.nodes if self._profile_nodes is None else self._profile_nodes & self.nodes.keys()
        return [host for name in sorted(names) if (host := self.nodes[name]).node.ready]

    def capacity(self, node: str) -> Amounts:
        """Return what a node has for pods, in billionths: its allocatable less its node reservation."""
        return self._fit.resources.capacity(node)

    def held(self, node: str) -> Amounts:
        """Return what Reservations hold on a node and no pod uses yet, in billionths."""
        return self._fit.resources.held(node)

    def pods(self) -> Iterator[DeschedulingPod]:
        """Yield all pods of the cluster but those that move, pending ones included."""
        return (pod for uid, pod in self._pods.items() if uid not in self.moved)

    def pod(self, uid: Uid) -> DeschedulingPod | None:
        """Return a pod of the cluster, one that moves included; None if there is none of the uid."""
        return self._pods.get(uid)

    def pods_of(self, workload: WorkloadKey) -> tuple[DeschedulingPod, ...]:
        """Return all pods that name a workload as their controller, those that move included."""
        if self._by_workload is None:
            self._by_workload = {}
            for pod in self._pods.values():
                if (key := workload_of(pod)) is not None:
                    self._by_workload.setdefault(key, []).append(pod)
        return tuple(self._by_workload.get(workload, ()))

    def part(self, kind: Callable[[Self], Part]) -> Part:
        """Return what a class derives from the snapshot: an index, counts; made once, by the first who asks."""
        if kind not in self._parts:
            self._parts[kind] = kind(self)
        part: Part = self._parts[kind]
        return part

    def forget_parts(self) -> None:
        """Forget what was derived: it refers back to the snapshot, whose memory would wait for the cycle collector."""
        self._parts.clear()

    def moves_since(self, count: int) -> list[DeschedulingPod]:
        """Return the pods that move, without the first ``count`` of these."""
        newest = islice(reversed(self.moved), len(self.moved) - count)
        return [pod for uid in newest if (pod := self._pods.get(uid)) is not None]

    def requests(self, pod: DeschedulingPod) -> Amounts:
        """Return what a pod takes of its node, in billionths, one of ``pods`` included."""
        return self._fit.requests(pod)

    def age(self, pod: DeschedulingPod) -> int:
        """Return the age of a pod in whole seconds, rounded down; 0 for a pod from the future."""
        created = pod.metadata.creation_timestamp
        return max(0, int(self.now - datetime.fromisoformat(created).timestamp())) if created else 0

    def owner(self, pod: DeschedulingPod) -> OwnerReference | None:
        """Return the controller of a pod; None for a bare pod."""
        return pod.metadata.controller

    def unfit_reason(self, pod: DeschedulingPod, node: str, *, gone: Collection[Uid] = ()) -> str:
        """Return why the replacement of a pod could not run on a node; empty if it could.

        The filters of kube-scheduler, and what reservations and node reservations hold. On another node, the place
        must be there while the pod still runs, and the replacement must fit once the pod has gone. On its own node the
        pod does not count. What the pods that are ``gone`` take, devices included, counts as free.
        """
        return self._fit.unfit_reason(pod, node, gone=gone)

    def requested_devices(self, pod: DeschedulingPod) -> int | None:
        """Return the least number of devices that claims of a pod without an allocation need; None: all of a node."""
        return self._fit.devices.requested(self._fit.candidate(pod))

    def held_devices(self, pod: DeschedulingPod) -> int:
        """Return the number of devices that become free with the end of a pod."""
        return self._fit.devices.devices_of(self._fit.devices.held_by(pod.metadata.uid))

    def free_devices(self, node: str) -> int:
        """Return the number of devices of a node that no claim holds."""
        return self._fit.devices.free_on(node)

    def places(self, pods: Iterable[DeschedulingPod], *, among: Collection[str] | None = None) -> list[str]:
        """Return nodes that have places for all pods at the same time; empty if one of the pods finds none."""
        return self._fit.places(pods, among=self._node_set(among))

    def fitting_node(self, pod: DeschedulingPod, *, among: Collection[str] | None = None) -> str:
        """Return the node other than its own that has the most free for a pod; empty if it fits on none.

        ``among``: the only nodes that may receive the pod; None: all.
        """
        return next(self.fitting_nodes(pod, among=among), "")

    def fitting_nodes(self, pod: DeschedulingPod, *, among: Collection[str] | None = None) -> Iterator[str]:
        """Yield the nodes other than its own that a pod fits on, the one with the most free first."""
        return self._fit.fitting_nodes(pod, among=self._node_set(among))

    def no_place_reason(self, pod: DeschedulingPod, *, among: Collection[str] | None = None) -> str:
        """Return why a pod fits on no other node, or on none of ``among``, in the words of kube-scheduler.

        ``0/3 nodes are available: 2 Insufficient cpu, 1 node(s) were unschedulable``.
        """
        nodes = self._node_set(among)
        misfits = self._fit.misfits(pod, among=nodes)
        texts = (f"{number} {text}" for text, number in sorted(misfits.items(), key=lambda item: (-item[1], item[0])))
        number = (nodes & ~self._node_set((pod.spec.node_name,))).bit_count()
        return f"0/{number} nodes are available{': ' if misfits else ''}{', '.join(texts)}"

    def node_names(self, names: Collection[str]) -> NodeNames:
        """Return the set of some nodes, as the methods of this snapshot take it at the least cost."""
        return NodeNames(self._fit.labels.numbers, self._node_set(names))

    def mountable_nodes(self, pod: DeschedulingPod) -> frozenset[str] | None:
        """Return the only nodes that can mount the volumes of a pod; None if all can. A Reservation has no volumes."""
        return self._fit.mountable_nodes(pod)

    def _node_set(self, among: Collection[str] | None) -> NodeSet:
        """Return the set of the named nodes; plugins name the same receivers for many pods."""
        if isinstance(among, NodeNames) and among.numbers is self._fit.labels.numbers:
            return among.nodes
        if not isinstance(among, frozenset):
            return self._fit.node_set(among)
        known = self._node_sets.get(among)
        if known is None:
            if len(self._node_sets) >= _NODE_SETS_MAX:  # each may name all nodes
                self._node_sets.clear()
            known = self._node_sets[among] = self._fit.node_set(among)
        return known

    def move(self, pod: DeschedulingPod, node: str) -> None:
        """Take a pod from its node, and count it on another one; with an empty name it counts nowhere any more."""
        uid = pod.metadata.uid
        self._leave(pod)
        self.moved[uid] = node
        self._fit.move(pod, node)
        if (host := self.nodes.get(node)) is not None:
            host.arriving[uid] = pod
            host.requested = quantities.add(host.requested, self.requests(pod))

    _by_workload: dict[WorkloadKey, list[DeschedulingPod]] | None = None

    def _subtract_node_reservations(self) -> None:
        """Set what each node offers to pods; while an annotation is invalid, its last valid reservation counts."""
        before: dict[str, NodeReservation] = self.memory.get(_NODE_RESERVATIONS, {})
        valid: dict[str, NodeReservation] = {}
        for name, host in self.nodes.items():
            effective = effective_node_reservation(host.node, before=before.get(name))
            host.allocatable_for_pods = effective.allocatable
            if not effective.error or name in before:
                valid[name] = effective.reservation
            else:
                host.reservation_error = effective.error
        self.memory[_NODE_RESERVATIONS] = valid  # a node that comes again begins without its past

    def _move_in_flight(self) -> None:
        """Move the pods of unfinished jobs; of those without a node yet, the likely places are kept from others."""
        waiting = []
        for migration in migrations_in_flight(
            self.objects.jobs, reservations=self.objects.reservations, pods=self._pods
        ):
            if migration.node in self.nodes:
                self.move(migration.pod, migration.node)
            else:
                waiting.append(migration.pod)
        for pod in waiting:
            place = next(self._fit.fitting_nodes(pod, among=self._fit.labels.all), "")
            if place:
                self._fit.hold(pod, place)
            self.move(pod, WAITING_FOR_ANY_NODE)

    def _place_pods(self) -> None:
        """Count each pod on its node."""
        for uid, pod in self._pods.items():
            if (host := self.nodes.get(pod.spec.node_name)) is not None:
                host.pods[uid] = pod
                if not pod.terminal:
                    requested = host.requested
                    for resource, amount in self.requests(pod).items():
                        requested[resource] = requested.get(resource, 0) + amount

    def _leave(self, pod: DeschedulingPod) -> None:
        """Take a pod from the node that it counts on."""
        uid = pod.metadata.uid
        host = self.nodes.get(self.moved.get(uid, pod.spec.node_name))
        if host is None:
            return
        was_there = host.pods.pop(uid, None) or host.arriving.pop(uid, None)
        if was_there is not None and not pod.terminal:
            host.requested = quantities.subtract(host.requested, self.requests(pod))
