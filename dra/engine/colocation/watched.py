"""Pods, NodeMetrics and Nodes as the controller keeps them: only what sums need, since there are very many.

A pod takes less than a kilobyte, a pod of a report a fifth of that if names and uids of both are one copy: `share`
returns the one that the process keeps.
"""

from collections.abc import Callable
from typing import Final, Self

import msgspec

from dra.api.colocation.well_known import ANNOTATION_COLOCATION_STRATEGY
from dra.api.reservations.well_known import ANNOTATION_NODE_RESERVATION
from dra.engine.colocation.batch_pod import BatchPod, batch_pod
from dra.engine.colocation.node_usage import NodeUsage, node_usage
from dra.model.meta import ObjectMeta, Uid
from dra.model.node_metrics import NodeMetric, NodeMetricStatus
from dra.model.node_pods import AgentNode, NodePod, NodePodStatus
from dra.model.scheduling import SchedulerPodSpec

_NO_SPEC: Final = SchedulerPodSpec()
_NO_STATUS: Final = NodePodStatus()
_NO_REPORT: Final = NodeMetricStatus()
_KEPT_ANNOTATIONS: Final = (ANNOTATION_COLOCATION_STRATEGY, ANNOTATION_NODE_RESERVATION)
_ANNOTATION_MAX: Final = 8192
"""Characters of an annotation that are kept: no readable one is longer."""


class WatchedPod(NodePod, frozen=True):
    """A Pod of which only the sums are kept."""

    sums: BatchPod | None = None
    """What the pod requests; set by `trim_pod`."""

    node: str = ""
    """The pod's node; set by `trim_pod`."""


class WatchedNodeMetric(NodeMetric, frozen=True):
    """A NodeMetric of which only the amounts are kept."""

    usage: NodeUsage | None = None
    """What the node uses; set by `trim_metric`."""

    def reduced(self) -> Self:
        """Return the NodeMetric with only its amounts: reports of nodes with very many pods are large."""
        trim_metric(self)
        return self


def counts(pod: WatchedPod) -> bool:
    """Report whether a pod counts for its node: it is bound, and has not ended."""
    return bool(pod.spec.node_name) and not pod.terminal


def trim_pod(pod: WatchedPod, *, share: Callable[[str], str] = str) -> None:
    """Replace the content of a pod that was just decoded with its sums, in place."""
    metadata = pod.metadata
    kept = ObjectMeta(
        name=share(metadata.name),
        namespace=share(metadata.namespace),
        uid=Uid(share(metadata.uid)),
        resource_version=metadata.resource_version,
    )
    sums = msgspec.structs.replace(batch_pod(pod), namespace=kept.namespace, name=kept.name, uid=kept.uid)
    msgspec.structs.force_setattr(pod, "node", share(pod.spec.node_name))
    msgspec.structs.force_setattr(pod, "metadata", kept)
    msgspec.structs.force_setattr(pod, "sums", sums)
    msgspec.structs.force_setattr(pod, "spec", _NO_SPEC)
    msgspec.structs.force_setattr(pod, "status", _NO_STATUS)


def trim_metric(metric: WatchedNodeMetric, *, share: Callable[[str], str] = str) -> None:
    """Replace the status of a NodeMetric that was just decoded with its amounts, in place; idempotent."""
    if metric.usage is not None:
        return
    msgspec.structs.force_setattr(metric, "usage", node_usage(metric, share=share))
    msgspec.structs.force_setattr(metric, "status", _NO_REPORT)
    msgspec.structs.force_setattr(metric.metadata, "labels", None)
    msgspec.structs.force_setattr(metric.metadata, "annotations", None)


def trim_node(node: AgentNode) -> None:
    """Remove the annotations of a Node that was just decoded and that no sum needs, in place."""
    given = node.metadata.annotations or {}
    kept = {name: given[name][:_ANNOTATION_MAX] for name in _KEPT_ANNOTATIONS if name in given}
    msgspec.structs.force_setattr(node.metadata, "annotations", kept or None)


def reported_usage(metric: NodeMetric) -> NodeUsage | None:
    """Return what a NodeMetric reports, whether `trim_metric` has trimmed it or not; None before the first report."""
    kept = metric.usage if isinstance(metric, WatchedNodeMetric) else None
    return kept or node_usage(metric)
