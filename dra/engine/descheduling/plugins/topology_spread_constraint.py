"""RemovePodsViolatingTopologySpreadConstraint: domains with more pods than a constraint allows give some to others.

Each distinct constraint of a namespace is looked at once, with what the constraints before it have moved. As in
kube-scheduler, all pods that match count, protected ones too, those that end or have ended do not, and pods on nodes
that the constraint's policies exclude do not either. The largest domain gives pods to the smallest, the next to the
next, as long as two domains differ by more than maxSkew, and none crosses the average.

A candidate must fit on a node of a domain below the average, with all its hard constraints: a pod that would come back
stays. Pods that have the constraint go before pods that only match its selector.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import msgspec

from dra.api.descheduler.spread_plugin_args import RemovePodsViolatingTopologySpreadConstraintArgs
from dra.engine.descheduling.node_names import NodeNames
from dra.engine.descheduling.plugin import Evict, Refusal, Verdict
from dra.engine.descheduling.plugins.spread_constraint import SpreadConstraint, spread_constraint
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.snapshot import Snapshot, SnapshotNode
from dra.model.meta import Uid


@dataclass(slots=True)
class _Balance:
    """A constraint with the domains that it counts in."""

    constraint: SpreadConstraint
    carriers: set[Uid]
    """The pods that have the constraint."""
    domain_of: Mapping[str, str]
    """Node → its domain."""
    sizes: dict[str, int]
    """Domain → the pods that match in it, as planned: each pod goes to the smallest domain."""
    movable: dict[str, list[DeschedulingPod]]
    """Domain → the pods of it that do not move yet."""
    placed: dict[str, int] = field(default_factory=dict)
    """Domain → the pods that match in it, as the snapshot places them."""
    lacking: dict[str, int] = field(default_factory=dict)
    """Domain below the average → the pods that it may still receive, as the snapshot places them."""
    total: int = 0
    refused_nodes: set[str] = field(default_factory=set)
    """Nodes whose limit is reached."""
    unfit: set[bytes] = field(default_factory=set)
    """Forms of pods that fit on no receiver."""
    nodes_of: dict[frozenset[str], NodeNames] = field(default_factory=dict)
    """Domains → their nodes: most pods have the same receivers as the pod before."""
    stayed: int = 0
    """Pods that were no candidates because they fit on no receiver."""

    def above_average(self, domain: str) -> int:
        """Return how far a domain is above the average, rounded up; negative or zero if it is not."""
        return -((self.total - self.sizes[domain] * len(self.sizes)) // len(self.sizes))

    def below_average(self, domain: str) -> int:
        """Return how far a domain is below the average, rounded up; negative or zero if it is not."""
        return -((self.sizes[domain] * len(self.sizes) - self.total) // len(self.sizes))

    def receivers(self, source: str, target: str, *, snapshot: Snapshot) -> NodeNames:
        """Return the nodes that may receive a pod: those of the target, and of what else it makes more even."""
        most = self.placed[source] - 2
        even = (domain for domain, lack in self.lacking.items() if lack > 0 and self.placed[domain] <= most)
        domains = frozenset((*even, target))
        known = self.nodes_of.get(domains)
        if known is None:
            known = snapshot.node_names([node for node, domain in self.domain_of.items() if domain in domains])
            self.nodes_of = {domains: known}
        return known

    def record(self, source: str, target: str, node: str) -> None:
        """Count a pod in another domain than before; ``node`` is where the snapshot has placed it, if anywhere."""
        self.sizes[source] -= 1
        self.sizes[target] += 1
        landed = self.domain_of.get(node, target)
        self.placed[source] -= 1
        self.placed[landed] += 1
        self.lacking[landed] = self.lacking.get(landed, 0) - 1


class RemovePodsViolatingTopologySpreadConstraint:
    """Moves pods from the largest domains of a topology spread constraint to the smallest."""

    name: ClassVar[str] = "RemovePodsViolatingTopologySpreadConstraint"
    Args: ClassVar[type[RemovePodsViolatingTopologySpreadConstraintArgs]] = (
        RemovePodsViolatingTopologySpreadConstraintArgs
    )

    def balance(
        self, snapshot: Snapshot, args: RemovePodsViolatingTopologySpreadConstraintArgs
    ) -> Generator[Evict, Verdict, str]:
        """Yield the pods that are to move to smaller domains."""
        nodes = snapshot.selected_nodes()
        domains = _Domains(nodes)
        stayed = 0
        for _, pods in sorted(_pods_by_namespace(nodes, args).items()):
            for constraint, carriers in _constraints(pods, args):
                balance = _counted(constraint, carriers, pods, domain_of=domains.of(constraint), snapshot=snapshot)
                last = yield from _move(balance, args, snapshot)
                stayed += balance.stayed
                if last is Refusal.TOTAL_LIMIT:
                    return ""
                if last is Refusal.NAMESPACE_LIMIT:
                    break
        return f"{stayed} pods fit on no node of a domain below the average (topologyBalanceNodeFit)" if stayed else ""


class _Domains:
    """The domains of nodes, for each topology key and policy once."""

    def __init__(self, nodes: Iterable[SnapshotNode]) -> None:
        self._nodes = tuple(nodes)
        self._known: dict[bytes, dict[str, str]] = {}

    def of(self, constraint: SpreadConstraint) -> Mapping[str, str]:
        """Return the domain of each node that a constraint counts in."""
        known = self._known.get(constraint.nodes_key)
        if known is None:
            key = constraint.topology_key
            counted = (node for node in self._nodes if key in node.labels and constraint.includes(node.node))
            known = self._known[constraint.nodes_key] = {node.name: node.labels[key] for node in counted}
        return known


def _pods_by_namespace(
    nodes: Iterable[SnapshotNode], args: RemovePodsViolatingTopologySpreadConstraintArgs
) -> dict[str, list[DeschedulingPod]]:
    """Return the pods that count, by namespace."""
    by_namespace: dict[str, list[DeschedulingPod]] = {}
    for node in nodes:
        for pods in (node.pods, node.arriving):
            for pod in pods.values():
                if not (pod.terminal or pod.metadata.deleting) and args.namespaces.selects(pod.metadata.namespace):
                    by_namespace.setdefault(pod.metadata.namespace, []).append(pod)
    return by_namespace


def _constraints(
    pods: Iterable[DeschedulingPod], args: RemovePodsViolatingTopologySpreadConstraintArgs
) -> list[tuple[SpreadConstraint, set[Uid]]]:
    """Return the distinct constraints of pods, each with the pods that have it."""
    distinct: dict[bytes, tuple[SpreadConstraint, set[Uid]]] = {}
    for pod in pods:
        for given in pod.spec.topology_spread_constraints or ():
            if given.when_unsatisfiable in args.constraints:
                constraint = spread_constraint(given, pod)
                _, carriers = distinct.setdefault(constraint.key, (constraint, set()))
                carriers.add(pod.metadata.uid)
    return [distinct[key] for key in sorted(distinct)]


def _counted(
    constraint: SpreadConstraint,
    carriers: set[Uid],
    pods: Iterable[DeschedulingPod],
    *,
    domain_of: Mapping[str, str],
    snapshot: Snapshot,
) -> _Balance:
    """Return the domains of a constraint with their pods, those that move on their new nodes."""
    balance = _Balance(constraint, carriers, domain_of, sizes=dict.fromkeys(domain_of.values(), 0), movable={})
    for pod in pods:
        target = snapshot.moved.get(pod.metadata.uid)
        domain = domain_of.get(pod.spec.node_name if target is None else target)
        if domain is not None and constraint.matches(pod.metadata.labels or {}):
            balance.sizes[domain] += 1
            balance.total += 1
            if target is None:
                balance.movable.setdefault(domain, []).append(pod)
    balance.placed = dict(balance.sizes)
    balance.lacking = {domain: lack for domain in balance.sizes if (lack := balance.below_average(domain)) > 0}
    return balance


def _move(
    balance: _Balance, args: RemovePodsViolatingTopologySpreadConstraintArgs, snapshot: Snapshot
) -> Generator[Evict, Verdict, Refusal | None]:
    """Yield pods of the largest domains until no two domains differ by more than maxSkew; return the last refusal."""
    sizes, skew = balance.sizes, balance.constraint.max_skew
    last: Refusal | None = None
    order = sorted(sizes, key=lambda domain: (sizes[domain], domain))
    waiting: dict[str, Iterator[DeschedulingPod]] = {}
    low, high = 0, len(order) - 1
    while low < high:
        small, large = order[low], order[high]
        difference = sizes[large] - sizes[small]
        if balance.above_average(large) <= 0:
            high -= 1
        elif difference <= skew or balance.below_average(small) <= 0:
            low += 1
        else:
            if large not in waiting:
                waiting[large] = _candidates(balance, large, args, snapshot)
            receivers = balance.receivers(large, small, snapshot=snapshot)
            pod = _fitting(waiting[large], receivers, balance, args=args, snapshot=snapshot)
            if pod is None:
                high -= 1
                continue
            verdict = yield Evict(
                pod,
                reason=f"{balance.constraint.topology_key} {large} has {sizes[large]} of the pods that are to be "
                f"spread, {small} has {sizes[small]}: more than maxSkew {skew} apart",
                receivers=receivers,
            )
            last = verdict.refusal
            if verdict.accepted:
                balance.record(large, small, verdict.node)
            elif last in {Refusal.TOTAL_LIMIT, Refusal.NAMESPACE_LIMIT}:
                break
            elif last is Refusal.NODE_LIMIT:
                balance.refused_nodes.add(pod.spec.node_name)
            elif last is Refusal.NO_PLACE:
                balance.unfit.add(_form(pod))
    return last


def _candidates(
    balance: _Balance, domain: str, args: RemovePodsViolatingTopologySpreadConstraintArgs, snapshot: Snapshot
) -> Iterator[DeschedulingPod]:
    """Yield the pods of a domain that are selected, the least important of those that have the constraint first."""
    selector = args.label_selector

    def importance(pod: DeschedulingPod) -> tuple[bool, bool, int, int, str]:
        """Return whether the pod only matches, whether it selects nodes, and what makes it important."""
        affinity = pod.spec.affinity
        selects_nodes = bool(pod.spec.node_selector) or (affinity is not None and affinity.node_affinity is not None)
        is_other = pod.metadata.uid not in balance.carriers
        return (is_other, selects_nodes, pod.spec.priority, snapshot.age(pod), pod.metadata.name)

    for pod in sorted(balance.movable.get(domain, ()), key=importance):
        if pod.spec.node_name not in balance.refused_nodes and (
            selector is None or selector.selects(pod.metadata.labels)
        ):
            yield pod


def _fitting(
    candidates: Iterator[DeschedulingPod],
    receivers: NodeNames,
    balance: _Balance,
    *,
    args: RemovePodsViolatingTopologySpreadConstraintArgs,
    snapshot: Snapshot,
) -> DeschedulingPod | None:
    """Return the next candidate that fits on a receiver; None if there is none left."""
    for pod in candidates:
        if balance.unfit and _form(pod) in balance.unfit:
            balance.stayed += args.topology_balance_node_fit
        elif args.topology_balance_node_fit and not snapshot.fitting_node(pod, among=receivers):
            balance.unfit.add(_form(pod))
            balance.stayed += 1
        else:
            return pod
    return None


def _form(pod: DeschedulingPod) -> bytes:
    """Return what decides where a pod fits: what pods of one template have in common."""
    return msgspec.json.encode((pod.metadata.labels, msgspec.structs.replace(pod.spec, node_name="")))
