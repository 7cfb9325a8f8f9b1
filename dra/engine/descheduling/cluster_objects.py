"""The objects that a snapshot is made of, as informers or a bundle have them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dra.api.migration.model import PodMigrationJob
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.migration.pod_index import WorkloadKey
from dra.model.claims import ResourceClaim
from dra.model.device_classes import DeviceClass
from dra.model.meta import UnstructuredObject
from dra.model.node_metrics import NodeMetric
from dra.model.preemption import PodDisruptionBudget, PodUnavailableBudget
from dra.model.scheduling import SchedulerNode
from dra.model.slices import ResourceSlice
from dra.model.taints import DeviceTaintRule
from dra.model.templates import ResourceClaimTemplate
from dra.model.volumes import PersistentVolume, PersistentVolumeClaim


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterObjects:
    """The objects that a snapshot is made of; what is empty by default restricts nothing, or is not in the cluster."""

    nodes: tuple[SchedulerNode, ...]
    pods: tuple[DeschedulingPod, ...]
    reservations: tuple[UnstructuredObject, ...] = ()
    jobs: tuple[PodMigrationJob, ...] = ()
    """Unfinished PodMigrationJobs, of people as well."""
    ended_jobs: tuple[PodMigrationJob, ...] = ()
    """PodMigrationJobs that have ended and still exist: no further one is made for their pods."""
    disruption_budgets: tuple[PodDisruptionBudget, ...] = ()
    unavailable_budgets: tuple[PodUnavailableBudget, ...] = ()
    node_metrics: tuple[NodeMetric, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Namespace → its labels."""
    priority_classes: Mapping[str, int] = field(default_factory=dict)
    """PriorityClass → its value."""
    replicas: Mapping[WorkloadKey, int] = field(default_factory=dict)
    """Workload → the replicas that it wants, where that is known."""
    volumes: tuple[PersistentVolume, ...] = ()
    volume_claims: tuple[PersistentVolumeClaim, ...] = ()
    claims: tuple[ResourceClaim, ...] = ()
    claim_templates: tuple[ResourceClaimTemplate, ...] = ()
    """Where a template is missing, the pods' own claims say what is asked for."""
    slices: tuple[ResourceSlice, ...] = ()
    device_classes: tuple[DeviceClass, ...] = ()
    device_taint_rules: tuple[DeviceTaintRule, ...] = ()
    server: str = ""
    """The version of the API server, by which devices are allocated; empty if it is not known."""
