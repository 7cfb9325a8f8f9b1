"""Pods that are not bound because devices have not met their binding conditions (KEP-5007).

kube-scheduler has allocated the devices then and chosen a node, and waits until each device reports all of its
``bindingConditions``; if one reports a ``bindingFailureCondition``, the scheduler frees the claim and tries again.
"""

from collections.abc import Iterator

from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.problem_codes import ProblemCode
from dra.engine.diagnosis.problems import Problem, pod_problem
from dra.model.claims import (
    AllocatedDeviceStatus,
    Condition,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from dra.model.pods import claim_names
from dra.model.scheduling import SchedulerPod


def binding_problems(cluster: ClusterState, pod: SchedulerPod) -> Iterator[Problem]:
    """Yield the conditions for which the binding of a pod waits, or because of which it has failed."""
    for name in claim_names(pod):
        claim = cluster.claim_cache.claim((pod.metadata.namespace, name))
        if claim is None or claim.status.allocation is None:
            continue
        if any(entry.uid == pod.metadata.uid for entry in claim.entries):
            yield from _claim_problems(claim, pod)


def _claim_problems(claim: ResourceClaim, pod: SchedulerPod) -> Iterator[Problem]:
    allocation = claim.status.allocation
    statuses: dict[tuple[str, str, str], AllocatedDeviceStatus] = {}
    for device in claim.status.devices or ():
        statuses.setdefault((device.driver, device.pool, device.device), device)
    for result in (allocation.devices.results if allocation is not None else None) or ():
        status = statuses.get((result.driver, result.pool, result.device))
        known = {condition.type: condition for condition in (status.conditions if status is not None else None) or ()}
        code, name = _obstacle(result, known)
        if code is None:
            continue
        reported = known.get(name)
        yield pod_problem(
            code,
            key=pod.metadata.key,
            uid=pod.metadata.uid,
            claim=claim.metadata.name,
            device=f"{result.driver}/{result.pool}/{result.device}",
            condition=name,
            since=(reported.last_transition_time if reported is not None else None) or _allocated_at(claim),
            said=_words(reported),
        )


def _obstacle(result: DeviceRequestAllocationResult, known: dict[str, Condition]) -> tuple[ProblemCode | None, str]:
    """Return what keeps a device from being bound, with the condition; a failure counts first."""
    true = {name for name, condition in known.items() if condition.status == "True"}
    if not result.binding_conditions:
        return None, ""
    failed = next((name for name in result.binding_failure_conditions or () if name in true), "")
    if failed:
        return ProblemCode.BINDING_FAILED, failed
    awaited = next((name for name in result.binding_conditions if name not in true), "")
    return (ProblemCode.AWAITS_BINDING, awaited) if awaited else (None, "")


def _allocated_at(claim: ResourceClaim) -> str:
    allocation = claim.status.allocation
    return (allocation.allocation_timestamp if allocation is not None else None) or "an unknown time"


def _words(condition: Condition | None) -> str:
    """Return what the driver says of a condition, as the end of a sentence."""
    if condition is None or not (condition.reason or condition.message):
        return ""
    return f": {': '.join(filter(None, (condition.reason, condition.message)))}"
