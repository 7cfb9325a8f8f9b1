"""Liveness: what must hold once nothing more happens.

Everything is delivered, everybody works, time passes; then nobody may be stuck. Then all pods end, then the workloads
end: after each, what nobody uses any more is free, and nothing of ours is left behind.
"""

from typing import Final

from dra.engine import window
from dra.engine.claims import listing
from dra.engine.claims.view import GROUP, GUARDS
from dra.engine.consumers import GATE
from dra.model import nodes, workloads
from dra.model.claims import ResourceClaim
from dra.model.nodes import Node
from dra.model.pods import Pod, claim_names
from tests.dra.engine.simulation.cluster import Cluster
from tests.dra.engine.simulation.objects import Job, key
from tests.dra.engine.simulation.server import Actor
from tests.dra.engine.simulation.violation import Violation

PATIENCE: Final = 1800.0
"""Seconds for which it is watched whether something still happens by itself; the longest bind horizon is shorter."""

BACKOFF: Final = 10.0
"""Seconds at most between two attempts of the scheduler at one pod (``podMaxBackoffSeconds``)."""

RESTLESS: Final = 120
"""Our writes on claims in that time beyond which we evidently work against somebody, or ourselves: a window rotates,
and each of its few slots does so once a minute."""


def run(cluster: Cluster) -> None:
    """Let the cluster come to rest, four times over, and look."""
    cluster.controller.late.clear()
    for cycle in list(cluster.scheduler.cycles.values()):
        cluster.scheduler.finish(cycle)
    settle(cluster)
    check_nobody_stuck(cluster)
    check_nothing_left(cluster)
    end_pods(cluster)
    settle(cluster)
    check_nothing_left(cluster)
    end_workloads(cluster)
    settle(cluster)
    check_nothing_left(cluster)
    bring_nodes_back(cluster)
    settle(cluster)
    check_nothing_left(cluster)


def settle(cluster: Cluster) -> None:
    """Work until nothing changes and nothing will, or until nothing but failing attempts of the scheduler is left."""
    until = cluster.clock.now + PATIENCE
    written = cluster.conduct.writes
    pause = 1.0
    while cluster.clock.now < until:
        before = cluster.server.version
        cluster.controller_works()
        cluster.scheduler_works()
        cluster.kubelets_work()
        if cluster.conduct.writes > written + RESTLESS:
            raise Violation(f"no rest: {cluster.conduct.writes - written} writes of ours on claims")
        replica = cluster.controller.replica
        if cluster.server.version != before or replica.due() or any(feed.behind for feed in replica.feeds):
            cluster.advance(pause)
            pause = min(2 * pause, BACKOFF)
            continue
        cluster.advance(min(replica.wakes.values(), default=until) - cluster.clock.now)
        pause = 1.0


def end_pods(cluster: Cluster) -> None:
    """All pods end: some by themselves, and their objects stay; the others are deleted."""
    for number, pod in enumerate(cluster.server.list(Pod)):
        cluster.let_go(pod)
        node = cluster.server.find(Node, ("", pod.spec.node_name))
        if node is not None and node.ready and number % 2:
            cluster.kubelets.end(pod)
        elif node is not None and node.ready:
            cluster.server.delete(Pod, pod.metadata.key, by=Actor.USER)
        else:
            cluster.kill(pod)
    cluster.kubelets_work()
    for pod in cluster.server.list(Pod):
        if not pod.terminal:
            cluster.server.delete(Pod, pod.metadata.key, by=Actor.USER)


def end_workloads(cluster: Cluster) -> None:
    """All workloads end: some finish, the others are deleted."""
    for number, job in enumerate(cluster.server.list(Job)):
        if number % 2:
            cluster.finish_job(job)
        else:
            cluster.server.delete(Job, job.metadata.key, by=Actor.OWNER)


def bring_nodes_back(cluster: Cluster) -> None:
    """Kubelets report in that did not."""
    for node in cluster.server.list(Node):
        if not node.ready:
            cluster.kubelets.set_ready(node, ready=True)


def check_nobody_stuck(cluster: Cluster) -> None:
    """A bound pod whose claims are in order runs; a pod behind our gate alone is behind it for a reason."""
    for pod in cluster.server.list(Pod):
        if pod.terminal or pod.metadata.deleting:
            continue
        claims = [cluster.server.find(ResourceClaim, key(name)) for name in claim_names(pod)]
        if any(claim is not None and claim.metadata.deleting for claim in claims):
            continue
        if any(_full(claim, pruned=cluster.policy.prune_started) for claim in claims):
            continue
        if pod.gates == (GATE,):
            raise Violation(f"pod {pod.metadata.name} is behind our gate for ever")
        node = cluster.server.find(Node, ("", pod.spec.node_name))
        if node is None or not node.ready or not all(_admits(claim, node) for claim in claims):
            continue
        sandbox = cluster.kubelets.sandboxes.get(pod.metadata.uid)
        if sandbox is None or not (sandbox.ready or sandbox.ended):
            raise Violation(f"pod {pod.metadata.name} is bound to {node.metadata.name} and not let in")


def _full(claim: ResourceClaim | None, *, pruned: bool) -> bool:
    """Whether a list has no slot for one more pod: such short ones are soon full of what must stay.

    Where nothing is pruned, that is all pods that have not ended. Workload and guard have slots of their own.
    """
    if claim is None:
        return False
    stay = [e for e in claim.entries if not (e.is_pod and pruned) and e.resource not in {"jobs", GUARDS}]
    return len(stay) >= listing.RESERVED_FOR_MAX_SIZE - window.SCHEDULER_HEADROOM - 2


def check_nothing_left(cluster: Cluster) -> None:
    """What nobody uses is free, and nothing of ours is left on it."""
    working = {job.metadata.uid for job in cluster.server.list(Job) if not job.finished}
    unfinished = [pod for pod in cluster.server.list(Pod) if not pod.terminal]
    for claim in cluster.server.list(ResourceClaim):
        name, meta = claim.metadata.name, claim.metadata
        users = [pod for pod in unfinished if name in claim_names(pod)]
        foreign = [str(e) for e in claim.entries if not e.is_pod and e.api_group not in {GROUP, "batch"}]
        foreign += _lost_nodes(cluster, claim)
        if claim.status.allocation is None:
            left = [mark for mark in (workloads.ANY_POD, workloads.ENTERED) if meta.annotation(mark) is not None]
            if left:
                raise Violation(f"claim {name} has no allocation, and still {left}")
            if claim.protected and not users:
                raise Violation(f"claim {name} has no allocation, and still its finalizer")
        elif not users and not foreign and not any(e.uid in working for e in claim.entries):
            _check_unused(cluster, claim)
        if meta.deleting and not users and not foreign:
            raise Violation(f"claim {name} is being deleted for ever")
        guarded = any(e.resource == GUARDS for e in claim.entries)
        waits = meta.deleting and users  # a nomination whose scheduler died is never taken back while the claim goes
        if guarded and not foreign and not waits and not any(pod.spec.node_name for pod in users):
            raise Violation(f"claim {name}: the guard guards nobody")


def _lost_nodes(cluster: Cluster, claim: ResourceClaim) -> list[str]:
    """Return the nodes that keep the claim until they report in, of those that do not."""
    view = cluster.controller.replica.world.view(claim.metadata.key, now=cluster.clock.now)
    lost = {*(node.name for node in view.lost_nodes), *view.silent_nodes} if view is not None else set()
    return [node.metadata.name for node in cluster.server.list(Node) if node.metadata.name in lost and not node.ready]


def _check_unused(cluster: Cluster, claim: ResourceClaim) -> None:
    """Allocated and unused is legal where somebody else has emptied the list, and nobody could tell what it means."""
    tenure = cluster.audit.tenures.of(claim)
    assert tenure is not None
    released = any(by is Actor.OWNER and uid in tenure.remembered for uid, by in tenure.unlisted.items())
    if claim.entries or tenure.left_by is Actor.US or released:
        raise Violation(f"claim {claim.metadata.name} stays allocated for nobody: {[str(e) for e in claim.entries]}")


def _admits(claim: ResourceClaim | None, node: Node) -> bool:
    if claim is None or claim.status.allocation is None:
        return False
    meta = node.metadata
    return nodes.matches(claim.status.allocation.node_selector, name=meta.name, labels=meta.labels)
