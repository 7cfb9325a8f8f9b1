"""Faults of devices after a pod was bound: preparation, containers, health, conditions and taints.

Each fault is one that a component of the cluster reports: the kubelet by Events and in the pod's status, a driver in
``status.devices`` of the claim and by taints. Nothing is concluded from silence.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import msgspec

from dra.engine.devices.ledger import DeviceID
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.problem_codes import ProblemCode
from dra.engine.diagnosis.problems import Problem, claim_problem, pod_problem
from dra.engine.instants import NEVER
from dra.engine.prepare_refusals.reasons import refusal_reason
from dra.model.claims import DeviceRequestAllocationResult, ResourceClaim
from dra.model.diagnosed_pods import DeviceContainerStatus, DiagnosedContainerStatus
from dra.model.pods import claim_names
from dra.model.scheduling import SchedulerPod
from dra.model.taints import DeviceTaint, DeviceToleration

DEVICE_FAULTS: Final = frozenset(
    {
        ProblemCode.DEVICE_GONE,
        ProblemCode.DEVICE_TAINTED,
        ProblemCode.DEVICE_IMPAIRED,
        ProblemCode.DEVICE_CLOSED,
        ProblemCode.DEVICE_CONDITION,
    }
)
"""Problems of a claim that concern each pod that uses its devices, however long the pod has run."""

_STARTS: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Reasons of ``state.waiting`` of a container that has not failed."""

_HEALTHY_CONDITIONS: Final = frozenset({"Ready", "Healthy", "Available"})
"""Types of conditions, without their domain, of which False is a fault."""

_UNREGISTERED: Final = re.compile(r"DRA driver ([A-Za-z0-9.-]{1,253}) is not registered")
_CDI: Final = re.compile(r"\bCDI\b")
Facts: TypeAlias = dict[str, str | int]

_CLAIM_STATUS: Final = re.compile(r"claim:([^/]{1,253})(?:/.*)?")


def pod_faults(
    cluster: ClusterState, pod: SchedulerPod, *, owner: Callable[[], str], is_starting: bool
) -> Iterator[Problem]:
    """Yield what the kubelet reports about the devices and containers of a bound pod with claims.

    ``owner`` returns the controller that replaces the pod, empty if there is none; few pods have a fault.
    """

    def facts() -> Facts:
        return {"node": pod.spec.node_name, "owner": owner()}

    if is_starting:
        yield from _refused_claims(cluster, pod, facts)
        yield from _failed_preparations(cluster, pod, facts)
    yield from _waiting_containers(pod, facts)
    yield from _unhealthy_devices(pod, facts)


def _problem(code: ProblemCode, pod: SchedulerPod, facts: Callable[[], Facts], **more: str | int) -> Problem:
    return pod_problem(code, key=pod.metadata.key, uid=pod.metadata.uid, **(facts() | more))


def _refused_claims(cluster: ClusterState, pod: SchedulerPod, facts: Callable[[], Facts]) -> Iterator[Problem]:
    """Yield the claims of a pod that the CPU driver of its node refuses to prepare, each with the reason."""
    for name in claim_names(pod):
        claim = cluster.claim_cache.claim((pod.metadata.namespace, name))
        reason = refusal_reason(claim) if claim is not None else None
        if reason is not None:
            yield _problem(ProblemCode.PREPARE_REFUSED, pod, facts, claim=name, cause=reason.value)


def _failed_preparations(cluster: ClusterState, pod: SchedulerPod, facts: Callable[[], Facts]) -> Iterator[Problem]:
    """Yield the last Event of the kubelet about devices, or about a sandbox, that it could not make ready."""
    event = cluster.start_failures.get((pod.metadata.namespace, pod.metadata.uid))
    if event is None:
        return
    message = " ".join(event.note.split())
    unregistered = _UNREGISTERED.search(message)
    yield _problem(
        ProblemCode.NOT_PREPARED,
        pod,
        facts,
        message=message,
        count=event.count,
        last=event.last,
        driver=unregistered.group(1) if unregistered else "",
    )


def _waiting_containers(pod: SchedulerPod, facts: Callable[[], Facts]) -> Iterator[Problem]:
    """Yield the first container that waits for another reason than its start, with the number of the others."""
    statuses = (*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ()))
    waiting = [
        (status.name, status.state.waiting)
        for status in statuses
        if isinstance(status, DiagnosedContainerStatus)
        and status.state is not None
        and status.state.waiting is not None
        and status.state.waiting.reason not in _STARTS
    ]
    if not waiting:
        return
    container, state = next((named for named in waiting if _CDI.search(named[1].message)), waiting[0])
    message = " ".join(state.message.split())
    yield _problem(
        ProblemCode.CONTAINER_NOT_RUNNING,
        pod,
        facts,
        container=container + (f" (and {len(waiting) - 1} more)" if len(waiting) > 1 else ""),
        error=f"{state.reason}: {message}" if message else state.reason,
        cdi=int(bool(_CDI.search(message))),
    )


def _unhealthy_devices(pod: SchedulerPod, facts: Callable[[], Facts]) -> Iterator[Problem]:
    """Yield the devices that the kubelet reports as unhealthy (KEP-4680), once for all containers."""
    statuses = (*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ()))
    reported = {
        (status.name, resource.resource_id): " ".join(resource.message.split())
        for container in statuses
        if isinstance(container, DeviceContainerStatus)
        for status in container.allocated_resources_status or ()
        for resource in status.resources or ()
    }
    if not reported:
        return
    claims = {entry.name: entry.resource_claim_name for entry in pod.spec.resource_claims or ()}
    claims |= {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses or ()}
    for (name, device), message in reported.items():
        named = _CLAIM_STATUS.fullmatch(name)
        claim = (claims.get(named.group(1)) or named.group(1)) if named else ""
        of_claim = f" of claim {claim}" if claim else ""
        yield _problem(
            ProblemCode.DEVICE_UNHEALTHY,
            pod,
            facts,
            device=f"{device}{of_claim}",
            message=f": {message}" if message else "",
        )


def claim_faults(cluster: ClusterState, claim: ResourceClaim) -> Iterator[Problem]:
    """Yield conditions and taints of the devices of an allocated claim."""
    key, uid = claim.metadata.key, claim.metadata.uid
    for taint in cluster.claim_cache.taints.taints_of(claim.status.allocation):
        seconds = taint.seconds_tolerated()
        if seconds == NEVER:
            continue
        after = f" {seconds:g} s after it was added" if seconds else ""
        facts = {"device": taint.device, "taint": str(taint.taint), "origin": taint.origin, "after": after}
        yield claim_problem(ProblemCode.DEVICE_TAINTED, key=key, uid=uid, **facts)
    allocation = claim.status.allocation
    for result in (allocation.devices.results or ()) if allocation is not None else ():
        for mark, code in _lasting_taints(cluster, result):
            facts = {"device": f"{result.driver}/{result.pool}/{result.device}", "taint": str(mark)}
            yield claim_problem(code, key=key, uid=uid, **facts)
    yield from _failed_conditions(claim)


def _lasting_taints(
    cluster: ClusterState, result: DeviceRequestAllocationResult
) -> Iterator[tuple[DeviceTaint, ProblemCode]]:
    """Yield the taints of a device that the claim does not tolerate and that evict no pod, each with its code."""
    item = DeviceID(driver=result.driver, pool=result.pool, device=result.device)
    candidate = cluster.inventory.candidate(item)
    if candidate is None or not candidate.device.taints:
        return
    tolerations = msgspec.convert(result.tolerations or (), list[DeviceToleration])
    published = next((device.taints for device in candidate.spec.devices or () if device.name == item.device), None)
    for mark in candidate.device.taints:
        if not mark.evicts and not any(toleration.tolerates(mark) for toleration in tolerations):
            yield mark, ProblemCode.DEVICE_IMPAIRED if mark in (published or ()) else ProblemCode.DEVICE_CLOSED


def _failed_conditions(claim: ResourceClaim) -> Iterator[Problem]:
    """Yield conditions of ``status.devices`` by which a driver reports a fault.

    Conditions on which binding depends are no faults of the device, and a refusal of the CPU driver has its own code.
    """
    allocation = claim.status.allocation
    results = (allocation.devices.results or ()) if allocation is not None else ()
    bound_by = {(r.driver, r.pool, r.device): {*(r.binding_conditions or ())} for r in results}
    for device in claim.status.devices or ():
        names = (device.driver, device.pool, device.device)
        if names not in bound_by:
            continue  # of an earlier allocation
        for condition in device.conditions or ():
            kind = condition.type.rpartition("/")[2]
            if condition.status != "False" or kind not in _HEALTHY_CONDITIONS or condition.type in bound_by[names]:
                continue
            if refusal_reason(claim) is not None and condition.reason == refusal_reason(claim):
                continue
            yield claim_problem(
                ProblemCode.DEVICE_CONDITION,
                key=claim.metadata.key,
                uid=claim.metadata.uid,
                device="/".join(names),
                condition=condition.type,
                reason=f" ({condition.reason})" if condition.reason else "",
            )
