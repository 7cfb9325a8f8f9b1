"""When a namespace has come to rest: nothing has changed for a while, or never will."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from tests.scenarios.resources import CLAIMS, PODS

if TYPE_CHECKING:
    from tests.scenarios.differential.mirror import Mirror, Sight
    from tests.scenarios.differential.play import Player

QUIET: Final = 1.0
"""Seconds without a change after which a namespace is at rest: long beside the controllers' own pauses."""

RESTLESS: Final = 60
"""Versions of one object within one round that only an endless loop makes: a script's own are a few."""


class Settling:
    """Watches one side of a script through one round, from just before its operations on."""

    def __init__(self, mirror: Mirror, player: Player) -> None:
        self.sight: Final[Sight] = mirror.sight(player.namespace)
        self._mirror: Final = mirror
        self._player: Final = player
        self._before: Final = Counter(self.sight.writes)
        self._played_at = time.monotonic()

    def played(self) -> None:
        """The operations of the round have been done."""
        self._played_at = time.monotonic()

    @property
    def at_rest(self) -> bool:
        """Whether everything that we did has been seen, and nothing has changed for a while."""
        if time.monotonic() < max(self._played_at, self.sight.changed_at) + QUIET:
            return False
        return all(
            self._mirror.has_reached(resource, moment)
            for resource in (PODS, CLAIMS)
            for moment in self._player.revisions[resource.plural]
        )

    @property
    def restless(self) -> bool:
        """Whether something is written again and again."""
        return any(count - self._before[uid] > RESTLESS for uid, count in self.sight.writes.items())
