"""What really happens on the nodes: the usage of their systems and pods, and what batch pods hold."""

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dra.engine.kube_scheduler.pod_requests import pod_requests
from dra.kube.resources import NODES
from dra.model import quantities
from dra.model.scheduling import SchedulerPod
from localplane.objects import Object

if TYPE_CHECKING:
    from tests.simulation.colocation.cluster import ColocatedCluster

BATCH_CPU: Final = "kubernetes.io/batch-cpu"
BATCH_MEMORY: Final = "kubernetes.io/batch-memory"
BATCH: Final = (BATCH_CPU, BATCH_MEMORY)

USAGE: Final = "simulation.dra/usage"
"""Annotation of a pod: the milli-CPUs and bytes that it uses while it runs, ``MILLI,BYTES``."""

QOS: Final = "koordinator.sh/qosClass"
_NANOS: Final = 10**9

Amounts = tuple[int, int]
"""Milli-CPUs and bytes."""


def pods_on(cluster: "ColocatedCluster", node: str) -> list[Object]:
    """Return the pods on a node that have not ended, by the time of their creation."""
    bound = (pod for pod in cluster.pods.values() if pod["spec"].get("nodeName") == node and not has_ended(pod))
    return sorted(bound, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))


def has_ended(pod: Object) -> bool:
    """Return whether a pod runs no more."""
    return (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}


def has_started(pod: Object) -> bool:
    """Return whether the kubelet has admitted a pod."""
    return bool((pod.get("status") or {}).get("startTime"))


def all_requests(pod: Object) -> Counter[str]:
    """Return what a pod requests, in billionths."""
    return Counter(pod_requests(msgspec.convert(pod, SchedulerPod)))


def batch_requests(pod: Object) -> Amounts:
    """Return the batch resources that a pod requests."""
    found = all_requests(pod)
    cpu, memory = (found[name] // _NANOS for name in BATCH)
    return cpu, memory


def amounts_of(node: Object) -> Counter[str]:
    """Return what is allocatable on a Node, in billionths."""
    return Counter(quantities.from_validated_list((node.get("status") or {}).get("allocatable") or {}))


def published(node: Object, *, part: str = "allocatable") -> Amounts:
    """Return the batch resources of a Node; 0 for one that it does not have."""
    amounts = (node.get("status") or {}).get(part) or {}
    cpu, memory = (int(quantities.parse(str(amounts.get(name, "0")))) for name in BATCH)
    return cpu, memory


def usage(pod: Object) -> Amounts | None:
    """Return what a pod uses; None if it does not run."""
    text = (pod["metadata"].get("annotations") or {}).get(USAGE)
    if text is None or (pod.get("status") or {}).get("phase") != "Running":
        return None
    cpu, memory = map(int, text.split(","))
    return cpu, memory


def formula(cluster: "ColocatedCluster", name: str, strategy: Any) -> Amounts:
    """Return what the formula says of a node, all of whose pods are measured or requested, without the floor."""
    node = next(each for each in cluster.initial_state.nodes if each.name == name)
    high = [0, 0]
    for pod in pods_on(cluster, name):
        if (pod["metadata"].get("labels") or {}).get(QOS) == "BE":
            continue
        requested = pod_requests(msgspec.convert(pod, SchedulerPod))
        requests = (requested.get("cpu", 0) * 1000 // _NANOS, requested.get("memory", 0) // _NANOS)
        used = usage(pod) or requests
        if (pod["metadata"].get("labels") or {}).get(QOS) == "LSE":
            used = (requests[0], used[1])
        high = [high[0] + used[0], high[1] + used[1]]
    capacity = (node.cpus * 1000, node.gibibytes * 2**30)
    system = (node.system_cpu, node.system_memory)
    percents = (strategy["cpuReclaimThresholdPercent"], strategy["memoryReclaimThresholdPercent"])
    cpu, memory = (
        max(0, whole - whole * (100 - percent) // 100 - own - taken)
        for whole, percent, own, taken in zip(capacity, percents, system, high, strict=True)
    )
    return cpu, memory


def all_nodes(cluster: "ColocatedCluster") -> dict[str, Object]:
    """Return all Nodes, by name."""
    return {node["metadata"]["name"]: node for node in cluster.all(NODES)}
