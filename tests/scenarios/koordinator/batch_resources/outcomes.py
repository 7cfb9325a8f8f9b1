"""Outcomes: the batch resources of a node, in the form that is recorded and compared."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from dra.model.meta import Struct

RECORDED: Final = Path(__file__).with_name("recorded") / "koordinator.jsonl"
"""The records of koord-manager 1.6.0, one node a line."""


class Outcome(Struct, frozen=True, array_like=True):
    """The batch resources of a node; None: the node has no such resource, which is as much as 0."""

    cpu: int | None
    """Milli-CPUs."""
    memory: int | None
    """Bytes."""

    @property
    def offered(self) -> tuple[int, int]:
        """The amounts, 0 for a resource that the node does not have."""
        return self.cpu or 0, self.memory or 0


class Record(Struct, frozen=True, kw_only=True):
    """The outcome of a case."""

    case: int
    digest: str
    """The digest of the case."""
    outcome: Outcome


def keep(records: list[Record], *, file: Path = RECORDED) -> None:
    """Write all records."""
    lines = [msgspec.json.encode(each).decode() for each in sorted(records, key=lambda each: each.case)]
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def recorded(file: Path = RECORDED) -> dict[int, Record]:
    """Return the records of Koordinator, by the number of the case."""
    lines = file.read_text(encoding="utf-8").splitlines()
    found = [msgspec.json.decode(line, type=Record) for line in lines]
    return {each.case: each for each in found}
