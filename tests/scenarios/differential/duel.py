"""One script before two controllers: round by round, until they differ or the script is over."""

from __future__ import annotations

import asyncio
import difflib
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.scenarios.differential import deviations, symptoms
from tests.scenarios.differential.play import DONE, Player
from tests.scenarios.differential.settling import Settling
from tests.scenarios.eventually import eventually
from tests.scenarios.resources import NAMESPACES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.scenarios.api import Api
    from tests.scenarios.differential.deviations import Deviation
    from tests.scenarios.differential.mirror import Mirror
    from tests.scenarios.differential.operations import Operation, Round, Script

PATIENCE: Final = 100.0
"""Seconds after which a difference is one. Ours waits on purpose: for batches up to 30 s, for a bind horizon 60 s."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How a script fared before both: equal, unless it says something else."""

    script: Script
    rounds: int
    """Rounds after which both were found equal."""
    done: frozenset[type[Operation]] = frozenset()
    """The kinds of operations that the servers accepted."""
    deviation: Deviation | None = None
    difference: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        played = "\n".join(f"    {operations}," for operations in self.script[: self.rounds + 1])
        return f"(\n{played}\n)\n{self.difference}"


class DifferentError(AssertionError):
    """Both sides differ, and nothing that is known of stock explains it."""


class Duel:
    """Both sides of one script. The first is stock's; the second may be, too: then both must be equal all the more."""

    def __init__(
        self, script: Script, mirrors: tuple[Mirror, Mirror], *, stocks: int = 1, patience: float = PATIENCE
    ) -> None:
        self._script: Final = script
        self._patience: Final = patience
        self._done: Final[set[type[Operation]]] = set()
        self._mirrors: Final = mirrors
        self._stocks: Final = stocks
        name = f"script-{secrets.token_hex(4)}"
        # On one server they need two names; of one length, since names made of them may be cut.
        self._players: Final = [
            Player(mirror.api, f"{name}-{side}") for side, mirror in zip("ab", mirrors, strict=True)
        ]

    async def fight(self) -> Verdict:
        """Play all rounds."""
        began, done, deviation, difference = time.monotonic(), 0, None, ""
        await asyncio.gather(*(_make_namespace(player.api, player.namespace) for player in self._players))
        try:
            for operations in self._script:
                deviation = await self._round(operations)
                if deviation is not None:
                    break
                done += 1
        except DifferentError as different:
            difference = str(different)
        finally:
            await asyncio.gather(*(player.end() for player in self._players))
        seconds = time.monotonic() - began
        return Verdict(
            script=self._script,
            rounds=done,
            done=frozenset(self._done),
            deviation=deviation,
            difference=difference,
            seconds=seconds,
        )

    async def _round(self, operations: Round) -> Deviation | None:
        sides = list(map(Settling, self._mirrors, self._players))
        answers = await asyncio.gather(*(_answers(player, operations) for player in self._players))
        for side in sides:
            side.played()
        if answers[0] != answers[1]:
            raise DifferentError(_diff(*(_lines(operations, each) for each in answers)))
        self._done.update(type(each) for each, answer in zip(operations, answers[0], strict=True) if answer == DONE)
        comparison = Comparison(sides, stocks=self._stocks)
        patience = self._patience
        while True:
            try:
                await eventually(lambda: comparison.is_over, saying="both are equal", within=patience)
            except AssertionError:
                if not comparison.waits_for_vanished_pods:
                    raise DifferentError(comparison.difference()) from None
                patience = symptoms.VANISHED_FOR
            else:
                return comparison.deviation


class Comparison:
    """Looks at both sides of a round until there is something to say."""

    def __init__(self, sides: Sequence[Settling], *, stocks: int) -> None:
        self.deviation: Deviation | None = None
        self._sides: Final = sides
        self._stocks: Final = sides[:stocks]
        self._equal = False
        self._compared: list[int] = []

    @property
    def is_over(self) -> bool:
        """Whether both sides are equal, or stock is on a way of its own."""
        self.deviation = next(filter(None, map(deviations.found, self._stocks)), None)
        if self.deviation is None and all(side.at_rest for side in self._sides):
            self._compare()
            if not self._equal and not self.waits_for_vanished_pods:
                self.deviation = self._explanation()
        return self._equal or self.deviation is not None

    def difference(self) -> str:
        """Return what differs now, and who has not come to rest."""
        sides = zip(("stock", "other"), self._sides, strict=True)
        restless = [f"{name} is not at rest" for name, side in sides if not side.at_rest]
        return "\n".join([*restless, _diff(*(side.look().splitlines() for side in self._sides))])

    @property
    def waits_for_vanished_pods(self) -> bool:
        """Whether the side that is not stock still keeps claims for pods that a deletion by force has just taken."""
        return any(deviations.waits_for_vanished_pods(*pair) for pair in self._pairs())

    def _explanation(self) -> Deviation | None:
        return next(filter(None, (deviations.explains_difference(*pair) for pair in self._pairs())), None)

    def _pairs(self) -> list[tuple[Settling, Settling]]:
        return [(stock, other) for stock in self._stocks for other in self._sides if other not in self._stocks]

    def _compare(self) -> None:
        versions = [side.sight.version for side in self._sides]
        if versions != self._compared:
            self._compared = versions
            first, second = (side.look() for side in self._sides)
            self._equal = first == second


async def _answers(player: Player, operations: Round) -> list[str]:
    return [await player.play(operation) for operation in operations]


def _lines(operations: Round, answers: list[str]) -> list[str]:
    return [f"{operation}: {answer}" for operation, answer in zip(operations, answers, strict=True)]


async def _make_namespace(api: Api, name: str) -> None:
    metadata = {"name": name, "labels": {"resource.kubernetes.io/admin-access": "true"}}
    await api.create({"apiVersion": NAMESPACES.api_version, "kind": NAMESPACES.kind, "metadata": metadata})


def _diff(stock: list[str], other: list[str]) -> str:
    return "\n".join(difflib.unified_diff(stock, other, "stock", "other", lineterm="", n=6))
