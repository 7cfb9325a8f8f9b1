"""What goes to stdout: tables as kubectl writes them, JSON, YAML."""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, Final

import click

GAP: Final = "   "
"""Between two columns, as in kubectl."""


class Format(StrEnum):
    """How an answer is written."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, headers: bool = True) -> str:
    """Return a table; the last column is never padded, so that a line can be as long as it likes."""
    lines = [tuple(header), *map(tuple, rows)] if headers else [*map(tuple, rows)]
    if not lines:
        return ""
    widths = [max(_width(line[column]) for line in lines) for column in range(len(header) - 1)]
    return "\n".join(
        GAP.join([*(cell + " " * (width - _width(cell)) for cell, width in zip(line, widths, strict=False)), line[-1]])
        for line in lines
    )


def _width(cell: str) -> int:
    """Return how wide a cell looks: colours take no room."""
    return len(click.unstyle(cell))


def structured(content: Any, output: Format) -> str:  # noqa: ANN401 - whatever JSON can say
    """Return the content as JSON or YAML."""
    if output is Format.YAML:
        import yaml  # noqa: PLC0415 - only who asks for it waits for it

        return str(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120)).rstrip("\n")
    return json.dumps(content, indent=2, ensure_ascii=False)


def coloured(text: str, colour: str) -> str:
    """Return the text in a colour, plain where nobody would see it: in a pipe, a dumb terminal, under NO_COLOR."""
    plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb" or not sys.stdout.isatty()
    return text if plain else click.style(text, fg=colour)


def say(text: str) -> None:
    """Tell something that is no part of the answer."""
    click.echo(text, err=True)
