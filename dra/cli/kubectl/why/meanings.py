"""Reasons by their names: what docs/reference/reasons.md says of each, on the command line."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from dra.engine.cpus.meanings import CPUS, GIVEN
from dra.engine.explain.meanings import TROUBLES
from dra.engine.explain.problems import Trouble
from dra.engine.guidance import Guidance
from dra.engine.impairments import IMPAIRMENTS
from dra.engine.meanings import CODES
from dra.engine.reservations.meanings import CONDITIONS, REFUSALS

NOTHING: Final = "Nothing"
"""How a remedy begins where there is nothing to do."""


def _all() -> Iterator[tuple[StrEnum, Guidance]]:
    for meanings in (CODES, TROUBLES, CONDITIONS, REFUSALS, IMPAIRMENTS):
        yield from meanings.items()
    yield from ((each, CPUS[each]) for each in GIVEN)


def names() -> list[str]:
    """Return the names of all reasons."""
    return sorted({member.value for member, _ in _all()})


def found(word: str) -> tuple[str, Guidance] | None:
    """Return what is said of a reason, whatever the case of its letters."""
    return next(((member.value, said) for member, said in _all() if member.value.lower() == word.lower()), None)


def plain(markdown: str) -> str:
    """Return a text without the marks of code."""
    return markdown.replace("`", "")


def remedy(trouble: Trouble) -> str:
    """Return what to do about a problem that has no command; empty if there is nothing to do."""
    told = plain(TROUBLES[trouble].remedy)
    return "" if told.startswith(NOTHING) else told
