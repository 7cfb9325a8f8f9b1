"""Live reads of the objects of one job, and results of writes: no watch shows either again."""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from dra.api.migration.model import EvictionPolicy
from dra.engine.instants import NEVER, Instant, WallTime
from dra.engine.migration.limits import EvictionPace
from dra.engine.migration.plan import EvictPod
from dra.engine.migration.view import ClaimReach, MigrationPod
from dra.model.meta import Uid, UnstructuredObject, content_fault

LIVE_POD_SECONDS: Final = 60.0
"""Seconds for which a pod that only a live read showed counts as present; then the pod is read again."""

NO_UID: Final = Uid("")


class LookedAtPod(NamedTuple):
    """A pod as a live read shows it, with its whole content."""

    pod: MigrationPod
    content: dict[str, Any]

    @classmethod
    def of(cls, obj: UnstructuredObject) -> "LookedAtPod":
        """Return a pod from a response. Raises ValueError if a part is missing: the pod is too large."""
        if fault := content_fault(obj.content):
            raise ValueError(fault)
        return cls(msgspec.convert(obj.content, MigrationPod), obj.content)

    @property
    def template(self) -> dict[str, Any]:
        """The metadata and the spec of the pod, without the bookkeeping of field managers."""
        metadata = {key: value for key, value in self.content["metadata"].items() if key != "managedFields"}
        return {"metadata": metadata, "spec": self.content.get("spec")}


@dataclass(slots=True)
class LiveReads:
    """The results of live reads and writes for one job, which no watch repeats."""

    pod: MigrationPod | None = None
    """A pod that the watch does not show, and when it was read."""
    pod_read_at: Instant = 0.0
    pod_gone: bool = False
    pod_template: dict[str, Any] | None = None
    claims: tuple[ClaimReach, ...] = ()
    reservation_gone: bool = False
    bound_pod: MigrationPod | None = None
    bound_pod_read_at: Instant = 0.0
    bound_pod_gone: bool = False
    create_error: str = ""
    evict_error: str = ""
    evict_failed_at: WallTime = 0.0
    evicted: Uid = NO_UID
    eviction_turn: Instant | None = None
    """When the next eviction may happen, by the limit on evictions per second; None if none is planned."""

    def record_pod(self, looked_at: LookedAtPod | None, claims: tuple[ClaimReach, ...], *, now: Instant) -> None:
        """Record a read of the job's pod and of the claims that the pod names; None if no pod has the name."""
        self.pod_gone, self.pod_read_at, self.claims = looked_at is None, now, claims
        self.pod, self.pod_template = (None, None) if looked_at is None else (looked_at.pod, looked_at.template)

    def record_bound_pod(self, pod: MigrationPod | None, *, now: Instant) -> None:
        """Record a read of the pod in the job's Reservation; None if no pod has the name."""
        self.bound_pod, self.bound_pod_gone, self.bound_pod_read_at = pod, pod is None, now

    def drop_old_pods(self, *, now: Instant) -> Instant:
        """Drop pods that only old reads showed, which may be gone; return when the remaining ones are to be dropped."""
        if now >= self.pod_read_at + LIVE_POD_SECONDS:
            self.pod = None
        if now >= self.bound_pod_read_at + LIVE_POD_SECONDS:
            self.bound_pod = None
        reads = ((self.pod, self.pod_read_at), (self.bound_pod, self.bound_pod_read_at))
        return min((at + LIVE_POD_SECONDS for pod, at in reads if pod is not None), default=NEVER)

    # Evictions

    def take_turn(self, pace: EvictionPace, *, now: Instant) -> Instant:
        """Return when the job's eviction may happen; the turn is kept until it comes."""
        turn = pace.next_turn(now) if self.eviction_turn is None else self.eviction_turn
        self.eviction_turn = turn if now < turn else None
        return turn

    def record_last_look(self, action: EvictPod, looked_at: LookedAtPod | None) -> LookedAtPod | None:
        """Record the pod as the API server has it right before its eviction; return the pod if it is to be evicted."""
        pod = None if looked_at is None else looked_at.pod
        if pod is None or pod.metadata.uid != action.uid:
            self.pod_gone, self.pod, self.pod_template = pod is None, None, None
        if looked_at is None or looked_at.pod.metadata.uid != action.uid or looked_at.pod.metadata.deleting:
            self.evicted = action.uid
            return None
        self.pod_template = looked_at.template
        return looked_at

    def record_refusal(self, text: str, *, at: WallTime) -> None:
        """Record why the pod was not evicted."""
        self.evict_error, self.evict_failed_at = text, at

    def record_eviction(self, action: EvictPod) -> bool:
        """Record that the pod is evicted; return whether the watch has to show more before the next decision.

        A soft eviction is an annotation of the pod, which another component may take away again.
        """
        is_soft = action.eviction_policy is EvictionPolicy.SOFT_EVICTION
        self.evict_error, self.evicted = "", self.evicted if is_soft else action.uid
        return is_soft
