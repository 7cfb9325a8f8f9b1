"""The pods and claims that depend on each node, so that a change of a node concerns only its dependents."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final, TypeVar

from dra.engine.claims import vanished_pods
from dra.engine.claims.claim_state import ClaimState
from dra.engine.claims.consumers import Stage
from dra.engine.claims.node_index import NodeChange, NodeIndex
from dra.engine.claims.view import NodeDeletionSign
from dra.engine.dirty_keys import DirtyKeys
from dra.model import nodes
from dra.model.claims import AllocationResult
from dra.model.meta import Key, Uid

T = TypeVar("T")

_NO_NODES: Final[frozenset[str]] = frozenset()


class NodeDependents:
    """The pods bound to each node, and the claims allocated there.

    A change of a node adds the claims that it concerns to ``dirty``.
    A claim depends on the nodes that its allocation names. An allocation that selects nodes by labels names none.
    """

    def __init__(self, index: NodeIndex, *, records: Mapping[Key, ClaimState], dirty: DirtyKeys[Key]) -> None:
        self._nodes = index
        self._records = records
        self._dirty = dirty
        self._pods: dict[str, set[Uid]] = {}
        self._claims: dict[str, set[Key]] = {}
        self._named: dict[Key, frozenset[str]] = {}
        self._marked = -1
        """Generation of the marks to which all claims that may wait for a node belong."""

    def move_pod(self, uid: Uid, before: str, after: str) -> None:
        """Record the node that a pod is bound to; empty: none."""
        if before != after:
            _discard(self._pods, before, uid)
            _add(self._pods, after, uid)

    def pods_on(self, node: str) -> AbstractSet[Uid]:
        """Return the pods that are bound to a node."""
        return self._pods.get(node, frozenset())

    def set_allocation(self, key: Key, allocation: AllocationResult | None) -> None:
        """Record the present allocation of a claim."""
        selector = allocation.node_selector if allocation is not None else None
        names = (nodes.selected_node_names(selector) if selector is not None else None) or _NO_NODES
        before = self._named.pop(key, _NO_NODES)
        if names:
            self._named[key] = names
        for name in before - names:
            _discard(self._claims, name, key)
        for name in names - before:
            _add(self._claims, name, key)

    def nodes_of(self, key: Key) -> frozenset[str]:
        """Return the nodes that the present allocation of a claim names."""
        return self._named.get(key, _NO_NODES)

    def deletion_signs(self, key: Key) -> tuple[NodeDeletionSign, ...]:
        """Return the deletion signs of the nodes that an allocation names; empty if an existing node shows none."""
        signs = []
        for name in sorted(self.nodes_of(key)):
            if name in self._nodes:
                sign = self._nodes.deletion_sign(name)
                if sign is None:
                    return ()
                signs.append(NodeDeletionSign(node=name, sign=sign))
        return tuple(signs)

    def node_changed(self, node: str, change: NodeChange) -> None:
        """Mark the claims that depend on the changed node as dirty."""
        if node in self._nodes:
            for key in self._claims.get(node, ()):
                self._records[key].restart_node_deletion()
        if NodeChange.DELETION in change:
            self._dirty.update(self._claims.get(node, set()))
        if NodeChange.REACH in change or NodeChange.BOOT in change:
            self._mark_waiting()
            for key, record in self._records.items():
                if node in record.lost_nodes or (
                    record.vanished and node in [pod.node for pod in record.vanished.values()]
                ):
                    self._lost_changed(node, key, record)

    def _mark_waiting(self) -> None:
        """Mark the claims that wait for any node, once for all nodes that change until the marks are taken."""
        if self._marked == self._dirty.generation:
            return
        for key, record in self._records.items():
            if record.vanished:
                vanished_pods.reconcile_vanished(record, self._nodes)
                self._dirty.add(key)
            elif record.stages[Stage.WAITING] or record.stages[Stage.STARTING] or record.forced:
                self._dirty.add(key)
        self._marked = self._dirty.generation

    def _lost_changed(self, node: str, key: Key, record: ClaimState) -> None:
        self._dirty.add(key)
        vanished_pods.reconcile_vanished(record, self._nodes)
        if node in record.lost_nodes and self._nodes.lost_node(node, record.lost_nodes[node]) is None:
            del record.lost_nodes[node]  # permanently, whatever node reuses that name
            record.lost_node_graces.pop(node, None)


def _add(index: dict[str, set[T]], node: str, dependent: T) -> None:
    if node:
        index.setdefault(node, set()).add(dependent)


def _discard(index: dict[str, set[T]], node: str, dependent: T) -> None:
    dependents = index.get(node, set())
    dependents.discard(dependent)
    if not dependents:
        index.pop(node, None)
