"""What the watches of one process have shown of how long bindings take: all that it can know of a slow scheduler.

A scheduler's client sends so many requests a second, and what is beyond waits in it. Nobody else sees that, but by pods
that are bound long after they were listed. What is promised of such schedulers is read from
docs/explanation/guarantees.md, not from the engine.
"""

from typing import Final

from dra.engine.instants import Instant
from dra.model.claims import ResourceClaim
from dra.model.meta import Uid
from dra.model.pods import Pod, claim_names

PROMPT_BINDING_SECONDS: Final = 50.0
"""Seconds within which a binding cycle ends of whose slowness nobody can know: less than the 60 that are promised."""

SLOWDOWN_FACTOR: Final = 1.9
"""How much slower than the slowest binding that was shown a cycle may be: less than twice."""

OBSERVATION_SECONDS: Final = 600.0
"""Seconds for which a slow binding counts."""


class BindingObservations:
    """When pods and entries were shown, by uid, and the bindings that followed."""

    def __init__(self) -> None:
        self._waiting: dict[Uid, Instant] = {}
        self._listed: dict[tuple[str, Uid], Instant] = {}
        self._taken: list[tuple[Instant, float]] = []

    def observe_claim(self, claim: ResourceClaim, *, now: Instant) -> None:
        """A version of a claim is shown, by a watch or by the answer to a write of the process itself."""
        name, uids = claim.metadata.name, {entry.uid for entry in claim.entries}
        for key in [key for key in self._listed if key[0] == name and key[1] not in uids]:
            del self._listed[key]
        for uid in uids:
            self._listed.setdefault((name, uid), now)

    def observe_pod(self, pod: Pod, *, now: Instant) -> None:
        """A version of a pod is shown. One that was unschedulable, or has other claims, waits for more than that."""
        uid, names = pod.metadata.uid, claim_names(pod)
        if not pod.spec.node_name:
            if pod.spec.scheduling_gates or pod.status.conditions or pod.metadata.deleting:
                self._waiting.pop(uid, None)
            else:
                self._waiting.setdefault(uid, now)
            return
        waiting = self._waiting.pop(uid, None)
        listed = self._listed.get((names[0], uid)) if len(names) == 1 else None
        if waiting is not None and listed is not None and not pod.terminal:
            self._taken.append((now, now - max(waiting, listed)))

    def allowed_seconds(self, seconds: float, *, now: Instant) -> float:
        """Return how much of the time that cycles take one may take that begins now."""
        lately = (taken for at, taken in self._taken if at >= now + seconds - OBSERVATION_SECONDS)
        return min(seconds, max(PROMPT_BINDING_SECONDS, SLOWDOWN_FACTOR * max(lately, default=0.0)))
