"""The node reservations that are in force: while an annotation is unreadable, the last valid one.

Only a process that has seen the last valid annotation knows it. So the annotations of such nodes are stored for the
next process.
"""

from collections.abc import Mapping
from typing import Final

from dra.api.reservations.well_known import ANNOTATION_NODE_RESERVATION, MalformedAnnotationError
from dra.engine.dirty_keys import Cache, DirtyKeys
from dra.engine.reservations import node_reservation
from dra.engine.reservations.node_reservation import NodeReservation
from dra.model.quantities import Amounts
from dra.model.scheduling import SchedulerNode

CONFIG_MAP_NAME: Final = "dra-reserve-node-reservations"
"""Name of the ConfigMap in which the annotations are stored: the one key to reconcile."""

NO_ANNOTATION: Final = ""
"""Stored value of a node whose last valid state is to have no annotation."""


class NodeReservations(Cache[str]):
    """The node reservations of a cluster, and the annotations to store for the next process."""

    def __init__(self) -> None:
        self.dirty = DirtyKeys()
        self.errors: dict[str, str] = {}
        """Node → error in its annotation; the last valid annotation counts."""
        self._in_force: dict[str, NodeReservation] = {}
        self._valid: dict[str, str] = {}
        """Node → its last valid annotation, where known."""
        self._restored: dict[str, str] = {}
        """Node → the last valid annotation that a previous process stored."""
        self._stored: Mapping[str, str] = {}
        """Node → annotation, as stored now."""

    def mark_all_dirty(self) -> None:
        """Mark the ConfigMap as dirty."""
        self.dirty.add(CONFIG_MAP_NAME)

    def observe(self, node: SchedulerNode) -> Amounts:
        """Add or update a node; return the amounts that it has for pods."""
        name = node.metadata.name
        before = self._to_store(name)
        effective = node_reservation.effective_node_reservation(
            node, before=self._in_force.get(name) or self._restore_reservation(name)
        )
        if effective.allocatable:
            self._in_force[name] = effective.reservation
            if not effective.error:
                self._valid[name] = node.metadata.annotation(ANNOTATION_NODE_RESERVATION) or NO_ANNOTATION
        if effective.error:
            self.errors[name] = effective.error
        else:
            self.errors.pop(name, None)
        if self._to_store(name) != before:
            self.dirty.add(CONFIG_MAP_NAME)
        return effective.allocatable

    def forget(self, name: str) -> None:
        """Remove a deleted node; a node of that name that comes later begins without its past."""
        if self._to_store(name) is not None:
            self.dirty.add(CONFIG_MAP_NAME)
        for memory in (self._in_force, self._valid, self._restored, self.errors):
            memory.pop(name, None)

    def restore(self, stored: Mapping[str, str] | None) -> dict[str, str]:
        """Restore the annotations that a previous process stored; return the error of each malformed one by node."""
        self._stored = stored or {}
        malformed: dict[str, str] = {}
        for name, text in self._stored.items():
            try:
                node_reservation.parse(text or None)
            except MalformedAnnotationError as error:
                malformed[name] = str(error)
            else:
                self._restored[name] = text
        return malformed

    def annotations_to_store(self) -> dict[str, str]:
        """Return the last valid annotations of nodes whose current one is unreadable, where known."""
        return {name: text for name in self.errors if (text := self._to_store(name)) is not None}

    def changes(self, wanted: Mapping[str, str]) -> dict[str, str | None]:
        """Return the changes from the stored annotations to the wanted ones; None: the entry is removed."""
        removed: dict[str, str | None] = {name: None for name in self._stored if name not in wanted}
        return removed | {name: text for name, text in wanted.items() if self._stored.get(name) != text}

    def mark_stored(self, annotations: Mapping[str, str]) -> None:
        """Note that these annotations are stored now."""
        self._stored = annotations

    def _to_store(self, name: str) -> str | None:
        return self._valid.get(name) if name in self.errors else None

    def _restore_reservation(self, name: str) -> NodeReservation | None:
        text = self._restored.get(name)
        if text is None:
            return None
        self._valid[name] = text
        return node_reservation.parse(text or None)
