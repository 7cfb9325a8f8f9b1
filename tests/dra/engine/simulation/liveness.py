"""Liveness: what must hold once nothing more happens.

Everything is delivered, everybody works, time passes; then nobody may be stuck. Then all pods end, then the workloads
end: after each, what nobody uses any more is free, and nothing of ours is left behind.
"""

from collections.abc import Iterator
from typing import Final

from dra.engine.claims import consumer_entries, window
from dra.engine.claims.codes import Code
from dra.engine.claims.consumers import SCHEDULING_GATE
from dra.engine.claims.decide import decide
from dra.engine.claims.reasons import Reason
from dra.engine.claims.view import ENTRY_API_GROUP, GUARD_RESOURCE
from dra.model import nodes, workload_reservations
from dra.model.claims import ResourceClaim
from dra.model.nodes import Node
from dra.model.pods import Pod, claim_names
from dra.model.templates import PodGroup
from tests.dra.engine.simulation import list_limits
from tests.dra.engine.simulation.cluster import SimulatedCluster
from tests.dra.engine.simulation.objects import Job, key
from tests.dra.engine.simulation.reservations import holding_reservations
from tests.dra.engine.simulation.server import Actor
from tests.dra.engine.simulation.setting import NODE_MONITOR_GRACE_PERIOD
from tests.dra.engine.simulation.violation import Violation

SETTLE_TIMEOUT: Final = 4000.0
"""Seconds for which it is watched whether something still happens by itself: longer than the longest waits together."""

MAX_BACKOFF: Final = 10.0
"""Seconds at most between two attempts of the scheduler at one pod (``podMaxBackoffSeconds``)."""

MAX_WRITES_TO_SETTLE: Final = 60
"""Our writes on claims that it takes to come to rest at most, however long that takes."""

SLOT_SECONDS: Final = 60.0
"""Seconds for which a pod keeps its slot in a list that is too short for all (rule 3), at least."""


def check_liveness(cluster: SimulatedCluster) -> None:
    """Let the cluster come to rest, four times over, and look."""
    cluster.controller.late_requests.clear()
    cluster.controller.set_lags([0.0] * len(cluster.setting.lags))
    cluster.advance(NODE_MONITOR_GRACE_PERIOD)
    for cycle in cluster.cycles:
        cycle.scheduler.permit(cycle)
        cycle.scheduler.finish(cycle)
    run_until_settled(cluster)
    check_no_pod_stuck(cluster)
    check_allocations_are_usable(cluster)
    check_workloads_are_entered(cluster)
    check_forced_releases(cluster)
    check_lost_allocations_are_reported(cluster)
    check_waiting_pods_are_explained(cluster)
    check_reservation_entries(cluster)
    check_condemned_nodes_are_reported(cluster)
    check_nothing_left(cluster)
    end_pods(cluster)
    run_until_settled(cluster)
    check_condemned_nodes_are_reported(cluster)
    check_reservation_entries(cluster)
    check_nothing_left(cluster)
    end_workloads(cluster)
    run_until_settled(cluster)
    check_reservation_entries(cluster)
    check_nothing_left(cluster)
    bring_nodes_back(cluster)
    run_until_settled(cluster)
    check_nothing_left(cluster)


def run_until_settled(cluster: SimulatedCluster) -> None:
    """Work until nothing changes and nothing will, or until nothing but failing attempts of the scheduler is left."""
    started, written = cluster.clock.now, cluster.write_checker.writes
    until = started + SETTLE_TIMEOUT
    pause = 1.0
    while cluster.clock.now < until:
        before = cluster.server.version
        cluster.controller_works()
        cluster.drivers_work()
        cluster.scheduler_works()
        cluster.resume_cycles()
        cluster.kubelets_work()
        cluster.collect_pods()
        cluster.collect_claims()
        cluster.extender.work()
        cluster.stock_works()
        if cluster.write_checker.writes > written + MAX_WRITES_TO_SETTLE + _slot_rotation_writes(
            cluster, cluster.clock.now - started
        ):
            raise Violation(
                f"no rest: {cluster.write_checker.writes - written} writes in {cluster.clock.now - started:.0f} s"
            )
        replica = cluster.controller.replica
        if cluster.server.version != before or replica.due() or any(watch.pending_events for watch in replica.watches):
            cluster.advance(pause)
            pause = min(2 * pause, MAX_BACKOFF)
            continue
        ends = (cycle.deadline for cycle in cluster.cycles if cycle.deadline > cluster.clock.now)
        cluster.advance(min([*replica.due_times.values(), *ends], default=until) - cluster.clock.now)
        pause = 1.0
    if not cluster.setting.drivers:  # there is no rest then, and the scheduler may have allocated a claim just now
        cluster.controller_works()


def _slot_rotation_writes(cluster: SimulatedCluster, seconds: float) -> float:
    """Return how many writes it takes in that time that pods take turns: each slot changes hands once in a turn.

    Lists of the usual length have a slot for each pod there is.
    """
    size, _ = cluster.setting.list_size
    if cluster.setting.list_size == list_limits.DEFAULT_LIST_SIZE:
        return 0
    return len(cluster.server.list(ResourceClaim)) * size * seconds / SLOT_SECONDS


def end_pods(cluster: SimulatedCluster) -> None:
    """All pods end: some by themselves, and their objects stay; the others are deleted."""
    for number, pod in enumerate(cluster.server.list(Pod)):
        cluster.remove_foreign_gates(pod)
        node = cluster.server.find(Node, ("", pod.spec.node_name))
        if node is not None and node.ready and number % 2:
            cluster.kubelets.end(pod)
        elif node is not None and node.ready:
            cluster.server.delete(Pod, pod.metadata.key, by=Actor.USER)
        else:
            cluster.force_delete_pod(pod)
    cluster.kubelets_work()
    for pod in cluster.server.list(Pod):
        if not pod.terminal:
            cluster.server.delete(Pod, pod.metadata.key, by=Actor.USER)


def end_workloads(cluster: SimulatedCluster) -> None:
    """All workloads end: some finish, the others are deleted."""
    for number, job in enumerate(cluster.server.list(Job)):
        if number % 2:
            cluster.finish_job(job)
        else:
            cluster.server.delete(Job, job.metadata.key, by=Actor.OWNER)
    cluster.extender.end()


def bring_nodes_back(cluster: SimulatedCluster) -> None:
    """Kubelets report in that did not."""
    for node in cluster.server.list(Node):
        if not node.ready:
            cluster.kubelets.set_ready(node, ready=True)


def check_no_pod_stuck(cluster: SimulatedCluster) -> None:
    """A bound pod whose claims are in order runs; a pod behind our gate alone is behind it for a reason."""
    for pod in cluster.server.list(Pod):
        if pod.terminal or pod.metadata.deleting:
            continue
        claims = [cluster.server.find(ResourceClaim, key(name)) for name in claim_names(pod)]
        if any(claim is not None and claim.metadata.deleting for claim in claims):
            continue
        if any(_is_full(claim, pruned=cluster.policy.prune_started) for claim in claims):
            continue
        if (
            pod.gates == (SCHEDULING_GATE,) and cluster.setting.drivers
        ):  # else an allocation is taken back again and again
            raise Violation(f"pod {pod.metadata.name} is behind our gate for ever")
        node = cluster.server.find(Node, ("", pod.spec.node_name))
        if node is None or not node.ready or not all(_admits(claim, node) for claim in claims):
            continue
        sandbox = cluster.kubelets.sandboxes.get(pod.metadata.uid)
        if sandbox is None or not (sandbox.ready or sandbox.ended):
            raise Violation(f"pod {pod.metadata.name} is bound to {node.metadata.name} and not admitted")


def check_allocations_are_usable(cluster: SimulatedCluster) -> None:
    """An allocation that keeps its pods waiting, while they could run with another, has been taken back.

    Where drivers never attach a device, it is taken back and allocated anew without end: there is no such rest.
    """
    if not cluster.setting.drivers:
        return
    for pod in cluster.server.list(Pod):
        if pod.spec.node_name or pod.terminal or pod.metadata.deleting or pod.spec.scheduling_gates:
            continue
        scheduler = next((s for s in cluster.schedulers if s.serves(pod)), None)
        found = [cluster.server.find(ResourceClaim, key(name)) for name in claim_names(pod)]
        claims = {claim.metadata.name: claim for claim in found if claim is not None and not claim.metadata.deleting}
        if len(claims) < len(found) or scheduler is None:
            continue
        in_vain = [
            claim for claim in claims.values() if claim.status.allocation is not None and _is_idle(cluster, claim)
        ]
        for claim in in_vain:
            here, elsewhere = scheduler.find_placements(claim, pod)
            if elsewhere and not here:
                name = claim.metadata.name
                raise Violation(f"claim {name} keeps pod {pod.metadata.name} waiting, which could run without it")


def _is_idle(cluster: SimulatedCluster, claim: ResourceClaim) -> bool:
    """Whether nobody consumes a claim, and nobody else than pods and our own entries keeps it."""
    users = [pod for pod in cluster.server.list(Pod) if claim.metadata.name in claim_names(pod) and not pod.terminal]
    if any(pod.spec.node_name for pod in users) or _lost_nodes(cluster, claim):
        return False
    return all(e.is_pod or e.api_group == "batch" or e.resource == GUARD_RESOURCE for e in claim.entries)


def check_workloads_are_entered(cluster: SimulatedCluster) -> None:
    """An allocated claim with pods has the entry of its workload, unless the workload's owner removed it."""
    working = {
        job.metadata.name: job.metadata.uid for job in cluster.server.list(Job) if job.is_at_work(cluster.policy)
    }
    for claim in cluster.server.list(ResourceClaim):
        meta, name = claim.metadata, claim.metadata.name
        wanted = (meta.annotation(workload_reservations.RESERVED_FOR) or "").partition("/")[2]
        known = meta.annotation(workload_reservations.RESERVED_FOR_UID) or meta.annotation(
            workload_reservations.RESOLVED_UID
        )
        uid = working.get(wanted)
        lifetime = cluster.safety.lifetimes.get(claim)
        if uid is None or known not in {None, uid} or lifetime is None or meta.deleting or claim.generated_for:
            continue
        if lifetime.unlisted.get(uid) is Actor.OWNER or _is_full(claim, pruned=cluster.policy.prune_started):
            continue
        users = _unfinished_users(cluster, claim)
        if any(not pod.spec.scheduling_gates for pod in users) and all(e.uid != uid for e in claim.entries):
            raise Violation(f"claim {name} has no entry of jobs/{wanted}, whose pods use it")


def check_forced_releases(cluster: SimulatedCluster) -> None:
    """A claim that a person vouches for is not allocated, unless a pod is bound to a node whose kubelet reports in."""
    for claim in cluster.server.list(ResourceClaim):
        meta, allocated = claim.metadata, claim.status.allocation is not None
        if not allocated or meta.deleting or meta.annotation(workload_reservations.FORCE_RELEASE) != meta.uid:
            continue
        users = _unfinished_users(cluster, claim)
        if any(_tried_in_vain(cluster, pod, meta.name) or _is_never_attached(cluster, pod, meta.name) for pod in users):
            continue  # each attempt may be the one that binds the pod
        users += [pod for pod in cluster.server.list(Pod) if any(e.uid == pod.metadata.uid for e in claim.entries)]
        if not any(cluster.kubelets.up(pod.spec.node_name) for pod in users):
            raise Violation(f"claim {meta.name} is to be released by force, and stays allocated")


def check_lost_allocations_are_reported(cluster: SimulatedCluster) -> None:
    """Whose claim lost its allocation, or cannot be given back, gets a reason that says so."""
    for pod in cluster.server.list(Pod):
        if not pod.spec.node_name or pod.terminal or pod.metadata.deleting:
            continue
        for name in claim_names(pod):
            claim = cluster.server.find(ResourceClaim, key(name))
            lost = claim is not None and claim.status.allocation is None
            said = {Code.ALLOCATION_LOST, Code.BOUND_WITHOUT_ALLOCATION}
            if lost and said.isdisjoint(_reason_codes(cluster, name)):
                raise Violation(f"pod {pod.metadata.name} is bound, claim {name} is not allocated, nobody says so")


def check_waiting_pods_are_explained(cluster: SimulatedCluster) -> None:
    """Of a pod that waits for us, or for an allocation that is of no use, somebody says why."""
    for pod in cluster.server.list(Pod):
        meta, names = pod.metadata, claim_names(pod)
        if (
            pod.terminal
            or meta.deleting
            or any(cluster.server.find(ResourceClaim, key(name)) is None for name in names)
        ):
            continue
        subjects = {reason.subject.key for name in names for reason in _reasons(cluster, name)}
        if _waits_for_us(cluster, pod) and subjects.isdisjoint({meta.key, *map(key, names)}):
            raise Violation(f"pod {meta.name} waits for its claims, and nobody says why")
    for claim in cluster.server.list(ResourceClaim):
        name = claim.metadata.name
        if _has_unusable_allocation(cluster, claim) and Code.ALLOCATION_UNUSABLE not in _reason_codes(cluster, name):
            raise Violation(f"no pod that waits for claim {name} can use its allocation, and nobody says so")


def check_reservation_entries(cluster: SimulatedCluster) -> None:
    """The claim of an available Reservation has its entry, and no pod that has ended; that of one that is over not."""
    found = cluster.extender.find()
    for claim in cluster.server.list(ResourceClaim):
        name, uids = claim.metadata.name, {entry.uid for entry in claim.entries if entry.is_reservation}
        if claim.status.allocation is None or claim.metadata.deleting or _lost_nodes(cluster, claim):
            continue
        holds = {found.metadata.uid} if found is not None and found.phase == "Available" else set()
        full = _is_full(claim, pruned=cluster.policy.prune_started)
        if not full and holds & holding_reservations(claim) and not holds & uids:
            raise Violation(f"claim {name} has no entry of the Reservation that holds it")
        if uids - holds and (found is None or found.phase != "Pending"):
            raise Violation(f"claim {name} has the entry of a Reservation that is over")
        owner = claim.generated_for
        unfinished = {pod.metadata.uid for pod in cluster.server.list(Pod) if not _is_over(pod)}
        if cluster.policy.generate_claims and holds & holding_reservations(claim) and owner not in {None, *unfinished}:
            raise Violation(f"claim {name} is held, and still that of a pod that has ended")


def check_condemned_nodes_are_reported(cluster: SimulatedCluster) -> None:
    """Of a claim that is kept without a pod where each node may be deleted somebody says so, and of no other one."""
    working = {job.metadata.uid for job in cluster.server.list(Job) if job.is_at_work(cluster.policy)}
    working |= {group.metadata.uid for group in cluster.server.list(PodGroup)}
    for claim in cluster.server.list(ResourceClaim):
        name, found = claim.metadata.name, claim.status.allocation
        if found is None or claim.metadata.deleting:
            continue
        selector = found.node_selector
        names = nodes.selected_node_names(selector) if selector is not None else None
        there = [node for node in cluster.server.list(Node) if node.metadata.name in (names or ())]
        condemned = bool(there) and all(node.spec.taints for node in there)
        used = any(pod.spec.node_name for pod in _unfinished_users(cluster, claim))
        reported = Code.NODE_MAY_BE_DELETED in _reason_codes(cluster, name)
        if reported and (used or not condemned):
            raise Violation(f"claim {name} is said to lose its node, which is not so")
        if condemned and not used and not reported and any(entry.uid in working for entry in claim.entries):
            raise Violation(f"claim {name} is kept where each node may be deleted, and nobody says so")


def _reason_codes(cluster: SimulatedCluster, name: str) -> set[Code]:
    return {reason.code for reason in _reasons(cluster, name)}


def _reasons(cluster: SimulatedCluster, name: str) -> tuple[Reason, ...]:
    """Return what our controller says now about a claim and its pods."""
    view = cluster.controller.replica.claim_cache.view(key(name), now=cluster.clock.now)
    return decide(view, policy=cluster.policy, now=cluster.clock.now).reasons if view is not None else ()


def _waits_for_us(cluster: SimulatedCluster, pod: Pod) -> bool:
    """Whether a pod is behind our gate, or bound and not admitted though its node is ready."""
    if not pod.spec.node_name:
        return pod.gates == (SCHEDULING_GATE,)
    sandbox = cluster.kubelets.sandboxes.get(pod.metadata.uid)
    return cluster.kubelets.up(pod.spec.node_name) and (sandbox is None or not (sandbox.ready or sandbox.ended))


def _has_unusable_allocation(cluster: SimulatedCluster, claim: ResourceClaim) -> bool:
    """Whether pods wait for an allocation that nobody consumes, a scheduler has judged them, and none fits anywhere.

    Where drivers never attach a device, it is taken back and allocated anew without end.
    """
    quiet = cluster.setting.drivers and claim.status.allocation is not None and not claim.metadata.deleting
    if not quiet or not _is_idle(cluster, claim):
        return False
    waiting = [
        pod for pod in _unfinished_users(cluster, claim) if not pod.spec.node_name and not pod.spec.scheduling_gates
    ]
    judged = [pod for pod in waiting if any(c.reason == "Unschedulable" for c in pod.status.conditions or ())]
    schedulers = [next((s for s in cluster.schedulers if s.serves(pod)), None) for pod in judged]
    found = [s.find_placements(claim, pod) for s, pod in zip(schedulers, judged, strict=True) if s is not None]
    return bool(found) and not any(here or elsewhere for here, elsewhere in found)


def _unfinished_users(cluster: SimulatedCluster, claim: ResourceClaim) -> list[Pod]:
    """Return the pods that name a claim and have not ended."""
    return [pod for pod in cluster.server.list(Pod) if claim.metadata.name in claim_names(pod) and not _is_over(pod)]


def _is_over(pod: Pod) -> bool:
    """Whether a pod has ended, or was deleted before it was bound: nobody can bind it any more."""
    return pod.terminal or (pod.metadata.deleting and not pod.spec.node_name)


def _is_full(claim: ResourceClaim | None, *, pruned: bool) -> bool:
    """Whether a list has no slot for one more pod: such short ones are soon full of what must stay.

    Where nothing is pruned, that is all pods that have not ended. Workload and guard have slots of their own.
    """
    if claim is None:
        return False
    stay = [e for e in claim.entries if not (e.is_pod and pruned) and e.resource not in {"jobs", GUARD_RESOURCE}]
    return len(stay) >= consumer_entries.RESERVED_FOR_MAX_SIZE - window.SCHEDULER_HEADROOM - 2


def check_nothing_left(cluster: SimulatedCluster) -> None:
    """What nobody uses is free, and nothing of ours is left on it."""
    working = {job.metadata.uid for job in cluster.server.list(Job) if job.is_at_work(cluster.policy)}
    unfinished = [pod for pod in cluster.server.list(Pod) if not pod.terminal]
    found = cluster.extender.find()
    for claim in cluster.server.list(ResourceClaim):
        name, meta = claim.metadata.name, claim.metadata
        users = [pod for pod in unfinished if name in claim_names(pod)]
        foreign = [str(e) for e in claim.entries if not e.is_pod and e.api_group not in {ENTRY_API_GROUP, "batch"}]
        foreign += _lost_nodes(cluster, claim)
        if claim.status.allocation is None:
            left = [
                mark
                for mark in (workload_reservations.RESERVED_FOR_ANY_POD, workload_reservations.ENTERED_ALLOCATION)
                if meta.annotation(mark) is not None
            ]
            if left:
                raise Violation(f"claim {name} has no allocation, and still {left}")
            if claim.protected and not users:
                raise Violation(f"claim {name} has no allocation, and still its finalizer")
        elif not users and not foreign and (claim.generated_for or not any(e.uid in working for e in claim.entries)):
            _check_unused(cluster, claim)
        if meta.deleting and not users and not foreign:
            raise Violation(f"claim {name} is being deleted for ever")
        owner = next((pod for pod in cluster.server.list(Pod) if pod.metadata.uid == claim.generated_for), None)
        held = found is not None and found.phase != "Failed" and found.metadata.uid in holding_reservations(claim)
        if owner is not None and _is_over(owner) and cluster.policy.generate_claims and not foreign and not held:
            raise Violation(f"claim {name} was made for pod {owner.metadata.name}, which has ended, and stays")
        guarded = any(e.resource == GUARD_RESOURCE for e in claim.entries)
        # A device that is never attached is taken back behind a guard again and again.
        waits = (users and not cluster.setting.drivers) or any(_tried_in_vain(cluster, pod, name) for pod in users)
        if guarded and not foreign and not waits and not any(pod.spec.node_name for pod in users):
            raise Violation(f"claim {name}: the guard guards nobody")


def _tried_in_vain(cluster: SimulatedCluster, pod: Pod, name: str) -> bool:
    """Whether a scheduler lists a pod in one claim, and takes it off again, since the list of another claim is full."""
    waits = not pod.spec.node_name and not pod.spec.scheduling_gates
    others = _other_claims(cluster, pod, name)
    return waits and any(_is_full(other, pruned=cluster.policy.prune_started) for other in others)


def _other_claims(cluster: SimulatedCluster, pod: Pod, name: str) -> Iterator[ResourceClaim | None]:
    """Yield the claims of a pod but one; None for each that does not exist."""
    return (cluster.server.find(ResourceClaim, key(other)) for other in claim_names(pod) if other != name)


def _is_never_attached(cluster: SimulatedCluster, pod: Pod, name: str) -> bool:
    """Whether a scheduler lists a pod in one claim, and waits in vain for the device of another one to be attached."""
    if cluster.setting.drivers or pod.spec.node_name:
        return False
    others = _other_claims(cluster, pod, name)
    allocations = (other.status.allocation for other in others if other is not None)
    return any(each.binding_conditions for found in allocations if found for each in found.devices.results or ())


def _lost_nodes(cluster: SimulatedCluster, claim: ResourceClaim) -> list[str]:
    """Return the nodes that keep the claim until they report in, of those that do not."""
    view = cluster.controller.replica.claim_cache.view(claim.metadata.key, now=cluster.clock.now)
    lost = {*(node.name for node in view.lost_nodes), *view.silent_nodes} if view is not None else set()
    return [node.metadata.name for node in cluster.server.list(Node) if node.metadata.name in lost and not node.ready]


def _check_unused(cluster: SimulatedCluster, claim: ResourceClaim) -> None:
    """Allocated and unused is legal where somebody else has emptied the list, and nobody could tell what it means."""
    lifetime = cluster.safety.lifetimes.get(claim)
    assert lifetime is not None
    released = any(by is Actor.OWNER and uid in lifetime.entered_marked for uid, by in lifetime.unlisted.items())
    meta = claim.metadata
    workload = meta.annotation(workload_reservations.RESERVED_FOR_UID) or meta.annotation(
        workload_reservations.RESOLVED_UID
    )
    working = {job.metadata.uid for job in cluster.server.list(Job) if job.is_at_work(cluster.policy)}
    over = workload is not None and workload not in working
    if claim.entries or lifetime.emptied_by is Actor.US or released or over:
        raise Violation(f"claim {claim.metadata.name} stays allocated for nobody: {[str(e) for e in claim.entries]}")


def _admits(claim: ResourceClaim | None, node: Node) -> bool:
    if claim is None or claim.status.allocation is None:
        return False
    meta = node.metadata
    return nodes.matches_node_selector(claim.status.allocation.node_selector, name=meta.name, labels=meta.labels)
