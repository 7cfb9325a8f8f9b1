"""Extended resources of waiting pods that devices serve: claims that do not exist until a scheduler finds a node."""

from dra.engine.allocator import ClaimToAllocate, UnsatisfiableError, claim_to_allocate
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.kube_scheduler.extended_resources import extended_resource_claim, served_resources
from dra.engine.kube_scheduler.node_info import PodRequests
from dra.model.scheduling import SchedulerPod


def demand_with_devices(cluster: ClusterState, pod: SchedulerPod) -> tuple[PodRequests, list[ClaimToAllocate]]:
    """Return what a pod requests of nodes, without what devices serve, and the claim that a scheduler would make.

    A resource that any node offers by itself stays a request to nodes.
    """
    demand = PodRequests.from_pod(pod)
    served = served_resources(cluster.classes.values())
    offered = {r for info in cluster.node_infos.values() for r, amount in info.capacity.items() if amount}
    resources = frozenset(r for r, amount in demand.amounts.items() if amount and r in served) - offered
    demand = demand.without(resources)
    if pod.status.extended_resource_claim_status is not None:
        return demand, []
    extended = extended_resource_claim(pod, resources, served)
    try:
        return demand, [claim_to_allocate(extended.claim, cluster.classes)] if extended.mappings else []
    except UnsatisfiableError:
        return demand, []
