"""The batch resources of a node from its objects: what commands show and the controller publishes is one sum."""

from collections.abc import Iterable, Mapping
from typing import Final

from dra.api.colocation.strategies import ColocationStrategy
from dra.api.colocation.well_known import BATCH_CPU, BATCH_MEMORY
from dra.engine.colocation.batch_pod import MEMORY, batch_pod
from dra.engine.colocation.batch_resources import BatchNode, BatchSum, NodeAmounts, sum_batch
from dra.engine.colocation.held_batch import BatchAmounts
from dra.engine.colocation.node_usage import node_usage
from dra.engine.colocation.staleness import report_age
from dra.engine.instants import WallTime
from dra.engine.reservations.node_reservation import effective_node_reservation
from dra.model.node_metrics import NodeMetric
from dra.model.node_pods import AgentNode
from dra.model.quantities import CPU, NANOS_PER_UNIT, Amounts, from_validated_list
from dra.model.scheduling import SchedulerPod

_MINUTE: Final = 60.0


def batch_node(node: AgentNode) -> BatchNode:
    """Return what the sum needs of a Node; an annotation that cannot be read counts with its valid fields."""
    capacity, allocatable = from_validated_list(node.status.capacity), from_validated_list(node.status.allocatable)
    annotated = effective_node_reservation(node, before=None).reservation.amounts
    return BatchNode(
        cpu=_amounts(CPU, capacity, allocatable, annotated),
        memory=_amounts(MEMORY, capacity, allocatable, annotated),
        offered=BatchAmounts(cpu=_units(allocatable, BATCH_CPU), memory=_units(allocatable, BATCH_MEMORY)),
    )


def _amounts(name: str, capacity: Amounts, allocatable: Amounts, annotated: Amounts) -> NodeAmounts:
    whole = capacity.get(name, 0)
    kubelet = max(0, whole - allocatable[name]) if name in allocatable else 0
    return NodeAmounts(capacity=whole, annotated=annotated.get(name, 0), kubelet=kubelet)


def _units(amounts: Mapping[str, int], name: str) -> int:
    return amounts.get(name, 0) // NANOS_PER_UNIT


def batch_sum(
    node: AgentNode,
    metric: NodeMetric | None,
    pods: Iterable[SchedulerPod],
    strategy: ColocationStrategy,
    *,
    now: WallTime,
) -> BatchSum:
    """Return the batch resources of a node at a time of day, as far as objects tell them.

    `pods` may have pods of other nodes and pods that have ended; they do not count.
    """
    usage = None if metric is None else node_usage(metric)
    name = node.metadata.name
    here = [batch_pod(pod) for pod in pods if pod.spec.node_name == name and not pod.terminal]
    age = 0.0 if usage is None else report_age(usage.update_time, wall=now, unchanged=0.0)
    stale = age > strategy.degrade_time_minutes * _MINUTE
    return sum_batch(batch_node(node), usage, here, strategy, is_stale=stale)
