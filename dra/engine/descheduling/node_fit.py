"""Whether a pod would fit on a node: the filters of kube-scheduler, in its words.

What reservations and node reservations hold is free for nobody but the pods that own it.
"""

from collections.abc import Collection, Iterator, Mapping

from dra.api.reservations.model import MalformedReservationError, parse_reservation
from dra.api.reservations.well_known import MalformedAnnotationError
from dra.engine.descheduling.cluster_objects import ClusterObjects
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.reservations import filters, placeholders, pod_info, reservation_info
from dra.engine.reservations.accounting import ReservationAccounting
from dra.engine.reservations.node_usage import NodeUsage, empty_node
from dra.engine.reservations.pod_info import PodInfo
from dra.engine.reservations.pod_requests import pod_requests
from dra.engine.reservations.rejections import RejectionReason
from dra.model.meta import Uid, UnstructuredObject
from dra.model.nodes import UNSCHEDULABLE_TAINT
from dra.model.quantities import NO_AMOUNTS, PODS, Amounts, total
from dra.model.scheduling import SchedulerNode


class NodeFit:
    """The nodes of a round with what is free on each."""

    def __init__(self, objects: ClusterObjects, *, for_pods: Mapping[str, Amounts]) -> None:
        """Create the nodes; ``for_pods`` is what each offers to pods, without its node reservation."""
        self._nodes: dict[str, SchedulerNode] = {}
        self._accounting = ReservationAccounting()
        self._requests: dict[Uid, Amounts] = {}
        self._on_node: dict[str, dict[Uid, DeschedulingPod]] = {}
        self._node_of: dict[Uid, str] = {}
        for node in objects.nodes:
            self._nodes[node.metadata.name] = node
            left = for_pods[node.metadata.name]
            self._accounting.observe_node(node.metadata.name, left, labels=node.metadata.labels)
        for reservation in objects.reservations:
            self._observe_reservation(reservation)
        for pod in objects.pods:
            self._observe_pod(pod)

    def requests(self, pod: DeschedulingPod) -> Amounts:
        """Return what a pod takes of its node, one of ``pods`` included."""
        known = self._requests.get(pod.metadata.uid)
        if known is None:
            known = self._requests[pod.metadata.uid] = pod_requests(pod)
        return known

    def capacity(self, node: str) -> Amounts:
        """Return what a node has for pods: its allocatable less its node reservation."""
        usage = self._accounting.node(node)
        return NO_AMOUNTS if usage is None else usage.capacity

    def held(self, node: str) -> Amounts:
        """Return what Reservations hold on a node and no pod uses."""
        usage = self._accounting.node(node)
        if usage is None or not usage.reservations:
            return NO_AMOUNTS
        return total(
            {name: max(0, amount - held.allocated.get(name, 0)) for name, amount in held.info.allocatable.items()}
            for held in usage.reservations.values()
        )

    def unfit_reason(self, pod: DeschedulingPod, node: str) -> str:
        """Return why a pod could not run on a node if it were created now; empty if it could."""
        return next(self._reasons(pod, node), "")

    def fitting_node(self, pod: DeschedulingPod, *, among: Collection[str] | None = None) -> str:
        """Return the node other than its own that has the most free for a pod; empty if it fits on none."""
        names = self._nodes if among is None else [name for name in self._nodes if name in frozenset(among)]
        own = self._node_of.get(pod.metadata.uid, pod.spec.node_name)
        fitting = [name for name in names if name != own and not self.unfit_reason(pod, name)]
        return min(fitting, key=lambda name: (-self._free_fraction(name), name), default="")

    def move(self, pod: DeschedulingPod, node: str) -> None:
        """Count a pod on another node; nowhere with an empty name."""
        uid = pod.metadata.uid
        self._accounting.forget_pod(uid)
        self._on_node.get(self._node_of.pop(uid, ""), {}).pop(uid, None)
        if node:
            info = _pod_info(pod, self.requests(pod))
            if not isinstance(self._accounting.assume_pod(info, node), tuple):
                self._count(pod, node)
                return
            self._accounting.observe_pod(info, node=node)
            self._count(pod, node)

    def _observe_reservation(self, obj: UnstructuredObject) -> None:
        try:
            info = reservation_info.from_reservation(parse_reservation(obj.content))
        except MalformedReservationError as error:
            meta = obj.metadata
            held = reservation_info.from_status(meta.name, meta.uid, obj.content.get("status"), parse_error=str(error))
            if held is None:
                return
            info = held
        self._accounting.observe_reservation(info)

    def _observe_pod(self, pod: DeschedulingPod) -> None:
        node = pod.spec.node_name
        if not node or pod.terminal:
            return
        placed_for = placeholders.reservation_uid_of(pod.metadata)
        if placed_for is not None:
            held = self._accounting.reservation(placed_for)
            if held is not None and held.available:
                return
        self._accounting.observe_pod(_pod_info(pod, self.requests(pod)), node=node)
        self._count(pod, node)

    def _count(self, pod: DeschedulingPod, node: str) -> None:
        self._node_of[pod.metadata.uid] = node
        self._on_node.setdefault(node, {})[pod.metadata.uid] = pod

    def _reasons(self, pod: DeschedulingPod, name: str) -> Iterator[str]:
        node = self._nodes.get(name)
        if node is None:
            yield f"node {name}: not found"
            return
        if not node.ready:
            yield "node(s) were not ready"
        tolerations = pod.spec.tolerations or ()
        for taint in node.spec.filtering_taints:
            if not any(by.tolerates(taint) for by in tolerations):
                is_cordon = taint.key == UNSCHEDULABLE_TAINT.key
                yield "node(s) were unschedulable" if is_cordon else f"node(s) had untolerated taint {taint}"
        if not pod.spec.selects_node(name, node.metadata.labels or {}):
            yield "node(s) didn't match Pod's node affinity/selector"
        uid = pod.metadata.uid
        ports = pod_info.pod_host_ports(pod)
        if ports and any(
            pod_info.have_conflict(ports, pod_info.pod_host_ports(other))
            for key, other in self._on_node.get(name, {}).items()
            if key != uid
        ):
            yield "node(s) didn't have free ports for the requested pod ports"
        result = filters.filter_node(self._usage_without(uid, name), _pod_info(pod, self.requests(pod)))
        for each in result.rejections:
            if each.reason is RejectionReason.NODE_INSUFFICIENT:
                yield "Too many pods" if each.subject == PODS else f"Insufficient {each.subject}"
            else:
                yield each.text

    def _usage_without(self, uid: Uid, name: str) -> NodeUsage:
        usage = self._accounting.node(name) or empty_node(name, {})
        assignment = self._accounting.assignment(uid)
        if assignment is None or assignment.node != name:
            return usage
        return usage.without_pod(uid, assignment.pod.amounts, out_of=assignment.reservation)

    def _free_fraction(self, name: str) -> float:
        usage = self._accounting.node(name) or empty_node(name, {})
        shares = (usage.free(r) / capacity if (capacity := usage.capacity.get(r)) else 0.0 for r in ("cpu", "memory"))
        return sum(shares)


def _pod_info(pod: DeschedulingPod, amounts: Amounts) -> PodInfo:
    try:
        return PodInfo.from_pod(pod)
    except MalformedAnnotationError:
        return PodInfo(key=pod.metadata.key, uid=pod.metadata.uid, amounts=amounts)
