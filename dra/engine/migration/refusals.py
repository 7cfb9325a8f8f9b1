"""The pods that cannot be migrated with a Reservation, whatever room the cluster has."""

from collections.abc import Mapping
from typing import Any, Final

from dra.api.descheduler.migration_controller_args import MigrationControllerArgs
from dra.api.migration.model import EvictionPolicy, PodMigrationJob
from dra.api.migration.well_known import ANNOTATION_SOFT_EVICTION, LABEL_EVICT_POLICY
from dra.engine.migration.device_claims import claims_refusal
from dra.engine.migration.reservation_manifest import controller_reference
from dra.engine.migration.view import ClaimReach, MigrationPod

_OWN_GATE_PREFIX: Final = "reserve.dra/"


def eviction_policy(job: PodMigrationJob, pod: MigrationPod | None, *, default: EvictionPolicy) -> EvictionPolicy:
    """Return how a pod is to end: by the job's label, the pod's label, or the configured policy.

    Raises ValueError for a label with any other value.
    """
    of_pod = (pod.metadata.labels or {}).get(LABEL_EVICT_POLICY) if pod is not None else None
    given = job.metadata.labels.get(LABEL_EVICT_POLICY) or of_pod
    return EvictionPolicy(given) if given else default


def is_requested_already(policy: EvictionPolicy, pod: MigrationPod) -> bool:
    """Return whether a pod has the annotation that a soft eviction would write."""
    return policy is EvictionPolicy.SOFT_EVICTION and pod.metadata.annotation(ANNOTATION_SOFT_EVICTION) is not None


def policy_refusal(job: PodMigrationJob, pod: MigrationPod, *, args: MigrationControllerArgs) -> str:
    """Return what is wrong with the label that names the policy of the eviction; empty if nothing is."""
    try:
        eviction_policy(job, pod, default=args.eviction_policy)
    except ValueError:
        on_job = bool(job.metadata.labels.get(LABEL_EVICT_POLICY))
        whose = f"podmigrationjob {job.metadata.name}" if on_job else f"pod {'/'.join(pod.metadata.key)}"
        return f"{whose}: label {LABEL_EVICT_POLICY} is none of {', '.join(EvictionPolicy)}; correct or remove it"
    return ""


def reservation_refusal(
    pod: MigrationPod,
    template: Mapping[str, Any],
    claims: tuple[ClaimReach, ...],
    *,
    args: MigrationControllerArgs,
    has_owners: bool,
) -> str:
    """Return why no Reservation can be made for the replacement of a pod; empty if one can.

    `has_owners` is whether the job itself says who owns the Reservation: then a pod needs no controller.
    """
    name = f"pod {'/'.join(pod.metadata.key)}"
    if pod.spec.scheduler_name not in args.scheduler_names:
        return (
            f"{name}: scheduler {pod.spec.scheduler_name} places no Reservations; migrate the pod with mode "
            "EvictDirectly, or add the scheduler to schedulerNames if it calls the extender"
        )
    if gate := next((gate for gate in pod.gates if gate.startswith(_OWN_GATE_PREFIX)), ""):
        return f"{name}: scheduling gate {gate} keeps the pod waiting; a pod that never ran cannot be migrated"
    if pod.spec.node_name and not has_owners and controller_reference(template) is None:
        return (
            f"{name}: has no controller, so no pod would replace it; "
            "give spec.reservationOptions.template.spec.owners, or a spec.reservationOptions.reservationRef"
        )
    return claims_refusal(pod, claims)
