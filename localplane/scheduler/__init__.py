"""A small kube-scheduler: node fit and device allocation, one pod at a time, every write through the API server."""

from typing import Final

from localplane.scheduler.scheduler import Scheduler

NOT_ENFORCED: Final = (
    "preemption: a pod of high priority waits until there is room",
    "pod affinity and anti-affinity, topology spread, volumes",
    "preferred node affinity, PreferNoSchedule taints, images: nodes are scored by what is free of cpu and memory",
    "scheduling groups (PodGroups)",
    "devices with binding conditions are never allocated",
)
"""Features of upstream's scheduler that this scheduler lacks."""

__all__ = ["NOT_ENFORCED", "Scheduler"]
