"""LowNodeLoad: pods leave nodes whose measured use is above the high thresholds for nodes below the low ones.

Koordinator's plugin. The use of pods of priority class koord-prod has thresholds of its own, and counts as resources of
its own here: ``prod cpu`` beside ``cpu``.

==============================  =======================================================================================
use of the node                 what the node does
==============================  =======================================================================================
at most low                     receives pods; prod pods too if the use of prod pods is at most low, and gives prod pods
                                away if that is above high
above high                      gives pods away
in between                      as low, for prod pods alone
==============================  =======================================================================================

A node gives pods away only after several reports in a row (`anomaly`). What a report says and what is expected since
are two loads (`measured_load`). A pod goes only if its own use is known.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from functools import partial
from typing import ClassVar

from dra.api.descheduler.load_plugin_args import AnomalyCondition, EffectivePool, LowNodeLoadArgs
from dra.engine.descheduling.anomaly import mark_reports
from dra.engine.descheduling.balancing import Receivers, Source, give_away
from dra.engine.descheduling.load_scores import node_score, pod_score
from dra.engine.descheduling.measured_load import Load, MeasuredLoads, MeasuredNode, is_prod, measured_capacity
from dra.engine.descheduling.node_classification import (
    ALL,
    MEMORY,
    PROD,
    LoadedNode,
    Percentages,
    deviations,
    mean_percentages,
    percentage,
    shares,
)
from dra.engine.descheduling.plugin import Candidates, Evict, Verdict
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.snapshot import Snapshot
from dra.engine.migration.order import EvictionRank, evict_first_key
from dra.model.meta import Uid
from dra.model.quantities import Amounts


class LowNodeLoad:
    """Koordinator's plugin of this name."""

    name: ClassVar[str] = "LowNodeLoad"
    Args: ClassVar[type[LowNodeLoadArgs]] = LowNodeLoadArgs

    def balance(self, snapshot: Snapshot, args: LowNodeLoadArgs) -> Candidates:
        """Yield pods of nodes above the high thresholds, pool by pool, of the fullest node first."""
        if args.paused:
            return "paused"
        loads = MeasuredLoads(snapshot, snapshot.selected_nodes(), expiration=args.node_metric_expiration_seconds)
        pools = [
            _Pool(snapshot, pool, args=args, loads=loads, nodes=nodes) for pool, nodes in _pools(args, loads.nodes)
        ]
        for kind in ("", PROD):
            above = {name: time for pool in pools for name, time in pool.reports_above(kind).items()}
            mark_reports(snapshot.own_memory.setdefault(f"{kind}marks", {}), above)
        notes = []
        for pool in pools:
            note = yield from pool.balance()
            notes += [f"{pool.name}{note}"] if note else []
        return "; ".join(dict.fromkeys(notes))


def _pools(
    args: LowNodeLoadArgs, nodes: Mapping[str, MeasuredNode]
) -> list[tuple[EffectivePool, dict[str, MeasuredNode]]]:
    """Return each pool with its nodes: a node belongs to the first pool that selects it."""
    pools: list[tuple[EffectivePool, dict[str, MeasuredNode]]] = []
    left = dict(nodes)
    for pool in args.effective_pools:
        selector = pool.node_selector
        there = {name: node for name, node in left.items() if selector is None or selector.selects(node.node.labels)}
        left = {name: node for name, node in left.items() if name not in there}
        pools.append((pool, there))
    return pools


class _Pool:
    """The nodes of one pool, classified."""

    def __init__(
        self,
        snapshot: Snapshot,
        pool: EffectivePool,
        *,
        args: LowNodeLoadArgs,
        loads: MeasuredLoads,
        nodes: Mapping[str, MeasuredNode],
    ) -> None:
        self.name = f"pool {pool.name}: " if pool.name else ""
        self._snapshot = snapshot
        self._pool = pool
        self._args = args
        self._loads = loads
        self._nodes = nodes
        self._capacity = {name: _with_prod(measured_capacity(snapshot, node.node)) for name, node in nodes.items()}
        named = (pool.low_thresholds, pool.prod_low_thresholds)
        self._node_resources = tuple(dict.fromkeys((*(name for given in named for name in given or ()), MEMORY)))
        self._prod_resources = tuple(PROD + name for name in self._node_resources) if pool.prod_low_thresholds else ()
        self._resources = self._node_resources + self._prod_resources
        self._low, self._high = self._thresholds()
        self._measured = {name: self._loaded(node, node.measured) for name, node in nodes.items()}
        self._expected = {name: self._loaded(node, node.expected) for name, node in nodes.items()}
        self._roles = {name: self._role(node) for name, node in nodes.items()}

    def reports_above(self, kind: str) -> dict[str, str]:
        """Return the nodes that give pods of a kind away → the time of their reports."""
        return {name: self._nodes[name].update_time for name, (gives, _) in self._roles.items() if kind in gives}

    def balance(self) -> Generator[Evict, Verdict, str]:
        """Yield the pods that leave nodes of the pool, and return why nothing is done."""
        sources = {kind: self._abnormal(kind) for kind in ("", PROD)}
        if note := self._nothing_to_do(sources):
            return note
        for kind, names in sources.items():
            resources = self._prod_resources if kind else self._node_resources
            names_of_receivers = [name for name, (_, receives) in self._roles.items() if kind in receives]
            receivers = Receivers(
                {name: self._expected[name] for name in names_of_receivers},
                within_limits=self._args.node_fit,
                taints={self._nodes[name].node.taints for name in names_of_receivers},
                brakes=self._resources if kind else self._node_resources,
            )
            for name in sorted(names, key=lambda name: (-self._score(name, kind), name)):
                node = self._measured[name]
                yield from give_away(
                    Source(
                        node=node,
                        pods=self._pods(name, kind),
                        load_of=self._load_of,
                        reason=partial(self._reason, resources=resources),
                        while_over=resources,
                    ),
                    receivers,
                )
        return ""

    def _thresholds(self) -> tuple[Percentages, Percentages]:
        """Return the percentages up to which nodes receive, and above which nodes give; of all resources."""
        pool = self._pool
        prod_low, prod_high = pool.prod_low_thresholds or {}, pool.prod_high_thresholds or {}
        low = {**(pool.low_thresholds or {}), **{PROD + name: percent for name, percent in prod_low.items()}}
        high = {**(pool.high_thresholds or {}), **{PROD + name: percent for name, percent in prod_high.items()}}
        if pool.use_deviation_thresholds:
            # Koordinator: a resource whose low deviation is 0 does not count, and is limited by all that there is.
            low = {name: percent for name, percent in low.items() if percent}
            high = {name: percent for name, percent in high.items() if name in low}
            low, high = deviations(mean_percentages([self._percentages(name) for name in self._nodes]), low, high)
        return low, high

    def _percentages(self, name: str) -> Percentages:
        use, capacity = _merged(self._nodes[name].measured), self._capacity[name]
        return {
            resource: percentage(resource, use[resource], capacity[resource])
            for resource in self._resources
            if capacity.get(resource)
        }

    def _loaded(self, node: MeasuredNode, load: Load) -> LoadedNode:
        use = _merged(load)
        return LoadedNode(
            name=node.node.name,
            usage={name: use.get(name, 0) for name in self._resources},
            limits=shares(self._high, self._capacity[node.node.name], self._resources),
        )

    def _role(self, node: MeasuredNode) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the kinds of pods that a node gives away, and that it may receive: all (""), or prod pods alone."""
        name = node.node.name
        low = shares(self._low, self._capacity[name], self._resources)
        expected, over = self._expected[name].usage, self._measured[name].over()
        is_low = {
            kind: node.node.is_schedulable and all(expected[resource] <= low[resource] for resource in resources)
            for kind, resources in {"": self._node_resources, PROD: self._prod_resources}.items()
        }
        gives_prod = any(resource in over for resource in self._prod_resources)
        if not is_low[""] and any(resource in over for resource in self._node_resources):
            return ("",), ()
        if gives_prod:
            return (PROD,), ()
        return (), tuple(kind for kind in ("", PROD) if is_low[kind] and (not kind or self._prod_resources))

    def _abnormal(self, kind: str) -> list[str]:
        """Return the nodes that give pods of a kind away, and have done so for long enough."""
        marks = self._snapshot.own_memory[f"{kind}marks"]
        wanted = (self._pool.anomaly_condition or AnomalyCondition()).consecutive_abnormalities
        return [name for name in self.reports_above(kind) if wanted == 1 or marks[name].count > wanted]

    def _nothing_to_do(self, sources: Mapping[str, Sequence[str]]) -> str:
        if not any(self.reports_above(kind) for kind in sources):
            return "no node is above the high thresholds"
        if not any(sources.values()):
            return "no node has been above the high thresholds for long enough"
        if self._args.dry_run:
            names = sorted({name for kind in sources.values() for name in kind})
            return f"dryRun: {len(names)} nodes are overutilized ({', '.join(names[:3])}); nothing is evicted"
        low = sum(1 for _, receives in self._roles.values() if receives)
        if not low:
            return "no schedulable node is below the low thresholds"
        if low <= self._args.number_of_nodes:
            return f"{low} nodes are below the low thresholds, and numberOfNodes asks for more"
        return ""

    def _pods(self, name: str, kind: str) -> list[DeschedulingPod]:
        """Return the pods of a node that may go, in the order in which they go."""
        node = self._nodes[name]
        pods = (pod for uid in node.pods if (pod := node.node.pods.get(uid)) is not None)
        may_go = [pod for pod in pods if self._may_go(pod) and (not kind or is_prod(pod))]
        excess = {
            resource.removeprefix(PROD): self._measured[name].usage[resource] - self._measured[name].limits[resource]
            for resource in self._measured[name].over()
            if (resource in self._prod_resources) == bool(kind)
        }
        return sorted(may_go, key=partial(self._evict_first, excess=excess, use=node.pods))

    def _may_go(self, pod: DeschedulingPod) -> bool:
        namespaces, selectors = self._args.evictable_namespaces, self._args.pod_selectors
        namespace = pod.metadata.namespace
        given = [selector.selector for selector in selectors if selector.selector is not None]
        return (
            not pod.metadata.deleting
            and namespace not in namespaces.exclude
            and (not namespaces.include or namespace in namespaces.include)
            and (not given or any(selector.selects(pod.metadata.labels) for selector in given))
        )

    def _evict_first(self, pod: DeschedulingPod, *, excess: Amounts, use: Mapping[Uid, dict[str, int]]) -> EvictionRank:
        *rank, created = evict_first_key(pod)
        score = pod_score(use[pod.metadata.uid], excess, weights={name: self._pool.weight(name) for name in excess})
        return (*rank, -score, created, pod.metadata.key)

    def _score(self, name: str, kind: str) -> int:
        load = self._nodes[name].measured
        resources = dict.fromkeys((*self._node_resources, "pods"))
        weights = {resource: self._pool.weight(resource) for resource in resources}
        return node_score(load.prod if kind else load.node, self._capacity[name], weights=weights)

    def _load_of(self, pod: DeschedulingPod) -> Amounts:
        load = self._loads.load_of(pod)
        return {**load, **{PROD + name: amount for name, amount in load.items()}} if is_prod(pod) else load

    def _reason(self, node: LoadedNode, *, resources: Iterable[str]) -> str:
        capacity, over = self._capacity[node.name], node.over()
        above = (
            f"{name} usage({percentage(name, node.usage[name], capacity.get(name, 0)):.2f}%)"
            f">threshold({self._high.get(name, ALL):.2f}%)"
            for name in sorted(resources)
            if name in over
        )
        return f"node is overutilized, {', '.join(above)}"


def _with_prod(amounts: Amounts) -> dict[str, int]:
    return {**amounts, **{PROD + name: amount for name, amount in amounts.items()}}


def _merged(load: Load) -> dict[str, int]:
    """Return the use of all pods, and under names of their own that of prod pods."""
    return {**load.node, **{PROD + name: amount for name, amount in load.prod.items()}}
