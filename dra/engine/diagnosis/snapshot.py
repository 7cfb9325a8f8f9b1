"""A snapshot of a cluster: everything that a diagnosis is made from, with the resources that could not be read."""

from enum import StrEnum

import msgspec

from dra.api.parameters.cpu_policies import CpuBindPolicy
from dra.engine.claims.view import WorkloadPhase
from dra.engine.claims.workload_index import WorkloadKey
from dra.model.claims import ResourceClaim
from dra.model.device_classes import DeviceClass
from dra.model.diagnosed_pods import DiagnosedPod, PodEvent
from dra.model.meta import Key, Struct, Uid, UnstructuredObject
from dra.model.node_metrics import NodeMetric
from dra.model.node_pods import AgentNode, ConfigMap
from dra.model.preemption import PodDisruptionBudget, PriorityClass
from dra.model.references import GroupResource
from dra.model.runtime_classes import RuntimeClass
from dra.model.scheduling import SchedulerPod
from dra.model.slices import ManagedResourceSlice, ResourceSlice
from dra.model.taints import DeviceTaintRule
from dra.model.templates import ResourceClaimTemplate
from dra.model.workload_reservations import NO_UID


class ControllerPresence(StrEnum):
    """The presence of a dra-reserve controller on the cluster, as far as its Lease shows."""

    RUNNING = "running"
    STALE = "stale"  # the holder no longer renews the Lease
    ABSENT = "absent"  # no Lease: no controller, or a controller without leader election
    UNKNOWN = "unknown"  # the Lease could not be read


class ControllerLease(Struct, frozen=True):
    """The state of the controller's Lease."""

    presence: ControllerPresence = ControllerPresence.UNKNOWN
    name: str = ""
    """NAMESPACE/NAME of the Lease."""

    holder: str = ""
    seconds: int = 0
    """Seconds since the last renewal."""


class InstalledDeployment(Struct, frozen=True):
    """A Deployment of dra-reserve, reduced to its replicas."""

    namespace: str
    name: str
    component: str
    """``controller``, ``extender``, ``descheduler``, ``page`` or ``profiles``."""

    desired: int
    ready: int
    unavailable_since: str = ""
    """Time in RFC 3339 since which the condition Available is False; empty if it is not False."""

    @property
    def key(self) -> Key:
        """The namespace and the name."""
        return self.namespace, self.name


class ReferencedWorkload(Struct, frozen=True):
    """An object that a claim refers to, looked up by name."""

    resource: str
    group: str
    namespace: str
    name: str
    phase: WorkloadPhase
    uid: Uid = NO_UID
    suspended: bool = False
    meant: str = ""
    """For an unknown kind: the kind that kubectl would take it for, such as ``deployments.apps``; else empty."""

    @property
    def key(self) -> WorkloadKey:
        """The key of the workload in a claim cache."""
        return WorkloadKey(GroupResource(resource=self.resource, group=self.group), self.namespace, self.name)


class PodController(Struct, frozen=True):
    """An object that controls pods, directly or through objects that it controls, as a Deployment its ReplicaSets."""

    resource: str
    group: str
    kind: str
    namespace: str
    name: str
    uid: Uid
    controller: Uid = NO_UID
    """The uid of the object's own controller; empty if it has none."""

    finished: bool = False
    suspended: bool = False

    @property
    def key(self) -> WorkloadKey:
        """The key of the object in a claim cache."""
        return WorkloadKey(GroupResource(resource=self.resource, group=self.group), self.namespace, self.name)


class UnreadResource(Struct, frozen=True):
    """A resource that could not be read, so that the diagnosis says nothing about its objects."""

    resource: str
    why: str


class Snapshot(Struct, frozen=True):
    """All objects that a diagnosis needs, as they were at one time."""

    taken: str = ""
    """Time of the snapshot in RFC 3339, by the clock of the process that took the snapshot."""

    server: str = ""
    namespace: str | None = None
    """The only namespace whose pods were read; None for all namespaces."""

    leader: ControllerLease = ControllerLease()
    deployments: tuple[InstalledDeployment, ...] = ()
    """The Deployments of dra-reserve, if they were requested and could be read."""

    claims: tuple[ResourceClaim, ...] = ()
    pods: tuple[SchedulerPod, ...] = ()
    start_failures: tuple[PodEvent, ...] = ()
    """Events by which kubelets report pods that cannot start, if they were requested."""

    nodes: tuple[AgentNode, ...] = ()
    slices: tuple[ResourceSlice, ...] = ()
    classes: tuple[DeviceClass, ...] = ()
    rules: tuple[DeviceTaintRule, ...] = ()
    templates: tuple[ResourceClaimTemplate, ...] = ()
    priorities: tuple[PriorityClass, ...] = ()
    budgets: tuple[PodDisruptionBudget, ...] = ()
    runtime_classes: tuple[RuntimeClass, ...] | None = None
    """None if they could not be read, or were not requested."""

    reservations: tuple[UnstructuredObject, ...] | None = None
    """Koordinator's Reservations; None if the server does not know the kind, or they were not requested."""

    migrations: tuple[UnstructuredObject, ...] | None = None
    """PodMigrationJobs; None if the server does not know the kind, or they were not requested."""

    node_metrics: tuple[NodeMetric, ...] | None = None
    """What nodes use; None if the server does not know the kind, or it was not requested."""

    colocation_config: ConfigMap | None = None
    """The ConfigMap slo-controller-config; None if it does not exist, or was not requested."""

    enabled_namespaces: dict[str, bool] = msgspec.field(default_factory=dict)
    """Namespace → whether its pods' requests in Koordinator's form are translated; without those that were not read."""

    default_cpu_bind_policy: CpuBindPolicy | None = None
    """The bind policy of pods in Koordinator's form that name none; None if it was not requested, or could not be read.
    """

    descheduler: ControllerLease = ControllerLease()
    """The Lease of the descheduler."""

    workloads: tuple[ReferencedWorkload, ...] = ()
    controllers: tuple[PodController, ...] = ()
    """The controllers of pods, if they were requested: of one namespace, or of all."""

    gaps: tuple[UnreadResource, ...] = ()


class DiagnosedSnapshot(Snapshot, frozen=True):
    """A snapshot that is decoded: its pods keep the faults of containers and devices, its slices their writers."""

    pods: tuple[DiagnosedPod, ...] = ()
    slices: tuple[ManagedResourceSlice, ...] = ()
