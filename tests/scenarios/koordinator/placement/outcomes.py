"""Outcomes: what became of a pod, in the form that is recorded and compared."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from dra.model.meta import Struct

RECORDED: Final = Path(__file__).with_name("recorded") / "koordinator.jsonl"
"""The records of Koordinator 1.6.0, one set a line."""


class Share(Struct, frozen=True, array_like=True):
    """What a pod has of a card."""

    minor: int
    core: int
    memory: int
    """Bytes."""


class Outcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a pod."""

    on: int | None = None
    """The machine; None if no machine takes the pod."""
    cpus: str = ""
    """The CPUs that the pod is bound to, as a list."""
    cards: tuple[Share, ...] = ()
    """By minor; of several containers the shares are listed separately."""
    why: str = ""
    """Why no machine takes the pod, or `REFUSED` and the path: the pod is not created."""

    @property
    def placed(self) -> bool:
        """Whether a machine takes the pod."""
        return self.on is not None


REFUSED: Final = "refused: "


class Record(Struct, frozen=True, kw_only=True):
    """The outcomes of a set, by the steps that create pods."""

    set: int
    digest: str
    """The digest of the set."""
    outcomes: dict[int, Outcome]


def keep(records: list[Record], *, file: Path = RECORDED) -> None:
    """Write all records."""
    lines = [msgspec.json.encode(each).decode() for each in sorted(records, key=lambda each: each.set)]
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def recorded(file: Path = RECORDED) -> dict[int, Record]:
    """Return the records of Koordinator, by the number of the set."""
    lines = file.read_text(encoding="utf-8").splitlines()
    found = [msgspec.json.decode(line, type=Record) for line in lines]
    return {each.set: each for each in found}
