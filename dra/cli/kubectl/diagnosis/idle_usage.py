"""Implements ``kubectl dra usage --idle``: what is held beside what is used, now and over time."""

import asyncio
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import click

from dra.cli.kubectl import resource_table
from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.history_flags import HistoryFlags
from dra.cli.kubectl.print_flags import PrintOptions
from dra.cli.kubectl.printers import OutputFormat, print_to_stderr
from dra.cli.kubectl.reservations.reservation_describer import human_duration
from dra.cli.kubectl.resource_table import ResourceTable, SelectorOptions, TableRow, no_resources_message
from dra.cli.kubectl.snapshots.snapshot_scope import LIST_SCOPE, SnapshotScope
from dra.cli.kubectl.snapshots.snapshot_source import SnapshotSource
from dra.engine.device_usage.history import GROUPINGS, SINCE_MAX, SINCE_MIN, GroupHistory, rank
from dra.engine.device_usage.promql import MalformedLabelError
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.devices import device_groups
from dra.kube.clock import rfc3339

NO_HISTORY: Final = "no history: name one with --prometheus"

COLUMNS: Final = ("HELD", "USED", "IDLE")
HISTORY_COLUMNS: Final = ("IDLE-SINCE", "HELD-HOURS", "USED-HOURS", "IDLE-HOURS", "USED%")


def print_idle_usage(
    *, source: SnapshotSource, selectors: SelectorOptions, by: str, history: HistoryFlags, output: PrintOptions
) -> None:
    """Run ``kubectl dra usage --idle``; the declaration describes the options."""
    if by not in GROUPINGS:
        raise click.UsageError(f"--idle does not work with --by {by}; use namespace, workload or class")
    if selectors.labels:
        raise click.UsageError("-l does not work with --idle: history has no labels of claims")
    if not SINCE_MIN <= history.since <= SINCE_MAX:
        raise click.UsageError("--since: use a time from 1m to 90d, such as 24h or 7d")
    if history.prometheus.url is None:
        _print_present(source, by=by, selectors=selectors, output=output)
    elif source.bundle_path is not None:
        raise click.UsageError("--prometheus does not work with --from: a bundle is of one moment")
    else:
        _print_history(source, history, by=by, selectors=selectors, output=output)


def _print_present(source: SnapshotSource, *, by: str, selectors: SelectorOptions, output: PrintOptions) -> None:
    snapshot = source.read(LIST_SCOPE | SnapshotScope.COLOCATION)
    namespace = None if source.all_namespaces else source.requested_namespace
    numbers = device_groups(ClusterState(snapshot), now=source.now(snapshot))
    groups = {
        group: GroupHistory(held=count.held, used=count.used)
        for group, count in numbers.items()
        if namespace in {None, group.namespace}
    }
    rows = tuple(_row(by, name, history) for name, history in rank(by, groups))
    _print_rows(ResourceTable(header=(by.upper(), *COLUMNS), rows=rows), namespace, selectors, output)
    print_to_stderr(NO_HISTORY)


def _print_history(
    source: SnapshotSource, flags: HistoryFlags, *, by: str, selectors: SelectorOptions, output: PrintOptions
) -> None:
    from dra.cli import prometheus  # noqa: PLC0415 - only who asks for history needs a client for it

    # Whoever may not list the claims of all namespaces gets the history of the namespace whose claims the user may.
    readable = source.read(SnapshotScope.CLAIMS_ONLY).namespace
    namespace = readable or (None if source.all_namespaces else source.requested_namespace)
    try:
        address = flags.prometheus.address()
        history = asyncio.run(
            prometheus.ask_history(
                address,
                since=flags.since,
                namespaces=None if namespace is None else {namespace},
                labels=flags.prometheus.labels,
            )
        )
    except (prometheus.PrometheusError, MalformedLabelError) as error:
        raise FailedError(str(error)) from error
    rows = [
        _history_row(by, name, merged, now=history.now, since=flags.since) for name, merged in rank(by, history.groups)
    ]
    table = ResourceTable(header=(by.upper(), *COLUMNS, *HISTORY_COLUMNS), rows=tuple(rows))
    _print_rows(table, namespace, selectors, output)
    if not table.rows:
        print_to_stderr(f"{address}: it has no such history; it must scrape the controller of dra-reserve")
    if readable is not None and source.requested_namespace is None:
        print_to_stderr(f"history of namespace {readable} alone: no permission to list the claims of other namespaces")


def _print_rows(table: ResourceTable, namespace: str | None, selectors: SelectorOptions, output: PrintOptions) -> None:
    if not table.rows and output.format in {OutputFormat.TABLE, OutputFormat.WIDE}:
        print_to_stderr(no_resources_message(namespace))
        return
    resource_table.print_table(resource_table.select_rows(table, selectors), output)


def _row(by: str, name: str, history: GroupHistory) -> TableRow:
    cells = (name, str(history.held), str(history.used), str(history.idle))
    return TableRow(name=name, cells=cells, content=partial(_present_data, by, name, history))


def _history_row(by: str, name: str, history: GroupHistory, *, now: float, since: float) -> TableRow:
    percent = round(100 * history.used_hours / history.held_hours) if history.held_hours else None
    hours = (history.held_hours, history.used_hours, history.idle_hours)
    cells = (
        *(name, str(history.held), str(history.used), str(history.idle)),
        _idle_text(history, now=now, since=since),
        *(f"{number:.1f}" for number in hours),
        "" if percent is None else f"{percent}%",
    )
    content = partial(_history_data, by, name, history, percent=percent)
    return TableRow(name=name, cells=cells, content=content)


def _idle_text(history: GroupHistory, *, now: float, since: float) -> str:
    if not history.idle:
        return ""
    if history.idle_since is None:
        return f">{human_duration(since)}"
    return human_duration(max(now - history.idle_since, 0.0))


def _present_data(by: str, name: str, history: GroupHistory) -> dict[str, Any]:
    return {"kind": "IdleUsage", by: name, "held": history.held, "used": history.used, "idle": history.idle}


def _history_data(by: str, name: str, history: GroupHistory, *, percent: int | None) -> dict[str, Any]:
    since = history.idle_since
    return {
        **_present_data(by, name, history),
        "idleSince": None if since is None else rfc3339(datetime.fromtimestamp(since, tz=UTC)),
        "heldHours": round(history.held_hours, 3),
        "usedHours": round(history.used_hours, 3),
        "idleHours": round(history.idle_hours, 3),
        "usedPercent": percent,
    }
