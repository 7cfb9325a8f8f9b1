"""Decides the next step for a Deployment: pure, and repeated after each step.

Sizes change so that there are never more than ``replicas + maxSurge`` pods, and that scaling never leaves fewer than
``replicas - maxUnavailable`` pods available. ReplicaSets of older templates lose their unhealthy pods first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from dra.kube.clock import rfc3339
from dra.kube.resources import DEPLOYMENTS
from localplane.controller_manager.api_types import ReplicaSet, controller_references, parse_time
from localplane.controller_manager.deployments.deployment_types import (
    DESIRED_REPLICAS_ANNOTATION,
    MAX_REPLICAS_ANNOTATION,
    POD_TEMPLATE_HASH,
    REVISION_ANNOTATION,
    Deployment,
    revision,
    template_contents,
    template_hash,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentPlan:
    """The next changes for a Deployment; all patches are merge patches."""

    create: dict[str, Any] | None = None
    patches: tuple[tuple[ReplicaSet, dict[str, Any]], ...] = ()
    delete: tuple[ReplicaSet, ...] = ()
    annotations: dict[str, str] = field(default_factory=dict)
    """Annotations to set on the Deployment."""
    status: dict[str, Any] | None = None
    requeue_after: float | None = None


def decide(
    deployment: Deployment, sets: Sequence[ReplicaSet], *, old_pods_running: bool, now: datetime
) -> DeploymentPlan:
    """Return the next plan; `old_pods_running` is whether pods of older templates that have not ended still exist."""
    if deployment.metadata.deleting:
        return DeploymentPlan()
    wanted = template_contents(deployment.spec.template)
    current = next(
        (replica_set for replica_set in sets if template_contents(replica_set.spec.template) == wanted), None
    )
    old = sorted(
        (replica_set for replica_set in sets if replica_set is not current),
        key=lambda replica_set: replica_set.metadata.creation_timestamp,
    )
    if deployment.spec.paused:
        sizes = _paused_sizes(deployment, current, old)
        return _scale_or_report(deployment, current, old, sizes=sizes, now=now)
    recreate = deployment.spec.strategy.type == "Recreate"
    if recreate and (any(replica_set.spec.replicas for replica_set in old) or (old and old_pods_running)):
        return _scale_or_report(
            deployment, current, old, sizes={replica_set.metadata.name: 0 for replica_set in old}, now=now
        )
    if current is None:
        return DeploymentPlan(create=_new_replica_set(deployment, old))
    numbered = _sync_revision(deployment, current, old)
    return numbered or _scale_or_report(
        deployment, current, old, sizes=_rolling_sizes(deployment, current, old), now=now
    )


def _sync_revision(deployment: Deployment, current: ReplicaSet, old: Sequence[ReplicaSet]) -> DeploymentPlan | None:
    """Return a plan that gives the current template the newest revision; None if it has the newest."""
    number = max((revision(replica_set) for replica_set in old), default=0) + 1
    if revision(current) < number:
        return DeploymentPlan(patches=((current, {"metadata": {"annotations": {REVISION_ANNOTATION: str(number)}}}),))
    if deployment.metadata.annotation(REVISION_ANNOTATION) != str(revision(current)):
        return DeploymentPlan(annotations={REVISION_ANNOTATION: str(revision(current))})
    return None


def _new_replica_set(deployment: Deployment, old: Sequence[ReplicaSet]) -> dict[str, Any]:
    """Return the ReplicaSet of a new template."""
    name = template_hash(deployment.spec.template)
    template = template_contents(deployment.spec.template)
    template["metadata"]["labels"][POD_TEMPLATE_HASH] = name
    there = sum(replica_set.spec.replicas for replica_set in old)
    size = min(max(deployment.spec.replicas + deployment.max_surge - there, 0), deployment.spec.replicas)
    selector = dict(deployment.spec.selector)
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), POD_TEMPLATE_HASH: name}
    annotations = {
        REVISION_ANNOTATION: str(max((revision(replica_set) for replica_set in old), default=0) + 1),
        **_replicas_annotations(deployment),
    }
    return {
        "metadata": {
            "name": f"{deployment.metadata.name}-{name}",
            "labels": template["metadata"]["labels"],
            "annotations": annotations,
            "ownerReferences": controller_references(DEPLOYMENTS, deployment.metadata),
        },
        "spec": {
            "replicas": size,
            "minReadySeconds": deployment.spec.min_ready_seconds,
            "selector": selector,
            "template": template,
        },
    }


def _rolling_sizes(deployment: Deployment, current: ReplicaSet, old: Sequence[ReplicaSet]) -> dict[str, int]:
    """Return the next sizes of the ReplicaSets in a rolling update."""
    wanted, now = deployment.spec.replicas, current.spec.replicas
    there = now + sum(replica_set.spec.replicas for replica_set in old)
    grown = now + min(max(wanted + deployment.max_surge - there, 0), max(wanted - now, 0))
    sizes = {current.metadata.name: min(grown, wanted)}
    least = wanted - deployment.max_unavailable
    spare = there - least - (now - current.status.available_replicas)
    for replica_set in old:  # unhealthy pods first, because they serve no requests
        lame = min(replica_set.spec.replicas - replica_set.status.available_replicas, max(spare, 0))
        sizes[replica_set.metadata.name] = replica_set.spec.replicas - max(lame, 0)
        spare -= max(lame, 0)
    available = current.status.available_replicas + sum(replica_set.status.available_replicas for replica_set in old)
    free = min(max(available - least, 0), max(spare, 0))
    for replica_set in old:
        less = min(sizes[replica_set.metadata.name], free)
        sizes[replica_set.metadata.name] -= less
        free -= less
    return sizes


def _paused_sizes(deployment: Deployment, current: ReplicaSet | None, old: Sequence[ReplicaSet]) -> dict[str, int]:
    """Return the sizes of a paused Deployment: a single ReplicaSet in use is scaled, several keep their sizes."""
    used = [replica_set for replica_set in (current, *old) if replica_set is not None and replica_set.spec.replicas]
    if len(used) > 1:
        return {}
    target = used[0] if used else current
    return {} if target is None else {target.metadata.name: deployment.spec.replicas}


def _replicas_annotations(deployment: Deployment) -> dict[str, str]:
    wanted = deployment.spec.replicas
    return {DESIRED_REPLICAS_ANNOTATION: str(wanted), MAX_REPLICAS_ANNOTATION: str(wanted + deployment.max_surge)}


def _scale_or_report(
    deployment: Deployment,
    current: ReplicaSet | None,
    old: Sequence[ReplicaSet],
    *,
    sizes: dict[str, int],
    now: datetime,
) -> DeploymentPlan:
    """Return a plan with the changed sizes, or with the status if no size changes."""
    bounds = _replicas_annotations(deployment)
    patches = []
    for replica_set in (*old, current):
        if replica_set is None:
            continue
        size = sizes.get(replica_set.metadata.name, replica_set.spec.replicas)
        annotated = all(replica_set.metadata.annotation(key) == value for key, value in bounds.items())
        if size != replica_set.spec.replicas or (size and not annotated):
            patches.append((replica_set, {"metadata": {"annotations": bounds}, "spec": {"replicas": size}}))
    if patches:
        return DeploymentPlan(patches=tuple(patches))
    empty = [e for e in old if not (e.spec.replicas or e.status.replicas or e.metadata.deleting)]
    surplus = len(empty) - deployment.spec.revision_history_limit
    status, requeue_after = _status(deployment, current, old, now=now)
    return DeploymentPlan(
        delete=tuple(sorted(empty, key=revision)[: max(surplus, 0)]), status=status, requeue_after=requeue_after
    )


def _status(
    deployment: Deployment, current: ReplicaSet | None, old: Sequence[ReplicaSet], *, now: datetime
) -> tuple[dict[str, Any] | None, float | None]:
    every = [*old, *([current] if current is not None else [])]
    available = sum(replica_set.status.available_replicas for replica_set in every)
    total = sum(replica_set.status.replicas for replica_set in every)
    updated = current.status.replicas if current is not None else 0
    numbers = {
        "observedGeneration": deployment.metadata.generation,
        "replicas": total,
        "updatedReplicas": updated,
        "readyReplicas": sum(replica_set.status.ready_replicas for replica_set in every),
        "availableReplicas": available,
        "unavailableReplicas": max(sum(replica_set.spec.replicas for replica_set in every) - available, 0),
    }
    status = deployment.status
    known = {
        "observedGeneration": status.observed_generation,
        "replicas": status.replicas,
        "updatedReplicas": status.updated_replicas,
        "readyReplicas": status.ready_replicas,
        "availableReplicas": status.available_replicas,
        "unavailableReplicas": status.unavailable_replicas,
    }
    complete = updated == deployment.spec.replicas == total == available
    progressed = updated > status.updated_replicas or available > status.available_replicas or total < status.replicas
    name = (
        f'ReplicaSet "{current.metadata.name}"' if current is not None else f'Deployment "{deployment.metadata.name}"'
    )
    before = deployment.condition("Progressing")
    requeue_after: float | None = None
    done = before is not None and before.reason == "NewReplicaSetAvailable" and total == updated
    if complete:
        progressing = ("True", "NewReplicaSetAvailable", f"{name} has successfully progressed.")
    elif before is None or progressed or (before.reason == "NewReplicaSetAvailable" and not done):
        progressing = ("True", "ReplicaSetUpdated", f"{name} is progressing.")
    else:
        progressing = (before.status, before.reason, before.message)
        since = parse_time(before.last_update_time)
        if not done and before.status == "True" and since is not None and not deployment.spec.paused:
            requeue_after = deployment.spec.progress_deadline_seconds - (now - since).total_seconds()
            if requeue_after <= 0.0:
                requeue_after = None
                progressing = ("False", "ProgressDeadlineExceeded", f"{name} has timed out progressing.")
    enough = available >= deployment.spec.replicas - deployment.max_unavailable
    state = (
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
        if enough
        else ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    )
    conditions = [
        _condition(deployment, "Available", state, fresh=False, now=now),
        _condition(deployment, "Progressing", progressing, fresh=progressed and not done, now=now),
    ]
    same = {c["type"]: (c["status"], c["reason"], c["message"]) for c in conditions} == {
        c.type: (c.status, c.reason, c.message) for c in status.conditions or ()
    }
    if numbers == known and same:
        return None, requeue_after
    return {"status": {**{k: v or None for k, v in numbers.items()}, "conditions": conditions}}, requeue_after


def _condition(
    deployment: Deployment, kind: str, state: tuple[str, str, str], *, fresh: bool, now: datetime
) -> dict[str, Any]:
    """Return a condition with the times of its last transition and of its last update."""
    before, wall = deployment.condition(kind), rfc3339(now)
    since, updated = wall, wall
    if before is not None and before.status == state[0]:
        since = before.last_transition_time or wall
        if (before.reason, before.message) == state[1:] and not fresh:
            updated = before.last_update_time or wall
    texts = {"status": state[0], "reason": state[1], "message": state[2]}
    return {"type": kind, **texts, "lastUpdateTime": updated, "lastTransitionTime": since}
