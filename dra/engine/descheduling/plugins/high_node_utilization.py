"""HighNodeUtilization: pods leave nodes that request little for the others, so that nodes become empty.

The pods of an underutilized node go only to nodes that are not underutilized themselves: otherwise two such nodes would
exchange their pods in each round (descheduler#1461).
"""

from functools import partial
from typing import ClassVar

from dra.api.descheduler.load_plugin_args import EvictionMode, HighNodeUtilizationArgs
from dra.engine.descheduling.balancing import Receivers, Source, give_away
from dra.engine.descheduling.node_classification import ALL, ALWAYS_COUNTED, LoadedNode, Percentages, percentage, shares
from dra.engine.descheduling.plugin import Candidates
from dra.engine.descheduling.plugins.low_node_utilization import eviction_order
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.snapshot import Snapshot, SnapshotNode
from dra.model.quantities import Amounts, add


class HighNodeUtilization:
    """The community's plugin of this name."""

    name: ClassVar[str] = "HighNodeUtilization"
    Args: ClassVar[type[HighNodeUtilizationArgs]] = HighNodeUtilizationArgs

    def balance(self, snapshot: Snapshot, args: HighNodeUtilizationArgs) -> Candidates:
        """Yield the pods of underutilized nodes, of the emptiest node first."""
        nodes = snapshot.selected_nodes()
        use = {node.name: _percentages(snapshot, node, args) for node in nodes}
        sources = [node for node in nodes if _is_under(use[node.name], args.thresholds)]
        under = {node.name for node in sources}
        receivers = [node for node in nodes if node.name not in under and node.is_schedulable]
        if note := _nothing_to_do(len(sources), len(receivers), of=len(nodes), more_than=args.number_of_nodes):
            return note
        resources = tuple(dict.fromkeys((*args.thresholds, *ALWAYS_COUNTED)))
        load_of = partial(_load_of, snapshot, resources=resources)
        among = Receivers(
            {node.name: _loaded(snapshot, node, resources) for node in receivers},
            taints={node.taints for node in receivers},
        )
        for node in sorted(sources, key=lambda node: (max(use[node.name].values(), default=0.0), node.name)):
            yield from give_away(
                Source(
                    node=_loaded(snapshot, node, resources),
                    pods=[
                        pod
                        for pod in eviction_order(node, evictable=args.evictable_namespaces.exclude)
                        if _may_go(snapshot, pod, args)
                    ],
                    load_of=load_of,
                    reason=partial(_reason, percentages=use[node.name], thresholds=args.thresholds),
                    while_over=(),
                ),
                among,
            )
        return None


def _percentages(snapshot: Snapshot, node: SnapshotNode, args: HighNodeUtilizationArgs) -> Percentages:
    capacity = snapshot.capacity(node.name)
    return {
        name: percentage(name, node.requested.get(name, 0), capacity[name])
        for name in args.thresholds
        if name in capacity
    }


def _is_under(use: Percentages, thresholds: Percentages) -> bool:
    return all(use.get(name, 0.0) <= limit for name, limit in thresholds.items())


def _loaded(snapshot: Snapshot, node: SnapshotNode, resources: tuple[str, ...]) -> LoadedNode:
    """Return a node that may be used in full, with what Reservations hold there."""
    used = add(node.requested, snapshot.held(node.name))
    limits = shares({}, snapshot.capacity(node.name), resources)
    return LoadedNode(name=node.name, usage={name: used.get(name, 0) for name in resources}, limits=limits)


def _load_of(snapshot: Snapshot, pod: DeschedulingPod, *, resources: tuple[str, ...]) -> Amounts:
    requests = snapshot.requests(pod)
    return {name: requests.get(name, 0) for name in resources}


def _may_go(snapshot: Snapshot, pod: DeschedulingPod, args: HighNodeUtilizationArgs) -> bool:
    """Return whether the eviction modes allow a pod to go."""
    if EvictionMode.ONLY_THRESHOLDING_RESOURCES not in args.eviction_modes:
        return True
    return any(snapshot.requests(pod).get(name, 0) > 0 for name in args.thresholds if name != "pods")


def _reason(node: LoadedNode, *, percentages: Percentages, thresholds: Percentages) -> str:  # noqa: ARG001 - a Source's
    below = (
        f"requested {name}({percent:.2f}%)<=threshold({thresholds.get(name, ALL):.2f}%)"
        for name, percent in sorted(percentages.items())
    )
    return f"node is underutilized, {', '.join(below)}"


def _nothing_to_do(sources: int, receivers: int, *, of: int, more_than: int) -> str:
    """Return why no pod is to be moved; empty if some are."""
    if not sources:
        return "no node is below thresholds"
    if sources <= more_than:
        return f"{sources} nodes are below thresholds, and numberOfNodes asks for more than {more_than}"
    if sources == of:
        return (
            "all nodes are below thresholds, so that none is left to receive pods; lower the thresholds to empty the "
            "emptiest nodes"
        )
    return "" if receivers else "no schedulable node is above thresholds"
