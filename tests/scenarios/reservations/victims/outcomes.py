"""Outcomes of cases, and the record of what kube-scheduler chose."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.scenarios.reservations.victims.cases import VictimCase

FILE: Final = Path(__file__).parent / "recorded" / "kube-scheduler.jsonl"


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """The node whose pods are preempted, by its number, and the names of these pods."""

    node: int | None = None
    victims: list[str] = []


NOBODY: Final = Outcome()


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """What kube-scheduler alone made of a case."""

    case: int
    outcome: Outcome
    digest: str
    """Of the case, so that a record of another one is noticed."""


def keep(records: Iterable[Record]) -> None:
    """Write the records."""
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_bytes(msgspec.json.Encoder().encode_lines(list(records)))


def recorded() -> dict[int, Record]:
    """Return the records by the number of the case."""
    found = msgspec.json.Decoder(Record).decode_lines(FILE.read_bytes())
    return {each.case: each for each in found}


def digest(case: VictimCase) -> str:
    """Return a short text that changes with the case."""
    return hashlib.sha256(repr(case).encode()).hexdigest()[:12]
