"""Histories: what a run was, to be played again and to be made shorter.

Hypothesis would shrink the choices that made the moves; leaving out moves is what helps, and is quick.
"""

from collections.abc import Iterator

import msgspec

from dra.engine.claims.policy import REPLACE, Policy
from dra.model.meta import Struct
from tests.dra.engine.simulation import calm, limits
from tests.dra.engine.simulation.cluster import ONE_DEVICE, Cluster
from tests.dra.engine.simulation.moves import Move
from tests.dra.engine.simulation.objects import Device
from tests.dra.engine.simulation.violation import Violation


class History(Struct, frozen=True):
    """How a cluster began, and the moves."""

    moves: tuple[Move, ...]
    devices: tuple[Device, ...] = ONE_DEVICE
    lists: tuple[int, int] = limits.USUAL
    policy: Policy = REPLACE

    def __str__(self) -> str:
        lines = (f"    {move}," for move in self.moves)
        return "\n".join((f"devices {len(self.devices)}, lists {self.lists}", *lines))


def play(history: History) -> None:
    """Let it happen once more, and come to rest; raises Violation."""
    limits.set_list_size(*history.lists)
    try:
        cluster = Cluster(devices=history.devices, policy=history.policy)
        for move in history.moves:
            move.play(cluster)
        calm.run(cluster)
    finally:
        limits.set_list_size(*limits.USUAL)


def reduced(history: History) -> History:
    """Return the shortest part of a failing history that still fails, in whatever way, with the plainest moves."""
    found = True
    while found:
        found = False
        for candidate in (*_shorter(history), *_plainer(history)):
            if _fails(candidate):
                history, found = candidate, True
                break
    return history


def _fails(history: History) -> bool:
    try:
        play(history)
    except Violation:
        return True
    return False


def _shorter(history: History) -> Iterator[History]:
    size = len(history.moves) // 2
    while size:
        for start in range(0, len(history.moves), size):
            kept = history.moves[:start] + history.moves[start + size :]
            yield msgspec.structs.replace(history, moves=kept)
        size //= 2


def _plainer(history: History) -> Iterator[History]:
    for number, move in enumerate(history.moves):
        for plainer in _plainer_moves(move):
            moves = (*history.moves[:number], plainer, *history.moves[number + 1 :])
            yield msgspec.structs.replace(history, moves=moves)


def _plainer_moves(value: Struct) -> Iterator[Struct]:
    """Yield the value with one of its fields, at any depth, set to its default."""
    for field in msgspec.structs.fields(value):
        present = getattr(value, field.name)
        if field.default is not msgspec.NODEFAULT and present != field.default:
            yield msgspec.structs.replace(value, **{field.name: field.default})
        if isinstance(present, Struct):
            for plainer in _plainer_moves(present):
                yield msgspec.structs.replace(value, **{field.name: plainer})
