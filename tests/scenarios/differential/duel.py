"""One script before two controllers: round by round, until they differ or the script is over."""

from __future__ import annotations

import asyncio
import difflib
import secrets
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tests.scenarios.differential import deviations
from tests.scenarios.differential.observation import observe
from tests.scenarios.differential.play import Player
from tests.scenarios.differential.settling import Settling
from tests.scenarios.eventually import eventually
from tests.scenarios.resources import NAMESPACES

if TYPE_CHECKING:
    from tests.scenarios.differential.mirror import Mirror
    from tests.scenarios.differential.operations import Operation, Script

PATIENCE: Final = 100.0
"""Seconds after which a difference is one. Ours waits on purpose: for batches up to 30 s, for a bind horizon 60 s."""


class Outcome(StrEnum):
    """How a duel ended."""

    EQUAL = "equal"
    DIFFERENT = "different"
    STOCK_NEVER_SETTLES = "stock never settles"
    STOCK_LISTS_FINISHED_POD = "stock lists a finished pod (k/k#141274)"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How a script fared before both."""

    script: Script
    outcome: Outcome
    rounds: int
    """Rounds after which both were found equal."""
    diff: str = ""
    seconds: float = 0.0


class Duel:
    """Both sides of one script."""

    def __init__(self, script: Script, *, stock: Mirror, other: Mirror) -> None:
        self._script: Final = script
        name = f"script-{secrets.token_hex(4)}"
        self._mirrors: Final = (stock, other)
        # On one server they need two names, of the same length: names may be cut to a length.
        self._players: Final = (Player(stock.api, f"{name}-1"), Player(other.api, f"{name}-2"))

    async def fight(self) -> Verdict:
        """Play all rounds."""
        began = time.monotonic()
        for player in self._players:
            labels = {"resource.kubernetes.io/admin-access": "true"}
            await player.api.create(
                {
                    "apiVersion": NAMESPACES.api_version,
                    "kind": NAMESPACES.kind,
                    "metadata": {"name": player.namespace, "labels": labels},
                }
            )
        outcome, diff, done = Outcome.EQUAL, "", 0
        try:
            for operations in self._script:
                outcome, diff = await self._round(operations)
                if outcome is not Outcome.EQUAL:
                    break
                done += 1
        finally:
            await asyncio.gather(*(player.end() for player in self._players))
        seconds = time.monotonic() - began
        return Verdict(script=self._script, outcome=outcome, rounds=done, diff=diff, seconds=seconds)

    async def _round(self, operations: tuple[Operation, ...]) -> tuple[Outcome, str]:
        stock, other = settlings = tuple(map(Settling, self._mirrors, self._players))
        answers: list[list[str]] = [[], []]
        for operation in operations:
            both = await asyncio.gather(*(player.play(operation) for player in self._players))
            for told, answer in zip(answers, both, strict=True):
                told.append(f"{operation}: {answer}")
        for settling in settlings:
            settling.played()
        if answers[0] != answers[1]:
            return Outcome.DIFFERENT, _diff(answers[0], answers[1])
        comparison = Comparison(stock, other, self._players)
        try:
            return await eventually(comparison.outcome, saying="both are equal", within=PATIENCE), ""
        except AssertionError:
            return Outcome.DIFFERENT, comparison.diff()


class Comparison:
    """Looks at both sides of a round until there is something to say."""

    def __init__(self, stock: Settling, other: Settling, players: tuple[Player, Player]) -> None:
        self._settlings: Final = (stock, other)
        self._players: Final = players
        self._seen = (-1, -1)
        self._compared = (-1, -1)
        self._looks: tuple[str, ...] = ("", "")

    def outcome(self) -> Outcome | None:
        """Return how the round ends; None while nobody can tell."""
        stock, other = self._settlings
        now = (stock.sight.version, other.sight.version)
        if now != self._seen:
            self._seen = now
            if stock.restless:
                return Outcome.STOCK_NEVER_SETTLES
            if deviations.lists_finished_pod(stock.sight, self._players[0]):
                return Outcome.STOCK_LISTS_FINISHED_POD
        if now == self._compared or not (stock.at_rest and other.at_rest):
            return None
        self._compared = now
        self._looks = self._look()
        return Outcome.EQUAL if self._looks[0] == self._looks[1] else None

    def diff(self) -> str:
        """Return what differs now, and who has not come to rest."""
        sides = zip(("stock", "other"), self._settlings, strict=True)
        restless = [f"the {name} is not at rest" for name, settling in sides if not settling.at_rest]
        stock, other = (look.splitlines() for look in self._look())
        return "\n".join([*restless, _diff(stock, other)])

    def _look(self) -> tuple[str, ...]:
        return tuple(observe(s.sight, p.namespace) for s, p in zip(self._settlings, self._players, strict=True))


def _diff(stock: list[str], other: list[str]) -> str:
    return "\n".join(difflib.unified_diff(stock, other, "stock", "other", lineterm="", n=6))
