"""The growing delay between evictions of one controller's pods from one node.

The driver's publication may be stuck; then the scheduler binds each replacement to the same node.
"""

from typing import Final

from dra.engine.instants import Instant
from dra.model.meta import Uid

PATIENCE: Final = 30.0
"""Seconds of refusals before a pod is evicted: the kubelet tries again every 10 to 15 s, and holders may end."""

MAX_PATIENCE: Final = 600.0
"""Maximum seconds before a replacement is evicted, which the scheduler has bound to the same node again."""

FORGOTTEN_AFTER: Final = 3600.0
"""Seconds after which an eviction no longer delays the next one of the same controller from the same node."""


class EvictionHistory:
    """The evictions by controller and node, so that no pod is evicted in a circle at full speed."""

    def __init__(self) -> None:
        self._evictions: dict[tuple[tuple[str, Uid], str], tuple[int, Instant]] = {}

    def patience(self, owner: tuple[str, Uid], node: str, *, now: Instant) -> float:
        """Return the seconds of refusals before a pod of a controller is evicted from a node."""
        count, last = self._evictions.get((owner, node), (0, now))
        return PATIENCE if now - last >= FORGOTTEN_AFTER else min(PATIENCE * 2.0 ** min(count, 16), MAX_PATIENCE)

    def record(self, owner: tuple[str, Uid], node: str, *, now: Instant) -> None:
        """Record an eviction, and forget those that no longer count."""
        self._evictions = {
            key: (count, last) for key, (count, last) in self._evictions.items() if now - last < FORGOTTEN_AFTER
        }
        count, _ = self._evictions.get((owner, node), (0, now))
        self._evictions[owner, node] = (count + 1, now)
