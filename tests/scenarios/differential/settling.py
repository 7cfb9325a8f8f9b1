"""When a namespace has come to rest: nothing has changed for a while, or never will."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from tests.scenarios.claims import revision
from tests.scenarios.differential.observation import observe
from tests.scenarios.resources import CLAIMS, PODS

if TYPE_CHECKING:
    from tests.scenarios.differential.mirror import Mirror, Sight
    from tests.scenarios.differential.play import Player

Json = dict[str, Any]

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
    def age(self) -> float:
        """Seconds since the operations were done."""
        return time.monotonic() - self._played_at

    @property
    def resting(self) -> float:
        """Seconds since then in which nothing has changed; none while what we did ourselves has not been seen."""
        seen = all(
            self._mirror.has_reached(resource, moment)
            for resource in (PODS, CLAIMS)
            for moment in self._player.revisions[resource.plural]
        )
        return time.monotonic() - max(self._played_at, self.sight.changed_at) if seen else 0.0

    @property
    def at_rest(self) -> bool:
        """Whether nothing has changed for a while."""
        return self.resting >= QUIET

    @property
    def restless(self) -> bool:
        """Whether something is written again and again."""
        return any(count - self._before[uid] > RESTLESS for uid, count in self.sight.writes.items())

    def is_ours(self, claim: Json) -> bool:
        """Tell whether this version of a claim was written by the script."""
        return revision(claim) in self._player.revisions[CLAIMS.plural]

    def look(self) -> str:
        """Return what there is now."""
        return observe(self.sight, self._player.namespace)
