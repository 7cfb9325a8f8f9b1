"""The guidance on migrations: meaning, cause and remedy of each reason of a PodMigrationJob."""

from collections.abc import Mapping
from typing import Final

from dra.engine.messages.texts import Guidance
from dra.engine.migration.reasons import MigrationReason

_NOTHING: Final = "Nothing."
_WAIT_OR_RAISE: Final = "Wait, or raise the limit in the descheduler's configuration."


def _limit(pods: str, field: str) -> Guidance:
    """Return the guidance on a limit of the configuration."""
    return Guidance(f"The job waits: as many pods {pods}.", f"The limit `{field}`.", _WAIT_OR_RAISE)


MIGRATION_REASON_GUIDANCE: Final[Mapping[MigrationReason, Guidance]] = {
    MigrationReason.TIMEOUT: Guidance(
        "The job has not ended within its `ttl`. Its unused Reservation is deleted.",
        "The message names the condition that was still False. The time also counts while the job is paused or waits.",
        "Resolve what the message names, and create the job again, with a longer `ttl` if need be.",
    ),
    MigrationReason.FAILED_CREATE_RESERVATION: Guidance(
        "The Reservation of the job could not be created, and nothing was evicted.",
        "The API server rejected the Reservation, or `spec.reservationOptions.template` has a mistake.",
        "Correct what the message names, and create the job again.",
    ),
    MigrationReason.RESERVATION_EXPIRED: Guidance(
        "The Reservation of the job has ended before a pod used it.",
        "Its `ttl` or `expires` has passed, or its node was deleted.",
        "Create the job again, with a Reservation that lives at least as long as the job.",
    ),
    MigrationReason.UNSCHEDULABLE: Guidance(
        "No node has room for the Reservation. The job fails after `unschedulableSeconds`, and nothing is evicted.",
        "The message has kube-scheduler's reasons; the pod's own node is excluded.",
        "Free capacity on another node, or loosen the constraints of the pod.",
    ),
    MigrationReason.FORBIDDEN_MIGRATE_POD: Guidance(
        "The pod must not or cannot be migrated; the message says why. Nothing is evicted.",
        "A rule about evictable pods, devices of one node only, or a Reservation that the replacement cannot use.",
        "Correct what the message names, or choose mode EvictDirectly where only the Reservation is the obstacle.",
    ),
    MigrationReason.MISSING_POD: Guidance(
        "A pod of the migration is gone: the pod to migrate before it was evicted, or the pod that replaced it.",
        "The pod was deleted or has ended; with `spec.podRef.uid`, a pod of the same name does not count.",
        "Create another job if the workload's new pod is to be migrated as well.",
    ),
    MigrationReason.MISSING_RESERVATION: Guidance(
        "The Reservation of the job does not exist, or is being deleted.",
        "A user deleted it, or `spec.reservationOptions.reservationRef` names another one.",
        "Correct the reference, or leave it out: then the job creates a Reservation.",
    ),
    MigrationReason.INVALID_POD_REF: Guidance(
        "The job does not say which pod to migrate.",
        "`spec.podRef` has no namespace or no name.",
        "Create the job again with both.",
    ),
    MigrationReason.INVALID: Guidance(
        "A field of the job cannot be read.",
        "The job was created before the schema that rejects such a field, or without that schema.",
        "Create the job again with the field that the message names corrected.",
    ),
    MigrationReason.EVICTING: Guidance(
        "The eviction of the pod is requested. As a Warning: it was refused, and is requested again.",
        "The Reservation is Available. A refusal mostly comes from a PodDisruptionBudget.",
        "Nothing; after a refusal, let the budget allow a disruption.",
    ),
    MigrationReason.FAILED_EVICT: Guidance(
        "The eviction of the pod was refused.",
        "The API server's answer is in the message.",
        "Resolve what the message names.",
    ),
    MigrationReason.EVICT_COMPLETE: Guidance(
        "The pod is gone from its node.",
        "The job evicted the pod, or another client ended the pod while its Reservation was Available.",
        _NOTHING,
    ),
    MigrationReason.WAIT_FOR_POD_BIND_RESERVATION: Guidance(
        "No pod uses the Reservation yet.",
        "The workload is about to create the replacement, or kube-scheduler to place it.",
        "Nothing; if it lasts, check whether the workload creates pods.",
    ),
    MigrationReason.WAIT_FOR_BOUND_POD_READY: Guidance(
        "The pod in the Reservation is not ready yet.",
        "Its containers start, or fail.",
        "Nothing; if it lasts, check the pod's containers.",
    ),
    MigrationReason.RESERVATION_CREATED: Guidance(
        "The job has created its Reservation.", "The job has passed arbitration.", _NOTHING
    ),
    MigrationReason.RESERVATION_SCHEDULED: Guidance(
        "The Reservation holds the capacity on another node.", "A node has the room.", _NOTHING
    ),
    MigrationReason.POD_BOUND_RESERVATION: Guidance(
        "A pod uses the Reservation: the replacement, or another pod of the workload.",
        "The owner is the workload: the first of its pods that is scheduled gets the Reservation.",
        _NOTHING,
    ),
    MigrationReason.BOUND_POD_READY: Guidance(
        "The pod in the Reservation is ready.", "Its containers have started.", _NOTHING
    ),
    MigrationReason.COMPLETE: Guidance("The migration has succeeded.", "All steps are done.", _NOTHING),
    MigrationReason.DESCHEDULED: Guidance(
        "The pod was evicted by a migration.",
        "A PodMigrationJob names the pod; the message has the reason.",
        "Nothing: its workload replaces the pod.",
    ),
    MigrationReason.MAX_MIGRATING_GLOBALLY: _limit("as allowed are migrating", "maxMigratingGlobally"),
    MigrationReason.MAX_MIGRATING_PER_NODE: _limit(
        "as allowed are migrating away from the node", "maxMigratingPerNode"
    ),
    MigrationReason.MAX_MIGRATING_PER_NAMESPACE: _limit(
        "of the namespace as allowed are migrating", "maxMigratingPerNamespace"
    ),
    MigrationReason.MAX_MIGRATING_PER_WORKLOAD: _limit(
        "of the workload as allowed are migrating", "maxMigratingPerWorkload"
    ),
    MigrationReason.MAX_UNAVAILABLE_PER_WORKLOAD: Guidance(
        "The job waits: as many pods of the workload as allowed are not ready, terminating or migrating.",
        "The limit `maxUnavailablePerWorkload`.",
        "Let the workload's pods become ready, or raise the limit in the descheduler's configuration.",
    ),
    MigrationReason.OBJECT_LIMITER: _limit(
        "of the workload, or of the namespace, as allowed were evicted a short time ago", "objectLimiters"
    ),
    MigrationReason.POD_DISRUPTION_BUDGET: Guidance(
        "The job waits: a PodDisruptionBudget allows no disruption of the pod.",
        "Too few pods of the budget are healthy; the message names the budget.",
        "Let pods become ready, or change the budget.",
    ),
    MigrationReason.POD_UNAVAILABLE_BUDGET: Guidance(
        "The job waits: a PodUnavailableBudget (OpenKruise) allows no further unavailable pod.",
        "Too few pods of the budget are available; the message names the budget.",
        "Let pods become ready, or change the budget.",
    ),
    MigrationReason.REJECTED: Guidance(
        "A person has rejected the migration. The pod stays, and the job's Reservation is deleted.",
        "The answer of a person (`kubectl dra reject --help`), or `status.phase: Aborted`.",
        "Nothing; the descheduler makes no other job for the pod while this one exists.",
    ),
    MigrationReason.APPROVAL_REQUIRED: Guidance(
        "The job waits for a person, and begins nothing. Its time to live goes on.",
        "The descheduler's configuration has `approval: Required`.",
        "Approve or reject the migration (`kubectl dra approve --help`).",
    ),
    MigrationReason.PAUSED: Guidance(
        "The job is paused and begins nothing. Its time to live goes on.",
        "`spec.paused` is true.",
        "Set `spec.paused` to false to let the job go on.",
    ),
    MigrationReason.DRY_RUN: Guidance(
        "The job would begin now. Nothing is reserved and no pod is evicted; the time to live goes on.",
        "`dryRun` of the descheduler's MigrationControllerArgs is true.",
        "Set `dryRun` to false in the descheduler's configuration.",
    ),
}
