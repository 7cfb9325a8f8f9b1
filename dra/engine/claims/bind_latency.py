"""Track how long schedulers currently take from listing a pod to binding that pod.

A scheduler's client sends a limited number of requests per second; further requests queue in the client, where no other
component sees them. A pod that is bound long after it was listed reveals that delay. The bind horizon is therefore
twice the slowest binding seen lately, and at least `BIND_HORIZON`: upstream has no limit of its own.
"""

from collections.abc import Mapping
from typing import Final

from dra.engine.claims.claim_state import ClaimState
from dra.engine.claims.consumers import Consumer
from dra.engine.claims.window import UNLISTED
from dra.engine.instants import BIND_HORIZON, SLOW_BIND_HORIZON, Instant
from dra.model.meta import Key

REMEMBERED_FOR: Final = 600.0
"""Minimum number of seconds for which a slow binding is remembered; the maximum is twice as long."""

MARGIN: Final = 2.0
"""Factor by which a binding may be slower than the slowest binding observed."""


class BindLatency:
    """The slowest bindings of the current and of the previous period, from which the bind horizon follows."""

    def __init__(self) -> None:
        self._since: Instant = 0.0
        self._slowest, self._before = 0.0, 0.0

    def observe_bound(self, pod: Consumer, records: Mapping[Key, ClaimState], *, now: Instant) -> None:
        """Record that a waiting pod has been bound.

        Pods that were unschedulable, or that name other claims as well, are ignored: they waited for more than the
        scheduler.
        """
        record = records.get((pod.namespace, pod.claims[0])) if len(pod.claims) == 1 else None
        if record is None or pod.unschedulable_since is not None:
            return
        listed = record.entry_histories.get(pod.uid, UNLISTED).listed_since
        if listed is not None:
            self._rotate(now)
            self._slowest = max(self._slowest, now - max(listed, pod.stage_since))

    def bind_horizon(self, *, now: Instant) -> float:
        """Return the number of seconds for which a scheduling cycle that already runs may still bind its pod."""
        self._rotate(now)
        return min(max(BIND_HORIZON, MARGIN * max(self._slowest, self._before)), SLOW_BIND_HORIZON)

    def _rotate(self, now: Instant) -> None:
        if now - self._since >= REMEMBERED_FOR:
            self._before = self._slowest if now - self._since < 2 * REMEMBERED_FOR else 0.0
            self._slowest, self._since = 0.0, now
