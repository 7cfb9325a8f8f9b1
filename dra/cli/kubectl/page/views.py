"""The views of the page: their names and columns, and what a change of rows is.

Columns and states are those of ``kubectl dra get``, ``usage``, ``audit``, ``reservations`` and ``migrations``; the page
adds columns at the end, and never another meaning of the same word.
"""

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

COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "overview": ("SECTION", "NAME", "VALUE"),
    "claims": ("NAMESPACE", *CLAIM_COLUMNS, *CLAIM_WIDE_COLUMNS, "WAITING", "GRADE", "WHY", "NEXT"),
    "devices": (*DEVICE_COLUMNS, *DEVICE_WIDE_COLUMNS, "RELEASED-WHEN"),
    "nodes": ("NODE", "STATE", "DEVICES", "HELD", "USED", "PODS", "CLAIMS", "RESERVATIONS", "MAP"),
    "reservations": (*RESERVATION_COLUMNS, *RESERVATION_WIDE_COLUMNS, *HELD_CLAIM_COLUMNS, "BEGIN", "END"),
    "migrations": (*MIGRATION_COLUMNS, *MIGRATION_WIDE_COLUMNS, "BEGIN", "END"),
    "usage": ("BY", "NAME", "DEVICES", *USAGE_COLUMNS),
    "problems": ("GRADE", "PROBLEM", "OBJECT", "WHAT", "NEXT", "COMMAND"),
}
"""View → columns of its rows. Each row has a key besides."""


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


class Rows:
    """The rows of one view, which report what an update changes."""

    def __init__(self, view: str) -> None:
        self.view = view
        self.by_key: dict[str, Cells] = {}
        self._patch = Patch(view)

    def put(self, key: str, cells: Cells | None) -> None:
        """Set a row; None removes it."""
        if cells is None:
            if self.by_key.pop(key, None) is not None:
                self._patch.merge(Patch(self.view, gone={key}))
        elif self.by_key.get(key) != cells:
            self.by_key[key] = cells
            self._patch.merge(Patch(self.view, changed={key: cells}))

    def replace(self, rows: dict[str, Cells]) -> None:
        """Set all rows of the view."""
        for key in self.by_key.keys() - rows.keys():
            self.put(key, None)
        for key, cells in rows.items():
            self.put(key, cells)

    def take_patch(self) -> Patch:
        """Return what has changed since the last call."""
        found, self._patch = self._patch, Patch(self.view)
        return found
