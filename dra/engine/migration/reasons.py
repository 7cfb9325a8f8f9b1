"""The condition types and reasons of PodMigrationJobs, which are also the reasons of Events and labels of metrics.

The words are Koordinator's, except those of arbitration: Koordinator reports nothing while a job waits for a limit.
"""

from enum import StrEnum


class MigrationConditionType(StrEnum):
    """The type of a condition of a PodMigrationJob."""

    PASSED_ARBITRATION = "PassedArbitration"
    """Condition of dra-reserve: False while the job waits for a limit or a budget, which the reason names."""

    RESERVATION_CREATED = "ReservationCreated"
    RESERVATION_SCHEDULED = "ReservationScheduled"
    EVICTION = "Eviction"
    POD_SCHEDULED = "PodScheduled"
    POD_BOUND_RESERVATION = "PodBoundReservation"
    BOUND_POD_READY = "BoundPodReady"
    RESERVATION_BOUND = "ReservationBound"
    PREEMPTION = "Preemption"


class MigrationReason(StrEnum):
    """The reason of a condition, of a failed job, or of an Event."""

    # Failures.
    TIMEOUT = "Timeout"
    FAILED_CREATE_RESERVATION = "FailedCreateReservation"
    RESERVATION_EXPIRED = "ReservationExpired"
    UNSCHEDULABLE = "Unschedulable"
    FORBIDDEN_MIGRATE_POD = "ForbiddenMigratePod"
    MISSING_POD = "MissingPod"
    MISSING_RESERVATION = "MissingReservation"
    INVALID_POD_REF = "InvalidPodRef"
    INVALID = "Invalid"
    """Reason of dra-reserve: a field of the job cannot be read."""
    REJECTED = "Rejected"
    """Reason of dra-reserve: a person has rejected the job, whose phase is Aborted."""

    # Steps.
    EVICTING = "Evicting"
    FAILED_EVICT = "FailedEvict"
    EVICT_COMPLETE = "EvictComplete"
    WAIT_FOR_POD_BIND_RESERVATION = "WaitForPodBindReservation"
    WAIT_FOR_BOUND_POD_READY = "WaitForBoundPodReady"

    # Events only.
    RESERVATION_CREATED = "ReservationCreated"
    RESERVATION_SCHEDULED = "ReservationScheduled"
    POD_BOUND_RESERVATION = "PodBoundReservation"
    BOUND_POD_READY = "BoundPodReady"
    COMPLETE = "Complete"
    DESCHEDULED = "Descheduled"
    """Event on the evicted pod."""

    # Waits for arbitration.
    MAX_MIGRATING_GLOBALLY = "MaxMigratingGlobally"
    MAX_MIGRATING_PER_NODE = "MaxMigratingPerNode"
    MAX_MIGRATING_PER_NAMESPACE = "MaxMigratingPerNamespace"
    MAX_MIGRATING_PER_WORKLOAD = "MaxMigratingPerWorkload"
    MAX_UNAVAILABLE_PER_WORKLOAD = "MaxUnavailablePerWorkload"
    OBJECT_LIMITER = "ObjectLimiter"
    POD_DISRUPTION_BUDGET = "PodDisruptionBudget"
    POD_UNAVAILABLE_BUDGET = "PodUnavailableBudget"
    PAUSED = "Paused"
    DRY_RUN = "DryRun"
    APPROVAL_REQUIRED = "ApprovalRequired"
    """The job is paused until a person approves it."""


STATUS_COMPLETE = "Complete"
"""``status.status`` of a job that succeeded."""
