"""Implements ``kubectl dra reservations``: the node of each, how much is used, by which owners, and until when."""

from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import Final

import click

from dra.api import durations
from dra.api.reservations.model import MalformedReservationError, Reservation, parse_reservation
from dra.cli.cluster_flags import ClusterFlags
from dra.cli.kubectl import resource_table
from dra.cli.kubectl.connection import Connection, run
from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.print_flags import PrintOptions
from dra.cli.kubectl.printers import OutputFormat, print_to_stderr
from dra.cli.kubectl.reservations import reservation_describer, reservation_snapshot
from dra.cli.kubectl.reservations.reserve import NOT_INSTALLED
from dra.cli.kubectl.resource_table import ResourceTable, SelectorOptions, TableRow
from dra.cli.kubectl.snapshots.snapshot_scope import SnapshotScope
from dra.cli.kubectl.snapshots.snapshot_source import SnapshotSource
from dra.kube.clock import SYSTEM
from dra.kube.errors import Forbidden, NotFound
from dra.kube.resources import CLAIMS, RESERVATIONS
from dra.model.claims import ResourceClaim
from dra.model.meta import Uid, UnstructuredObject

RESERVATION_COLUMNS: Final = ("NAME", "PHASE", "NODE", "ALLOCATED", "OF", "OWNERS", "ENDS")
RESERVATION_WIDE_COLUMNS: Final = ("TTL", "EXPIRES", "FOR")
HELD_CLAIM_COLUMNS: Final = ("CLAIMS", "DEVICES")
"""Columns of the claims that a reservation keeps allocated; not with -w, which watches only Reservations."""


def print_reservations(
    source: SnapshotSource, name: str | None, *, selectors: SelectorOptions, output: PrintOptions, watch: bool = False
) -> None:
    """Print the list of reservations, or one reservation."""
    to_table = partial(_build_table, name=name, selectors=selectors)
    if watch:
        from dra.cli.kubectl.snapshots import watch_printer  # noqa: PLC0415 - only who watches needs it

        to_watched_table = partial(_build_table, name=name, selectors=selectors, cached_rows={})
        watch_printer.watch_kind(
            source, (RESERVATIONS, UnstructuredObject), to_table=to_watched_table, output=output, missing=NOT_INSTALLED
        )
        return
    if source.bundle_path is not None:
        if selectors.labels:
            raise click.UsageError("a bundle has no labels; select by name with --field-selector metadata.name=NAME")
        snapshot = source.read(SnapshotScope.CLAIMS_ONLY)
        reservations, now = list(snapshot.reservations or ()), source.now(snapshot)
        claims: Iterable[ResourceClaim] | None = snapshot.claims
    else:
        reservations, claims = _read_cluster(source.cluster_flags, claims=output.format is OutputFormat.WIDE)
        now = SYSTEM.wall()
    table = to_table(reservations, now=now, claims=claims)
    if name is not None and not table.rows:
        raise FailedError(f"reservation {name}: not found")
    if not table.rows and not output.is_structured:
        print_to_stderr(resource_table.no_resources_message(None))
        return
    resource_table.print_table(table, output)


def _read_cluster(
    cluster_flags: ClusterFlags, *, claims: bool
) -> tuple[list[UnstructuredObject], list[ResourceClaim] | None]:
    """Return all reservations and, if wanted and permitted, all claims."""

    async def read_all(connection: Connection) -> tuple[list[UnstructuredObject], list[ResourceClaim] | None]:
        reservations = await reservation_snapshot.list_reservations(connection.client)
        try:
            return reservations, await reservation_snapshot.list_claims(connection.client) if claims else None
        except Forbidden as error:
            print_to_stderr(f"not read: {CLAIMS.label}: {error}")
            return reservations, None

    try:
        return run(cluster_flags, read_all)
    except FailedError as error:
        if isinstance(error.__cause__, NotFound):
            raise FailedError(NOT_INSTALLED) from error
        raise


def _build_table(
    reservations: Iterable[UnstructuredObject],
    *,
    name: str | None,
    selectors: SelectorOptions,
    now: datetime,
    cached_rows: dict[tuple[Uid, str], TableRow] | None = None,
    claims: Iterable[ResourceClaim] | None = None,
) -> ResourceTable:
    """Return the table of reservations; `cached_rows` are reused, so that the passing of time counts as no change.

    `claims` are all claims of the cluster; None if they were not read.
    """
    selected = [
        reservation
        for reservation in reservations
        if name in {None, reservation.metadata.name} and selectors.matches_labels(reservation.metadata.labels)
    ]
    rows_by_version = {} if cached_rows is None else cached_rows
    sorted_rows = []
    for reservation in sorted(selected, key=_object_name):
        version = (reservation.metadata.uid, reservation.metadata.resource_version)
        if version not in rows_by_version:
            rows_by_version[version] = reservation_row(reservation, now=now, claims=claims)
        sorted_rows.append(rows_by_version[version])
    rows = tuple(sorted_rows)
    wide = RESERVATION_WIDE_COLUMNS if claims is None else (*RESERVATION_WIDE_COLUMNS, *HELD_CLAIM_COLUMNS)
    return resource_table.select_rows(
        ResourceTable(header=RESERVATION_COLUMNS, wide=wide, rows=rows, single=name is not None), selectors
    )


def reservation_row(
    reservation_object: UnstructuredObject, *, now: datetime, claims: Iterable[ResourceClaim] | None = None
) -> TableRow:
    """Return the row of a reservation; the row of an unreadable object holds the error."""
    name = reservation_object.metadata.name
    content = {**reservation_object.content}
    try:
        reservation = parse_reservation(reservation_object.content)
    except MalformedReservationError as error:
        cells: tuple[str, ...] = (
            name,
            "Unreadable",
            *(reservation_describer.NONE_TEXT,) * (len(RESERVATION_COLUMNS) - 2),
        )
        wide: tuple[str, ...] = (reservation_describer.NONE_TEXT, reservation_describer.NONE_TEXT, str(error))
    else:
        cells, wide = (name, *_reservation_cells(reservation, now)), _wide_cells(reservation)
    if claims is not None:
        wide = (*wide, *_held_claim_cells(claims, reservation_object.metadata.uid))
    group = str(content.get("apiVersion", "")).partition("/")[0]
    return TableRow(name=f"reservation.{group}/{name}", cells=cells, wide=wide, content=lambda: content)


def _reservation_cells(reservation: Reservation, now: datetime) -> tuple[str, ...]:
    status = reservation.status
    return (
        status.phase.value,
        status.node_name or reservation_describer.NONE_TEXT,
        reservation_describer.format_resource_list(status.allocated),
        reservation_describer.format_resource_list(status.allocatable),
        str(len(status.current_owners)),
        reservation_describer.time_left(reservation, now=now),
    )


def _wide_cells(reservation: Reservation) -> tuple[str, ...]:
    spec = reservation.spec
    ttl = reservation_describer.NONE_TEXT if spec.ttl is None else durations.format_duration(spec.ttl)
    expires = (
        reservation_describer.NONE_TEXT
        if spec.expires is None
        else reservation_describer.format_time(spec.expires.timestamp())
    )
    return (ttl, expires, reservation_describer.owners_text(spec.owners))


def _held_claim_cells(claims: Iterable[ResourceClaim], reservation: Uid) -> tuple[str, str]:
    """Return the claims that a reservation keeps allocated, and their devices."""
    kept = sorted(reservation_snapshot.claims_held_by(claims, reservation), key=lambda claim: claim.metadata.key)
    names = ",".join("/".join(claim.metadata.key) for claim in kept)
    devices = ",".join(str(device) for claim in kept for device in reservation_snapshot.claim_devices(claim))
    return names or reservation_describer.NONE_TEXT, devices or reservation_describer.NONE_TEXT


def _object_name(reservation: UnstructuredObject) -> str:
    return reservation.metadata.name
