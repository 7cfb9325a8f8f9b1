"""Sums up the rows of equal pods: a Job of 500 pods is a few lines, not 500."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from dra.cli.kubectl.resource_table import ResourceTable, TableRow

ROWS_MAX: Final = 3
"""Maximum number of equal pods that have a row each."""

NONE: Final = "<none>"

_SUFFIX: Final = re.compile(r"(-[0-9]+|-[bcdfghjklmnpqrstvwxz2456789]{5})$")
"""Ends of generated names: the index of a pod, or five random characters."""


def base_name(pod: str) -> str:
    """Return the name that the pods of one workload have in common."""
    return _SUFFIX.sub("", pod)


def sum_up_rows(table: ResourceTable) -> ResourceTable:
    """Return a table of NAMESPACE, POD, NODE, DEVICES, WHY and CLAIMS in which equal pods share a row.

    Equal pods have the same base name, node and reason; their devices and claims are counted where these differ.
    """
    groups: dict[tuple[str, ...], list[TableRow]] = {}
    for row in table.rows:
        namespace, pod, node, _, why = row.cells
        own = "" if row.name.startswith("pod/") else row.name
        groups.setdefault((namespace, base_name(pod), node, why, own), []).append(row)
    rows: list[TableRow] = []
    for group in groups.values():
        rows += [_sum_up(group)] if len(group) > ROWS_MAX else group
    return replace(table, rows=tuple(rows))


def _sum_up(group: Sequence[TableRow]) -> TableRow:
    first = group[0]
    namespace, pod, node, _, why = first.cells
    found_devices = _count([row.cells[3] for row in group], "devices")
    names = f"{pod} and {len(group) - 1:,} more"
    return replace(
        first,
        cells=(namespace, names, node, found_devices, why),
        wide=(_count([row.wide[0] for row in group], "claims"),),
    )


def _count(cells: Sequence[str], noun: str) -> str:
    """Return what the cells have in common, or the number of the different things in them."""
    different = list(dict.fromkeys(value for cell in cells for value in cell.split(",") if value != NONE))
    return cells[0] if len(set(cells)) == 1 else f"{len(different):,} {noun}"
