"""Pods in groups of equal namespace and labels, with the number of each group's pods on each node.

Label selectors tell the pods of a group not apart. So a question about a workload of a thousand pods looks at one
group, and a question about a namespace at its groups.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from dra.engine.descheduling.pods import DeschedulingPod
from dra.model.preemption import LabelSelector

_GroupKey: TypeAlias = tuple[str, frozenset[tuple[str, str]], bool]
_NO_LABELS: Final[Mapping[str, str]] = {}


SELECTIONS_MAX: Final = 2_000_000
"""Maximum number of times in a round that selectors of the pods of a namespace are compared with groups: two seconds.

Each pod of a namespace may have another selector. Beyond that such pods stay where they are."""


class TooManySelectionsError(Exception):
    """The pods of a namespace have too many selectors; the text begins with the namespace."""


@dataclass(slots=True, eq=False)
class LabelGroup:
    """Pods of equal namespace and labels."""

    namespace: str
    labels: Mapping[str, str]
    is_terminating: bool
    """Whether the deletion of the pods was requested; topology spread does not count such pods."""
    nodes: dict[str, int] = field(default_factory=dict)
    """Node → number of the group's pods there; pods that move count on their new nodes."""
    left: set[str] = field(default_factory=set)
    """Nodes from which pods of the group move in this round, and where they run until then."""


class LabelGroups:
    """The groups of all pods that have not ended."""

    def __init__(self, pods: Iterable[DeschedulingPod]) -> None:
        """Group the pods; those with a node are counted there."""
        self._groups: dict[_GroupKey, LabelGroup] = {}
        self._alike: dict[tuple[str, int, bool], tuple[Mapping[str, str], LabelGroup]] = {}
        """Namespace, identity of labels that pods share, and whether they are being deleted → the labels, so that no
        other ones get this identity, and the group."""
        self._by_namespace: dict[str, list[LabelGroup]] = {}
        self._selections: dict[str, int] = {}
        """Namespace → the number of times that a selector of its pods was compared with a group."""
        self._by_label: dict[str, dict[tuple[str, str], list[LabelGroup]]] = {}
        """Namespace → label → groups; made when a selector first asks for pods of the namespace."""
        for pod in pods:
            if not pod.terminal:
                group = self.group(pod)
                if node := pod.spec.node_name:
                    group.nodes[node] = group.nodes.get(node, 0) + 1

    def group(self, pod: DeschedulingPod) -> LabelGroup:
        """Return the group of a pod."""
        meta = pod.metadata
        labels = meta.labels or _NO_LABELS
        parts = (meta.namespace, id(labels), meta.deleting)
        alike = self._alike.get(parts)
        if alike is not None:
            return alike[1]
        key = (meta.namespace, frozenset(labels.items()), meta.deleting)
        known = self._groups.get(key)
        if known is None:
            known = self._groups[key] = LabelGroup(meta.namespace, labels, meta.deleting)
            self._by_namespace.setdefault(meta.namespace, []).append(known)
            self._by_label.pop(meta.namespace, None)
        self._alike[parts] = (labels, known)
        return known

    @property
    def namespaces(self) -> Iterable[str]:
        """The namespaces that have pods."""
        return self._by_namespace

    def selected(self, selector: LabelSelector | None, namespaces: Iterable[str], *, asked_by: str) -> list[LabelGroup]:
        """Return the groups that a selector selects in some namespaces; None selects none, an empty one selects all.

        Raises TooManySelectionsError for the pods of a namespace, ``asked_by``, that have asked too much.
        """
        if selector is None:
            return []
        likely = [group for namespace in namespaces for group in self._likely(selector, namespace)]
        self._selections[asked_by] = self._selections.get(asked_by, 0) + len(likely)
        if self._selections[asked_by] > SELECTIONS_MAX:
            raise TooManySelectionsError(f"namespace {asked_by}: its pods have too many different label selectors")
        return [group for group in likely if selector.selects(group.labels)]

    def move(self, pod: DeschedulingPod, *, before: str, after: str) -> None:
        """Count a pod on another node; on none if `after` is empty."""
        nodes = self.group(pod).nodes
        if before in nodes:
            nodes[before] -= 1
            if not nodes[before]:
                del nodes[before]
            self.group(pod).left.add(before)
        if after:
            nodes[after] = nodes.get(after, 0) + 1

    def _likely(self, selector: LabelSelector, namespace: str) -> Iterable[LabelGroup]:
        """Return the groups of a namespace that have the rarest of the labels which the selector wants."""
        if not selector.match_labels:
            return self._by_namespace.get(namespace, ())
        by_label = self._by_label.get(namespace)
        if by_label is None:
            by_label = self._by_label[namespace] = {}
            for group in self._by_namespace.get(namespace, ()):
                for label in group.labels.items():
                    by_label.setdefault(label, []).append(group)
        return min((by_label.get(label, ()) for label in selector.match_labels.items()), key=len)


def counted(groups: Sequence[LabelGroup]) -> Mapping[str, int]:
    """Return the numbers of the groups' pods by node."""
    if len(groups) == 1:
        return groups[0].nodes
    total: dict[str, int] = {}
    for group in groups:
        for node, number in group.nodes.items():
            total[node] = total.get(node, 0) + number
    return total
