"""``kubectl dra reservations``: where each is, how much of it is used, by whom, and until when."""

from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import Final

import click

from dra.api.reservations import durations
from dra.api.reservations.model import MalformedReservationError, Reservation, parse_reservation
from dra.cli.kubectl import listings
from dra.cli.kubectl.connection import Connection, FailedError, run
from dra.cli.kubectl.listings import Listing, Row
from dra.cli.kubectl.options import Place, Style, place_options, rows_options, watch_option
from dra.cli.kubectl.output import Format, say
from dra.cli.kubectl.reading.live import Parts
from dra.cli.kubectl.reading.source import Source, bundle_option
from dra.cli.kubectl.reservations import reading, words
from dra.cli.kubectl.reservations.reserve import INSTALL
from dra.cli.kubectl.selecting import Chosen, choice_options
from dra.kube.clock import SYSTEM
from dra.kube.errors import Forbidden, NotFound
from dra.kube.resources import CLAIMS, RESERVATIONS
from dra.model.claims import ResourceClaim
from dra.model.meta import Uid, UnstructuredObject

HEADER: Final = ("NAME", "PHASE", "NODE", "ALLOCATED", "OF", "OWNERS", "ENDS")
WIDE: Final = ("TTL", "EXPIRES", "FOR")
HELD: Final = ("CLAIMS", "DEVICES")
"""What it keeps allocated for its owners; not while watching, since only Reservations are watched then."""


@click.command()
@click.argument("name", required=False)
@place_options
@choice_options
@rows_options
@bundle_option
@watch_option
def reservations(
    *, name: str | None, place: Place, bundle: str | None, choice: Chosen, style: Style, watch: bool
) -> None:
    """List Reservations: where each is, how much of it is used, by whom, and until when.

    They are of the whole cluster, so there is no namespace to name. ALLOCATED is what owners have, OF what is held.
    -o wide shows the claims and devices that are held, too, but not with -w.
    """
    tell(Source(place=place, bundle=bundle), name, choice=choice, style=style, watch=watch)


def tell(source: Source, name: str | None, *, choice: Chosen, style: Style, watch: bool = False) -> None:
    """Print the list, or one of them."""
    listed = partial(_listed, name=name, choice=choice)
    if watch:
        from dra.cli.kubectl.reading import watching  # noqa: PLC0415 - only who watches needs it

        told = partial(_listed, name=name, choice=choice, known={})
        watching.watch_kind(source, (RESERVATIONS, UnstructuredObject), listed=told, style=style, missing=INSTALL)
        return
    if source.bundle is not None:
        if choice.labels:
            raise click.UsageError("a bundle has no labels; --field-selector metadata.name=NAME chooses by name")
        snapshot = source.read(Parts.NONE)
        found, now = list(snapshot.reservations or ()), source.now(snapshot)
        claims: Iterable[ResourceClaim] | None = snapshot.claims
    else:
        found, claims = _live(source.place, claims=style.output is Format.WIDE)
        now = SYSTEM.wall()
    listing = listed(found, now=now, claims=claims)
    if name is not None and not listing.rows:
        raise FailedError(f"reservation {name}: not found")
    if not listing.rows and not style.as_data:
        say(listings.nothing(None))
        return
    listings.write(listing, style)


def _live(place: Place, *, claims: bool) -> tuple[list[UnstructuredObject], list[ResourceClaim] | None]:
    """Return all reservations and, if they are wanted and may be read, all claims."""

    async def read_all(connection: Connection) -> tuple[list[UnstructuredObject], list[ResourceClaim] | None]:
        found = await reading.objects(connection.client)
        try:
            return found, await reading.claims(connection.client) if claims else None
        except Forbidden as error:
            say(f"not looked at: {CLAIMS.label}: {error}")
            return found, None

    try:
        return run(place, read_all)
    except FailedError as error:
        if isinstance(error.__cause__, NotFound):
            raise FailedError(INSTALL) from error
        raise


def _listed(
    found: Iterable[UnstructuredObject],
    *,
    name: str | None,
    choice: Chosen,
    now: datetime,
    known: dict[tuple[Uid, str], Row] | None = None,
    claims: Iterable[ResourceClaim] | None = None,
) -> Listing:
    """Return the list that is asked for; rows that are `known` stay as they were: that time passes is no change.

    `claims` are all claims there are; None: nobody looked.
    """
    meant = [each for each in found if name in {None, each.metadata.name} and choice.has(each.metadata.labels)]
    kept = {} if known is None else known
    made = []
    for each in sorted(meant, key=_name):
        version = (each.metadata.uid, each.metadata.resource_version)
        if version not in kept:
            kept[version] = row(each, now=now, claims=claims)
        made.append(kept[version])
    rows = tuple(made)
    wide = WIDE if claims is None else (*WIDE, *HELD)
    return listings.chosen(Listing(header=HEADER, wide=wide, rows=rows, single=name is not None), choice)


def row(found: UnstructuredObject, *, now: datetime, claims: Iterable[ResourceClaim] | None = None) -> Row:
    """Return the row of a reservation; one that cannot be read says so."""
    name = found.metadata.name
    content = {**found.content}
    try:
        told = parse_reservation(found.content)
    except MalformedReservationError as error:
        cells: tuple[str, ...] = (name, "Unreadable", *(words.NOTHING,) * (len(HEADER) - 2))
        wide: tuple[str, ...] = (words.NOTHING, words.NOTHING, str(error))
    else:
        cells, wide = (name, *_cells(told, now)), _wide(told)
    if claims is not None:
        wide = (*wide, *_held(claims, found.metadata.uid))
    group = str(content.get("apiVersion", "")).partition("/")[0]
    return Row(name=f"reservation.{group}/{name}", cells=cells, wide=wide, content=lambda: content)


def _cells(found: Reservation, now: datetime) -> tuple[str, ...]:
    status = found.status
    return (
        status.phase.value,
        status.node_name or words.NOTHING,
        words.quantities(status.allocated),
        words.quantities(status.allocatable),
        str(len(status.current_owners)),
        words.ends(found, now=now),
    )


def _wide(found: Reservation) -> tuple[str, ...]:
    spec = found.spec
    ttl = words.NOTHING if spec.ttl is None else durations.format_duration(spec.ttl)
    expires = words.NOTHING if spec.expires is None else words.moment(spec.expires.timestamp())
    return (ttl, expires, words.whole(spec.owners))


def _held(claims: Iterable[ResourceClaim], reservation: Uid) -> tuple[str, str]:
    """Return the claims that a reservation keeps allocated, and their devices."""
    kept = sorted(reading.kept_by(claims, reservation), key=lambda each: each.metadata.key)
    names = ",".join("/".join(each.metadata.key) for each in kept)
    devices = ",".join(str(device) for each in kept for device in reading.devices(each))
    return names or words.NOTHING, devices or words.NOTHING


def _name(found: UnstructuredObject) -> str:
    return found.metadata.name
