"""Nodes that the controller keeps from autoscalers, by annotations, while claims are kept there (``annotateNodes``).

An autoscaler deletes a node without pods as empty. The annotations that autoscalers heed are set while an entry for
future pods keeps a claim allocated on the node, whether or not pods use the claim: Karpenter may delete a node in the
moment in which the last pod ends. A marker lists the annotations that the controller has set itself. Annotations of
people are never changed, and neither is an annotation of the controller whose value a person has changed.
"""

from collections.abc import Mapping
from typing import Final

from dra.engine.claims.node_annotations import AnnotateNode, AnnotationWrites, NodeAnnotationsView
from dra.engine.claims.view import KEEPING_KINDS, WorkloadState, classify_entry
from dra.engine.dirty_keys import Cache, DirtyKeys
from dra.engine.instants import Instant
from dra.model.autoscalers import KEEP, KEEP_ANNOTATIONS, KEPT_NODE
from dra.model.claims import ResourceClaim
from dra.model.meta import Key
from dra.model.nodes import Node
from dra.model.workload_reservations import WorkloadReservation

KEPT_NODES_MAX: Final = 8
"""Maximum number of nodes that an allocation may name for these nodes to be kept.

The allocation of a local device names one node, and that of devices on several nodes a few. An allocation that names
more has a device that all the nodes reach, such as a device in the network: its pods need any one of the nodes, and
keeping all of them would keep a whole rack, at its full cost, for one claim.
"""

NO_NODES: Final[frozenset[str]] = frozenset()


def nodes_kept_by(
    claim: ResourceClaim, names: frozenset[str], *, reservation: WorkloadReservation | None, holders: bool
) -> frozenset[str]:
    """Return the nodes that a claim keeps, given the names of the nodes in its allocation.

    An entry of a workload, a PodGroup or a Reservation keeps the nodes. ``holders`` says whether Reservations are
    observed: otherwise their entries are foreign.
    """
    if not 0 < len(names) <= KEPT_NODES_MAX:
        return NO_NODES
    for entry in claim.entries:
        if entry.is_pod:
            continue
        group = WorkloadState() if entry.is_pod_group else None
        classified = classify_entry(entry, reservation=reservation, consumer=None, group=group, holders=holders)
        if classified.kind in KEEPING_KINDS:
            return names
    return NO_NODES


def annotation_changes(annotations: Mapping[str, str] | None, *, kept: bool) -> dict[str, str | None]:
    """Return the changes of a Node's annotations, None for a removal; empty if the annotations are right."""
    present = annotations or {}
    marked = (present.get(KEPT_NODE) or "").split(",")
    ours = [key for key in KEEP_ANNOTATIONS if key in marked and present.get(key) == KEEP]
    changes: dict[str, str | None] = {}
    if kept:
        missing = [key for key in KEEP_ANNOTATIONS if key not in present]
        changes |= dict.fromkeys(missing, KEEP)
        ours = [key for key in KEEP_ANNOTATIONS if key in {*ours, *missing}]
    else:
        changes |= dict.fromkeys(ours)
        ours = []
    marker = ",".join(ours) or None
    if present.get(KEPT_NODE) != marker:
        changes[KEPT_NODE] = marker
    return changes


class KeptNodes(Cache[str]):
    """The nodes on which claims are kept; ``dirty`` has the names of nodes whose annotations are to be changed."""

    def __init__(self, *, is_enabled: bool) -> None:
        """Create the cache; if it is not enabled, annotations that the controller has set earlier are removed."""
        self.is_enabled = is_enabled
        self.writes = AnnotationWrites()
        self.dirty: DirtyKeys[str] = DirtyKeys()
        self._nodes: dict[Key, frozenset[str]] = {}
        self._claims: dict[str, set[Key]] = {}

    def set_claim(self, key: Key, nodes: frozenset[str]) -> None:
        """Record the nodes that a claim keeps."""
        before = self._nodes.pop(key, NO_NODES)
        if nodes:
            self._nodes[key] = nodes
        for name in before - nodes:
            self._claims[name].discard(key)
            if not self._claims[name]:
                del self._claims[name]
                self.dirty.add(name)
        for name in nodes - before:
            if name not in self._claims:
                self.dirty.add(name)
            self._claims.setdefault(name, set()).add(key)

    def is_kept(self, node: str) -> bool:
        """Return whether a node is to be kept from autoscalers."""
        return self.is_enabled and node in self._claims

    def has_kept_claims(self, node: str) -> bool:
        """Return whether a claim is kept on a node, whether nodes are annotated or not."""
        return node in self._claims

    def observe_node(self, node: Node) -> None:
        """Check the annotations of a node from a list or a watch."""
        if self.changes(node):
            self.dirty.add(node.metadata.name)

    def mark_all_dirty(self) -> None:
        """Mark the nodes on which claims are kept; nodes that an earlier leader has annotated are observed again."""
        self.dirty.update(self._claims)

    def view(self, node: Node, *, now: Instant) -> NodeAnnotationsView:
        """Return what a decision about the annotations of a node reads."""
        meta = node.metadata
        return NodeAnnotationsView(
            missing=AnnotateNode(node=meta.key, version=meta.resource_version, changes=self.changes(node)),
            is_enabled=self.is_enabled,
            is_refused=self.writes.is_refused,
            due=self.writes.due(meta.name, now=now),
        )

    def refuse(self, name: str, *, now: Instant) -> bool:
        """Record that the permission to write a Node is missing; return whether that is new.

        The Node is marked for the next attempt, unless its annotations are only left over.
        """
        is_new = self.writes.refuse(now=now)
        if self.is_enabled:
            self.dirty.add(name, due=self.writes.refused_until)
        return is_new

    def changes(self, node: Node) -> dict[str, str | None]:
        """Return the changes of a node's annotations that are to be written; none of a node that is being deleted."""
        meta = node.metadata
        return {} if meta.deleting else annotation_changes(meta.annotations, kept=self.is_kept(meta.name))
