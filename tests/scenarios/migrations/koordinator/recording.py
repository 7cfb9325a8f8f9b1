"""Plays all cases at once on one cluster, and keeps their records as files."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from tests.scenarios import api as kubernetes
from tests.scenarios import namespaces
from tests.scenarios.migrations.koordinator.cases import CASES, Case, name_of
from tests.scenarios.migrations.koordinator.play import Play

if TYPE_CHECKING:
    from collections.abc import Iterable

Json = dict[str, Any]

RECORDED: Final = Path(__file__).with_name("recorded")
"""The records of Koordinator 1.6.0, one file for each case."""

AT_ONCE: Final = 6
"""Cases in parallel, each in a namespace of its own."""


async def play_all(admin: Path, cases: Iterable[Case] = CASES) -> dict[str, Json | BaseException]:
    """Play the cases and return their records, or what was raised, by the names of the cases."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(case: Case) -> Json:
        async with (
            turn,
            kubernetes.connect(admin) as api,
            namespaces.temporary(api, purpose=case.__name__) as namespace,
            Play(namespace) as play,
        ):
            await case(play)
            return await play.finish()

    chosen = list(cases)
    records = await asyncio.gather(*map(one, chosen), return_exceptions=True)
    return dict(zip(map(name_of, chosen), records, strict=True))


def keep(records: dict[str, Json], *, folder: Path = RECORDED) -> None:
    """Write one file for each record."""
    for name, record in records.items():
        text = yaml.safe_dump(record, sort_keys=True, width=160, allow_unicode=True)
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")


def recorded(name: str) -> Json:
    """Return the record of Koordinator for a case."""
    found: Json = yaml.safe_load((RECORDED / f"{name}.yaml").read_text(encoding="utf-8"))
    return found
