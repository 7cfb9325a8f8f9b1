"""LowNodeUtilization: pods leave nodes that are above their target for nodes that are below their threshold.

Use means the requests of pods, or, with ``metricsUtilization``, what their NodeMetrics report. cpu, memory and pods
without a threshold count with all that a node has when the headroom of receivers is summed, as upstream.
"""

from collections.abc import Mapping
from functools import partial
from typing import ClassVar, Final

from dra.api.descheduler.load_plugin_args import LowNodeUtilizationArgs
from dra.engine.descheduling.balancing import Receivers, Source, give_away
from dra.engine.descheduling.measured_load import MeasuredLoads, with_requests
from dra.engine.descheduling.node_classification import (
    ALL,
    ALWAYS_COUNTED,
    LoadedNode,
    Percentages,
    deviations,
    mean_percentages,
    percentage,
    shares,
)
from dra.engine.descheduling.plugin import Candidates
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.snapshot import Snapshot, SnapshotNode
from dra.model.quantities import Amounts, add

METRIC_EXPIRATION: Final = 180.0
"""Age in seconds from which on a NodeMetric does not count, as for LowNodeLoad by default."""

_QOS_ORDER: Final = {"BestEffort": 0, "Burstable": 1, "Guaranteed": 2}


class LowNodeUtilization:
    """The community's plugin of this name."""

    name: ClassVar[str] = "LowNodeUtilization"
    Args: ClassVar[type[LowNodeUtilizationArgs]] = LowNodeUtilizationArgs

    def balance(self, snapshot: Snapshot, args: LowNodeUtilizationArgs) -> Candidates:
        """Yield pods of nodes above the target; the nodes furthest above it come first."""
        use = _NodeUse(snapshot, args)
        low, high = use.thresholds(args)
        sources, receivers = [], []
        for node in use.nodes:
            expected = use.percentages(node, use.expected)
            if node.is_schedulable and all(expected.get(name, 0.0) <= limit for name, limit in low.items()):
                receivers.append(node)
            elif (excess := _excess(use.percentages(node, use.current), high)) > 0:
                sources.append((-excess, node.name, node))
        if note := _nothing_to_do(len(receivers), len(sources), of=len(use.nodes), more_than=args.number_of_nodes):
            return note
        among = Receivers(
            {node.name: use.loaded(node, use.expected, high) for node in receivers},
            within_limits=args.receivers_within_target,
            taints={node.taints for node in receivers},
        )
        for _, _, node in sorted(sources, key=lambda source: source[:2]):
            yield from give_away(
                Source(
                    node=use.loaded(node, use.current, high),
                    pods=eviction_order(node, evictable=args.evictable_namespaces.exclude),
                    load_of=use.load_of,
                    reason=partial(use.reason, high=high),
                    limit=args.eviction_limits.node,
                ),
                among,
            )
        return None


class _NodeUse:
    """The use of nodes, by requests or as measured."""

    def __init__(self, snapshot: Snapshot, args: LowNodeUtilizationArgs) -> None:
        self._snapshot = snapshot
        self._named = tuple(args.thresholds)
        self._resources = tuple(dict.fromkeys((*args.thresholds, *ALWAYS_COUNTED)))
        self.nodes = snapshot.selected_nodes()
        self._loads = None
        if args.metrics_utilization is not None:
            self._loads = loads = MeasuredLoads(snapshot, self.nodes, expiration=METRIC_EXPIRATION)
            self.nodes = [node for node in self.nodes if node.name in loads.nodes]
        self.current: dict[str, Amounts] = {node.name: self._current(node) for node in self.nodes}
        """Node → its use, for nodes that give pods away."""
        self.expected: dict[str, Amounts] = {node.name: self._expected(node) for node in self.nodes}
        """Node → its use with what Reservations hold there, for nodes that receive pods."""

    def percentages(self, node: SnapshotNode, use: Mapping[str, Amounts]) -> Percentages:
        """Return the percent of each resource with a threshold that a node uses, of those that the node has."""
        capacity, used = self._snapshot.capacity(node.name), use[node.name]
        return {name: percentage(name, used.get(name, 0), capacity[name]) for name in self._named if name in capacity}

    def thresholds(self, args: LowNodeUtilizationArgs) -> tuple[Percentages, Percentages]:
        """Return the percentages up to which nodes receive, and above which nodes give."""
        if not args.use_deviation_thresholds:
            return args.thresholds, args.target_thresholds
        mean = mean_percentages([self.percentages(node, self.current) for node in self.nodes])
        return deviations(mean, args.thresholds, args.target_thresholds)

    def loaded(self, node: SnapshotNode, use: Mapping[str, Amounts], high: Percentages) -> LoadedNode:
        """Return a node with its use, limited to its target."""
        limits = shares(high, self._snapshot.capacity(node.name), self._resources)
        usage = {name: use[node.name].get(name, 0) for name in self._resources}
        return LoadedNode(name=node.name, usage=usage, limits=limits)

    def load_of(self, pod: DeschedulingPod) -> Amounts:
        """Return what a pod adds to a node."""
        requests = self._snapshot.requests(pod)
        known = requests if self._loads is None else with_requests(self._loads.load_of(pod), requests, self._resources)
        return {name: known.get(name, 0) for name in self._resources}

    def reason(self, node: LoadedNode, *, high: Percentages) -> str:
        """Return why a node gives pods away."""
        kind = "requested" if self._loads is None else "measured"
        capacity = self._snapshot.capacity(node.name)
        above = (
            f"{kind} {name}({percentage(name, node.usage[name], capacity.get(name, 0)):.2f}%)"
            f">target({high.get(name, ALL):.2f}%)"
            for name in node.over()
        )
        return f"node is overutilized, {', '.join(above)}"

    def _current(self, node: SnapshotNode) -> Amounts:
        if self._loads is None:
            return node.requested
        return with_requests(self._loads.nodes[node.name].measured.node, node.requested, self._resources)

    def _expected(self, node: SnapshotNode) -> Amounts:
        if self._loads is None:
            return add(node.requested, self._snapshot.held(node.name))
        return with_requests(self._loads.nodes[node.name].expected.node, node.requested, self._resources)


def eviction_order(node: SnapshotNode, *, evictable: tuple[str, ...] = ()) -> list[DeschedulingPod]:
    """Return the pods of a node that have not ended: low priority first, then BestEffort; without some namespaces."""
    pods = (
        pod
        for pod in node.pods.values()
        if not pod.terminal and not pod.metadata.deleting and pod.metadata.namespace not in evictable
    )
    return sorted(pods, key=_evict_first)


def _evict_first(pod: DeschedulingPod) -> tuple[int, int, tuple[str, str]]:
    return pod.spec.priority, _QOS_ORDER.get(pod.status.qos_class, 0), pod.metadata.key


def _excess(percent: Percentages, high: Percentages) -> float:
    """Return by how many percent a node is above its target, of the resource that is furthest above; 0 if none is."""
    return max((percent.get(name, 0.0) - limit for name, limit in high.items()), default=0.0)


def _nothing_to_do(receivers: int, sources: int, *, of: int, more_than: int) -> str:
    """Return why no pod is to be moved; empty if some are."""
    if not sources:
        return "no node is above targetThresholds"
    if not receivers:
        return "no schedulable node is below thresholds"
    if receivers <= more_than:
        return f"{receivers} nodes are below thresholds, and numberOfNodes asks for more than {more_than}"
    return "all nodes are below thresholds" if receivers == of else ""
