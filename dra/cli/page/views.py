"""The views of the page: their names and columns, and what a change of rows is.

Columns and states are those of ``kubectl dra get``, ``usage``, ``audit``, ``reservations`` and ``migrations``; the page
adds columns at the end, and never another meaning of the same word.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from dra.cli.kubectl.diagnosis.get import (
    CLAIM_COLUMNS,
    CLAIM_WIDE_COLUMNS,
    DEVICE_COLUMNS,
    DEVICE_WIDE_COLUMNS,
)
from dra.cli.kubectl.diagnosis.usage import USAGE_COLUMNS
from dra.cli.kubectl.migrations.migration_list import MIGRATION_COLUMNS, MIGRATION_WIDE_COLUMNS
from dra.cli.kubectl.reservations.reservation_list import (
    HELD_CLAIM_COLUMNS,
    RESERVATION_COLUMNS,
    RESERVATION_WIDE_COLUMNS,
)

Cells: TypeAlias = tuple[str, ...]

USE_COLUMNS: Final = ("CPU", "MEMORY", "BATCH-CPU", "BATCH-MEMORY", "SAMPLED")
"""Columns of nodes that tell what is used beside what is held: ``USED/HELD/CAPACITY``, for batch resources
``HELD/OFFERED``, in milli-CPUs or bytes. A number that is not known is empty, and so is the cell without any."""

COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "overview": ("SECTION", "NAME", "VALUE"),
    "claims": ("NAMESPACE", *CLAIM_COLUMNS, *CLAIM_WIDE_COLUMNS, "WAITING", "GRADE", "WHY", "NEXT"),
    "waiting": ("NAMESPACE", "NAME", "EQUAL", "FOR", "WAITING", "STATE", "GRADE", "WHY", "NEXT", "NAMES"),
    "workloads": ("NAMESPACE", "FOR", "STATE", "CLAIMS", "DEVICES", "PODS", "WAITING", "GRADE"),
    "devices": (*DEVICE_COLUMNS, *DEVICE_WIDE_COLUMNS, "RELEASED-WHEN"),
    "nodes": ("NODE", "STATE", "DEVICES", "HELD", "USED", "PODS", "CLAIMS", "RESERVATIONS", "MAP", *USE_COLUMNS),
    "reservations": (*RESERVATION_COLUMNS, *RESERVATION_WIDE_COLUMNS, *HELD_CLAIM_COLUMNS, "BEGIN", "END"),
    "migrations": (*MIGRATION_COLUMNS, *MIGRATION_WIDE_COLUMNS, "BEGIN", "END"),
    "rounds": ("ROUND", "PROFILES", "PLUGINS", "JOBS", "UNAPPROVED", "WAITING", "MOVING", "MOVED", "ENDED"),
    "usage": ("BY", "NAME", "DEVICES", *USAGE_COLUMNS),
    "problems": ("GRADE", "PROBLEM", "OBJECT", "WHAT", "NEXT", "COMMAND"),
}
"""View → columns of its rows. Each row has a key besides."""

STATE_COLUMNS: Final = {
    view: COLUMNS[view].index(column)
    for view, column in (
        ("claims", "STATE"),
        ("devices", "STATE"),
        ("nodes", "STATE"),
        ("reservations", "PHASE"),
        ("migrations", "PHASE"),
        ("problems", "GRADE"),
    )
}
"""View → index of the column whose values the overview counts."""

_PODS_OF_DEVICE: Final = COLUMNS["devices"].index("PODS")


@dataclass(slots=True)
class Patch:
    """Changed rows of one view."""

    view: str
    changed: dict[str, Cells] = field(default_factory=dict)
    """Key → cells of rows that are new or have changed."""

    gone: set[str] = field(default_factory=set)
    """Keys of rows that no longer exist."""

    def __bool__(self) -> bool:
        return bool(self.changed or self.gone)

    def __len__(self) -> int:
        return len(self.changed) + len(self.gone)

    def merge(self, later: "Patch") -> None:
        """Apply a later patch of the same view: the newest row of each key wins."""
        self.gone -= later.changed.keys()
        self.changed.update(later.changed)
        for key in later.gone:
            self.changed.pop(key, None)
        self.gone |= later.gone


def row_state(view: str, cells: Cells) -> str:
    """Return the state as which the overview counts a row; empty if the row is not counted.

    A held device counts as Used while pods use it. Nodes that do not exist are not counted.
    """
    column = STATE_COLUMNS.get(view)
    state = cells[column] if column is not None else ""
    if view == "devices" and state == "Held" and cells[_PODS_OF_DEVICE] != "0":
        return "Used"
    return "" if view == "nodes" and state == "Gone" else state


class Rows:
    """The rows of one view, which report what an update changes."""

    def __init__(self, view: str) -> None:
        self.view = view
        self.by_key: dict[str, Cells] = {}
        self.states: Counter[str] = Counter()
        """State → number of rows, so that the overview need not visit all rows after each change."""

        self._patch = Patch(view)

    def put(self, key: str, cells: Cells | None) -> None:
        """Set a row; None removes it."""
        before = self.by_key.get(key)
        if before == cells:
            return
        if before is not None:
            self._count(before, -1)
        if cells is None:
            del self.by_key[key]
            self._patch.merge(Patch(self.view, gone={key}))
        else:
            self._count(cells, 1)
            self.by_key[key] = cells
            self._patch.merge(Patch(self.view, changed={key: cells}))

    def _count(self, cells: Cells, number: int) -> None:
        if state := row_state(self.view, cells):
            self.states[state] += number
            if not self.states[state]:
                del self.states[state]

    def replace(self, rows: dict[str, Cells]) -> None:
        """Set all rows of the view."""
        for key in self.by_key.keys() - rows.keys():
            self.put(key, None)
        for key, cells in rows.items():
            self.put(key, cells)

    def take_patch(self) -> Patch:
        """Return what has changed since the last call."""
        patch, self._patch = self._patch, Patch(self.view)
        return patch
