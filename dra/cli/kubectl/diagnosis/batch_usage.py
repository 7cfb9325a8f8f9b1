"""Implements ``kubectl dra usage --batch``: what each node uses, and what batch pods hold of what it offers."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple

from dra.api.colocation.well_known import BATCH_CPU, BATCH_MEMORY
from dra.cli.kubectl import resource_table
from dra.cli.kubectl.diagnosis import colocation_texts
from dra.cli.kubectl.diagnosis.colocation_texts import amount_text
from dra.cli.kubectl.print_flags import PrintOptions
from dra.cli.kubectl.printers import OutputFormat, print_to_stderr
from dra.cli.kubectl.resource_table import ResourceTable, SelectorOptions, TableRow, no_resources_message
from dra.cli.kubectl.snapshots.snapshot_scope import SnapshotScope
from dra.cli.kubectl.snapshots.snapshot_source import SnapshotSource
from dra.engine.diagnosis import colocation
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.colocation import Sampled
from dra.engine.diagnosis.node_use import NodeUse, ResourceUse

BATCH_SCOPE: Final = SnapshotScope.PODS | SnapshotScope.NODES | SnapshotScope.COLOCATION

BATCH_COLUMNS: Final = ("NODE", "RESOURCE", "CAPACITY", "USED", "OFFERED", "HELD", "LEFT", "HELD%")
BATCH_WIDE_COLUMNS: Final = ("REQUESTED", "SAMPLED")

TOTAL: Final = "<total>"
UNKNOWN: Final = "<unknown>"
NONE: Final = "<none>"


class _NodeRow(NamedTuple):
    """One node: its use, and the state of its report."""

    use: NodeUse
    sampled: Sampled


def print_batch_usage(*, source: SnapshotSource, selectors: SelectorOptions, output: PrintOptions) -> None:
    """Run ``kubectl dra usage --batch``."""
    snapshot = source.read(BATCH_SCOPE)
    cluster_state = ClusterState(snapshot)
    table = batch_table(cluster_state, selectors, now=source.now(snapshot))
    is_table = output.format in {OutputFormat.TABLE, OutputFormat.WIDE}
    if table.rows or not is_table:
        resource_table.print_table(resource_table.select_rows(table, selectors), output)
    else:
        print_to_stderr(no_resources_message(None))
    for text in colocation_texts.cluster_notes(cluster_state, now=source.now(snapshot)) if is_table else ():
        print_to_stderr(text)


def batch_table(cluster_state: ClusterState, selectors: SelectorOptions, *, now: datetime) -> ResourceTable:
    """Return the table of nodes, with CPUs and memory in rows of their own, and the sums of all nodes.

    Without NodeMetrics, only nodes that offer batch resources are of interest.
    """
    nodes = [
        _NodeRow(use, colocation.sampled(cluster_state, node, now=now))
        for _, node in sorted(cluster_state.nodes.items())
        if selectors.matches_labels(node.metadata.labels)
        and (
            (use := colocation.node_use_of(cluster_state, node)).offers_batch or cluster_state.node_metrics is not None
        )
    ]
    rows = [row for node in nodes for row in _rows(node)]
    totals = [*_totals([node.use for node in nodes])] if nodes and not selectors.labels else []
    return ResourceTable(header=BATCH_COLUMNS, wide=BATCH_WIDE_COLUMNS, rows=tuple(rows), totals=tuple(totals))


def _rows(node_row: _NodeRow) -> Iterator[TableRow]:
    for resource, use in _resources(node_row.use):
        yield _row(node_row.use.node, resource, use, node_row)


def _resources(use: NodeUse) -> Iterator[tuple[str, ResourceUse]]:
    yield BATCH_CPU, use.cpu
    yield BATCH_MEMORY, use.memory


def _totals(nodes: list[NodeUse]) -> Iterator[TableRow]:
    for resource in (BATCH_CPU, BATCH_MEMORY):
        parts = [dict(_resources(node))[resource] for node in nodes]
        # A node that offers nothing adds nothing to the sum; a number that is not known makes its sum unknown.
        whole = ResourceUse(
            capacity=_sum(use.capacity for use in parts),
            used=_sum(use.used for use in parts),
            requested=_sum(use.requested for use in parts),
            offered=_sum(use.offered or 0 for use in parts),
            held=_sum(use.held for use in parts),
        )
        yield _row(TOTAL, resource, whole, None)


def _sum(numbers: Iterable[int | None]) -> int | None:
    listed = [*numbers]
    return None if None in listed else sum(number for number in listed if number is not None)


def _row(name: str, resource: str, use: ResourceUse, node: _NodeRow | None) -> TableRow:
    def text(amount: int | None) -> str:
        return UNKNOWN if amount is None else amount_text(resource, amount)

    offered = NONE if use.offered is None else text(use.offered)
    left = NONE if use.offered is None else text(use.left)
    percent = round(100 * use.held / use.offered) if use.offered and use.held is not None else None
    part = NONE if not use.offered else UNKNOWN if percent is None else f"{percent}%"
    return TableRow(
        name=f"node/{name}",
        cells=(
            name,
            resource.partition("/")[2],
            text(use.capacity),
            text(use.used),
            offered,
            text(use.held),
            left,
            part,
        ),
        wide=(text(use.requested), "" if node is None else colocation_texts.sampled_text(node.sampled)),
        content=partial(_data, name, resource, use, node),
    )


def _data(name: str, resource: str, use: ResourceUse, node: _NodeRow | None) -> dict[str, Any]:
    content: dict[str, Any] = {
        "kind": "NodeBatchUsage",
        "node": name.strip("<>") if node is None else name,
        "resource": resource,
        "unit": "milliCPU" if resource == BATCH_CPU else "byte",
        **colocation_texts.use_data(use),
    }
    if node is not None:
        content |= {
            "pods": node.use.batch_pods,
            "sampling": node.sampled.sampling.value,
            "sampledAt": node.sampled.at,
        }
    return content
