"""Prints lists of objects in every format that kubectl's users expect."""

import csv
import functools
import io
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import click

from dra.cli.cluster_flags import Command
from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.print_flags import PrintOptions
from dra.cli.kubectl.printers import OutputFormat, format_table, list_content, terminal_width
from dra.model.label_selectors import SelectorSyntaxError, parse_label_selector


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """A requirement of a field selector: ``metadata.namespace=ml``."""

    path: str
    value: str
    equal: bool = True

    def exists_in(self, content: Mapping[str, Any]) -> bool:
        """Report whether the object has the field."""
        return _value_at(content, self.path) is not None

    def matches(self, content: Mapping[str, Any]) -> bool:
        """Report whether the object meets the requirement."""
        value = _value_at(content, self.path)
        text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        return (text == self.value) == self.equal


def _value_at(content: Any, path: str) -> Any:  # noqa: ANN401 - JSON
    for name in path.split("."):
        if not isinstance(content, Mapping) or name not in content:
            return None
        content = content[name]
    return content


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectorOptions:
    """The options that select and sort the rows of a list."""

    labels: tuple[Callable[[Mapping[str, str]], bool], ...] = ()
    fields: tuple[FieldRequirement, ...] = ()
    sort_by: str = ""

    def matches_labels(self, labels: Mapping[str, str] | None) -> bool:
        """Report whether an object with these labels is selected."""
        return all(requirement(labels or {}) for requirement in self.labels)


SELECT_ALL = SelectorOptions()


def label_selector_option(command: Command) -> Command:
    """Add ``-l``; the command gets it as `labels`."""
    return click.option(
        "-l",
        "--selector",
        "labels",
        default="",
        callback=_parse_label_selector,
        metavar="SELECTOR",
        help="Label selector: a=b, a!=b, a in (b,c), a, !a; separate several with commas.",
    )(command)


def selector_options(command: Command) -> Command:
    """Add ``-l``, ``--field-selector`` and ``--sort-by``; the command gets all three as `selectors`."""

    @label_selector_option
    @click.option(
        "--field-selector",
        "fields",
        default="",
        callback=_parse_field_selector,
        metavar="SELECTOR",
        help="Field selector on the fields of -o json: state=Pending,metadata.namespace!=ml",
    )
    @click.option(
        "--sort-by",
        "sort_by",
        default="",
        callback=_parse_sort_path,
        metavar="PATH",
        help="JSONPath of the field to sort by, such as .users.started.",
    )
    @functools.wraps(command)
    def wrapped(*, labels: Any, fields: Any, sort_by: str, **rest: Any) -> Any:  # noqa: ANN401 - the command's
        return command(selectors=SelectorOptions(labels=labels, fields=fields, sort_by=sort_by), **rest)

    return wrapped  # type: ignore[return-value] # options were taken from it, and one parameter added


def _parse_label_selector(ctx: click.Context, param: click.Parameter, text: str) -> Any:  # noqa: ANN401 - requirements
    if not text:
        return ()
    try:
        return parse_label_selector(text)
    except SelectorSyntaxError as error:
        raise click.BadParameter(str(error), ctx=ctx, param=param) from error


def _parse_field_selector(ctx: click.Context, param: click.Parameter, text: str) -> tuple[FieldRequirement, ...]:
    requirements = []
    for term in filter(None, text.split(",")):
        match = re.fullmatch(r"\s*([^=!]+?)\s*(==|=|!=)\s*(.*?)\s*", term)
        if match is None:
            raise click.BadParameter(f"{term!r}: use the form metadata.namespace=ml", ctx=ctx, param=param)
        requirements.append(FieldRequirement(match[1], match[3], match[2] != "!="))
    return tuple(requirements)


def _parse_sort_path(ctx: click.Context, param: click.Parameter, text: str) -> str:
    if text:
        from dra.cli.kubectl.template_printers import JsonPath, MalformedTemplateError  # noqa: PLC0415 - who asks for it

        try:
            JsonPath.parse(text.strip().removeprefix("{").removesuffix("}"))
        except MalformedTemplateError as error:
            raise click.BadParameter(str(error), ctx=ctx, param=param) from error
    return text


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
    totals: tuple[TableRow, ...] = ()
    """Rows with sums, below all others; formats with one record for each object leave them out."""

    single: bool = False
    """Whether the user named one object: as data, the table is then that object and no list."""


def select_rows(table: ResourceTable, selectors: SelectorOptions) -> ResourceTable:
    """Return the selected rows of a table, in the requested order; raise FailedError for an unknown field."""
    if not (selectors.fields or selectors.sort_by):
        return table
    rows = [replace(row, content=cache(row.content)) for row in table.rows]
    if selectors.fields:
        contents = [row.content() for row in rows]
        for field in selectors.fields:
            if contents and not any(field.exists_in(content) for content in contents):
                raise FailedError(f"--field-selector: unknown field {field.path}; -o json shows all fields")
        rows = [row for row in rows if all(field.matches(row.content()) for field in selectors.fields)]
        table = replace(table, totals=())  # sums of all, among which rows were selected
    if selectors.sort_by:
        from dra.cli.kubectl.template_printers import JsonPath, sort_key  # noqa: PLC0415 - only who asks for it waits for it

        path = JsonPath.parse(selectors.sort_by.strip().removeprefix("{").removesuffix("}"))
        if rows and not any(path.find(row.content(), row.content()) for row in rows):
            raise FailedError(f"--sort-by: unknown field {path.text}; -o json shows all fields")
        rows.sort(key=lambda row: sort_key(path, row.content()))
    return replace(table, rows=tuple(rows))


def print_table(table: ResourceTable, output: PrintOptions) -> None:
    """Print a table in the requested format."""
    rows = table.rows
    if output.is_structured:
        contents = [row.content() for row in rows]
        sums = {"totals": [total.content() for total in table.totals]} if table.totals else {}
        output.print(contents[0] if table.single and len(contents) == 1 else {**list_content(contents), **sums})
    elif output.format is OutputFormat.CSV:
        click.echo(_csv(table, headers=output.headers), nl=False)
    elif text := format_resource_table(table, output):
        click.echo(text)


def format_resource_table(table: ResourceTable, output: PrintOptions) -> str:
    """Return a table as lines; on a terminal, a long last column is wrapped below itself."""
    header, lines = table_cells(table, output)
    width = terminal_width() if output.format is OutputFormat.TABLE else None
    return format_table(header, lines, headers=output.headers and output.format is not OutputFormat.NAME, wrapped=width)


def table_cells(table: ResourceTable, output: PrintOptions) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the header and the rows for the requested format."""
    if output.format is OutputFormat.NAME:
        return ("NAME",), [(row.name,) for row in table.rows]
    if output.format is OutputFormat.COLUMNS:
        from dra.cli.kubectl.template_printers import CustomColumns  # noqa: PLC0415 - as above

        columns = CustomColumns.parse(output.template)
        return columns.header, [columns.row(row.content()) for row in table.rows]
    if output.format is OutputFormat.WIDE:
        return (*table.header, *table.wide), [(*row.cells, *row.wide) for row in (*table.rows, *table.totals)]
    return table.header, [row.cells for row in (*table.rows, *table.totals)]


def _csv(table: ResourceTable, *, headers: bool) -> str:
    text = io.StringIO()
    lines = [row.cells for row in table.rows]
    head = [tuple(name.lower() for name in table.header)] if headers else []
    csv.writer(text, lineterminator="\n").writerows([*head, *lines])
    return text.getvalue()


def no_resources_message(namespace: str | None) -> str:
    """Return what kubectl prints to stderr for an empty list."""
    return f"No resources found in {namespace} namespace." if namespace else "No resources found"
