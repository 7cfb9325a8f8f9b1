"""The actions of a migration: what `decide` wants written, in order."""

from collections.abc import Mapping
from typing import Any, Never, TypeAlias

from dra.api.migration.model import EvictionPolicy
from dra.engine.instants import NEVER, WallTime
from dra.engine.migration.reasons import MigrationReason
from dra.engine.plan import Plan
from dra.model.event_type import EventType
from dra.model.meta import Key, Struct, Uid


class MigrationEvent(Struct, frozen=True):
    """An Event, recorded once the write that it reports has succeeded; on the job, or on the evicted pod."""

    reason: MigrationReason
    message: str
    type: EventType = EventType.NORMAL


class PatchJob(Struct, frozen=True):
    """Patch metadata and spec of the job, on condition of the resourceVersion that was decided on (in the body)."""

    body: Mapping[str, Any]


class PatchJobStatus(Struct, frozen=True):
    """Patch the status of the job, on condition of the resourceVersion that was decided on (in the body)."""

    body: Mapping[str, Any]
    events: tuple[MigrationEvent, ...] = ()


class ReadPod(Struct, frozen=True):
    """Read a pod live: its whole template is needed, or the watch does not show the pod.

    The answer fills `pod` and `pod_template`, or `bound_pod`; if the pod is gone, `pod_gone` or `bound_pod_gone`.
    """

    key: Key


class ReadReservation(Struct, frozen=True):
    """Read a Reservation live that the watch does not show; the answer fills `reservation` or `reservation_gone`."""

    name: str


class CreateReservation(Struct, frozen=True):
    """Create the Reservation of the job; one that exists by this name is the job's already."""

    manifest: Mapping[str, Any]


class EvictPod(Struct, frozen=True):
    """End the pod, on condition of its uid.

    Before the request, the pod and the Reservation are read live: the pod must have this uid and not be terminating,
    and the Reservation must still be free for its replacement.
    """

    key: Key
    uid: Uid
    eviction_policy: EvictionPolicy
    """The request that ends the pod."""
    delete_options: Mapping[str, Any]
    reservation: str = ""
    """Name of the Reservation that must be Available; empty in mode EvictDirectly."""
    reason: str = ""
    """Reason of the eviction, for the Event on the pod."""

    @property
    def grace_seconds(self) -> int | None:
        """The grace period among the options of a deletion; None if there is none."""
        given = self.delete_options.get("gracePeriodSeconds")
        return given if isinstance(given, int) else None

    @property
    def propagation(self) -> str | None:
        """The propagation policy among the options of a deletion; None if there is none."""
        given = self.delete_options.get("propagationPolicy")
        return given if isinstance(given, str) else None


class DeleteReservation(Struct, frozen=True):
    """Delete the Reservation that the job created, on condition of its uid and resourceVersion.

    The status names an owner pod before the pod is bound, so the resourceVersion proves that no pod uses the
    Reservation.
    """

    name: str
    uid: Uid
    resource_version: str


class DeleteJob(Struct, frozen=True):
    """Delete the job: it ended long enough ago."""


MigrationAction: TypeAlias = (
    PatchJob | PatchJobStatus | ReadPod | ReadReservation | CreateReservation | EvictPod | DeleteReservation | DeleteJob
)


MigrationPlan: TypeAlias = Plan[MigrationAction, Never]


def act(action: MigrationAction | None, *, wake_at: WallTime = NEVER) -> MigrationPlan:
    """Return the plan with one action; without an action the job waits."""
    return MigrationPlan(actions=() if action is None else (action,), wake_at_wall=wake_at)
