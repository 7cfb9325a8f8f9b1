"""The condition types and reasons of PodMigrationJobs, which are also the reasons of Events and labels of metrics.

The words are Koordinator's, except Invalid, Rejected and those of arbitration: Koordinator reports nothing while a job
waits for a limit.
"""

from enum import StrEnum
from typing import Final

from dra.engine.messages.texts import ExplainedReason, Guidance, explain


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


_NOTHING: Final = "Nothing."
_WAIT_OR_RAISE: Final = "Wait, or raise the limit in the descheduler's configuration."


def _limit(word: str, pods: str, field: str) -> tuple[str, Guidance]:
    """Declare a wait for a limit of the configuration."""
    return explain(word, f"The job waits: as many pods {pods}.", f"The limit `{field}`.", _WAIT_OR_RAISE)


class MigrationReason(ExplainedReason):
    """The reason of a condition, of a failed job, or of an Event."""

    # Failures.
    TIMEOUT = explain(
        "Timeout",
        "The job has not ended within its `ttl`. Its unused Reservation is deleted.",
        "The message names the condition that was still False. The time also counts while the job is paused or waits.",
        "Resolve what the message names, and create the job again, with a longer `ttl` if need be.",
    )
    FAILED_CREATE_RESERVATION = explain(
        "FailedCreateReservation",
        "The Reservation of the job could not be created, and nothing was evicted.",
        "The API server rejected the Reservation, or `spec.reservationOptions.template` has a mistake.",
        "Correct what the message names, and create the job again.",
    )
    RESERVATION_EXPIRED = explain(
        "ReservationExpired",
        "The Reservation of the job has ended before a pod used it.",
        "Its `ttl` or `expires` has passed, or its node was deleted.",
        "Create the job again, with a Reservation that lives at least as long as the job.",
    )
    UNSCHEDULABLE = explain(
        "Unschedulable",
        "No node has room for the Reservation. The job fails after `unschedulableSeconds`, and nothing is evicted.",
        "The message has kube-scheduler's reasons; the pod's own node is excluded.",
        "Free capacity on another node, or loosen the constraints of the pod.",
    )
    FORBIDDEN_MIGRATE_POD = explain(
        "ForbiddenMigratePod",
        "The pod must not or cannot be migrated; the message says why. Nothing is evicted.",
        "A rule about evictable pods, devices of one node only, or a Reservation that the replacement cannot use.",
        "Correct what the message names, or choose mode EvictDirectly where only the Reservation is the obstacle.",
    )
    MISSING_POD = explain(
        "MissingPod",
        "A pod of the migration is gone: the pod to migrate before it was evicted, or the pod that replaced it.",
        "The pod was deleted or has ended; with `spec.podRef.uid`, a pod of the same name does not count.",
        "Create another job if the workload's new pod is to be migrated as well.",
    )
    MISSING_RESERVATION = explain(
        "MissingReservation",
        "The Reservation of the job does not exist, or is being deleted.",
        "A user deleted it, or `spec.reservationOptions.reservationRef` names another one.",
        "Correct the reference, or leave it out: then the job creates a Reservation.",
    )
    INVALID_POD_REF = explain(
        "InvalidPodRef",
        "The job does not say which pod to migrate.",
        "`spec.podRef` has no namespace or no name.",
        "Create the job again with both.",
    )
    INVALID = explain(
        "Invalid",
        "A field of the job cannot be read.",
        "The job was created before the schema that rejects such a field, or without that schema.",
        "Create the job again with the field that the message names corrected.",
    )
    # Steps.
    EVICTING = explain(
        "Evicting",
        "The eviction of the pod is requested. As a Warning: it was refused, and is requested again.",
        "The Reservation is Available. A refusal mostly comes from a PodDisruptionBudget.",
        "Nothing; after a refusal, let the budget allow a disruption.",
    )
    FAILED_EVICT = explain(
        "FailedEvict",
        "The eviction of the pod was refused.",
        "The API server's answer is in the message.",
        "Resolve what the message names.",
    )
    EVICT_COMPLETE = explain(
        "EvictComplete",
        "The pod is gone from its node.",
        "The job evicted the pod, or another client ended the pod while its Reservation was Available.",
        _NOTHING,
    )
    WAIT_FOR_POD_BIND_RESERVATION = explain(
        "WaitForPodBindReservation",
        "No pod uses the Reservation yet.",
        "The workload is about to create the replacement, or kube-scheduler to place it.",
        "Nothing; if it lasts, check whether the workload creates pods.",
    )
    WAIT_FOR_BOUND_POD_READY = explain(
        "WaitForBoundPodReady",
        "The pod in the Reservation is not ready yet.",
        "Its containers start, or fail.",
        "Nothing; if it lasts, check the pod's containers.",
    )
    # Events only.
    RESERVATION_CREATED = explain(
        "ReservationCreated", "The job has created its Reservation.", "The job has passed arbitration.", _NOTHING
    )
    RESERVATION_SCHEDULED = explain(
        "ReservationScheduled", "The Reservation holds the capacity on another node.", "A node has the room.", _NOTHING
    )
    POD_BOUND_RESERVATION = explain(
        "PodBoundReservation",
        "A pod uses the Reservation: the replacement, or another pod of the workload.",
        "The owner is the workload: the first of its pods that is scheduled gets the Reservation.",
        _NOTHING,
    )
    BOUND_POD_READY = explain(
        "BoundPodReady", "The pod in the Reservation is ready.", "Its containers have started.", _NOTHING
    )
    COMPLETE = explain("Complete", "The migration has succeeded.", "All steps are done.", _NOTHING)
    DESCHEDULED = explain(
        "Descheduled",
        "The pod was evicted by a migration.",
        "A PodMigrationJob names the pod; the message has the reason.",
        "Nothing: its workload replaces the pod.",
    )
    # Waits for arbitration.
    MAX_MIGRATING_GLOBALLY = _limit("MaxMigratingGlobally", "as allowed are migrating", "maxMigratingGlobally")
    MAX_MIGRATING_PER_NODE = _limit(
        "MaxMigratingPerNode", "as allowed are migrating away from the node", "maxMigratingPerNode"
    )
    MAX_MIGRATING_PER_NAMESPACE = _limit(
        "MaxMigratingPerNamespace", "of the namespace as allowed are migrating", "maxMigratingPerNamespace"
    )
    MAX_MIGRATING_PER_WORKLOAD = _limit(
        "MaxMigratingPerWorkload", "of the workload as allowed are migrating", "maxMigratingPerWorkload"
    )
    MAX_UNAVAILABLE_PER_WORKLOAD = explain(
        "MaxUnavailablePerWorkload",
        "The job waits: as many pods of the workload as allowed are not ready, terminating or migrating.",
        "The limit `maxUnavailablePerWorkload`.",
        "Let the workload's pods become ready, or raise the limit in the descheduler's configuration.",
    )
    OBJECT_LIMITER = _limit(
        "ObjectLimiter",
        "of the workload, or of the namespace, as allowed were evicted a short time ago",
        "objectLimiters",
    )
    POD_DISRUPTION_BUDGET = explain(
        "PodDisruptionBudget",
        "The job waits: a PodDisruptionBudget allows no disruption of the pod.",
        "Too few pods of the budget are healthy; the message names the budget.",
        "Let pods become ready, or change the budget.",
    )
    POD_UNAVAILABLE_BUDGET = explain(
        "PodUnavailableBudget",
        "The job waits: a PodUnavailableBudget (OpenKruise) allows no further unavailable pod.",
        "Too few pods of the budget are available; the message names the budget.",
        "Let pods become ready, or change the budget.",
    )
    REJECTED = explain(
        "Rejected",
        "A person has rejected the migration. The pod stays, and the job's Reservation is deleted.",
        "The answer of a person (`kubectl dra reject --help`), or `status.phase: Aborted`.",
        "Nothing; the descheduler makes no other job for the pod while this one exists.",
    )
    APPROVAL_REQUIRED = explain(
        "ApprovalRequired",
        "The job waits for a person, and begins nothing. Its time to live goes on.",
        "The descheduler's configuration has `approval: Required`.",
        "Approve or reject the migration (`kubectl dra approve --help`).",
    )
    PAUSED = explain(
        "Paused",
        "The job is paused and begins nothing. Its time to live goes on.",
        "`spec.paused` is true.",
        "Set `spec.paused` to false to let the job go on.",
    )
    DRY_RUN = explain(
        "DryRun",
        "The job would begin now. Nothing is reserved and no pod is evicted; the time to live goes on.",
        "`dryRun` of the descheduler's MigrationControllerArgs is true.",
        "Set `dryRun` to false in the descheduler's configuration.",
    )


STATUS_COMPLETE = "Complete"
"""``status.status`` of a job that succeeded."""
