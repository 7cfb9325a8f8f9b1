"""Prints lists of objects in every format that kubectl's users expect."""

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
    """A row of a table, for one object."""

    name: str
    """Name of the object as ``-o name`` prints it."""

    cells: tuple[str, ...]
    wide: tuple[str, ...] = ()
    """Further cells for ``-o wide``."""

    content: Callable[[], Json]
    """The object as structured data, computed only for formats that need it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceTable:
    """A table of objects, with the columns of all formats."""

    header: tuple[str, ...]
    wide: tuple[str, ...] = ()
    rows: tuple[TableRow, ...]
    single: bool = False
    """Whether the user named one object: as data, the table is then that object and no list."""


def select_rows(listing: ResourceTable, choice: SelectorOptions) -> ResourceTable:
    """Return the selected rows of a table, in the requested order; raise FailedError for an unknown field."""
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
    """Print a table in the requested format."""
    rows = listing.rows
    if style.as_data:
        contents = [each.content() for each in rows]
        style.write(contents[0] if listing.single and len(contents) == 1 else {"kind": "List", "items": contents})
    elif style.output is OutputFormat.CSV:
        click.echo(_csv(listing, headers=style.headers), nl=False)
    elif text := format_resource_table(listing, style):
        click.echo(text)


def format_resource_table(listing: ResourceTable, style: PrintOptions) -> str:
    """Return a table as lines; on a terminal, a long last column is wrapped below itself."""
    header, lines = table_cells(listing, style)
    width = terminal_width() if style.output is OutputFormat.TABLE else None
    return format_table(header, lines, headers=style.headers and style.output is not OutputFormat.NAME, wrapped=width)


def table_cells(listing: ResourceTable, style: PrintOptions) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the header and the rows for the requested format."""
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
    """Return what kubectl prints to stderr for an empty list."""
    return f"No resources found in {namespace} namespace." if namespace else "No resources found"
