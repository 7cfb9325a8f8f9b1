"""Chooses the pods to preempt for a pod that fits on no node, in upstream's order (DefaultPreemption).

1. A pod preempts others only if its ``preemptionPolicy`` allows that and no victim on its nominated node is terminating
   yet.
2. From each node that suits the pod, all pods of lower priority are removed hypothetically. If the pod does not fit
   even then, the node is no candidate. Otherwise victims are chosen among them (`dra.engine.kube_scheduler.victims`).
3. Devices are no reason to preempt. Devices of the victims' claims count as held, because upstream's plugin for
   claims does not take part in the hypothetical removal.
4. The node with the fewest violated budgets is chosen; then that with the lowest priority of its most important victim;
   then with the smallest sum of priorities, the fewest victims, and the youngest of the most important victims.

Budgets do not forbid preemption: they are violated where nothing else helps.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Final, TypeAlias

from dra.engine.allocator import AllocationFailure
from dra.engine.kube_scheduler.cluster_cache import ClusterCache
from dra.engine.kube_scheduler.host_ports import NO_HOST_PORTS
from dra.engine.kube_scheduler.node_info import NodeInfo, PodRequests, insufficient_resources, unresolvable_reason
from dra.engine.kube_scheduler.pod_claims import NodeDemand, PodClaims, find_pod_claims
from dra.engine.kube_scheduler.scheduling_cycle import MIN_FEASIBLE_NODES, claim_fits_node
from dra.engine.kube_scheduler.scheduling_queue import QueuedPodInfo
from dra.engine.kube_scheduler.victims import NOT_STARTED, PotentialVictim, choose_victims
from dra.model.meta import Uid
from dra.model.pods import DISRUPTION_TARGET
from dra.model.preemption import PREEMPT_NEVER, PodDisruptionBudget
from dra.model.scheduling import SchedulerPod

PREEMPTION_BY_SCHEDULER: Final = "PreemptionByScheduler"
"""Reason of a pod's DisruptionTarget condition when it is terminated for another pod."""

_PRIORITY_OFFSET: Final = 2**31
"""Upstream's offset on each priority, so that negative priorities add up, too."""


@dataclass(frozen=True, slots=True)
class PreemptionCandidate:
    """A node and the pods that would have to end there for a pending pod."""

    node: str
    victims: tuple[SchedulerPod, ...]
    """Pods to be evicted, the most important first."""

    pdb_violations: frozenset[Uid] = frozenset()
    """Victims whose eviction violates a budget."""


ProcessPreemption: TypeAlias = Callable[[SchedulerPod, Sequence[PreemptionCandidate]], Sequence[PreemptionCandidate]]
"""Returns the extender's version of the candidates: with other victims, or without some nodes."""


def preempt(
    entry: QueuedPodInfo,
    cluster: ClusterCache,
    *,
    pods: Mapping[Uid, SchedulerPod],
    budgets: Sequence[PodDisruptionBudget] = (),
    start_index: int = 0,
    process_preemption: ProcessPreemption | None = None,
) -> PreemptionCandidate | None:
    """Return the best preemption candidate for a pod that fits on no node; None if there is none.

    `pods` are the pods on all nodes; the search begins at node number `start_index`.
    """
    may_add_victims = process_preemption is not None and cluster.release.traits.extenders_may_add_victims
    candidates: Sequence[PreemptionCandidate] = find_candidates(
        entry, cluster, pods=pods, budgets=budgets, start_index=start_index, may_be_empty=may_add_victims
    )
    if candidates and process_preemption is not None:
        candidates = process_preemption(entry.pod, candidates)
    return min((candidate for candidate in candidates if candidate.victims), key=candidate_cost, default=None)


def find_candidates(
    entry: QueuedPodInfo,
    cluster: ClusterCache,
    *,
    pods: Mapping[Uid, SchedulerPod],
    budgets: Sequence[PodDisruptionBudget] = (),
    start_index: int = 0,
    may_be_empty: bool = False,
) -> list[PreemptionCandidate]:
    """Return a candidate for each node where preemption would help.

    `may_be_empty`: also nodes that have room and pods of a lower priority, without victims, which an extender may add.
    """
    pod = entry.pod
    if pod.spec.preemption_policy == PREEMPT_NEVER or _has_terminating_victims(pod, cluster, pods):
        return []
    claims = find_pod_claims(entry, cluster)
    if not isinstance(claims, PodClaims):
        return []
    nodes = cluster.nodes
    first = start_index % len(nodes) if nodes else 0
    evictions: list[PreemptionCandidate] = []
    for node_info in (*nodes[first:], *nodes[:first]):
        pods_on_node = [pods[uid] for uid in node_info.pods if uid in pods]
        on_node = claims.on_node(node_info, entry.demand)
        eviction = _select_victims(
            node_info, on_node.requests, pods_on_node, budgets, may_be_empty=may_be_empty, cluster=cluster
        )
        if eviction is not None and _devices_available(node_info, claims, on_node, cluster):
            evictions.append(eviction)
            if len(evictions) >= MIN_FEASIBLE_NODES and any(not candidate.pdb_violations for candidate in evictions):
                break
    return evictions


def _has_terminating_victims(pod: SchedulerPod, cluster: ClusterCache, pods: Mapping[Uid, SchedulerPod]) -> bool:
    """Report whether victims of the pod are terminating already, on its nominated node."""
    node_info = cluster.node_info(pod.status.nominated_node_name)
    if node_info is None:
        return False
    pods_on_node = (pods[uid] for uid in node_info.pods if uid in pods)
    return any(
        other.spec.priority < pod.spec.priority and _is_terminating_by_preemption(other) for other in pods_on_node
    )


def _is_terminating_by_preemption(pod: SchedulerPod) -> bool:
    condition = pod.condition(DISRUPTION_TARGET)
    named = condition is not None and (condition.status, condition.reason) == ("True", PREEMPTION_BY_SCHEDULER)
    return pod.metadata.deleting and named


def _select_victims(
    node_info: NodeInfo,
    demand: PodRequests,
    pods_on_node: Iterable[SchedulerPod],
    budgets: Sequence[PodDisruptionBudget],
    *,
    cluster: ClusterCache,
    may_be_empty: bool,
) -> PreemptionCandidate | None:
    """Return the victims on a node; None if their eviction would not help, or is not needed unless `may_be_empty`."""
    if unresolvable_reason(node_info, demand) is not None:
        return None
    if not may_be_empty and not insufficient_resources(node_info, demand):
        return None
    lower = {other.metadata.uid: other for other in pods_on_node if other.spec.priority < demand.pod.spec.priority}
    without_lower = _copy_node(node_info)
    for uid in lower:
        without_lower.remove(uid)
    if not lower or insufficient_resources(without_lower, demand):
        return None

    def reprieve(uid: Uid) -> bool:
        without_lower.add(uid, node_info.pods[uid], host_ports=node_info.host_ports.get(uid, NO_HOST_PORTS))
        if insufficient_resources(without_lower, demand):
            without_lower.remove(uid)
            return False
        return True

    chosen = choose_victims(
        map(PotentialVictim.from_pod, lower.values()),
        budgets,
        reprieve=reprieve,
        empty_selectors_match=cluster.release.traits.empty_budgets_match,
    )
    return PreemptionCandidate(node_info.name, tuple(lower[uid] for uid in chosen.uids), chosen.pdb_violations)


def _copy_node(node_info: NodeInfo) -> NodeInfo:
    copied = copy(node_info)
    copied.pods, copied.host_ports = dict(node_info.pods), dict(node_info.host_ports)
    return copied


def _devices_available(node_info: NodeInfo, claims: PodClaims, on_node: NodeDemand, cluster: ClusterCache) -> bool:
    """Report whether the pod's devices are available on a node in the current state."""
    if not all(claim_fits_node(claim, node_info) for claim in claims.pinned):
        return False
    return not on_node.claims or not isinstance(cluster.allocate(on_node.claims, node_info), AllocationFailure)


class _LatestFirst(str):
    """A string that sorts later values before earlier ones."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str(self) > str(other)


def candidate_cost(candidate: PreemptionCandidate) -> tuple[int, int, int, int, _LatestFirst]:
    """Return the cost of a candidate; the candidate with the lowest cost is chosen."""
    highest = candidate.victims[0].spec.priority
    total = sum(victim.spec.priority + _PRIORITY_OFFSET for victim in candidate.victims)
    began = min(
        victim.status.start_time or NOT_STARTED for victim in candidate.victims if victim.spec.priority == highest
    )
    return (len(candidate.pdb_violations), highest, total, len(candidate.victims), _LatestFirst(began))
