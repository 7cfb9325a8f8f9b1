"""Histories: what happens in a run, to be played, played again and made shorter."""

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Final

import msgspec

from dra.model.meta import Struct
from tests.dra.engine.simulation import list_limits, liveness
from tests.dra.engine.simulation.cluster import SimulatedCluster
from tests.dra.engine.simulation.moves import Move
from tests.dra.engine.simulation.setting import Setting
from tests.dra.engine.simulation.swarm import Swarm
from tests.dra.engine.simulation.violation import Violation

MOVES_PER_HISTORY: Final = 120
"""Moves of one history, after its initial ones."""


class History(Struct, frozen=True):
    """What a cluster is like, and the moves."""

    moves: tuple[Move, ...]
    setting: Setting = Setting()

    def __str__(self) -> str:
        return "\n".join((str(self.setting), *(f"    {move}," for move in self.moves)))


def generate_history(seed: int) -> History:
    """Return the history that a seed stands for.

    The moves are drawn before any is played, so a seed is the same history on every machine. Nothing that a history
    draws depends on what the moves before have done to the cluster. A history can therefore be shortened by leaving out
    moves (`shrink_history`), and what is left still means the same.
    """
    random = Random(seed)
    preferences = Swarm(random)
    start = preferences.start(random)
    return History(moves=(*start.moves, *preferences.moves(random, MOVES_PER_HISTORY)), setting=start.setting)


def play_history(history: History, *, made: Counter[str] | None = None, reasons: Counter[str] | None = None) -> None:
    """Let it happen, and come to rest; raises Violation.

    ``made`` counts the moves that were possible, by kind, ``reasons`` the reasons that the controller gave.
    """
    with list_limits.limited_list_size(*history.setting.list_size):
        cluster = SimulatedCluster(setting=history.setting)
        for move in history.moves:
            if move.apply(cluster) and made is not None:
                made[move.kind] += 1
        liveness.check_liveness(cluster)
        if reasons is not None:
            reasons += cluster.controller.reasons


def shrink_history(history: History) -> History:
    """Return a short part of a failing history that still fails, in whatever way, with plain moves."""
    before = None
    while history != before:
        before = history
        size = len(history.moves)
        while size:
            history = _drop_moves(history, size)
            size //= 2
        for number in range(len(history.moves)):
            history = _simplify_move(history, number)
    return history


def _fails(history: History) -> bool:
    try:
        play_history(history)
    except Violation:
        return True
    return False


def _drop_moves(history: History, size: int) -> History:
    start = 0
    while start < len(history.moves):
        kept = history.moves[:start] + history.moves[start + size :]
        candidate = msgspec.structs.replace(history, moves=kept)
        if _fails(candidate):
            history = candidate
        else:
            start += size
    return history


def _simplify_move(history: History, number: int) -> History:
    for plainer in _simpler_values(history.moves[number]):
        moves = (*history.moves[:number], plainer, *history.moves[number + 1 :])
        candidate = msgspec.structs.replace(history, moves=moves)
        if _fails(candidate):
            return _simplify_move(candidate, number)
    return history


def _simpler_values(value: Struct) -> Iterator[Struct]:
    """Yield the value with one of its fields, at any depth, set to its default."""
    for field in msgspec.structs.fields(value):
        present = getattr(value, field.name)
        if field.default is not msgspec.NODEFAULT and present != field.default:
            yield msgspec.structs.replace(value, **{field.name: field.default})
        if isinstance(present, Struct):
            for plainer in _simpler_values(present):
                yield msgspec.structs.replace(value, **{field.name: plainer})
