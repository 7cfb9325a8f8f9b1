"""Implements ``-w``: prints the list first, then every changed row, as kubectl does.

Claims, pods, nodes and slices are watched. Workloads are only looked up again, at most every few seconds, since they
may be of any kind. The same functions as without ``-w`` make the rows, from the state at that time.
"""

import asyncio
import gc
from collections.abc import Callable, Iterable
from typing import Any, Final

import click
import msgspec

from dra.api.rbac import LEASE_NAME
from dra.cli.kubectl.connection import Connection, connect
from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.print_flags import PrintOptions
from dra.cli.kubectl.printers import OutputFormat, format_table
from dra.cli.kubectl.resource_table import ResourceTable, TableRow, table_cells
from dra.cli.kubectl.snapshots.cluster_reader import SnapshotReader
from dra.cli.kubectl.snapshots.snapshot_scope import SnapshotScope
from dra.cli.kubectl.snapshots.snapshot_source import SnapshotSource
from dra.cli.kubectl.snapshots.workload_reader import referenced_workloads
from dra.engine.claims.workload_index import WorkloadKey
from dra.engine.diagnosis.snapshot import Snapshot
from dra.kube.client import Selection
from dra.kube.clock import SYSTEM
from dra.kube.errors import ApiError, NotFound
from dra.kube.reflector import Reflector
from dra.kube.resources import CLAIMS, NODES, PODS, SLICES, Resource
from dra.model.claims import ResourceClaim
from dra.model.diagnosed_pods import DiagnosedPod
from dra.model.node_pods import AgentNode
from dra.model.slices import ResourceSlice

DEBOUNCE: Final = 0.5
"""Seconds for which changes are collected before rows are printed."""

WORKLOAD_REFRESH_INTERVAL: Final = 5.0
"""Seconds until workloads are looked up again."""

EXIT_CODE_INTERRUPTED: Final = 130
"""Exit code after Ctrl-C, as shells set it."""

STATE_COLUMNS: Final = ("STATE", "PHASE")
"""Columns in which a deleted row shows ``Gone``."""

_WATCHED_KINDS: Final = {
    "claims": (CLAIMS, ResourceClaim),
    "pods": (PODS, DiagnosedPod),
    "nodes": (NODES, AgentNode),
    "slices": (SLICES, ResourceSlice),
}
"""Field of a snapshot → resource and model that are watched for the field."""


def watch_snapshot(
    source: SnapshotSource, scope: SnapshotScope, *, to_table: Callable[[Snapshot], ResourceTable], output: PrintOptions
) -> None:
    """Print the list and then its changes, until interrupted."""
    _check_can_watch(source, output)
    printer = WatchPrinter(output)
    try:
        asyncio.run(_watch_cluster(source, scope, lambda snapshot: printer.print_changes(to_table(snapshot))))
    except ApiError as error:
        raise FailedError(str(error)) from error
    except KeyboardInterrupt:
        raise SystemExit(EXIT_CODE_INTERRUPTED) from None


def watch_kind(
    source: SnapshotSource,
    kind: tuple[Resource, type[Any]],
    *,
    to_table: Callable[..., ResourceTable],
    output: PrintOptions,
    missing: str,
) -> None:
    """Print a list of one kind and then its changes, until interrupted; `missing` is the error without such a kind."""
    _check_can_watch(source, output)
    printer = WatchPrinter(output)
    resource, model = kind

    def print_changes(objects: Iterable[Any]) -> None:
        printer.print_changes(to_table(objects, now=SYSTEM.wall()))

    async def work() -> None:
        async with connect(source.cluster_flags) as connection:
            first = [item async for page in connection.client.list_pages(resource, model) for item in page.items]
            print_changes(first)
            changed = asyncio.Event()
            reflector: Reflector[Any] = Reflector(connection.client, resource, model, handler=lambda _: changed.set())
            async with asyncio.TaskGroup() as group:
                group.create_task(reflector.run())
                await reflector.synced.wait()
                while True:
                    await changed.wait()
                    await asyncio.sleep(DEBOUNCE)
                    changed.clear()
                    print_changes(reflector.objects.values())

    try:
        asyncio.run(work())
    except NotFound as error:
        raise FailedError(missing) from error
    except ApiError as error:
        raise FailedError(str(error)) from error
    except KeyboardInterrupt:
        raise SystemExit(EXIT_CODE_INTERRUPTED) from None


def _check_can_watch(source: SnapshotSource, output: PrintOptions) -> None:
    if source.bundle_path is not None:
        raise click.UsageError("--watch cannot be used with --from")
    if output.format is OutputFormat.CSV:
        raise click.UsageError("-o csv cannot be used with --watch")
    gc.enable()  # a watch runs without end, so garbage must be collected


async def _watch_cluster(source: SnapshotSource, scope: SnapshotScope, on_change: Callable[[Snapshot], None]) -> None:
    async with connect(source.cluster_flags) as connection:
        await follow_cluster(connection, source, scope, on_change)


async def follow_cluster(
    connection: Connection, source: SnapshotSource, scope: SnapshotScope, on_change: Callable[[Snapshot], None]
) -> None:
    """Pass snapshots to ``on_change``, now and after each change; never return. Raise ApiError."""
    named = None if source.all_namespaces else source.namespace
    lease = (source.lease_namespace, LEASE_NAME)
    snapshot = await SnapshotReader(connection, namespace=named, lease=lease).read(scope)
    on_change(snapshot)
    missing = {gap.resource for gap in snapshot.gaps}
    changed = asyncio.Event()
    selection = Selection(namespace=snapshot.namespace)
    reflectors: dict[str, Reflector[Any]] = {
        field: Reflector(
            connection.client,
            resource,
            model,
            handler=lambda _: changed.set(),
            selection=selection if resource.namespaced else Selection(),
        )
        for field, (resource, model) in _WATCHED_KINDS.items()
        if resource.label not in missing
    }
    async with asyncio.TaskGroup() as group:
        for reflector in reflectors.values():
            group.create_task(reflector.run())
        for reflector in reflectors.values():
            await reflector.synced.wait()
        looked_up, referenced = connection.clock.now(), _referenced_by_claims(snapshot)
        while True:
            await changed.wait()
            await asyncio.sleep(DEBOUNCE)
            changed.clear()
            fields = {field: tuple(reflector.objects.values()) for field, reflector in reflectors.items()}
            snapshot = msgspec.structs.replace(snapshot, **fields)
            now = connection.clock.now()
            if now - looked_up >= WORKLOAD_REFRESH_INTERVAL or _referenced_by_claims(snapshot) != referenced:
                reader = SnapshotReader(connection, namespace=named, lease=lease)
                workloads = tuple(await reader.workloads.look_up(snapshot.claims))
                snapshot = msgspec.structs.replace(snapshot, workloads=workloads)
                looked_up, referenced = now, _referenced_by_claims(snapshot)
            on_change(snapshot)


def _referenced_by_claims(snapshot: Snapshot) -> set[WorkloadKey]:
    return {key for claim in snapshot.claims for key in referenced_workloads(claim)}


class WatchPrinter:
    """Prints rows once, and later each row that has changed."""

    def __init__(self, output: PrintOptions) -> None:
        self._style = output
        self._printed_rows: dict[tuple[str, str], tuple[str, ...]] = {}
        self._widths: list[int] = []
        self._header_printed = False
        self._header: tuple[str, ...] = ()

    def print_changes(self, table: ResourceTable) -> None:
        """Print the rows that are new, changed or gone since the last list."""
        self._header, lines = table_cells(table, self._style)
        current = {_row_key(row): line for row, line in zip(table.rows, lines, strict=True)}
        changed = [row for row in table.rows if self._printed_rows.get(_row_key(row)) != current[_row_key(row)]]
        deleted = [line for key, line in self._printed_rows.items() if key not in current]
        self._printed_rows = current
        if self._style.is_structured:
            for row in changed:
                self._style.print(row.content())
        elif changed:
            self._print([current[_row_key(row)] for row in changed])
        state_column = next((number for number, column in enumerate(self._header) if column in STATE_COLUMNS), None)
        if deleted and state_column is not None:
            self._print([(*line[:state_column], "Gone", *line[state_column + 1 :]) for line in deleted])

    def _print(self, lines: list[tuple[str, ...]]) -> None:
        shown = [self._header, *lines]
        widths = [max(len(line[column]) for line in shown) for column in range(len(self._header) - 1)]
        self._widths = [max(pair) for pair in zip(widths, self._widths or widths, strict=True)]
        headers = self._style.headers and self._style.format is not OutputFormat.NAME and not self._header_printed
        click.echo(format_table(self._header, lines, headers=headers, least=self._widths))
        self._header_printed = True


def _row_key(row: TableRow) -> tuple[str, str]:
    """Return the key of a row; with all namespaces, the first cell is the namespace."""
    return (row.cells[0], row.name)
