"""Hypothesis' hands on the cluster.

Hypothesis draws seeds, a dozen for a run, and each stands for some moves (``moods``): that is quicker than to draw each
part of each move, reaches deeper, and what is to be shortened in the end is the list of moves (``histories``), not the
choices that made it.
"""

import sys
from random import Random
from typing import Final

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from dra.engine.claims.policy import REPLACE, Policy
from tests.dra.engine.simulation import calm, histories, limits, moods
from tests.dra.engine.simulation.cluster import Cluster
from tests.dra.engine.simulation.histories import History
from tests.dra.engine.simulation.moods import Mood
from tests.dra.engine.simulation.moves import Move
from tests.dra.engine.simulation.violation import Violation

MOVES: Final = 10
"""Moves that one seed stands for."""

STEPS: Final = 12
"""Seeds of one run."""

SEED_BITS: Final = 24

seeds = st.integers(0, 2**SEED_BITS - 1)
"""Not more bits: of larger ranges Hypothesis prefers the small numbers."""


class ClaimMachine(RuleBasedStateMachine):
    """Pods, claims, nodes and workloads come and go, in any order, under any faults; then it must come to rest."""

    policy: Policy = REPLACE

    @initialize(seed=seeds)
    def begin(self, seed: int) -> None:
        """Begin with some pods, in some mood."""
        chance = Random(seed)  # noqa: S311 - to be repeatable
        self.mood = Mood(chance)
        start = moods.beginning(chance)
        self.history = History(moves=(), devices=start.devices, lists=start.lists, policy=self.policy)
        self.cluster = Cluster(devices=start.devices, policy=self.policy)
        limits.set_list_size(*start.lists)
        for move in start.moves:
            self._play(move)

    @rule(seed=seeds)
    def go_on(self, seed: int) -> None:
        """Play the moves of a seed."""
        for move in self.mood.moves(Random(seed), MOVES):  # noqa: S311
            self._play(move)

    def teardown(self) -> None:
        """Unless the run has failed already, or was cut short: it must come to rest, whatever has happened."""
        try:
            if sys.exc_info()[0] is None:
                calm.run(self.cluster)
        except Violation as violation:
            raise self._explained(violation) from violation
        finally:
            limits.set_list_size(*limits.USUAL)

    def _play(self, move: Move) -> None:
        self.history = msgspec.structs.replace(self.history, moves=(*self.history.moves, move))
        try:
            move.play(self.cluster)
        except Violation as violation:
            raise self._explained(violation) from violation

    def _explained(self, violation: Violation) -> Violation:
        """Return the violation with a short history that leads to it, or to another."""
        shortest = histories.reduced(self.history)
        limits.set_list_size(*self.history.lists)
        return Violation(f"{violation}\n{shortest}")
