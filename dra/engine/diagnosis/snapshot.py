"""What was read of a cluster, and what could not be: all that an explanation is made from, and nothing else."""

from enum import StrEnum

from dra.engine.claims.view import WorkloadPhase
from dra.engine.claims.workload_index import WorkloadKey
from dra.model.claims import ResourceClaim
from dra.model.device_classes import DeviceClass
from dra.model.meta import Struct, Uid, UnstructuredObject
from dra.model.preemption import PodDisruptionBudget, PriorityClass
from dra.model.references import GroupResource
from dra.model.scheduling import SchedulerNode, SchedulerPod
from dra.model.slices import ResourceSlice
from dra.model.taints import DeviceTaintRule
from dra.model.templates import ResourceClaimTemplate
from dra.model.workload_reservations import NO_UID


class ControllerPresence(StrEnum):
    """Whether a controller of ours works on the cluster, as far as its lease tells."""

    RUNNING = "running"
    STALE = "stale"  # there is a lease that nobody renews
    ABSENT = "absent"  # no lease: no controller, or one without leader election
    UNKNOWN = "unknown"  # the lease may not be read


class ControllerLease(Struct, frozen=True):
    """What the lease says."""

    presence: ControllerPresence = ControllerPresence.UNKNOWN
    name: str = ""
    """Of the lease: NAMESPACE/NAME."""

    holder: str = ""
    seconds: int = 0
    """Since the last renewal."""


class ReferencedWorkload(Struct, frozen=True):
    """An object that a claim refers to, looked up by name."""

    resource: str
    group: str
    namespace: str
    name: str
    phase: WorkloadPhase
    uid: Uid = NO_UID
    meant: str = ""
    """Of a kind that there is none of: the one that kubectl would take it for, ``deployments.apps``."""

    @property
    def key(self) -> WorkloadKey:
        """Its key in a world."""
        return WorkloadKey(GroupResource(resource=self.resource, group=self.group), self.namespace, self.name)


class UnreadResource(Struct, frozen=True):
    """Something that could not be read, so that nothing can be said of it."""

    resource: str
    why: str


class Snapshot(Struct, frozen=True):
    """All of it, as it was at one time."""

    taken: str = ""
    """RFC 3339, by the clock of whoever read it."""

    server: str = ""
    namespace: str | None = None
    """The only namespace whose pods were read; None: all."""

    leader: ControllerLease = ControllerLease()
    claims: tuple[ResourceClaim, ...] = ()
    pods: tuple[SchedulerPod, ...] = ()
    nodes: tuple[SchedulerNode, ...] = ()
    slices: tuple[ResourceSlice, ...] = ()
    classes: tuple[DeviceClass, ...] = ()
    rules: tuple[DeviceTaintRule, ...] = ()
    templates: tuple[ResourceClaimTemplate, ...] = ()
    priorities: tuple[PriorityClass, ...] = ()
    budgets: tuple[PodDisruptionBudget, ...] = ()
    reservations: tuple[UnstructuredObject, ...] | None = None
    """Koordinator's; None: the server knows no such kind, or they were not asked for."""

    workloads: tuple[ReferencedWorkload, ...] = ()
    gaps: tuple[UnreadResource, ...] = ()
