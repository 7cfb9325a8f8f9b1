"""The part of the cluster that rounds need in memory, beside that of migrations; without profiles none is watched."""

import asyncio
from typing import Any, Final, cast

from controller.migration.informers import MigrationInformers, trim_pod_annotations
from controller.optional_objects import OptionalObjects
from dra.api.reservations.well_known import ANNOTATION_NODE_RESERVATION, MAX_ANNOTATION_LENGTH
from dra.engine.colocation.watched import WatchedNodeMetric
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.migration.pod_memory import SharedParts
from dra.engine.migration.view import MigrationPod
from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.kube.resources import (
    CLAIMS,
    DEVICE_CLASSES,
    NAMESPACES,
    NODE_METRICS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PRIORITY_CLASSES,
    SLICES,
)
from dra.kube.shared_informers import SharedInformer
from dra.model.annotations import trim_annotations
from dra.model.claims import WatchedClaim
from dra.model.device_classes import DeviceClass
from dra.model.meta import PartialObjectMetadata
from dra.model.preemption import PriorityClass
from dra.model.scheduling import SchedulerNode
from dra.model.slices import ResourceSlice
from dra.model.volumes import PersistentVolume, PersistentVolumeClaim

RAW_ALLOCATABLE: Final = "node.koordinator.sh/raw-allocatable"
"""Annotation of a Node whose allocatable is amplified: what the node has for real."""

_RETAINED: Final = frozenset({ANNOTATION_NODE_RESERVATION, RAW_ALLOCATABLE})


class DeschedulingInformers(MigrationInformers):
    """The informers of migrations and of rounds. Pods are watched once, with all fields that either reads."""

    pod_form = DeschedulingPod

    def __init__(self, client: Client, *, clock: Clock) -> None:
        self._parts = SharedParts()
        super().__init__(client, clock=clock)
        self.nodes = self.informer(NODES, SchedulerNode, prepare=_trim_node)
        self.namespaces = self.informer(NAMESPACES, PartialObjectMetadata)
        self.priority_classes = self.informer(PRIORITY_CLASSES, PriorityClass)
        self.volumes = self.informer(PERSISTENT_VOLUMES, PersistentVolume)
        self.volume_claims = self.informer(PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim)
        self.claims = self.informer(CLAIMS, WatchedClaim)
        self.slices = self.informer(SLICES, ResourceSlice)
        self.device_classes = self.informer(DEVICE_CLASSES, DeviceClass)
        self.node_metrics = OptionalObjects(client, self, resource=NODE_METRICS, model=WatchedNodeMetric, clock=clock)
        """The use of nodes, where the kind NodeMetric is installed."""

    @property
    def descheduling_pods(self) -> SharedInformer[DeschedulingPod]:
        """The informer of pods, which decodes all fields that rounds read."""
        return cast("SharedInformer[DeschedulingPod]", self.pods)

    @property
    def read_by_rounds(self) -> tuple[SharedInformer[Any], ...]:
        """The informers whose objects rounds read, and whose changes nobody needs to see."""
        return (
            self.namespaces,
            self.priority_classes,
            self.volumes,
            self.volume_claims,
            self.claims,
            self.slices,
            self.device_classes,
        )

    def prepare_pod(self, pod: MigrationPod) -> None:
        """Remove annotations that nobody reads, and share what many pods have alike."""
        trim_pod_annotations(pod)
        self._parts.share(pod)

    async def run(self) -> None:
        """Watch all kinds until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(super().run(), name="watches")
            group.create_task(self.node_metrics.run(), name="node metrics")

    async def wait_for_sync(self) -> None:
        """Wait until everything is listed, and it is known whether the cluster has NodeMetrics."""
        await super().wait_for_sync()
        await self.node_metrics.wait_for_sync()

    def not_ready_reasons(self) -> list[str]:
        """Return what is not up to date, NodeMetrics included until their first list."""
        return [*super().not_ready_reasons(), *filter(None, (self.node_metrics.staleness(),))]


def _trim_node(node: SchedulerNode) -> None:
    trim_annotations(node.metadata, keep=_RETAINED, value_max_characters=MAX_ANNOTATION_LENGTH)
