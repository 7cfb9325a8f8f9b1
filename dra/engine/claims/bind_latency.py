"""How long schedulers take lately from an entry in a list to the binding of its pod.

A scheduler's client sends so many requests a second; what is beyond waits in the client, and nobody else sees it. A pod
that is bound long after it was listed shows how long. So a bind horizon is twice the slowest binding seen lately, and
at least `BIND_HORIZON`: upstream has no limit of its own.
"""

from collections.abc import Mapping
from typing import Final

from dra.engine.claims.claim_state import ClaimState
from dra.engine.claims.consumers import Consumer
from dra.engine.claims.window import UNLISTED
from dra.engine.instants import BIND_HORIZON, SLOW_BIND_HORIZON, Instant
from dra.model.meta import Key

REMEMBERED_FOR: Final = 600.0
"""Seconds for which a slow binding is remembered at least, and at most twice as long."""

MARGIN: Final = 2.0
"""How much slower than the slowest one that was seen a binding may be."""


class BindLatency:
    """The slowest binding of the present and of the last period."""

    def __init__(self) -> None:
        self._since: Instant = 0.0
        self._slowest, self._before = 0.0, 0.0

    def bound(self, pod: Consumer, records: Mapping[Key, ClaimState], *, now: Instant) -> None:
        """Take in that a waiting pod has been bound.

        A pod that was unschedulable, or has other claims besides, has waited for more than the scheduler.
        """
        record = records.get((pod.namespace, pod.claims[0])) if len(pod.claims) == 1 else None
        if record is None or pod.unschedulable_since is not None:
            return
        listed = record.listings.get(pod.uid, UNLISTED).since
        if listed is not None:
            self._turn(now)
            self._slowest = max(self._slowest, now - max(listed, pod.stage_since))

    def horizon(self, *, now: Instant) -> float:
        """Return for how many seconds a scheduling cycle that already runs may still bind its pod."""
        self._turn(now)
        return min(max(BIND_HORIZON, MARGIN * max(self._slowest, self._before)), SLOW_BIND_HORIZON)

    def _turn(self, now: Instant) -> None:
        if now - self._since >= REMEMBERED_FOR:
            self._before = self._slowest if now - self._since < 2 * REMEMBERED_FOR else 0.0
            self._slowest, self._since = 0.0, now
