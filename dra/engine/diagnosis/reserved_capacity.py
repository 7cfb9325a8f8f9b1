"""The nodes that have less than their pods and Reservations take, and why.

The kubelet decides alone about a pod that is resized in place, and nodes shrink; the extender sees both, and can
prevent neither. So the Reservations there hold less than their status says.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from dra.api.reservations import well_known
from dra.api.reservations.model import MalformedReservationError, parse_reservation
from dra.api.reservations.well_known import MalformedAnnotationError
from dra.engine.claims.reasons import list_names
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.problem_codes import ProblemCode
from dra.engine.diagnosis.problems import Problem, node_problem
from dra.engine.kube_scheduler import pod_requests
from dra.engine.kube_scheduler.extended_resources import served_resources
from dra.engine.reservations import placeholders, reservation_info
from dra.engine.reservations.accounting import ReservationAccounting
from dra.engine.reservations.node_reservation import effective_node_reservation
from dra.engine.reservations.node_usage import NodeUsage
from dra.engine.reservations.pod_info import PodInfo, allocated_reservation_uid
from dra.engine.reservations.reservation_info import ReservationInfo
from dra.model.meta import UnstructuredObject
from dra.model.quantities import format_quantity
from dra.model.scheduling import SchedulerPod

_READ: Final = ("pods", "nodes", "reservations")
_DEVICE_CLASSES: Final = "deviceclasses"


def problems(cluster: ClusterState) -> Iterator[Problem]:
    """Yield a problem for each node whose Reservations are short of capacity; nothing if not all was read."""
    snapshot = cluster.snapshot
    by_node: dict[str, list[ReservationInfo]] = defaultdict(list)
    for info in _available(snapshot.reservations or ()):
        by_node[info.node].append(info)
    unread = any(gap.resource.startswith(_READ) for gap in snapshot.gaps)
    if not by_node or snapshot.namespace is not None or unread:
        return
    accounting = _accounting(cluster, by_node)
    by_devices = _served_by_devices(cluster, by_node)
    for node in snapshot.nodes:
        usage = accounting.node(node.metadata.name)
        if usage is None or not usage.is_known:
            continue
        shortage = usage.reserved_shortage()
        if lacking := {name: shortage[name] for name in shortage if name in usage.capacity or name not in by_devices}:
            yield node_problem(
                ProblemCode.RESERVED_CAPACITY_SHORT,
                name=node.metadata.name,
                uid=node.metadata.uid,
                reservations=list_names(sorted(info.name for info in by_node[node.metadata.name])),
                lacking=", ".join(f"{name} {format_quantity(amount)}" for name, amount in sorted(lacking.items())),
                cause=_cause(usage, lacking, accounting.unreserved_pods(usage.name)),
            )


def _served_by_devices(cluster: ClusterState, by_node: Mapping[str, Iterable[ReservationInfo]]) -> AbstractSet[str]:
    """Return the held resources that no node needs to have, since devices serve these; any if that is not known."""
    if any(gap.resource.startswith(_DEVICE_CLASSES) for gap in cluster.snapshot.gaps):
        return {name for held in by_node.values() for info in held for name in info.allocatable}
    return served_resources(cluster.snapshot.classes).keys()


def _accounting(cluster: ClusterState, by_node: Mapping[str, Iterable[ReservationInfo]]) -> ReservationAccounting:
    """Return the accounting of the nodes that have Reservations."""
    accounting = ReservationAccounting()
    for node in cluster.snapshot.nodes:
        name = node.metadata.name
        effective = effective_node_reservation(node, before=None)
        if name in by_node and effective.allocatable:
            accounting.observe_node(name, effective.allocatable, labels=node.metadata.labels)
    for info in (reservation for held in by_node.values() for reservation in held):
        accounting.observe_reservation(info)
    for pod in cluster.pods.values():
        if pod.spec.node_name in by_node and not pod.terminal and not _is_placeholder(pod):
            accounting.observe_pod(_pod_info(pod), node=pod.spec.node_name)
    return accounting


def _cause(usage: NodeUsage, lacking: Iterable[str], pods: Iterable[PodInfo]) -> str:
    """Return what takes too much: the pods outside of Reservations, unless the Reservations alone are too large."""
    lacking = tuple(lacking)
    alone = {
        name
        for name in lacking
        if usage.requested.get(name, 0) - usage.unreserved_requests.get(name, 0) > usage.capacity.get(name, 0)
    }
    if alone:
        return (
            f"the node has less {list_names(sorted(alone))} than they hold; compare its allocatable and its annotation "
            f"{well_known.ANNOTATION_NODE_RESERVATION}"
        )
    taking = [pod for pod in pods if any(pod.amounts.get(name, 0) for name in lacking)]
    taking.sort(key=lambda pod: (*(-pod.amounts.get(name, 0) for name in lacking), pod.key))
    return f"taken by pods outside, the greatest first: {list_names('/'.join(pod.key) for pod in taking)}"


def _available(objects: Iterable[UnstructuredObject]) -> Iterator[ReservationInfo]:
    for obj in objects:
        try:
            info = reservation_info.from_reservation(parse_reservation(obj.content))
        except MalformedReservationError:
            continue
        if info.available:
            yield info


def _is_placeholder(pod: SchedulerPod) -> bool:
    return placeholders.reservation_uid_of(pod.metadata) is not None


def _pod_info(pod: SchedulerPod) -> PodInfo:
    """Return the PodInfo of a bound pod; its requests count even if its annotations are malformed."""
    try:
        return PodInfo.from_pod(pod)
    except MalformedAnnotationError:
        return PodInfo(
            key=pod.metadata.key,
            uid=pod.metadata.uid,
            amounts=pod_requests.pod_requests(pod),
            allocated_reservation=allocated_reservation_uid(pod.metadata),
        )
