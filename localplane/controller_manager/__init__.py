"""The controller manager of the local plane: controllers of workloads, nodes, namespaces and garbage.

The workloads are Jobs, ReplicaSets and Deployments; PodDisruptionBudgets count the pods. Each controller is a client of
the API server and could be replaced by the real one. ResourceClaims are handled by the controller of dra-reserve, which
runs beside a plane; the stock claim controller (`claims`) is a component of its own, for planes in mode ``alongside``.
"""

from typing import Final

NOT_ENFORCED: Final = (
    "jobs: backoffLimitPerIndex, maxFailedIndexes; adoption of orphans; an event for each pod",
    "replicasets, deployments: adoption of orphans, ReplicaFailure conditions, collisionCount, proportional scaling",
    "poddisruptionbudgets: events, and the scale of controllers other than Deployments and ReplicaSets",
    "pods: a condition DisruptionTarget stays True on a pod that is not deleted after all",
    "autoscalers: there are none, nor their kinds",
    "the stock resourceclaim controller: runs in mode alongside, without claims of PodGroups and eviction by taints",
    "nodes without a lease are never marked as unreachable",
)
"""Features of upstream's controller manager that these controllers lack."""
