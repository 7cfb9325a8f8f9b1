"""The diagnosis of colocation: what a node uses, why it offers what it offers, and what keeps batch pods waiting.

The sum and the strategy are those of the controller (`dra.engine.colocation`), computed from the same objects. What a
snapshot does not show: whether a report from a node whose clock runs ahead has stopped to change.
"""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Final

import msgspec

from dra.api.colocation.node_strategy import NodeStrategy, node_strategy
from dra.api.colocation.slo_configuration import OFF, SloConfiguration, read_slo_configuration
from dra.api.colocation.well_known import KEY_COLOCATION
from dra.engine.colocation.batch_node import batch_sum
from dra.engine.colocation.batch_pod import BatchPod
from dra.engine.colocation.batch_resources import BatchSum
from dra.engine.colocation.node_usage import NOTHING, PODS_MAX, UNKNOWN, Usage, node_usage
from dra.engine.colocation.staleness import is_from_future, report_age
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.node_reports import with_pods
from dra.engine.diagnosis.node_use import NodeUse, node_use
from dra.model.meta import Struct
from dra.model.node_metrics import NodeMetric
from dra.model.node_pods import AgentNode

NODE_METRICS: Final = "nodemetrics.slo.koordinator.sh"
_MINUTE: Final = 60.0


class Sampling(StrEnum):
    """The state of a node's NodeMetric."""

    FRESH = "fresh"
    STALE = "stale"  # older than degradeTimeMinutes of the node's strategy
    INCOMPLETE = "incomplete"  # reported without the use of the system: nothing can be computed from it
    NEVER = "never"  # the NodeMetric exists, and its node has not reported yet
    ABSENT = "absent"
    UNREAD = "unread"  # the kind is not served, was not requested, or may not be read


class Sampled(Struct, frozen=True):
    """The state of a node's NodeMetric, with its age."""

    sampling: Sampling
    at: str = ""
    """``status.updateTime``; empty before the first report."""

    seconds: float = 0.0
    """The age of the report; negative if the clock of its node is ahead."""

    is_ahead: bool = False
    """Whether the report is from more than a minute ahead, so that its time tells nothing."""

    @property
    def is_usable(self) -> bool:
        """Whether batch resources can be computed from the report."""
        return self.sampling is Sampling.FRESH


class NodeColocation(Struct, frozen=True):
    """The diagnosis of a node: its use, and why it offers what it offers to batch pods."""

    use: NodeUse
    sampled: Sampled
    strategy: NodeStrategy
    total: BatchSum | None
    """The sum by which batch resources are computed; None unless NodeMetric and pods could be read."""

    is_broken: bool
    """Whether the key with the strategy has an error, so that the strategy in force is not known."""

    is_configured: bool
    """Whether the ConfigMap exists and could be read."""

    batch_used: Usage = UNKNOWN
    """What batch pods use, by a report that is not old, in billionths; unknown if one of them has no figure."""


def configuration(cluster: ClusterState) -> SloConfiguration:
    """Return the strategies of the ConfigMap, with what is wrong with it; without a ConfigMap, colocation is off."""
    config_map = cluster.snapshot.colocation_config
    return OFF if config_map is None else _read_configuration(tuple(sorted((config_map.data or {}).items())))


@lru_cache(maxsize=4)
def _read_configuration(data: tuple[tuple[str, str], ...]) -> SloConfiguration:
    return read_slo_configuration(dict(data))


def strategy_of(cluster: ClusterState, node: AgentNode) -> NodeStrategy:
    """Return the colocation strategy of a node, and where each field is from."""
    labels, annotations = node.metadata.labels or {}, node.metadata.annotations or {}
    return node_strategy(configuration(cluster), labels=labels, annotations=annotations)


def node_metric_of(cluster: ClusterState, node: str) -> NodeMetric | None:
    """Return the NodeMetric of a node; None if it has none, or NodeMetrics were not read."""
    return (cluster.node_metrics or {}).get(node)


def batch_pods_on(cluster: ClusterState, node: str) -> list[BatchPod] | None:
    """Return the pods on a node that have not ended; None if not all pods were read."""
    if not cluster.has_all_pods_of_nodes:
        return None
    return [cluster.batch_pod_of(pod) for pod in cluster.pods_on(node) if not pod.terminal]


def node_use_of(cluster: ClusterState, node: AgentNode) -> NodeUse:
    """Return what a node uses, holds and offers."""
    name = node.metadata.name
    return node_use(node, node_metric_of(cluster, name), batch_pods_on(cluster, name))


def sampled(cluster: ClusterState, node: AgentNode, *, now: datetime) -> Sampled:
    """Return the state of a node's NodeMetric at a time."""
    name = node.metadata.name
    if cluster.node_metrics is None or any(gap.resource == NODE_METRICS for gap in cluster.snapshot.gaps):
        return Sampled(sampling=Sampling.UNREAD)
    metric = node_metric_of(cluster, name)
    if metric is None:
        return Sampled(sampling=Sampling.ABSENT)
    usage = node_usage(_without_pods(metric))
    if usage is None:
        return Sampled(sampling=Sampling.NEVER)
    wall = now.timestamp()
    age = report_age(usage.update_time, wall=wall, unchanged=float("-inf"))
    is_ahead = is_from_future(usage.update_time, wall=wall)
    sampling = Sampling.FRESH if usage.is_complete else Sampling.INCOMPLETE
    if age > strategy_of(cluster, node).strategy.degrade_time_minutes * _MINUTE:
        sampling = Sampling.STALE
    return Sampled(sampling=sampling, at=usage.update_time, seconds=age, is_ahead=is_ahead)


def _without_pods(metric: NodeMetric) -> NodeMetric:
    """Return a NodeMetric without its pods, which do not matter here, unless there are too many of them."""
    if len(metric.status.pods_metric or ()) > PODS_MAX:
        return metric
    return msgspec.structs.replace(metric, status=msgspec.structs.replace(metric.status, pods_metric=None))


def explain_node(cluster: ClusterState, node: AgentNode, *, now: datetime) -> NodeColocation:
    """Return what a node uses, and why it offers what it offers."""
    name, choice = node.metadata.name, strategy_of(cluster, node)
    metric, state = node_metric_of(cluster, name), sampled(cluster, node, now=now)
    total, batch_used = None, UNKNOWN
    is_known = has_configuration(cluster) and not has_broken_strategy(cluster)
    if state.sampling is not Sampling.UNREAD and cluster.has_all_pods_of_nodes and is_known:
        whole = None if metric is None else with_pods(metric)
        total = batch_sum(node, whole, cluster.pods_on(name), choice.strategy, now=now.timestamp())
        if whole is not None and state.is_usable:
            batch_used = _batch_used(whole, batch_pods_on(cluster, name) or ())
    return NodeColocation(
        use=node_use_of(cluster, node),
        sampled=state,
        strategy=choice,
        total=total,
        is_broken=has_broken_strategy(cluster),
        is_configured=cluster.snapshot.colocation_config is not None,
        batch_used=batch_used,
    )


def _batch_used(metric: NodeMetric, pods: Sequence[BatchPod]) -> Usage:
    """Return what the pods with batch requests use; not known as long as one of them has no report."""
    usage = node_usage(metric)
    reported = {(pod.namespace, pod.name): pod for pod in (usage.pods if usage is not None else ())}
    total = NOTHING
    for pod in pods:
        if pod.batch_cpu or pod.batch_memory:
            reported_pod = reported.get(pod.key)
            total += reported_pod.usage if reported_pod is not None and reported_pod.uid in ("", pod.uid) else UNKNOWN
    return total


def has_broken_strategy(cluster: ClusterState) -> bool:
    """Report whether key colocation-config has an error: processes keep content of it that nobody else knows."""
    return any(problem.key == KEY_COLOCATION and not problem.is_warning for problem in configuration(cluster).problems)


def has_configuration(cluster: ClusterState) -> bool:
    """Report whether the ConfigMap was read, or is known not to exist."""
    return not any(gap.resource.startswith("configmaps") for gap in cluster.snapshot.gaps)
