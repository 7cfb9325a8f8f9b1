"""A snapshot of a cluster with everything that a round of descheduling reads, and the round's objects from it.

A bundle of an older version has none of the further fields: its pods have no affinity to other pods, no images and no
restarts. `missing_facts` tells what a round on such a snapshot cannot see.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.snapshot import ClusterObjects
from dra.engine.diagnosis.migrations import has_ended, parse_jobs
from dra.engine.diagnosis.node_reports import with_pods
from dra.engine.diagnosis.snapshot import Snapshot, UnreadResource
from dra.engine.migration.pod_index import WorkloadKey
from dra.engine.migration.replicas import DEFAULT_REPLICAS, Workload
from dra.model.meta import Struct, Uid
from dra.model.preemption import PodUnavailableBudget
from dra.model.volumes import PersistentVolume, PersistentVolumeClaim


class WorkloadReplicas(Struct, frozen=True):
    """The replicas that a workload wants."""

    namespace: str
    group: str
    kind: str
    name: str
    uid: Uid
    replicas: int

    @property
    def key(self) -> WorkloadKey:
        """The key that the workload's pods name."""
        return WorkloadKey(namespace=self.namespace, group=self.group, kind=self.kind, name=self.name, uid=self.uid)


class DeschedulingFacts(Struct, frozen=True):
    """The facts that no other diagnosis reads."""

    namespaces: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)
    """Namespace → its labels."""

    unavailable_budgets: tuple[PodUnavailableBudget, ...] = ()
    volumes: tuple[PersistentVolume, ...] = ()
    volume_claims: tuple[PersistentVolumeClaim, ...] = ()
    replicas: tuple[WorkloadReplicas, ...] = ()
    gaps: tuple[UnreadResource, ...] = ()
    """Resources of these that could not be read; other diagnoses do not need them."""


class DeschedulingSnapshot(Snapshot, frozen=True):
    """A snapshot whose pods have all fields that descheduling reads."""

    pods: tuple[DeschedulingPod, ...] = ()
    descheduling: DeschedulingFacts | None = None
    """None in a bundle of an older version."""


OLDER_BUNDLE: Final = (
    "the bundle is of an older version: affinity to other pods, topology spread, images, restarts, volumes and the "
    "labels of namespaces are unknown, so pods may seem to fit where they do not, and plugins may find nothing"
)
REDACTED_LABELS: Final = (
    "a bundle has only the labels that selectors of the cluster name: a label selector of the configuration may select "
    "fewer pods here"
)


def missing_facts(snapshot: DeschedulingSnapshot, *, bundled: bool) -> Iterator[str]:
    """Yield what a round on the snapshot cannot see, beside the resources that could not be read."""
    if snapshot.descheduling is None:
        yield OLDER_BUNDLE
    elif bundled:
        yield REDACTED_LABELS


def cluster_objects(snapshot: DeschedulingSnapshot) -> ClusterObjects:
    """Return the objects of a round."""
    facts = snapshot.descheduling or DeschedulingFacts()
    return ClusterObjects(
        nodes=snapshot.nodes,
        pods=snapshot.pods,
        reservations=snapshot.reservations or (),
        jobs=tuple(job for job in parse_jobs(snapshot.migrations or ()) if not has_ended(job)),
        disruption_budgets=snapshot.budgets,
        unavailable_budgets=facts.unavailable_budgets,
        node_metrics=tuple(with_pods(metric) for metric in snapshot.node_metrics or ()),
        namespaces=facts.namespaces,
        priority_classes={priority.metadata.name: priority.value for priority in snapshot.priorities},
        replicas={workload.key: workload.replicas for workload in facts.replicas},
        volumes=facts.volumes,
        volume_claims=facts.volume_claims,
        claims=snapshot.claims,
        slices=snapshot.slices,
        device_classes=snapshot.classes,
        server=snapshot.server,
    )


def workload_replicas(workload: Workload, *, group: str, kind: str) -> WorkloadReplicas:
    """Return the replicas of a workload of Kubernetes' own kinds, with the identity that its pods name."""
    meta = workload.metadata
    given = workload.spec.parallelism if kind == "Job" else workload.spec.replicas
    return WorkloadReplicas(
        namespace=meta.namespace,
        group=group,
        kind=kind,
        name=meta.name,
        uid=meta.uid,
        replicas=DEFAULT_REPLICAS if given is None else given,
    )
