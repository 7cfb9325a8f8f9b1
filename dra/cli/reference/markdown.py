"""Builds the Markdown of generated pages: tables and whole pages."""

from collections.abc import Iterable, Sequence
from typing import Final

GENERATED: Final = "<!-- Written from the code by `python -m dra.cli.reference`: edit that. -->\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; pipes in cells are escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def page(title: str, *parts: str) -> str:
    """Return a whole page, with its title and the note that it is generated."""
    return "\n".join([f"# {title}\n", GENERATED, *parts])
