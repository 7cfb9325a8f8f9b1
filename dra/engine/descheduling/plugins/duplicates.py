"""RemoveDuplicates: replicas that share a node although others could run them.

Pods are replicas of each other if they have the same owners and the same images. A node should run at most
⌈replicas ÷ targets⌉ of them, where a target is a node that runs a replica and may, or that has room for one. All
replicas count, protected ones too; of those above the limit the least important go first: of the lowest priority, then
not ready, then the youngest.
"""

from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import ClassVar, Final, NamedTuple

import msgspec

from dra.api.descheduler.spread_plugin_args import RemoveDuplicatesArgs
from dra.engine.descheduling.node_names import NodeNames
from dra.engine.descheduling.plugin import Evict, Refusal, Verdict
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.snapshot import Snapshot, SnapshotNode
from dra.engine.migration.pod_index import is_ready
from dra.model.pods import TERMINAL_PHASES

_TEMPLATES_MAX: Final = 4
"""The pods of a workload come from one template, or from two during an update; placements beyond these are not asked
for."""

_TARGETS_MIN: Final = 2
"""On fewer nodes nothing can be spread."""

_NOTED_MAX: Final = 3
"""Workloads that a note names."""


class _Owner(NamedTuple):
    """The owners and images that replicas share."""

    namespace: str
    owners: tuple[tuple[str, str, str], ...]
    """Kind, name and uid of each owner."""
    images: tuple[str, ...]

    def __str__(self) -> str:
        kind, name, _ = self.owners[0]
        return f"{kind} {self.namespace}/{name}"


@dataclass(slots=True)
class _Replicas:
    """The replicas of an owner on the nodes of a round."""

    owner: _Owner
    counts: Counter[str] = field(default_factory=Counter)
    """Node → the replicas that it runs, or that are to move to it."""
    movable: dict[str, list[DeschedulingPod]] = field(default_factory=dict)
    """Node → its replicas that do not move yet."""

    def duplicates(self) -> Iterator[DeschedulingPod]:
        """Yield the replicas on nodes with several."""
        return (pod for node, pods in self.movable.items() if self.counts[node] > 1 for pod in pods)


class RemoveDuplicates:
    """Spreads the replicas of each workload over the nodes that can run them."""

    name: ClassVar[str] = "RemoveDuplicates"
    Args: ClassVar[type[RemoveDuplicatesArgs]] = RemoveDuplicatesArgs

    def balance(self, snapshot: Snapshot, args: RemoveDuplicatesArgs) -> Generator[Evict, Verdict, str]:
        """Yield the replicas above the limit of their node."""
        nodes = {node.name: node for node in snapshot.selected_nodes()}
        everywhere, confined = snapshot.node_names(frozenset(nodes)), []
        for replicas in _grouped(nodes.values(), args):
            targets = _count_targets(replicas, nodes, snapshot, others=everywhere.excluding(replicas.counts))
            if targets < _TARGETS_MIN:
                confined.append(str(replicas.owner))
                continue
            if (yield from _spread(replicas, everywhere, targets=targets, snapshot=snapshot)):
                break
        named = ", ".join(confined[:_NOTED_MAX]) + (", …" if len(confined) > _NOTED_MAX else "")
        return f"fewer than two nodes can run the duplicates of {named}" if confined else ""


def _grouped(nodes: Iterable[SnapshotNode], args: RemoveDuplicatesArgs) -> list[_Replicas]:
    """Return the owners with several replicas on a node."""
    groups: dict[_Owner, _Replicas] = {}
    known: dict[tuple[str, int, int], _Replicas | None] = {}
    # Pods of a workload share what `_owner` reads, and the pods of the snapshot keep it alive: its identity is enough.
    for node in nodes:
        for pods, stay in ((node.pods, True), (node.arriving, False)):
            for pod in pods.values():
                meta = pod.metadata
                if pod.status.phase in TERMINAL_PHASES or meta.deletion_timestamp is not None:
                    continue
                parts = (meta.namespace, id(meta.owner_references), id(pod.spec.containers))
                if parts not in known:
                    owner = _owner(pod, args)
                    known[parts] = None if owner is None else groups.setdefault(owner, _Replicas(owner))
                replicas = known[parts]
                if replicas is None:
                    continue
                replicas.counts[node.name] += 1
                if stay:
                    replicas.movable.setdefault(node.name, []).append(pod)
    several = (replicas for replicas in groups.values() if max(replicas.counts.values()) > 1)
    return sorted(several, key=lambda replicas: replicas.owner)


def _owner(pod: DeschedulingPod, args: RemoveDuplicatesArgs) -> _Owner | None:
    """Return what a pod shares with its replicas; None for a pod that does not count."""
    owners = pod.metadata.owner_references
    if not owners or not args.namespaces.selects(pod.metadata.namespace):
        return None
    if any(owner.kind in args.exclude_owner_kinds for owner in owners):
        return None
    identities = sorted((owner.kind, owner.name, owner.uid) for owner in owners)
    images = sorted(container.image for container in pod.spec.containers or ())
    return _Owner(pod.metadata.namespace, tuple(identities), tuple(images))


def _count_targets(
    replicas: _Replicas, nodes: dict[str, SnapshotNode], snapshot: Snapshot, *, others: NodeNames
) -> int:
    """Return the number of targets, at most that of the replicas: more would not lower the limit.

    ``others``: the nodes without replicas.
    """
    enough = replicas.counts.total()
    targets: set[str] = set()
    for pod in _templates(replicas.duplicates()):
        own = {name for name in replicas.counts if _accepts(nodes[name], pod)}
        own.update(islice(snapshot.fitting_nodes(pod, among=others), enough - len(own)))
        if len(own) > 1:
            targets |= own
    return min(len(targets), enough)


def _templates(pods: Iterable[DeschedulingPod]) -> list[DeschedulingPod]:
    """Return a pod for each placement that the pods ask for."""
    templates: dict[bytes, DeschedulingPod] = {}
    for pod in pods:
        affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
        required = affinity and affinity.required_during_scheduling_ignored_during_execution
        placement = msgspec.json.encode((pod.spec.tolerations, pod.spec.node_selector, required))
        templates.setdefault(placement, pod)
        if len(templates) == _TEMPLATES_MAX:
            break
    return list(templates.values())


def _accepts(node: SnapshotNode, pod: DeschedulingPod) -> bool:
    """Return whether a node's taints and labels let a pod in."""
    tolerations = pod.spec.tolerations or ()
    return all(
        any(toleration.tolerates(taint) for toleration in tolerations) for taint in node.node.spec.filtering_taints
    ) and pod.spec.selects_node(node.name, node.node.metadata.labels or {})


def _spread(
    replicas: _Replicas, everywhere: NodeNames, *, targets: int, snapshot: Snapshot
) -> Generator[Evict, Verdict, bool]:
    """Yield the replicas above the limit, from the fullest node on; return whether the round has ended."""
    counts, total = replicas.counts, replicas.counts.total()
    limit = -(-total // targets)
    receivers = everywhere.excluding(name for name, count in counts.items() if count >= limit)
    for node in sorted(replicas.movable, key=lambda name: (-counts[name], name)):
        for pod in sorted(replicas.movable[node], key=partial(_importance, snapshot)):
            if counts[node] <= limit:
                break
            verdict = yield Evict(
                pod,
                reason=f"node runs {counts[node]} of the {total} replicas of {replicas.owner}, more than {limit}",
                receivers=receivers,
            )
            if verdict.accepted:
                counts[node] -= 1
                counts[verdict.node] += 1
                receivers = receivers.without(verdict.node) if counts[verdict.node] >= limit else receivers
            elif verdict.refusal is Refusal.TOTAL_LIMIT:
                return True
            elif verdict.refusal is Refusal.NODE_LIMIT:
                break
            elif verdict.refusal in {Refusal.NAMESPACE_LIMIT, Refusal.WORKLOAD_LIMIT}:
                return False
    return False


def _importance(snapshot: Snapshot, pod: DeschedulingPod) -> tuple[int, bool, int, str]:
    """Return the key by which the least important pod comes first."""
    return (pod.spec.priority, is_ready(pod), snapshot.age(pod), pod.metadata.name)
