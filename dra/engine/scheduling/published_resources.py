"""The extended resources that nodes publish themselves, by device plugins, and those that pods request beside these.

Of one extended resource a cluster may have nodes where a device plugin serves it and nodes where DRA does (KEP-5004),
for example while it moves from one to the other. kube-scheduler decides by node: where the allocatable amount is zero
or absent, the DynamicResources plugin allocates devices, and the resource does not count.
"""

from functools import lru_cache
from typing import Final, TypeAlias

import msgspec

from dra.engine.reservations.pod_info import PodInfo
from dra.model import quantities
from dra.model.scheduling import SchedulerNode

PublishedResources: TypeAlias = frozenset[str]
"""Names of the extended resources of which a node has any."""

NOTHING_PUBLISHED: Final[PublishedResources] = frozenset()


def published_resources(node: SchedulerNode) -> PublishedResources:
    """Return the extended resources that a node publishes, whatever it keeps for itself by annotation."""
    allocatable = node.status.allocatable or {}
    return _shared(frozenset(name for name, amount in allocatable.items() if _is_extended(name) and _is_some(amount)))


def unpublished_resources(pod: PodInfo, published: PublishedResources) -> frozenset[str]:
    """Return the extended resources that a pod requests and a node does not publish."""
    return frozenset(
        name for name, amount in pod.amounts.items() if amount and _is_extended(name) and name not in published
    )


def without_resources(pod: PodInfo, names: frozenset[str]) -> PodInfo:
    """Return a pod that does not request some resources."""
    if not names:
        return pod
    return msgspec.structs.replace(pod, amounts={n: amount for n, amount in pod.amounts.items() if n not in names})


@lru_cache(maxsize=256)
def _shared(names: PublishedResources) -> PublishedResources:
    """Return one object for equal sets: thousands of nodes have the same resources."""
    return names


def _is_extended(name: str) -> bool:
    return "/" in name


def _is_some(amount: str | int) -> bool:
    return quantities.parse(str(amount)) > 0
