"""Pods leave the nodes that give pods away, as far as the receivers have headroom.

A source gives until it is no longer above its limits, or until the receivers together have no headroom of some resource
up to theirs. A pod may land on the receivers alone, and on these only while they stay within their limits with the pod:
otherwise it would move from one hot node to the next (descheduler#1695, #994).
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from dra.engine.descheduling.node_classification import LoadedNode
from dra.engine.descheduling.plugin import Evict, Refusal, Verdict
from dra.engine.descheduling.pods import DeschedulingPod
from dra.model.nodes import Taint
from dra.model.quantities import Amounts

_REPELLING: Final = frozenset({"NoSchedule", "NoExecute"})


@dataclass(slots=True)
class Receivers:
    """The nodes that may receive pods, and the headroom that they have together."""

    nodes: Mapping[str, LoadedNode]
    within_limits: bool = True
    """Whether a pod goes only to nodes that stay within their limits with the pod."""
    taints: Collection[tuple[Taint, ...]] = ()
    """The taints of each node; empty: no node has any."""
    brakes: Collection[str] | None = None
    """The resources of which all receivers together must have headroom; None: all that count."""
    headroom: dict[str, int] = field(default_factory=dict)
    _all: frozenset[str] = field(init=False)
    _ranked: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """Resource → headroom and name of each node, least headroom first: of thousands of nodes, few have no room."""

    def __post_init__(self) -> None:
        """Rank the nodes by their headroom, and add it up."""
        self._all = frozenset(self.nodes)
        for node in self.nodes.values():
            for resource, amount in node.headroom().items():
                self._ranked.setdefault(resource, []).append((amount, node.name))
        for resource, ranked in self._ranked.items():
            ranked.sort()
            if self.brakes is None or resource in self.brakes:
                self.headroom[resource] = sum(amount for amount, _ in ranked)

    @property
    def are_full(self) -> bool:
        """Whether some resource has no headroom left."""
        return not self.headroom or any(amount <= 0 for amount in self.headroom.values())

    def with_room(self, amounts: Amounts) -> frozenset[str]:
        """Return the nodes that may receive a pod with this load."""
        if not self.within_limits:
            return self._all
        too_full: set[str] = set()
        for resource, ranked in self._ranked.items():
            end = bisect_left(ranked, (amounts.get(resource, 0), ""))
            too_full.update(name for _, name in ranked[:end])
        return self._all - too_full

    def are_tolerated_by(self, pod: DeschedulingPod) -> bool:
        """Return whether a pod tolerates the taints of some node, so that it is not evicted only to wait."""
        tolerations = pod.spec.tolerations or ()
        return not self.taints or any(
            all(any(given.tolerates(taint) for given in tolerations) for taint in taints if taint.effect in _REPELLING)
            for taints in self.taints
        )

    def take(self, node: str, amounts: Amounts) -> None:
        """Count a pod on the node that is to receive it; on none in particular if that is not known."""
        for name in self.headroom:
            self.headroom[name] -= amounts.get(name, 0)
        receiver = self.nodes.get(node)
        if receiver is None:
            return
        for resource, before in receiver.headroom().items():
            ranked = self._ranked[resource]
            del ranked[bisect_left(ranked, (before, node))]
        receiver.add(amounts)
        for resource, amount in receiver.headroom().items():
            insort(self._ranked[resource], (amount, node))


@dataclass(frozen=True, slots=True)
class Source:
    """A node that gives pods away."""

    node: LoadedNode
    pods: Sequence[DeschedulingPod]
    """Its pods in the order in which they go."""
    load_of: Callable[[DeschedulingPod], Amounts]
    reason: Callable[[LoadedNode], str]
    limit: int | None = None
    """Maximum pods that leave the node; None: no limit."""
    while_over: Collection[str] | None = None
    """The resources of which the node must be above a limit; None: of any, empty: it gives in any case."""

    @property
    def is_relieved(self) -> bool:
        """Whether the node is not above its limits any more."""
        if self.while_over is None:
            return not self.node.over()
        return bool(self.while_over) and not any(name in self.while_over for name in self.node.over())


def give_away(source: Source, receivers: Receivers) -> Generator[Evict, Verdict, int]:
    """Yield pods of a node until it has given enough, and return how many go."""
    given = 0
    for pod in source.pods:
        if receivers.are_full or source.is_relieved or given == source.limit:
            return given
        load = source.load_of(pod)
        names = receivers.with_room(load)
        if not names:
            continue
        # Even in a profile that looks for no place: what each receiver repels would be evicted for nothing.
        insists = not receivers.are_tolerated_by(pod)
        verdict = yield Evict(pod, reason=source.reason(source.node), receivers=names, insists_on_place=insists)
        if verdict.accepted:
            given += 1
            source.node.add(load, sign=-1)
            receivers.take(verdict.node, load)
        elif verdict.refusal is Refusal.NODE_LIMIT:
            return given
    return given
