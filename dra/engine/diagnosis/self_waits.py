"""Workloads that wait for themselves: a claim is kept for a workload whose own next pods wait for such devices.

No pod uses the claim, and the workload does not end before its other pods have run: the claim is kept for ever. A
Deployment waits like this after a rollout from one claim to another, and a JobSet whose first Job had a claim of its
own. Which pods use a claim later, only the owner of the workload knows, so no rule releases it.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from dra.engine.claims.consumers import Stage
from dra.engine.claims.view import ClaimView, WorkloadPhase
from dra.engine.claims.workload_entry import resolve_reference
from dra.engine.diagnosis.claims import NAMED_PODS_MAX, ClaimDiagnosis, holds_of
from dra.engine.diagnosis.cluster_state import AllocationHold, ClusterState
from dra.engine.diagnosis.problem_codes import ProblemCode
from dra.engine.diagnosis.problems import Problem, claim_problem
from dra.engine.diagnosis.snapshot import PodController
from dra.model.claims import ResourceClaim
from dra.model.device_requests import DeviceClaim
from dra.model.meta import Struct, Uid
from dra.model.pods import claim_names
from dra.model.references import ConsumerReference
from dra.model.scheduling import SchedulerPod
from dra.model.workload_reservations import NO_UID

_KEPT_FOR_WORKLOAD: Final = (AllocationHold.WORKLOAD,)


class _PodKind(Struct, frozen=True):
    """Pods of one workload that wait for equal devices."""

    namespace: str
    owners: tuple[tuple[str, str, Uid], ...]
    """Kinds, names and uids of the controller of the pods, of its controller, and so on."""

    classes: frozenset[str]


def problems(cluster: ClusterState) -> Iterator[Problem]:
    """Yield a problem for each claim that is kept for a workload whose own pods wait for such devices."""
    waiting: defaultdict[_PodKind, list[str]] = defaultdict(list)
    parents = {controller.uid: controller for controller in cluster.snapshot.controllers}
    for pod in cluster.pods.values():
        kind = _pod_kind(cluster, pod, parents) if not pod.spec.node_name and pod.spec.resource_claims else None
        if kind is not None:
            waiting[kind].append(pod.metadata.name)
    namespaces = {kind.namespace for kind in waiting}
    for claim in cluster.snapshot.claims if waiting else ():
        view = cluster.view(claim.metadata.key) if claim.metadata.namespace in namespaces else None
        reference = _kept_for(cluster, view) if view is not None else None
        if view is None or reference is None:
            continue
        classes = device_classes(claim)
        alike = (kind for kind in waiting if kind.namespace == view.key[0] and not classes.isdisjoint(kind.classes))
        names = [name for kind in alike if _is_of(kind.owners, reference) for name in waiting[kind]]
        if names:
            yield _problem(view, reference, names)


def with_self_wait(cluster: ClusterState, diagnosis: ClaimDiagnosis) -> ClaimDiagnosis:
    """Return the diagnosis of a claim with the problem that its workload waits for it, which only all pods show."""
    waits = tuple(problem for problem in problems(cluster) if problem.subject.key == diagnosis.key)
    if not waits:
        return diagnosis
    others = tuple(problem for problem in diagnosis.problems if problem.code is not ProblemCode.IDLE)
    return msgspec.structs.replace(diagnosis, problems=(*waits, *others))


def problem_for_pod(cluster: ClusterState, view: ClaimView, pod: SchedulerPod) -> Problem | None:
    """Return the problem of a claim whose devices would suit a waiting pod, if the pod's own workload keeps it."""
    parents = {controller.uid: controller for controller in cluster.snapshot.controllers}
    reference = _kept_for(cluster, view)
    if reference is None or view.key[0] != pod.metadata.namespace or not _is_of(_owners(pod, parents), reference):
        return None
    return _problem(view, reference, [pod.metadata.name])


def device_classes(claim: ResourceClaim) -> frozenset[str]:
    """Return the device classes of which a claim requests devices."""
    try:
        requests = DeviceClaim.of(claim.spec.devices).requests or ()
    except msgspec.ValidationError:
        return frozenset()
    asked = (
        ask for request in requests for ask in (request.exactly, *(request.first_available or ())) if ask is not None
    )
    return frozenset(ask.device_class_name for ask in asked)


def _pod_kind(cluster: ClusterState, pod: SchedulerPod, parents: Mapping[Uid, PodController]) -> _PodKind | None:
    """Return what a pod waits for, if no node has the devices of its claims."""
    consumer = cluster.claim_cache.consumer(pod.metadata.uid)
    if consumer is None or consumer.stage is not Stage.WAITING or consumer.unschedulable_since is None:
        return None
    claims = (cluster.claim_cache.claim((pod.metadata.namespace, name)) for name in claim_names(pod))
    asked = [claim for claim in claims if claim is not None and claim.status.allocation is None]
    owners = _owners(pod, parents)
    if not asked or not owners:
        return None
    classes = frozenset(name for claim in asked for name in device_classes(claim))
    return _PodKind(namespace=pod.metadata.namespace, owners=owners, classes=classes)


def _owners(pod: SchedulerPod, parents: Mapping[Uid, PodController]) -> tuple[tuple[str, str, Uid], ...]:
    controller = pod.metadata.controller
    if controller is None:
        return ()
    owners = {controller.uid: (controller.kind, controller.name)}
    uid = controller.uid
    while uid in parents and parents[uid].controller not in {NO_UID, *owners}:
        uid = parents[uid].controller
        owners[uid] = (parents[uid].kind, parents[uid].name) if uid in parents else ("", "")
    return tuple((kind, name, uid) for uid, (kind, name) in owners.items())


def _is_of(owners: Sequence[tuple[str, str, Uid]], reference: ConsumerReference) -> bool:
    """Return whether the workload is among the owners; an owner between both begins with the name of the workload.

    The objects between a workload and its pods are not always read: a ReplicaSet is named after its Deployment, a Job
    after its JobSet or CronJob. Two objects of one kind are two workloads: Job train-eval is no part of Job train.
    """
    if not owners or any(uid == reference.uid for _, _, uid in owners):
        return bool(owners)
    kind, name, _ = owners[-1]
    return name.startswith(f"{reference.name}-") and f"{kind.lower()}s" != reference.resource


def _kept_for(cluster: ClusterState, view: ClaimView) -> ConsumerReference | None:
    """Return the existing workload that alone keeps a claim without pods; None if the claim is not kept like that."""
    if view.allocation is None or view.unfinished or view.reservation is None or not view.is_reserved:
        return None
    reference = resolve_reference(view, view.reservation)
    there = view.workload.phase is WorkloadPhase.PRESENT and view.workload.uid == reference.uid
    return reference if there and holds_of(cluster, view) == _KEPT_FOR_WORKLOAD else None


def _problem(view: ClaimView, reference: ConsumerReference, names: list[str]) -> Problem:
    return claim_problem(
        ProblemCode.WAITS_FOR_ITSELF,
        key=view.key,
        uid=view.claim.metadata.uid,
        workload=str(reference),
        count=len(names),
        pods=" ".join(sorted(names)[:NAMED_PODS_MAX]),
    )
