"""From a seed to a history: the moves are drawn before any is played, so a seed is the same history on every machine.

Nothing that a history draws depends on what the moves before have done to the cluster. A history can therefore be
shortened by leaving out moves (``histories.reduced``), and what is left still means the same.
"""

from random import Random
from typing import Final

from tests.dra.engine.simulation.histories import History
from tests.dra.engine.simulation.swarm import Swarm

MOVES_PER_HISTORY: Final = 120
"""Moves of one history, after those of its beginning."""


def generate_history(seed: int) -> History:
    """Return the history that a seed stands for."""
    chance = Random(seed)
    mood = Swarm(chance)
    start = mood.beginning(chance)
    return History(moves=(*start.moves, *mood.moves(chance, MOVES_PER_HISTORY)), setting=start.setting)
