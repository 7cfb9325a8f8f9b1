"""What each round must keep, and what must be so at the end."""

from collections import Counter
from typing import Final

from dra.engine.descheduling.round import Decision, RoundResult
from dra.engine.migration.limits import workload_limit
from tests.dra.engine.simulation.violation import Violation
from tests.simulation.descheduling.cluster import SimulatedCluster
from tests.simulation.descheduling.scenario import CALM, Workload

HOUR: Final = 3600.0
MOVES_MAX: Final = 6
"""Moves of a replica in an hour: with a cool-down of ten minutes."""

QUIET: Final = CALM / 2
"""Seconds at the end in which nothing may move."""


def check_round(cluster: SimulatedCluster, result: RoundResult) -> None:
    """Check the decisions of a round before they are carried out. Raises Violation."""
    if result.faults:
        raise Violation(result.faults[0].message)
    accepted = [decision for decision in result.decisions if decision.verdict.accepted]
    _check_once(cluster, accepted)
    _check_limits(cluster, accepted)
    _check_budgets(cluster, accepted)
    _check_places(cluster, accepted)


def _check_once(cluster: SimulatedCluster, accepted: list[Decision]) -> None:
    moving = Counter(job.pod.uid for job in cluster.unfinished)
    moving.update(str(decision.pod.metadata.uid) for decision in accepted)
    if twice := [uid for uid, count in moving.items() if count > 1]:
        raise Violation(f"pod {twice[0]}: is to be moved twice")
    for decision in accepted:
        if cluster.pods[decision.pod.metadata.uid].workload.kind == "DaemonSet":
            raise Violation(f"pod {decision.pod.metadata.name}: of a DaemonSet is to be moved")


def _check_limits(cluster: SimulatedCluster, accepted: list[Decision]) -> None:
    if not accepted:
        return
    uids = [str(decision.pod.metadata.uid) for decision in accepted]
    pods = [*(job.pod for job in cluster.unfinished), *(cluster.pods[uid] for uid in uids)]
    there = [pod for pod in pods if pod.uid in cluster.pods]
    per_node, per_namespace, total = cluster.scenario.limits
    counts = (
        ("node", per_node, Counter(pod.node for pod in there), {decision.node for decision in accepted}),
        (
            "namespace",
            per_namespace,
            Counter(pod.workload.namespace for pod in pods),
            {d.pod.metadata.namespace for d in accepted},
        ),
        ("all", total, Counter(all=len(pods)), {"all"}),
    )
    for kind, limit, numbers, concerned in counts:
        if limit is not None and (over := [name for name in concerned if numbers[name] > limit]):
            raise Violation(f"{kind} {over[0]}: {numbers[over[0]]} move, the limit is {limit}")
    moving = Counter(pod.workload.name for pod in pods)
    for name in {cluster.pods[uid].workload.name for uid in uids}:
        if moving[name] > workload_limit(cluster.replicas[name], None):
            raise Violation(f"workload {name}: {moving[name]} of {cluster.replicas[name]} move")


def _check_budgets(cluster: SimulatedCluster, accepted: list[Decision]) -> None:
    for workload in {cluster.pods[decision.pod.metadata.uid].workload for decision in accepted}:
        if workload.min_available is not None:
            _check_budget(cluster, workload, accepted)


def _check_budget(cluster: SimulatedCluster, workload: Workload, accepted: list[Decision]) -> None:
    uids = {str(decision.pod.metadata.uid) for decision in accepted} | {job.pod.uid for job in cluster.unfinished}
    own = [pod for pod in cluster.pods.values() if pod.uid in uids and pod.workload.name == workload.name]
    leaving = sum(map(cluster.is_healthy, own))
    left = cluster.healthy(workload) - leaving
    if leaving and left < (workload.min_available or 0):
        raise Violation(f"workload {workload.name}: {left} would be left, its budget wants {workload.min_available}")


def _check_places(cluster: SimulatedCluster, accepted: list[Decision]) -> None:
    """Check that the pods of a round have room at the same time, and only where they may go."""
    requested = {name: cluster.requested(name) for name in cluster.capacity}
    for decision in accepted:
        node, pod = decision.verdict.node, cluster.pods[decision.pod.metadata.uid]
        if not cluster.is_ready(node) or (decision.receivers is not None and node not in decision.receivers):
            raise Violation(f"pod {pod.uid}: node {node} may not receive it")
        requested[node] += pod.workload.requests
        if requested[node] > cluster.capacity[node]:
            raise Violation(f"node {node}: has {cluster.capacity[node]}m, and is to hold {requested[node]}m")


def check_moves(cluster: SimulatedCluster) -> None:
    """Check that no replica has moved more often in the last hour than the cool-down allows. Raises Violation."""
    since = cluster.now - HOUR
    moves = Counter((name, slot) for moved, name, slot in cluster.evictions if moved > since)
    allowed = MOVES_MAX + sum(forgot > since for forgot in cluster.forgets)
    for (name, slot), count in moves.items():
        if count > allowed:
            raise Violation(f"workload {name}: replica {slot} was moved {count} times in an hour")


def check_calm(cluster: SimulatedCluster) -> None:
    """Check that nothing moves once loads are steady. Raises Violation."""
    if len(cluster.scenario.plugins) > 1 or cluster.scenario.lifetime:
        return  # plugins that pull in two directions, and pods that live for minutes, never come to rest
    late = [move for move in cluster.evictions if move[0] > cluster.now - QUIET]
    if late:
        raise Violation(f"workload {late[0][1]}: moves at {late[0][0]:.0f} s though its load is steady")
