"""``kubectl dra reservations``: where each is, how much of it is used, by whom, and until when."""

from datetime import datetime
from typing import Final

import click

from dra.api.reservations import durations
from dra.api.reservations.model import MalformedReservationError, Reservation, read
from dra.cli.kubectl import listings
from dra.cli.kubectl.connection import FailedError, run
from dra.cli.kubectl.listings import Listing, Row
from dra.cli.kubectl.options import Place, Style, place_options, rows_options
from dra.cli.kubectl.output import say
from dra.cli.kubectl.reservations import reading, words
from dra.cli.kubectl.reservations.reserve import INSTALL
from dra.cli.kubectl.selecting import Chosen, choice_options
from dra.kube.clock import SYSTEM
from dra.kube.errors import NotFound
from dra.model.meta import DynamicObject

HEADER: Final = ("NAME", "PHASE", "NODE", "ALLOCATED", "OF", "OWNERS", "ENDS")
WIDE: Final = ("TTL", "EXPIRES", "FOR")


@click.command()
@click.argument("name", required=False)
@place_options
@choice_options
@rows_options
def reservations(*, name: str | None, place: Place, choice: Chosen, style: Style) -> None:
    """List Reservations: where each is, how much of it is used, by whom, and until when.

    They are of the whole cluster, so there is no namespace to name. ALLOCATED is what owners have, OF what is held.
    """
    tell(place, name, choice=choice, style=style)


def tell(place: Place, name: str | None, *, choice: Chosen, style: Style) -> None:
    """Print the list, or one of them."""
    try:
        found = run(place, lambda connection: reading.objects(connection.client))
    except FailedError as error:
        if isinstance(error.__cause__, NotFound):
            raise FailedError(INSTALL) from error
        raise
    now = SYSTEM.wall()
    meant = [each for each in found if name in {None, each.metadata.name} and choice.has(each.metadata.labels)]
    if name is not None and not meant:
        raise FailedError(f"reservation {name}: not found")
    rows = tuple(row(each, now=now) for each in sorted(meant, key=_name))
    listing = listings.chosen(Listing(header=HEADER, wide=WIDE, rows=rows, single=name is not None), choice)
    if not listing.rows and not style.as_data:
        say(listings.nothing(None))
        return
    listings.write(listing, style)


def row(found: DynamicObject, *, now: datetime) -> Row:
    """Return the row of a reservation; one that cannot be read says so."""
    name = found.metadata.name
    content = {**found.content}
    try:
        told = read(found.content)
    except MalformedReservationError as error:
        cells: tuple[str, ...] = (name, "Unreadable", *(words.NOTHING,) * (len(HEADER) - 2))
        wide: tuple[str, ...] = (words.NOTHING, words.NOTHING, str(error))
    else:
        cells, wide = (name, *_cells(told, now)), _wide(told)
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
    ttl = words.NOTHING if spec.ttl is None else durations.printed(spec.ttl)
    expires = words.NOTHING if spec.expires is None else words.moment(spec.expires.timestamp())
    return (ttl, expires, words.whole(spec.owners))


def _name(found: DynamicObject) -> str:
    return found.metadata.name
