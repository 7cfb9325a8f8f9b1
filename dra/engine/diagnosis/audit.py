"""The invariants of the engine over a whole cluster: the problems that `explain` reports of one object."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

from dra.engine.claims.kept_nodes import annotation_changes
from dra.engine.claims.reasons import list_names
from dra.engine.diagnosis import (
    claims,
    colocation_problems,
    migrations,
    pods,
    pools,
    reservations,
    reserved_capacity,
    self_waits,
    upgrade_obstacles,
)
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.problem_codes import ProblemCode, ProblemSeverity
from dra.engine.diagnosis.problems import (
    Problem,
    controller_problem,
    deployment_problem,
    node_problem,
    template_problem,
)
from dra.engine.diagnosis.snapshot import ControllerPresence, InstalledDeployment
from dra.model.node_pods import AgentNode
from dra.model.scheduling import SchedulerPod
from dra.model.workload_reservations import RESERVED_FOR

_ORDER: Final = {grade: index for index, grade in enumerate(ProblemSeverity)}

_CONTROLLER_WORK: Final = frozenset({ProblemCode.GATED, ProblemCode.NOT_ENTERED})
"""Problems that a running controller solves at once."""


START_SECONDS: Final = 60.0
"""Seconds without a Ready replica that a start or a restart may take."""

_TEMPLATE_NOT_RESERVED: Final = "the annotation of a template itself has no effect, not even on its claims"


def audit(cluster: ClusterState) -> tuple[Problem, ...]:
    """Return the problems of claims, pods, nodes, Reservations and migrations; the most severe first.

    Reports of nodes are as old as they were when the snapshot was taken; without that time, all of them are too old.
    """
    taken = cluster.snapshot.taken
    now = datetime.fromisoformat(taken) if taken else datetime.max.replace(tzinfo=UTC)
    return rank(cluster, _all_problems(cluster, now=now))


def rank(cluster: ClusterState, problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return each problem once, the most severe first; a missing controller stands for all that it would solve."""
    remaining = dict.fromkeys(problems)
    waits = {problem.subject for problem in remaining if problem.code is ProblemCode.WAITS_FOR_ITSELF}
    for problem in tuple(remaining):
        if problem.code is ProblemCode.IDLE and problem.subject in waits:
            del remaining[problem]  # idle as intended, it would say
    return tuple(sorted((*_without_controller(cluster, remaining), *remaining), key=_by_severity))


def _without_controller(cluster: ClusterState, remaining: dict[Problem, None]) -> Iterator[Problem]:
    """Replace the problems that a running controller would solve at once by one problem, the missing controller.

    A thousand pods behind our gate need one action: start the controller. Where a controller has ended, claims that are
    reserved for workloads need it, even while it has no work.
    """
    leader = cluster.snapshot.leader
    work = [problem for problem in remaining if problem.code in _CONTROLLER_WORK]
    if not claims.has_no_controller(leader.presence):
        return
    reserved = _reserved_claims(cluster) if leader.presence is ControllerPresence.STALE else []
    if not work and not reserved:
        return
    for problem in work:
        del remaining[problem]
    pods_waiting = sum(problem.code is ProblemCode.GATED for problem in work)
    yield controller_problem(
        ProblemCode.NO_CONTROLLER,
        lease=leader.name,
        presence=leader.presence.value,
        gated=pods_waiting,
        claims=len(work) - pods_waiting,
        reserved=len(reserved),
        objects=list_names([str(problem.subject) for problem in work] or reserved),
    )


def _reserved_claims(cluster: ClusterState) -> list[str]:
    """Return the claims with devices that are reserved for workloads."""
    views = (cluster.view(claim.metadata.key) for claim in cluster.snapshot.claims)
    return [
        f"claim {'/'.join(view.key)}"
        for view in views
        if view is not None and view.allocation is not None and view.reservation is not None
    ]


def _all_problems(cluster: ClusterState, *, now: datetime) -> Iterator[Problem]:
    for claim in cluster.snapshot.claims:
        view = cluster.view(claim.metadata.key)
        if view is not None:
            yield from claims.problems(cluster, view)
    for pod in cluster.pods.values():
        yield from pod_problems(cluster, pod)
    for node in cluster.snapshot.nodes:
        yield from node_problems(cluster, node, now=now)
    yield from pools.problems(cluster)
    stored = cluster.snapshot
    yield from upgrade_obstacles.problems(slices=stored.slices, templates=stored.templates, server=stored.server)
    yield from deployment_problems(cluster, now=now)
    yield from colocation_problems.config_problems(cluster)
    yield from reservation_problems(cluster)
    yield from namespace_problems(cluster)


def deployment_problems(cluster: ClusterState, *, now: datetime) -> Iterator[Problem]:
    """Yield the components of dra-reserve that lack Ready replicas; a start or a restart may take `START_SECONDS`.

    The Lease does not show them: it has no holder before the first start, and a leader that never becomes Ready renews
    it. A controller that somebody scaled to zero is missed while nobody renews the Lease: another may run outside of
    the Deployment. Some replicas are missed only while the Deployment is not Available: a rollout has fewer for
    moments.
    """
    is_led = cluster.snapshot.leader.presence is ControllerPresence.RUNNING
    for deployment in cluster.snapshot.deployments:
        is_wanted = deployment.desired or (deployment.component == "controller" and not is_led)
        is_short = deployment.ready < deployment.desired and deployment.unavailable_since
        if is_wanted and (is_short or not deployment.ready) and not _starts(deployment, now=now):
            yield deployment_problem(
                ProblemCode.REPLICAS_NOT_READY if deployment.ready else ProblemCode.NO_REPLICA_READY,
                key=deployment.key,
                component=deployment.component,
                ready=deployment.ready,
                desired=deployment.desired,
            )


def _starts(deployment: InstalledDeployment, *, now: datetime) -> bool:
    if not (deployment.desired and deployment.unavailable_since):
        return False
    return (now - datetime.fromisoformat(deployment.unavailable_since)).total_seconds() < START_SECONDS


def namespace_problems(cluster: ClusterState) -> Iterator[Problem]:
    """Yield the problems of templates, and of claims and pods together, which no claim and no pod has alone."""
    yield from self_waits.problems(cluster)
    for template in cluster.snapshot.templates:
        if template.metadata.annotation(RESERVED_FOR) is not None:
            meta = template.metadata
            facts = {"workload": meta.annotation(RESERVED_FOR) or "", "cause": _TEMPLATE_NOT_RESERVED}
            yield template_problem(ProblemCode.RESERVATION_IGNORED, key=meta.key, uid=meta.uid, **facts)


def pod_problems(cluster: ClusterState, pod: SchedulerPod) -> Iterator[Problem]:
    """Yield the problems of a pod that has claims, waits behind a gate, or requests batch resources."""
    if pod.spec.resource_claims or pod.gates:
        yield from pods.pod_problems(cluster, pod.metadata.key)
    if colocation_problems.requests_batch(pod):
        yield from colocation_problems.pod_problems(pod)


def reservation_problems(cluster: ClusterState) -> Iterator[Problem]:
    """Yield the problems of Reservations and migrations."""
    for reservation in cluster.snapshot.reservations or ():
        yield from reservations.owner_problems(reservation)
    yield from reserved_capacity.problems(cluster)
    yield from migrations.problems(
        migrations.parse_jobs(cluster.snapshot.migrations or ()),
        descheduler=cluster.snapshot.descheduler,
        pods=cluster.pods,
        budgets=cluster.snapshot.budgets,
    )


def node_problems(cluster: ClusterState, node: AgentNode, *, now: datetime) -> Iterator[Problem]:
    """Yield the problems of a node: of colocation, and annotations that no kept claim needs."""
    if cluster.node_metrics is not None:
        yield from colocation_problems.node_problems(cluster, node, now=now)
    yield from _annotation_problems(cluster, node)


def _annotation_problems(cluster: ClusterState, node: AgentNode) -> Iterator[Problem]:
    """Yield annotations that the controller has set on a node on which no claim is kept."""
    left = [key for key, value in annotation_changes(node.metadata.annotations, kept=False).items() if value is None]
    unread = any(gap.resource.startswith("resourceclaims") for gap in cluster.snapshot.gaps)
    if cluster.snapshot.namespace is not None or unread:
        return  # claims of other namespaces may be kept on the node
    if left and not cluster.claim_cache.kept_nodes.has_kept_claims(node.metadata.name):
        name, uid = node.metadata.name, node.metadata.uid
        yield node_problem(ProblemCode.NODE_STAYS_ANNOTATED, name=name, uid=uid, annotations=", ".join(left))


def _by_severity(problem: Problem) -> tuple[int, str, tuple[str, str]]:
    return (_ORDER[problem.severity], problem.code, problem.subject.key)
