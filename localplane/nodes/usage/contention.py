"""Divides the CPU time of an emulated node among its pods when they want more than there is. Pure.

The system comes first, then pods that are not best-effort, then best-effort pods, which the node may limit further.
Nobody contends for memory: a pod has what it wants.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from dra.model.meta import Uid
from localplane.nodes.usage.demand import Usage

K = TypeVar("K", bound=str)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDemand:
    """The usage that a pod wants, and whether the node holds the pod back before others."""

    uid: Uid
    demand: Usage
    best_effort: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUsage:
    """Usage of the system and the pods of a node at one moment."""

    system: Usage
    pods: Mapping[Uid, Usage]

    @property
    def total(self) -> Usage:
        """The usage of the node."""
        return sum(self.pods.values(), start=self.system)


def node_usage(pods: Iterable[PodDemand], *, system: Usage, cpus: int, best_effort_limit: int | None) -> NodeUsage:
    """Return what is used of a node's ``cpus`` milli-CPUs; best-effort pods together use at most their limit."""
    pods = tuple(pods)
    left = cpus - min(system.cpu, cpus)
    used: dict[Uid, int] = {}
    for best_effort in (False, True):
        demands = {pod.uid: pod.demand.cpu for pod in pods if pod.best_effort is best_effort}
        limit = min(left, best_effort_limit) if best_effort and best_effort_limit is not None else left
        granted = share_cpu_time(demands, limit=limit)
        used |= granted
        left -= sum(granted.values())
    return NodeUsage(
        system=Usage(cpu=min(system.cpu, cpus), memory=system.memory),
        pods={pod.uid: Usage(cpu=used[pod.uid], memory=pod.demand.memory) for pod in pods},
    )


def share_cpu_time(demands: Mapping[K, int], *, limit: int) -> dict[K, int]:
    """Return the milli-CPUs that each of some pods gets of a limit that they share.

    Pods that want less than an equal share get what they want, and the others share the rest equally, as the kernel
    shares CPU time among groups of equal weight.
    """
    granted: dict[K, int] = {}
    left = max(limit, 0)
    for number, (name, wanted) in enumerate(sorted(demands.items(), key=lambda item: (item[1], item[0]))):
        granted[name] = min(wanted, left // (len(demands) - number))
        left -= granted[name]
    return granted
