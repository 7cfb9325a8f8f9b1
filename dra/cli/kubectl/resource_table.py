"""Lists of things, in every form that kubectl's users expect of one."""

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import click

from dra.cli.kubectl.connection import FailedError
from dra.cli.kubectl.print_flags import PrintOptions
from dra.cli.kubectl.printers import OutputFormat, format_table, terminal_width
from dra.cli.kubectl.selectors import SelectorOptions

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """One thing."""

    name: str
    """What ``-o name`` says."""

    cells: tuple[str, ...]
    wide: tuple[str, ...] = ()
    """Further cells for ``-o wide``."""

    content: Callable[[], Json]
    """All of it as data; only who asks for it waits for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceTable:
    """All of them."""

    header: tuple[str, ...]
    wide: tuple[str, ...] = ()
    rows: tuple[TableRow, ...]
    single: bool = False
    """It was asked for one by its name: as data it is an object, not a list."""


def select_rows(listing: ResourceTable, choice: SelectorOptions) -> ResourceTable:
    """Return what is chosen of a list, in the order that is asked for."""
    if not (choice.fields or choice.order):
        return listing
    rows = [replace(each, content=cache(each.content)) for each in listing.rows]
    if choice.fields:
        contents = [each.content() for each in rows]
        for field in choice.fields:
            if contents and not any(field.known(content) for content in contents):
                raise FailedError(f"field selector: there is no field {field.path} here; -o json shows all")
        rows = [each for each in rows if all(field.holds(each.content()) for field in choice.fields)]
    if choice.order:
        from dra.cli.kubectl.template_printers import JsonPath, sort_key  # noqa: PLC0415 - only who asks for it waits for it

        path = JsonPath.of(choice.order.strip().removeprefix("{").removesuffix("}"))
        if rows and not any(path.values(each.content(), each.content()) for each in rows):
            raise FailedError(f"--sort-by: there is no field {path.text} here; -o json shows all")
        rows.sort(key=lambda each: sort_key(path, each.content()))
    return replace(listing, rows=tuple(rows))


def print_table(listing: ResourceTable, style: PrintOptions) -> None:
    """Print a list."""
    rows = listing.rows
    if style.as_data:
        contents = [each.content() for each in rows]
        style.write(contents[0] if listing.single and len(contents) == 1 else {"kind": "List", "items": contents})
    elif style.output is OutputFormat.CSV:
        click.echo(_csv(listing, headers=style.headers), nl=False)
    elif text := format_resource_table(listing, style):
        click.echo(text)


def format_resource_table(listing: ResourceTable, style: PrintOptions) -> str:
    """Return a list as lines; on a terminal a last column that is too long goes on below itself."""
    header, lines = table_cells(listing, style)
    width = terminal_width() if style.output is OutputFormat.TABLE else None
    return format_table(header, lines, headers=style.headers and style.output is not OutputFormat.NAME, wrapped=width)


def table_cells(listing: ResourceTable, style: PrintOptions) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the header and the rows of the table that is asked for."""
    if style.output is OutputFormat.NAME:
        return ("NAME",), [(each.name,) for each in listing.rows]
    if style.output is OutputFormat.COLUMNS:
        from dra.cli.kubectl.template_printers import CustomColumns  # noqa: PLC0415 - as above

        columns = CustomColumns.parse(style.template)
        return columns.header, [columns.row(each.content()) for each in listing.rows]
    if style.output is OutputFormat.WIDE:
        return (*listing.header, *listing.wide), [(*each.cells, *each.wide) for each in listing.rows]
    return listing.header, [each.cells for each in listing.rows]


def _csv(listing: ResourceTable, *, headers: bool) -> str:
    text = io.StringIO()
    lines = [each.cells for each in listing.rows]
    head = [tuple(each.lower() for each in listing.header)] if headers else []
    csv.writer(text, lineterminator="\n").writerows([*head, *lines])
    return text.getvalue()


def no_resources_message(namespace: str | None) -> str:
    """Return what kubectl says, on stderr, of an empty list."""
    return f"No resources found in {namespace} namespace." if namespace else "No resources found"
