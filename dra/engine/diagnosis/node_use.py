"""The use of nodes beside what their pods hold, and the batch resources that nodes offer.

CPUs are in milli-CPUs, memory is in bytes. What is used comes from NodeMetrics, what is held from the requests of pods,
what is offered from the status of Nodes. A number that is not known is None, never 0.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from dra.api.colocation.well_known import BATCH_CPU, BATCH_MEMORY
from dra.engine.colocation.batch_pod import MEMORY, BatchPod
from dra.engine.colocation.batch_resources import CPU_UNIT, MEMORY_UNIT
from dra.engine.colocation.held_batch import AMOUNT_MAX, BatchAmounts, held_batch
from dra.model.meta import Struct
from dra.model.node_metrics import NodeMetric
from dra.model.node_pods import AgentNode
from dra.model.quantities import CPU, NANOS_PER_UNIT, MalformedQuantityError, to_nanos

_UNITS: Final = {CPU: CPU_UNIT, MEMORY: MEMORY_UNIT, BATCH_CPU: NANOS_PER_UNIT, BATCH_MEMORY: NANOS_PER_UNIT}
"""Resource → billionths in the unit that is counted here; batch-cpu itself counts milli-CPUs."""


class ResourceUse(Struct, frozen=True):
    """One resource of a node: milli-CPUs or bytes."""

    capacity: int | None = None
    used: int | None = None
    requested: int | None = None
    """Sum of the requests of the node's pods."""

    offered: int | None = None
    """The batch resource in the Node's status; None if the node offers none."""

    held: int | None = None
    """What batch pods hold of it, as `held_batch` counts."""

    @property
    def left(self) -> int | None:
        """The part of the batch resource that no pod holds; None if that is not known, or nothing is offered."""
        return None if self.offered is None or self.held is None else max(self.offered - self.held, 0)


class NodeUse(Struct, frozen=True):
    """The CPUs and the memory that a node uses, holds and offers."""

    node: str
    cpu: ResourceUse
    memory: ResourceUse
    batch_pods: int | None = None
    """Number of pods that request a batch resource; None unless all pods were read."""

    @property
    def offers_batch(self) -> bool:
        """Whether the Node has batch resources, be they 0."""
        return self.cpu.offered is not None or self.memory.offered is not None


def node_use(node: AgentNode, metric: NodeMetric | None, pods: Sequence[BatchPod] | None) -> NodeUse:
    """Return what a node uses, holds and offers.

    ``pods``: the pods on the node that have not ended; None if not all pods were read.
    """
    offered = [_amount(node.status.allocatable, resource) for resource in (BATCH_CPU, BATCH_MEMORY)]
    held = None if pods is None else held_batch(pods, offered=BatchAmounts(cpu=offered[0] or 0, memory=offered[1] or 0))
    return NodeUse(
        node=node.metadata.name,
        cpu=ResourceUse(
            capacity=_amount(node.status.capacity, CPU),
            used=_amount(_used_resources(metric), CPU),
            requested=None if pods is None else sum(-(-pod.cpu // CPU_UNIT) for pod in pods),
            offered=offered[0],
            held=None if held is None else held.cpu,
        ),
        memory=ResourceUse(
            capacity=_amount(node.status.capacity, MEMORY),
            used=_amount(_used_resources(metric), MEMORY),
            requested=None if pods is None else sum(-(-pod.memory // MEMORY_UNIT) for pod in pods),
            offered=offered[1],
            held=None if held is None else held.memory,
        ),
        batch_pods=None if pods is None else sum(bool(pod.batch_cpu or pod.batch_memory) for pod in pods),
    )


def _used_resources(metric: NodeMetric | None) -> Mapping[str, str | int] | None:
    info = metric.status.node_metric if metric is not None else None
    return info.node_usage.resources if info is not None and info.node_usage is not None else None


def _amount(amounts: Mapping[str, str | int] | None, resource: str) -> int | None:
    """Return an amount of the API in milli-CPUs or bytes; None if it is absent, malformed, negative or beyond int64."""
    text = (amounts or {}).get(resource)
    try:
        nanos = -1 if text is None else to_nanos(text)
    except MalformedQuantityError:
        return None
    amount = nanos // _UNITS[resource]
    return amount if 0 <= amount <= AMOUNT_MAX else None
