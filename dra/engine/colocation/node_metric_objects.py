"""The NodeMetric of each Node: it exists, belongs to the Node, and says how the node is to report.

The owner reference makes the garbage collector delete the NodeMetric of a Node that is gone. Only
``spec.metricCollectPolicy`` is written; the status is the node's.
"""

from collections.abc import Mapping
from typing import Any, Final, Never, TypeAlias

from dra.api.colocation.node_strategy import node_strategy
from dra.api.colocation.slo_configuration import SloConfiguration
from dra.api.colocation.strategies import ColocationStrategy
from dra.engine.colocation.configuration_cache import SloConfigurationCache
from dra.engine.colocation.watched import WatchedNodeMetric
from dra.engine.dirty_keys import Cache, DirtyKeys
from dra.engine.instants import NEVER, Instant
from dra.engine.plan import Plan
from dra.model.meta import Key, Struct, Uid
from dra.model.node_pods import AgentNode, ConfigMap

_API_VERSION: Final = "v1"
_KIND: Final = "Node"

PATCH_PAUSE: Final = 10.0
"""Seconds between two writes of the spec of one NodeMetric: another controller that wants something else may undo each
of them."""


class NodeMetricView(Struct, frozen=True):
    """A Node and its NodeMetric."""

    node: str
    uid: Uid
    strategy: ColocationStrategy
    metric: WatchedNodeMetric | None
    """None if there is none."""

    patched_at: Instant = -NEVER
    """When this process wrote it last."""


class CreateNodeMetric(Struct, frozen=True):
    """Create the NodeMetric of a Node."""

    node: str
    content: Mapping[str, Any]


class PatchNodeMetric(Struct, frozen=True):
    """Change the spec of a NodeMetric, or the owner of one that has none."""

    node: str
    uid: Uid
    body: Mapping[str, Any]


NodeMetricPlan: TypeAlias = Plan[CreateNodeMetric | PatchNodeMetric, Never]


def decide(view: NodeMetricView, *, now: Instant) -> NodeMetricPlan:
    """Return the write of a NodeMetric, unless it is right, or was written just now."""
    policy, owners = collect_policy(view.strategy), [_owner(view)]
    metric = view.metric
    if metric is None:
        content = {"metadata": {"name": view.node, "ownerReferences": owners}, "spec": {"metricCollectPolicy": policy}}
        return NodeMetricPlan(actions=(CreateNodeMetric(node=view.node, content=content),))
    body: dict[str, Any] = {}
    written = metric.spec.metric_collect_policy or {}
    changes = {name: value for name, value in policy.items() if written.get(name) != value}
    if changes:
        body["spec"] = {"metricCollectPolicy": changes}
    if not metric.metadata.owner_references:
        body["metadata"] = {"ownerReferences": owners}
    if not body:
        return NodeMetricPlan()
    if now < view.patched_at + PATCH_PAUSE:
        return NodeMetricPlan(wake_at=view.patched_at + PATCH_PAUSE)
    return NodeMetricPlan(actions=(PatchNodeMetric(node=view.node, uid=metric.metadata.uid, body=body),))


def collect_policy(strategy: ColocationStrategy) -> dict[str, Any]:
    """Return ``spec.metricCollectPolicy`` for a strategy."""
    memory = strategy.metric_memory_collect_policy
    return {
        "aggregateDurationSeconds": strategy.metric_aggregate_duration_seconds,
        "reportIntervalSeconds": strategy.metric_report_interval_seconds,
        "nodeAggregatePolicy": {"durations": list(strategy.metric_aggregate_durations)},
        **({"nodeMemoryCollectPolicy": memory} if memory else {}),
    }


def _owner(view: NodeMetricView) -> dict[str, Any]:
    return {"apiVersion": _API_VERSION, "kind": _KIND, "name": view.node, "uid": view.uid, "controller": True}


class NodeMetricCache(Cache[str]):
    """The names of Nodes whose NodeMetric is to be checked."""

    def __init__(self, configuration: SloConfigurationCache) -> None:
        self.dirty: DirtyKeys[str] = DirtyKeys()
        self._configuration = configuration
        self._seen: SloConfiguration | None = None
        """The configuration by which all were marked last."""

        self._nodes: dict[str, object] = {}
        """Name of a Node → what its NodeMetric depends on."""

        self._patched: dict[str, Instant] = {}
        """Name of a Node → when this process wrote its NodeMetric last."""

        self._metrics: dict[str, object] = {}
        """Name of a NodeMetric → what of it is written here; the rest changes each minute."""

    def observe_node(self, node: AgentNode) -> None:
        """Mark a Node that is new, or whose strategy may have changed."""
        name = node.metadata.name
        facts = (node.metadata.uid, node.metadata.labels, node.metadata.annotations)
        if self._nodes.get(name) != facts:
            self._nodes[name] = facts
            self.dirty.add(name)

    def forget_node(self, node: AgentNode) -> None:
        """Forget a Node that is gone; its NodeMetric goes by itself."""
        self._nodes.pop(node.metadata.name, None)
        self._patched.pop(node.metadata.name, None)

    def observe_metric(self, metric: WatchedNodeMetric) -> None:
        """Mark the Node of a NodeMetric whose spec or owner has changed."""
        name, metadata = metric.metadata.name, metric.metadata
        written = (metadata.uid, metric.spec.metric_collect_policy, metadata.owner_references)
        if self._metrics.get(name) != written:
            self._metrics[name] = written
            self._mark(name)

    def forget_metric(self, metric: WatchedNodeMetric) -> None:
        """Mark the Node of a NodeMetric that is gone."""
        self._metrics.pop(metric.metadata.name, None)
        self._mark(metric.metadata.name)

    def observe_configuration(self, config_map: ConfigMap) -> None:  # noqa: ARG002 - the configuration has read it
        """Mark all Nodes if the strategies may have changed."""
        if self._seen is not self._configuration.current:
            self._seen = self._configuration.current
            self.mark_all_dirty()

    def mark_all_dirty(self) -> None:
        """Mark all Nodes as dirty."""
        self.dirty.update(self._nodes)

    def _mark(self, name: str) -> None:
        if name in self._nodes:
            self.dirty.add(name)

    def view(
        self, name: str, *, nodes: Mapping[Key, AgentNode], metrics: Mapping[Key, WatchedNodeMetric]
    ) -> NodeMetricView | None:
        """Return the view for a decision; None if there is no such Node."""
        node = nodes.get(("", name))
        if node is None:
            return None
        metadata = node.metadata
        strategy = node_strategy(
            self._configuration.current, labels=metadata.labels or {}, annotations=metadata.annotations or {}
        )
        return NodeMetricView(
            node=name,
            uid=metadata.uid,
            strategy=strategy.strategy,
            metric=metrics.get(("", name)),
            patched_at=self._patched.get(name, -NEVER),
        )

    def record_patch(self, name: str, *, now: Instant) -> None:
        """Record that this process has written a NodeMetric."""
        self._patched[name] = now
