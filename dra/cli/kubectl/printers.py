"""Prints to stdout: tables as kubectl prints tables, JSON, YAML."""

import difflib
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import zip_longest
from typing import Any, Final

import click

from dra.engine.messages.remedies import Remedy, SafeCommand, WeighedChoice
from dra.engine.messages.texts import singularize

COLUMN_GAP: Final = "   "
"""Gap between two columns, as in kubectl."""


class OutputFormat(StrEnum):
    """The format of an answer."""

    TABLE = "table"
    WIDE = "wide"
    NAME = "name"
    JSON = "json"
    YAML = "yaml"
    JSONPATH = "jsonpath"
    COLUMNS = "custom-columns"
    CSV = "csv"


def format_table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    headers: bool = True,
    least: Sequence[int] = (),
    wrapped: int | None = None,
) -> str:
    """Return a table; the last column is never padded, so that a line can have any length.

    Columns have at least the widths of ``least``. With ``wrapped``, the width of a terminal, a long last column is
    wrapped below itself; text without enough room there is printed below its row.
    """
    lines = [tuple(header), *map(tuple, rows)] if headers else [*map(tuple, rows)]
    if not lines:
        return ""
    widths = [max(_display_width(line[column]) for line in lines) for column in range(len(header) - 1)]
    widths = [max(pair) for pair in zip_longest(widths, least[: len(widths)], fillvalue=0)]
    begin = sum(widths) + len(COLUMN_GAP) * len(widths)
    return "\n".join(
        COLUMN_GAP.join(
            [
                *(cell + " " * (width - _display_width(cell)) for cell, width in zip(line, widths, strict=False)),
                _last_cell(line[-1], begin=begin, width=wrapped),
            ]
        )
        for line in lines
    )


BELOW_INDENT: Final = 4
"""Columns before text that is printed below its row."""


def _last_cell(text: str, *, begin: int, width: int | None) -> str:
    """Return the last cell of a row, wrapped if needed."""
    if width is None or width - begin >= WRAP_WIDTH_MIN or begin + _display_width(text) <= width or " " not in text:
        return wrap_text(text, first=begin, width=width)
    return "\n" + " " * BELOW_INDENT + wrap_text(text, first=BELOW_INDENT, width=width)


WRAP_WIDTH_MIN: Final = 30
"""Minimum number of columns for wrapped text: below it, wrapping makes text less readable."""


def terminal_width() -> int | None:
    """Return the width of the terminal; None for a pipe or a dumb terminal."""
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        return None
    return shutil.get_terminal_size().columns


def wrap_text(text: str, *, first: int, width: int | None) -> str:
    """Return a text that begins in column ``first``, with lines broken between words so that each ends by ``width``."""
    if width is None or width - first < WRAP_WIDTH_MIN or first + _display_width(text) <= width:
        return text
    lines, column = [""], first
    for word in text.split(" "):
        if lines[-1] and column + 1 + _display_width(word) > width:
            lines.append("")
            column = first
        gap = " " if lines[-1] else ""
        lines[-1] += gap + word
        column += len(gap) + _display_width(word)
    return ("\n" + " " * first).join(lines)


LABEL_WIDTH: Final = 12
"""Columns of ``  label     ``, before the text of an explanation."""


def wrap_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of an explanation, wrapped to the terminal; commands stay whole, so that a user can copy them."""
    width = terminal_width()
    for line in lines:
        if line.startswith("  next "):
            yield line
            continue
        line = singularize(line)  # noqa: PLW2901 - from here on it is that
        if width is None:
            yield line
        elif line.startswith("  "):
            begin = LABEL_WIDTH + len(line) - _display_width(line)  # only the label has colours
            yield line[:begin] + wrap_text(line[begin:], first=LABEL_WIDTH, width=width)
        else:
            yield wrap_text(line, first=0, width=width)


def _display_width(cell: str) -> int:
    """Return the displayed width of a cell: colours take no room."""
    return len(click.unstyle(cell) if "\x1b" in cell else cell)


def format_structured(content: Any, output: OutputFormat) -> str:  # noqa: ANN401 - whatever JSON can say
    """Return the content as JSON or YAML."""
    if output is OutputFormat.YAML:
        import yaml  # noqa: PLC0415 - only who asks for it waits for it

        return str(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120)).rstrip("\n")
    return json.dumps(content, indent=2, ensure_ascii=False)


def list_content(items: Sequence[Any]) -> dict[str, Any]:
    """Return a list of objects as kubectl prints it: ``kind: List``, without a resourceVersion."""
    return {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": [*items]}


def coloured(text: str, colour: str) -> str:
    """Return the text in a colour; plain in a pipe, in a dumb terminal, and under NO_COLOR."""
    plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb" or not sys.stdout.isatty()
    return text if plain else click.style(text, fg=colour)


def print_to_stderr(text: str) -> None:
    """Print a message to stderr, where it is not part of the answer."""
    click.echo(text, err=True)


def did_you_mean(typed: str, known: Iterable[str]) -> str:
    """Return a question for the end of an error, with similar words; empty if there are none."""
    near = difflib.get_close_matches(typed, sorted(set(known)), n=3)
    return f". Did you mean {' or '.join(near)}?" if near else ""


def remedy_text(remedy: Remedy | None) -> str:
    """Return the command or the text of the choice; empty for None."""
    match remedy:
        case SafeCommand(command=command):
            return command
        case WeighedChoice(text=text):
            return text
        case _:
            return ""


def remedy_lines(remedy: Remedy | None) -> Iterator[str]:
    """Yield the line of a remedy, as the commands that explain print it."""
    if remedy is not None:
        yield f"  {'next' if isinstance(remedy, SafeCommand) else 'do'}".ljust(12) + remedy_text(remedy)


def remedy_data(remedy: Remedy | None) -> dict[str, str]:
    """Return a remedy for JSON: ``command`` or ``decision``."""
    return {} if remedy is None else {"command" if isinstance(remedy, SafeCommand) else "decision": remedy_text(remedy)}
