"""Whether a pod would fit on a node: all filters of kube-scheduler, in its order and its words.

The pod asks for its replacement. On another node the replacement must fit twice: while the pod still runs, since its
place is held first, and after the pod has gone. Only on its own node the pod does not count.

Each filter answers for all nodes at once with a set of nodes (`CapacityIndex`), and for one node with a reason. Devices
are searched node by node, the one with the most free first.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial

from dra.engine.allocator import allocator_release
from dra.engine.descheduling.candidate import Candidate, Demands
from dra.engine.descheduling.cluster_objects import ClusterObjects
from dra.engine.descheduling.devices import Devices
from dra.engine.descheduling.host_ports import UsedHostPorts
from dra.engine.descheduling.inter_pod_affinity import InterPodAffinity
from dra.engine.descheduling.label_groups import LabelGroups
from dra.engine.descheduling.node_labels import NodeLabels
from dra.engine.descheduling.node_resources import NodeResources, place_uid
from dra.engine.descheduling.node_selection import NodeSelection
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.topology_spread import TopologySpread
from dra.engine.descheduling.volumes import Volumes
from dra.engine.kube_scheduler import host_ports
from dra.engine.kube_scheduler.extended_resources import served_resources
from dra.engine.kube_scheduler.pod_requests import pod_requests
from dra.engine.reservations.capacity_index import NodeSet
from dra.model.meta import Uid
from dra.model.quantities import Amounts


class NodeFit:
    """The nodes of a round with what is free on each."""

    def __init__(self, objects: ClusterObjects, *, for_pods: Mapping[str, Amounts]) -> None:
        """Count all objects; ``for_pods`` is what each node has less its node reservation."""
        nodes = {node.metadata.name: node for node in objects.nodes}
        self._served = served_resources(objects.device_classes)
        self._allocator_release = allocator_release(objects.server)
        self._amounts: dict[Uid, Amounts] = {}
        self._shared_amounts: dict[tuple[tuple[str, int], ...], Amounts] = {}
        self._alike: dict[tuple[int, ...], tuple[DeschedulingPod, Amounts]] = {}
        """Identities of a pod's parts → the pod, so that no other parts get these identities, and what it takes."""
        self._names = frozenset(nodes)
        self._node_of: dict[Uid, str] = {}
        """Pod that was moved → its new node."""
        self._demands = Demands()
        self._pods = objects.pods
        self.resources = NodeResources(nodes.values(), objects.reservations, self._pods_by_node(), for_pods=for_pods)
        self.labels = NodeLabels(nodes.values(), self.resources.accounting.index)
        self._selection = NodeSelection(nodes, self.labels)
        self._ports = UsedHostPorts(self.labels)
        self._volumes = Volumes(self.labels, objects.volume_claims, objects.volumes)
        self.devices = Devices(
            self.labels,
            node_labels={name: node.metadata.labels for name, node in nodes.items()},
            claims=objects.claims,
            templates=objects.claim_templates,
            slices=objects.slices,
            classes=objects.device_classes,
            rules=objects.device_taint_rules,
            release=self._allocator_release,
        )
        self._count_ports()
        self._topology: tuple[LabelGroups, InterPodAffinity, TopologySpread] | None = None
        self._namespaces = objects.namespaces

    def requests(self, pod: DeschedulingPod) -> Amounts:
        """Return what a pod takes of its node, one of ``pods`` included; pods that take the same share one object."""
        known = self._amounts.get(pod.metadata.uid)
        if known is None:
            parts = _parts_of_requests(pod)
            alike = self._alike.get(parts) if parts is not None else None
            if alike is not None:
                known = alike[1]
            else:
                amounts = self._without_devices(pod, pod_requests(pod, release=self._allocator_release))
                known = self._shared_amounts.setdefault(tuple(amounts.items()), amounts)
                if parts is not None:
                    self._alike[parts] = (pod, known)
            self._amounts[pod.metadata.uid] = known
        return known

    def _without_devices(self, pod: DeschedulingPod, amounts: Amounts) -> Amounts:
        """Return what a pod takes of its node less its extended resources, if devices serve these."""
        if pod.status.extended_resource_claim_status is None:
            return amounts
        return {resource: amount for resource, amount in amounts.items() if resource not in self._served}

    def candidate(self, pod: DeschedulingPod) -> Candidate:
        """Return a pod as a candidate."""
        uid = pod.metadata.uid
        return Candidate(self._demands.of(pod, self.requests(pod)), uid, self._node_of.get(uid, pod.spec.node_name))

    def unfit_reason(self, pod: DeschedulingPod, node: str, *, gone: Collection[Uid] = ()) -> str:
        """Return why the replacement of a pod could not run on a node, even once some pods there have ``gone``."""
        if not self.labels.single(node):
            return f"node {node}: not found"
        return self._reason(self.candidate(pod), node, gone)

    def fitting_nodes(self, pod: DeschedulingPod, *, among: NodeSet) -> Iterator[str]:
        """Yield the nodes other than its own on which the replacement of a pod could run, the most free first."""
        candidate = self.candidate(pod)
        nodes = among & self.labels.all & ~self.labels.single(candidate.node)
        for passing in self._filters():
            nodes &= passing(candidate)
            if not nodes:
                return
        if candidate.demand.problem or self._given_up_reason(candidate):
            return
        for name in self.resources.by_free(nodes):
            if not self._device_reason(candidate, name):
                yield name

    def misfits(self, pod: DeschedulingPod, *, among: NodeSet) -> Counter[str]:
        """Return the reasons why a pod fits on none of some nodes, its own excepted, each with a number of nodes.

        The first filter in the order of kube-scheduler that a node does not pass says why. The sets tell which one that
        is, so that only this one is asked.
        """
        candidate = self.candidate(pod)
        left = among & self.labels.all & ~self.labels.single(candidate.node)
        misfits: Counter[str] = Counter()
        for nodes, reason in self._ordered_filters(candidate):
            for name in self.labels.numbers.names(left & ~nodes):
                if text := reason(name):
                    misfits[text] += 1
                    left ^= self.labels.single(name)
        for name in self.labels.numbers.names(left):
            if text := candidate.demand.problem or self._device_reason(candidate, name):
                misfits[text] += 1
        return misfits

    def mountable_nodes(self, pod: DeschedulingPod) -> frozenset[str] | None:
        """Return the only nodes that can mount the volumes of a pod; None if all can."""
        nodes = self._volumes.nodes(self.candidate(pod))
        return None if nodes == self.labels.all else frozenset(self.resources.accounting.index.names(nodes))

    def node_set(self, names: Collection[str] | None) -> NodeSet:
        """Return the set of the named nodes; None stands for all."""
        if names is None:
            return self.labels.all
        if isinstance(names, frozenset) and 2 * len(names) > len(self._names):
            return self.labels.all & ~self.labels.numbers.set_of(self._names - names)  # most plugins exclude few nodes
        return self.labels.numbers.set_of(names)

    def move(self, pod: DeschedulingPod, node: str) -> None:
        """Hold the place of a pod on a node, and count the pod there for others; nowhere with an empty name.

        What the pod takes where it is becomes free only in a later round, when the pod has gone.
        """
        candidate = self.candidate(pod)
        if self.labels.single(node):
            self.hold(pod, node)
        groups, affinity, spread = self._by_topology()
        if not pod.terminal:
            groups.move(pod, before=candidate.node, after=node)
            affinity.move(pod, after=node)
            spread.move(pod, before=candidate.node, after=node)
        self._node_of[pod.metadata.uid] = node

    def hold(self, pod: DeschedulingPod, node: str) -> None:
        """Hold what the replacement of a pod takes of a node."""
        candidate = self.candidate(pod)
        if not self._are_held(candidate, node):
            self.devices.hold(candidate, node)
        self.resources.hold(candidate, node)
        self._ports.add(place_uid(candidate, node), candidate.demand.info.host_ports, node=node)

    def places(self, pods: Iterable[DeschedulingPod], *, among: NodeSet) -> list[str]:
        """Return nodes that have places for all pods at the same time; empty if one of them finds none."""
        held: list[tuple[Candidate, str]] = []
        for pod in pods:
            node = next(self.fitting_nodes(pod, among=among), "")
            if not node:
                break
            self.hold(pod, node)
            held.append((self.candidate(pod), node))
        else:
            self._release(held)
            return [node for _, node in held]
        self._release(held)
        return []

    def _release(self, held: Iterable[tuple[Candidate, str]]) -> None:
        for candidate, node in held:
            self.devices.release(candidate, node)
            self.resources.release(candidate, node)
            self._ports.remove(place_uid(candidate, node), candidate.demand.info.host_ports, node=node)

    def _pods_by_node(self) -> dict[str, list[tuple[DeschedulingPod, Amounts]]]:
        by_node: dict[str, list[tuple[DeschedulingPod, Amounts]]] = {}
        for pod in self._pods:
            node = pod.spec.node_name or pod.status.nominated_node_name
            if node and not pod.terminal:
                by_node.setdefault(node, []).append((pod, self.requests(pod)))
        return by_node

    def _count_ports(self) -> None:
        for pod in self._pods:
            node = pod.spec.node_name or pod.status.nominated_node_name
            if node and (ports := host_ports.pod_host_ports(pod)) and not pod.terminal:
                self._ports.add(pod.metadata.uid, ports, node=node)

    def _filters(self) -> tuple[Callable[[Candidate], NodeSet], ...]:
        """Return the filters over all nodes; the last ones take the most time."""
        _, affinity, spread = self._by_topology()
        return (
            self._selection.nodes,
            self.resources.nodes,
            self._ports.nodes,
            self._volumes.nodes,
            self.devices.nodes,
            spread.nodes,
            affinity.nodes,
        )

    def _ordered_filters(self, candidate: Candidate) -> Iterator[tuple[NodeSet, Callable[[str], str]]]:
        """Yield the nodes that pass each filter but that of devices, and what says why another one does not."""
        _, affinity, spread = self._by_topology()
        single = self.labels.single
        yield self._selection.nodes(candidate), partial(self._selection.reason, candidate)
        yield self._ports.nodes(candidate), partial(self._ports.reason, candidate)
        yield self.resources.nodes(candidate), partial(self.resources.reason, candidate, is_own=False)
        yield self._volumes.nodes(candidate), lambda name: self._volumes.reason(candidate, single(name))
        yield spread.nodes(candidate), lambda name: spread.reason(candidate, single(name), is_own=False)
        yield affinity.nodes(candidate), lambda name: affinity.reason(candidate, single(name), is_own=False)

    def _device_reason(self, candidate: Candidate, name: str) -> str:
        """Return why the devices of a node are not enough for a pod; empty if they are."""
        return self.devices.reason(candidate, name, are_held=self._are_held(candidate, name))

    def _reason(self, candidate: Candidate, name: str, gone: Collection[Uid] = ()) -> str:
        """Return why a node does not pass; empty if it does."""
        return next(filter(None, self._reasons(candidate, name, gone)), "")

    def _reasons(self, candidate: Candidate, name: str, gone: Collection[Uid]) -> Iterator[str]:
        """Yield the answer of each filter, empty where the node passes, in the order of kube-scheduler."""
        _, affinity, spread = self._by_topology()
        node, is_own = self.labels.single(name), name == candidate.node
        yield self._selection.reason(candidate, name)
        yield self._ports.reason(candidate, name, gone=gone)
        yield self.resources.reason(candidate, name, is_own=is_own, gone=gone)
        yield self._volumes.reason(candidate, node)
        yield spread.reason(candidate, node, is_own=is_own)
        yield affinity.reason(candidate, node, is_own=is_own)
        yield candidate.demand.problem
        yield self._given_up_reason(candidate)
        are_held = self._are_held(candidate, name)
        yield self.devices.reason(candidate, name, is_own=is_own, are_held=are_held, gone=gone)

    def _given_up_reason(self, candidate: Candidate) -> str:
        """Return why kube-scheduler would give up the replacement of a pod; empty if it would not.

        Nodes without room count, too: they may have room when the replacement is scheduled.
        """
        return self.devices.given_up_reason(candidate, self._selection.nodes(candidate))

    def _are_held(self, candidate: Candidate, name: str) -> bool:
        """Return whether a Reservation on a node that the pod may use holds the devices of its claims."""
        claims = candidate.demand.info.claims
        return bool(claims) and any(
            claims <= reservation.info.claims for reservation in self.resources.usable_reservations(candidate, name)
        )

    def _by_topology(self) -> tuple[LabelGroups, InterPodAffinity, TopologySpread]:
        """Return the filters that look at other pods, which are made when the first pod asks."""
        if self._topology is None:
            groups = LabelGroups(self._pods)
            self._topology = (
                groups,
                InterPodAffinity(self.labels, groups, self._pods, self._namespaces),
                TopologySpread(self.labels, groups, self._selection),
            )
        return self._topology


def _parts_of_requests(pod: DeschedulingPod) -> tuple[int, ...] | None:
    """Return the identities of all that `pod_requests` reads of a pod; None for a pod that it reads more of.

    Pods of a workload share these parts (`dra.engine.migration.pod_memory`).
    """
    spec, status = pod.spec, pod.status
    is_plain = spec.resources is None and not status.node_allocatable_resource_claim_statuses
    is_plain = is_plain and status.extended_resource_claim_status is None
    if not is_plain or pod.condition("PodResizePending") is not None:
        return None
    parts = [id(spec.containers), id(spec.init_containers), id(spec.overhead)]
    for statuses in (status.container_statuses, status.init_container_statuses):
        for container in statuses or ():
            parts += (id(container.name), id(container.resources), id(container.allocated_resources))
    return tuple(parts)
