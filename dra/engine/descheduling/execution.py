"""The writes that carry out the decisions of a round: a PodMigrationJob for each pod, or an eviction.

A job has a name made of the pod's uid, so that however often a decision is carried out, by whichever replica, there is
one job; and while a job that has failed still exists, no other one is made for the pod. A pod that has ended needs no
place, and no successor waits for one: it is evicted at once, and no Reservation waits for its time to live. Where the
migrations wait for approval, or ``dryRun`` of the MigrationController holds them back, such a pod gets a job as well.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final, TypeAlias

import msgspec

from dra.api.descheduler.migration_controller_args import Approval, MigrationControllerArgs
from dra.api.migration.model import EvictionPolicy, MigrationMode
from dra.api.migration.well_known import (
    ANNOTATION_APPROVAL,
    ANNOTATION_EVICT_REASON,
    ANNOTATION_EVICT_TRIGGER,
    ANNOTATION_JOB_CREATED_BY,
    ANNOTATION_PROFILE,
    ANNOTATION_ROUND,
    APPROVAL_REQUIRED,
    CREATED_BY,
)
from dra.engine.descheduling.receivers import receivers_term
from dra.engine.descheduling.round import Decision
from dra.engine.descheduling.snapshot import Snapshot
from dra.engine.migration.job_manifests import migration_job
from dra.engine.migration.plan import EvictPod
from dra.engine.migration.reservation_manifest import requires_term
from dra.model.meta import Struct, Uid

MIGRATION_CONTROLLER: Final = "MigrationController"
DEFAULT_EVICTOR: Final = "DefaultEvictor"

JOB_PREFIX: Final = "descheduled-"
REASON_MAX: Final = 1024
"""Maximum characters of a reason in an annotation; parts of it may be chosen by tenants."""


class CreateJob(Struct, frozen=True):
    """Create a PodMigrationJob for a pod."""

    manifest: Mapping[str, Any]
    decision: Decision


class EvictNow(Struct, frozen=True):
    """Evict a pod without a Reservation."""

    eviction: EvictPod
    decision: Decision


class AskEvictor(Struct, frozen=True):
    """Leave a decision to the evictor of a user."""

    evictor: str
    decision: Decision


Execution: TypeAlias = CreateJob | EvictNow | AskEvictor


def executions(
    decisions: Iterable[Decision],
    *,
    snapshot: Snapshot,
    evictors: Mapping[str, str],
    args: MigrationControllerArgs,
    began: str,
) -> tuple[Execution, ...]:
    """Return the writes that carry out the accepted decisions, in order.

    ``evictors``: the evictor of each profile; ``began``: when the round began, as RFC 3339.
    """
    nodes = {name: node.labels for name, node in snapshot.nodes.items()}
    return tuple(
        _execution(
            msgspec.structs.replace(decision, receivers=_receivers(decision, snapshot)),
            evictor=evictors[decision.profile],
            nodes=nodes,
            args=args,
            began=began,
        )
        for decision in decisions
        if decision.verdict.accepted
    )


def sources_by_plugin(decisions: Iterable[Decision]) -> dict[str, frozenset[str]]:
    """Return the nodes that plugins want to take pods from and that choose receivers, by ``PROFILE/PLUGIN``."""
    nodes: dict[str, set[str]] = {}
    for decision in decisions:
        if decision.receivers is not None:
            nodes.setdefault(f"{decision.profile}/{decision.plugin}", set()).add(decision.node)
    return {key: frozenset(names) for key, names in nodes.items()}


def _receivers(decision: Decision, snapshot: Snapshot) -> AbstractSet[str] | None:
    """Return the nodes that may receive a pod and can mount its volumes, which no placeholder has."""
    mountable = snapshot.mountable_nodes(decision.pod)
    if decision.receivers is None or mountable is None:
        return mountable if decision.receivers is None else decision.receivers
    return decision.receivers & mountable


def _execution(
    decision: Decision,
    *,
    evictor: str,
    nodes: Mapping[str, Mapping[str, str]],
    args: MigrationControllerArgs,
    began: str,
) -> Execution:
    if evictor not in (MIGRATION_CONTROLLER, DEFAULT_EVICTOR):
        return AskEvictor(evictor=evictor, decision=decision)
    is_held_back = args.approval is Approval.REQUIRED or args.dry_run
    if evictor == DEFAULT_EVICTOR or (decision.pod.terminal and not is_held_back):
        return EvictNow(eviction=_eviction(decision, args=args), decision=decision)
    return CreateJob(manifest=job_manifest(decision, nodes=nodes, args=args, began=began), decision=decision)


def _eviction(decision: Decision, *, args: MigrationControllerArgs) -> EvictPod:
    pod = decision.pod.metadata
    given = {} if args.default_delete_options is None else args.default_delete_options.document()
    return EvictPod(
        key=pod.key,
        uid=pod.uid,
        eviction_policy=EvictionPolicy.EVICTION,
        delete_options={**given, "preconditions": {"uid": pod.uid}},
        reason=reason_text(decision),
    )


def job_name(pod: Uid) -> str:
    """Return the name of the job for a pod."""
    return JOB_PREFIX + pod


def job_manifest(
    decision: Decision, *, nodes: Mapping[str, Mapping[str, str]], args: MigrationControllerArgs, began: str
) -> dict[str, Any]:
    """Return the PodMigrationJob for a decision; it waits for approval if that is required."""
    pod, target = decision.pod.metadata, decision.verdict.node
    waits = args.approval is Approval.REQUIRED
    holds_place = bool(target) and not decision.pod.terminal
    term = receivers_term(decision.receivers, nodes, source=decision.node, chosen=target) if holds_place else None
    options = {} if term is None else {"reservationOptions": {"template": _template(term)}}
    annotations = {
        ANNOTATION_JOB_CREATED_BY: CREATED_BY,
        ANNOTATION_EVICT_REASON: reason_text(decision),
        ANNOTATION_EVICT_TRIGGER: decision.plugin,
        ANNOTATION_PROFILE: decision.profile,
        ANNOTATION_ROUND: began,
        **({ANNOTATION_APPROVAL: APPROVAL_REQUIRED} if waits else {}),
    }
    spec = {
        "mode": (args.default_job_mode if holds_place else MigrationMode.EVICT_DIRECTLY).value,
        **({"paused": True} if waits else {}),
        **options,
    }
    return migration_job(pod, name=job_name(pod.uid), annotations=annotations, spec=spec)


def reason_text(decision: Decision) -> str:
    """Return the reason of a decision as annotations and Events have it."""
    return decision.reason[:REASON_MAX]


def _template(term: Mapping[str, Any]) -> dict[str, Any]:
    """Return the template of a Reservation that adds one requirement on nodes to the pod's own template."""
    return {"spec": {"template": {"spec": {"affinity": requires_term(term)}}}}
