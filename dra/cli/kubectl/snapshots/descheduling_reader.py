"""Reads a cluster with everything that a round of descheduling needs."""

import asyncio
from typing import Final

from dra.cli.kubectl.snapshots.cluster_reader import SnapshotReader
from dra.cli.kubectl.snapshots.snapshot_scope import SnapshotScope
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.diagnosis.descheduling_snapshot import (
    DeschedulingFacts,
    DeschedulingSnapshot,
    WorkloadReplicas,
    workload_replicas,
)
from dra.engine.diagnosis.snapshot import Snapshot
from dra.engine.migration.replicas import Workload
from dra.kube.resources import (
    JOBS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_UNAVAILABLE_BUDGETS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Resource,
)
from dra.model.meta import PartialObjectMetadata
from dra.model.preemption import PodUnavailableBudget
from dra.model.volumes import PersistentVolume, PersistentVolumeClaim

WORKLOADS: Final = (REPLICA_SETS, STATEFUL_SETS, REPLICATION_CONTROLLERS, JOBS)
"""Kinds whose replicas are read; those of another kind are unknown, and budgets count its pods instead."""


class DeschedulingReader(SnapshotReader):
    """Reads one snapshot of a cluster, with what descheduling reads beside other diagnoses."""

    pod_model = DeschedulingPod

    async def read(self, scope: SnapshotScope, *, node: str = "") -> DeschedulingSnapshot:
        """Return the snapshot; raise ApiError if not even the claims can be read."""
        snapshot = await super().read(scope, node=node)
        before = len(self._lists.gaps)
        namespaces, budgets, volumes, claims, workloads = await asyncio.gather(
            self._lists.namespaced(NAMESPACES, PartialObjectMetadata),
            self._lists.if_served(POD_UNAVAILABLE_BUDGETS, PodUnavailableBudget),
            self._lists.cluster_scoped(PERSISTENT_VOLUMES, PersistentVolume),
            self._lists.namespaced(PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim),
            asyncio.gather(*map(self._read_replicas, WORKLOADS)),
        )
        facts = DeschedulingFacts(
            namespaces={namespace.metadata.name: namespace.metadata.labels or {} for namespace in namespaces},
            unavailable_budgets=tuple(budgets or ()),
            volumes=tuple(volumes),
            volume_claims=tuple(claims),
            replicas=tuple(replicas for kind_replicas in workloads for replicas in kind_replicas),
            gaps=tuple(self._lists.gaps[before:]),
        )
        return descheduling_snapshot(snapshot, facts)

    async def _read_replicas(self, resource: Resource) -> list[WorkloadReplicas]:
        workloads = await self._lists.namespaced(resource, Workload)
        return [workload_replicas(workload, group=resource.group, kind=resource.kind) for workload in workloads]


def descheduling_snapshot(snapshot: Snapshot, facts: DeschedulingFacts) -> DeschedulingSnapshot:
    """Return a snapshot, whose pods were read for descheduling, together with the further facts."""
    fields = {name: getattr(snapshot, name) for name in Snapshot.__struct_fields__}
    return DeschedulingSnapshot(**fields, descheduling=facts)
