"""The PodMigrationJob API as pydantic models: spec, status and the metadata that is read; used by the engine as is.

Strict in ``spec``, which users write: a typo must not silently mean the default, so unknown fields are rejected by
name. Lenient in ``metadata`` and ``status``, which machines write.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, StrictBool, StrictStr

from dra.api.api_objects import parse_object
from dra.api.object_fields import (
    Condition,
    Duration,
    FreeFormObject,
    LenientModel,
    ObjectMetadata,
    ObjectReference,
    StrictModel,
)

GROUP: Final = "scheduling.koordinator.sh"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "PodMigrationJob"
PLURAL: Final = "podmigrationjobs"
SHORT_NAME: Final = "pmj"


class MalformedPodMigrationJobError(ValueError):
    """An object is no valid PodMigrationJob; the text contains its name and the paths of the wrong fields."""


class MigrationMode(StrEnum):
    """The order of a migration: capacity first, or the eviction alone."""

    RESERVATION_FIRST = "ReservationFirst"
    """The pod is evicted once a Reservation holds its capacity on another node."""

    EVICT_DIRECTLY = "EvictDirectly"
    """The pod is evicted at once, and nothing is reserved."""


class MigrationPhase(StrEnum):
    """The phase of a migration."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    ABORTED = "Aborted"
    """Part of the schema, never set."""


ENDED_PHASES: Final = frozenset({MigrationPhase.SUCCEEDED, MigrationPhase.FAILED, MigrationPhase.ABORTED})
"""The phases that never change."""


class EvictionPolicy(StrEnum):
    """The request that ends the pod."""

    EVICTION = "Eviction"
    """The eviction subresource, which respects PodDisruptionBudgets."""

    DELETE = "Delete"
    """A deletion, which respects no budget."""

    SOFT_EVICTION = "SoftEviction"
    """An annotation that asks the pod's owner to end the pod."""


class PreemptionOptions(LenientModel):
    """Options of a preemption; Koordinator reserves the object and has no field in it yet."""

    enable_preemption: StrictBool = False
    """Whether the Reservation that the job creates may preempt pods of a lower priority."""


class MigrationReservationOptions(StrictModel):
    """The Reservation of a migration: one that exists, or a template for the one to create."""

    reservation_ref: ObjectReference | None = None
    """The Reservation to use. If absent, the job creates one."""

    template: FreeFormObject | None = None
    """Metadata and spec of the Reservation to create; absent fields are filled from the pod."""

    preemption_options: PreemptionOptions | None = None
    """Whether the Reservation may preempt pods. If absent, no pod is preempted."""

    @property
    def may_preempt(self) -> bool:
        """Whether the Reservation may preempt pods of a lower priority."""
        return self.preemption_options is not None and self.preemption_options.enable_preemption


class PodMigrationJobSpec(StrictModel):
    """The pod to migrate, and how."""

    paused: StrictBool = False
    """Whether no step is begun. The time to live goes on."""

    ttl: Duration | None = None
    """Time after creation at which an unfinished job fails; 0s means unlimited. If absent, the configured default."""

    mode: Annotated[
        MigrationMode | None, BeforeValidator(lambda given: None if given == "" else given)  # Go writes no absent text
    ] = None
    """ReservationFirst or EvictDirectly. If absent, the configured default."""

    pod_ref: ObjectReference = ObjectReference()
    """The pod to migrate: namespace and name; with a uid, only the pod with this uid."""

    reservation_options: MigrationReservationOptions | None = None
    """The Reservation of mode ReservationFirst."""

    delete_options: FreeFormObject | None = None
    """DeleteOptions of the eviction, for example gracePeriodSeconds."""


class MigrationCondition(Condition):
    """A condition of a migration (``conditions[]``)."""


class PodMigrationJobStatus(LenientModel):
    """The observed state of a migration."""

    phase: Annotated[MigrationPhase, BeforeValidator(lambda given: given or MigrationPhase.PENDING)] = (
        MigrationPhase.PENDING
    )
    status: StrictStr = ""
    """The step that the migration is at: the type of the newest condition, or Complete."""

    reason: StrictStr = ""
    message: StrictStr = ""
    node_name: StrictStr = ""
    """The node of the Reservation."""

    pod_ref: ObjectReference | None = None
    """The pod that uses the Reservation."""

    preempted_pods_ref: tuple[ObjectReference, ...] = ()
    preempted_pods_reservation: Annotated[tuple[FreeFormObject, ...], Field()] = ()
    conditions: tuple[MigrationCondition, ...] = ()

    def condition(self, kind: str) -> MigrationCondition | None:
        """Return the condition of the given type, if any."""
        return next((condition for condition in self.conditions if condition.type == kind), None)


class PodMigrationJob(LenientModel):
    """A migration of one pod: a Reservation takes the room first, and only then the pod is evicted."""

    metadata: ObjectMetadata = ObjectMetadata()
    spec: PodMigrationJobSpec
    status: PodMigrationJobStatus = PodMigrationJobStatus()


def parse_pod_migration_job(content: Mapping[str, Any]) -> PodMigrationJob:
    """Return the PodMigrationJob in an object of the API. Raises MalformedPodMigrationJobError."""
    return parse_object(PodMigrationJob, content, error_type=MalformedPodMigrationJobError)
