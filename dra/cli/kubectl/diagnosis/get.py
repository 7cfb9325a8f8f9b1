"""Implements ``kubectl dra get``: tables of claims, devices, pods, nodes, Reservations and migrations."""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import click
import msgspec

from dra.cli.kubectl import resource_table
from dra.cli.kubectl.diagnosis import describer, user_tables
from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.print_flags import PrintOptions
from dra.cli.kubectl.printers import print_to_stderr
from dra.cli.kubectl.resource_args import parse_resource_args
from dra.cli.kubectl.resource_table import (
    SELECT_ALL,
    ResourceTable,
    SelectorOptions,
    TableRow,
    no_resources_message,
)
from dra.cli.kubectl.snapshots.snapshot_scope import LIST_SCOPE
from dra.cli.kubectl.snapshots.snapshot_source import SnapshotSource
from dra.engine.claims.view import EntryKind
from dra.engine.diagnosis import claims
from dra.engine.diagnosis.claims import ClaimDiagnosis
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.devices import DeviceUsage, devices
from dra.engine.diagnosis.snapshot import Snapshot
from dra.model.meta import Key

CLAIM_COLUMNS: Final = ("NAME", "DEVICES", "FOR", "PODS", "LISTED", "NODE", "STATE")
CLAIM_WIDE_COLUMNS: Final = ("SINCE", "RELEASED-WHEN")
LISTED_KINDS: Final = ("claim", "device", "pod", "node", "reservation", "migration")
DEVICE_COLUMNS: Final = ("DEVICE", "NODE", "HELD-BY", "PODS", "STATE")
DEVICE_WIDE_COLUMNS: Final = ("TAINTS",)

NAMESPACED_KINDS: Final = ("claim", "pod")


def print_objects(
    *,
    kind: str,
    name: str | None,
    source: SnapshotSource,
    selectors: SelectorOptions,
    output: PrintOptions,
    watch: bool,
) -> None:
    """Run ``kubectl dra get``; the declaration describes the options."""
    kind, name = parse_resource_args(kind, name, among=LISTED_KINDS, named=False)
    if kind == "reservation":
        _get_reservations(source, name, selectors=selectors, output=output, watch=watch)
        return
    if kind == "migration":
        _get_migrations(source, name, selectors=selectors, output=output, watch=watch)
        return
    if selectors.labels and kind == "device":
        raise click.UsageError("devices have no labels; select by node with --field-selector node=NODE")
    if kind != "node":
        refuse_label_selector_on_bundle(source, selectors)
    to_table = partial(_build_table, kind=kind, name=name, source=source, selectors=selectors)
    if watch:
        from dra.cli.kubectl.snapshots import watch_printer  # noqa: PLC0415 - only who watches needs it

        watch_printer.watch_snapshot(source, LIST_SCOPE, to_table=to_table, output=output)
        return
    table = to_table(source.read(LIST_SCOPE))
    if name is not None and not table.rows:
        everywhere = " -A" if kind in NAMESPACED_KINDS else ""
        raise FailedError(f"{kind} {name}: not found. See: kubectl dra get {kind}s{everywhere}")
    if not table.rows and not output.is_structured:
        print_to_stderr(no_resources_message(selected_namespace(source) if kind in NAMESPACED_KINDS else None))
        return
    resource_table.print_table(table, output)


def _get_reservations(
    source: SnapshotSource, name: str | None, *, selectors: SelectorOptions, output: PrintOptions, watch: bool
) -> None:
    from dra.cli.kubectl.reservations.reservation_list import print_reservations  # noqa: PLC0415 - only who asks for them needs it

    print_reservations(source, name, selectors=selectors, output=output, watch=watch)


def _get_migrations(
    source: SnapshotSource, name: str | None, *, selectors: SelectorOptions, output: PrintOptions, watch: bool
) -> None:
    from dra.cli.kubectl.migrations.migration_list import print_migrations  # noqa: PLC0415 - as above

    print_migrations(source, name, selectors=selectors, output=output, watch=watch)


def _build_table(
    snapshot: Snapshot, *, kind: str, name: str | None, source: SnapshotSource, selectors: SelectorOptions
) -> ResourceTable:
    """Return the table of a kind for the command line."""
    cluster_state = ClusterState(snapshot)
    table: ResourceTable
    if kind == "pod":
        table = user_tables.pod_table(
            cluster_state, selected_namespace(source), name, selectors, all_namespaces=source.all_namespaces
        )
    elif kind == "node":
        table = user_tables.node_table(cluster_state, name, selectors)
    elif kind == "claim":
        header = ("NAMESPACE", *CLAIM_COLUMNS) if source.all_namespaces else CLAIM_COLUMNS
        rows = tuple(
            claim_row(facts, snapshot, all_namespaces=source.all_namespaces)
            for facts in diagnose_claims(cluster_state, source, name, selectors)
        )
        table = ResourceTable(header=header, wide=CLAIM_WIDE_COLUMNS, rows=rows, single=name is not None)
    else:
        rows = tuple(
            device_row(usage) for usage in devices(cluster_state) if name in {None, usage.item.device, str(usage.item)}
        )
        table = ResourceTable(header=DEVICE_COLUMNS, wide=DEVICE_WIDE_COLUMNS, rows=rows, single=name is not None)
    return resource_table.select_rows(table, selectors)


def refuse_label_selector_on_bundle(source: SnapshotSource, selectors: SelectorOptions) -> None:
    """Raise UsageError for labels of claims, which bundles do not have."""
    if selectors.labels and source.bundle_path is not None:
        raise click.UsageError(
            "a bundle has no labels of claims and pods; select by name with --field-selector metadata.name=NAME"
        )


def selected_namespace(source: SnapshotSource) -> str | None:
    """Return the selected namespace; None for all namespaces."""
    return (
        None if source.all_namespaces or (source.bundle_path and not source.requested_namespace) else source.namespace
    )


def diagnose_claims(
    cluster_state: ClusterState, source: SnapshotSource, name: str | None, selectors: SelectorOptions = SELECT_ALL
) -> Iterator[ClaimDiagnosis]:
    """Yield the diagnoses of the selected claims, by namespace and name."""
    namespace = selected_namespace(source)
    for claim in sorted(cluster_state.snapshot.claims, key=_claim_key):
        key = claim.metadata.key
        if namespace in {None, key[0]} and name in {None, key[1]} and selectors.matches_labels(claim.metadata.labels):
            facts = claims.explain(cluster_state, key)
            if facts is not None:
                yield facts


def _claim_key(claim: Any) -> Key:  # noqa: ANN401 - a claim
    key: Key = claim.metadata.key
    return key


def claim_row(facts: ClaimDiagnosis, snapshot: Snapshot, *, all_namespaces: bool) -> TableRow:
    """Return the row of a claim."""
    listed = sum(entry.count for entry in facts.held if entry.kind in {EntryKind.LIVE, EntryKind.UNKNOWN})
    cells = (
        facts.key[1],
        str(len(facts.devices)),
        facts.holder or "<none>",
        f"{facts.users.consuming:,}",
        str(listed),
        facts.nodes[0] if len(facts.nodes) == 1 else (f"{len(facts.nodes)} nodes" if facts.nodes else "<none>"),
        claim_state(facts),
    )
    return TableRow(
        name=describer.resource_name("ResourceClaim", facts.key[1]),
        cells=(facts.key[0], *cells) if all_namespaces else cells,
        wide=(facts.since or "<none>", describer.release_condition(facts) if facts.holds else "<none>"),
        content=lambda: {**describer.diagnosis_data(facts, snapshot), "state": claim_state(facts)},
    )


def claim_state(facts: ClaimDiagnosis) -> str:
    """Return the state of a claim: its first problem that is more than a note, or its phase."""
    if facts.problems and facts.problems[0].severity != "info":
        return facts.problems[0].code.value
    if facts.deleting:
        return "Deleting"
    if not facts.allocated:
        return "Pending"
    return "InUse" if facts.users.consuming else "Reserved"


def device_row(usage: DeviceUsage) -> TableRow:
    """Return the row of a device; without all claims, a device that no known claim holds is not called free."""
    free, nobody = (usage.obstacle.value or "Free", "<none>") if usage.known else ("Unknown", "<unknown>")
    gone = usage.obstacle.value or "Gone"  # the next slice of an incomplete pool may offer it again
    state = gone if not usage.offered else ("Tainted" if usage.taints else ("Held" if usage.holders else free))
    holders = ",".join("/".join(key) for key in usage.holders)
    return TableRow(
        name=f"device/{usage.item}",
        cells=(
            str(usage.item),
            usage.node or "<any>",
            holders or nobody,
            str(usage.consumers),
            state,
        ),
        wide=(",".join(usage.taints) or "<none>",),
        content=lambda: {"kind": "Device", "name": str(usage.item), **msgspec.to_builtins(usage), "state": state},
    )
