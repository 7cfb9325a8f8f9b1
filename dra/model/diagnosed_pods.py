"""Pods with what their kubelets report about containers and devices, as far as it is a fault.

A container that runs, and a device that is healthy, leave nothing in memory: both are the rule.
"""

from typing import Final

import msgspec

from dra.model.meta import BoundedObject, ObjectMeta, Struct, Uid
from dra.model.pod_affinity import PodAffinity
from dra.model.scheduling import Affinity, ContainerStatus, SchedulerPod, SchedulerPodSpec, SchedulerPodStatus
from dra.model.workload_reservations import NO_UID

MESSAGE_LENGTH_MAX: Final = 500
"""Maximum number of characters of a message that are kept: runtimes quote whole configurations."""

UNHEALTHY: Final = "Unhealthy"

_FAULTS_MAX: Final = 16
"""Maximum number of unhealthy devices of one container that are kept."""


class ResourceHealth(Struct, frozen=True):
    """``allocatedResourcesStatus[].resources[]``: one device of a container and its health (KEP-4680)."""

    resource_id: str = msgspec.field(default="", name="resourceID")
    health: str = ""
    message: str = ""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "message", self.message[:MESSAGE_LENGTH_MAX])


class ResourceStatus(Struct, frozen=True):
    """``allocatedResourcesStatus[]``: the unhealthy devices of one request, named ``claim:CLAIM/REQUEST``."""

    name: str = ""
    resources: list[ResourceHealth] | None = None

    def __post_init__(self) -> None:
        unhealthy = [resource for resource in self.resources or () if resource.health == UNHEALTHY][:_FAULTS_MAX]
        msgspec.structs.force_setattr(self, "resources", unhealthy or None)


class DeviceContainerStatus(ContainerStatus, frozen=True):
    """``containerStatuses[]``, with the devices of the container that are unhealthy."""

    allocated_resources_status: list[ResourceStatus] | None = None

    def __post_init__(self) -> None:
        unhealthy = [
            resource_status for resource_status in self.allocated_resources_status or () if resource_status.resources
        ][:_FAULTS_MAX]
        msgspec.structs.force_setattr(self, "allocated_resources_status", unhealthy or None)


class WaitingContainer(Struct, frozen=True):
    """``state.waiting`` of a container."""

    reason: str = ""
    message: str = ""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "message", self.message[:MESSAGE_LENGTH_MAX])


class ContainerState(Struct, frozen=True):
    """``state`` of a container, as far as the container waits."""

    waiting: WaitingContainer | None = None


class DiagnosedContainerStatus(DeviceContainerStatus, frozen=True):
    """``containerStatuses[]``, with what keeps the container from running."""

    state: ContainerState | None = None
    """None unless the container waits."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.state is not None and self.state.waiting is None:
            msgspec.structs.force_setattr(self, "state", None)


class DiagnosedPodStatus(SchedulerPodStatus, frozen=True):
    """``status`` of a Pod, with the faults of containers and devices."""

    # Lists of frozen structs are only read, so a list of a subclass serves as well.
    container_statuses: list[DiagnosedContainerStatus] | None = None  # type: ignore[assignment]
    init_container_statuses: list[DiagnosedContainerStatus] | None = None  # type: ignore[assignment]


class UnreadTerm(Struct, frozen=True):
    """A term that nothing here evaluates: only that there is one counts, so its selectors are not kept."""


class UnreadPodAffinity(Struct, frozen=True):
    """``podAffinity`` of a Pod, as far as it is required."""

    required_during_scheduling_ignored_during_execution: list[UnreadTerm] | None = None


class UnreadSpreadConstraint(Struct, frozen=True):
    """``topologySpreadConstraints[]``, without the pods that are counted."""

    when_unsatisfiable: str = ""


class DiagnosedAffinity(Affinity, frozen=True):
    """``affinity`` of a Pod, with the pods that it keeps away."""

    pod_affinity: UnreadPodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class DiagnosedPodSpec(SchedulerPodSpec, frozen=True):
    """``spec`` of a Pod, with the pods that it keeps away, and whether further fields may exclude nodes."""

    affinity: DiagnosedAffinity | None = None
    topology_spread_constraints: list[UnreadSpreadConstraint] | None = None


class DiagnosedPod(SchedulerPod, frozen=True):
    """A Pod with all fields that a scheduler reads, and the faults of its containers and devices."""

    spec: DiagnosedPodSpec = DiagnosedPodSpec()
    status: DiagnosedPodStatus = DiagnosedPodStatus()


class EventObject(Struct, frozen=True):
    """``regarding`` of an Event."""

    kind: str = ""
    uid: Uid = NO_UID


class EventSeries(Struct, frozen=True):
    """``series`` of an Event that was repeated."""

    count: int = 0
    last_observed_time: str = ""


class PodEvent(BoundedObject, frozen=True):
    """An Event about a pod: what its kubelet could not do."""

    metadata: ObjectMeta
    regarding: EventObject = EventObject()
    reason: str = ""
    note: str = ""
    series: EventSeries | None = None
    event_time: str | None = None
    deprecated_count: int = 0
    deprecated_last_timestamp: str | None = None

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "note", self.note[:MESSAGE_LENGTH_MAX])

    @property
    def count(self) -> int:
        """The number of times that the Event was recorded."""
        return max(self.series.count if self.series is not None else 0, self.deprecated_count, 1)

    @property
    def last(self) -> str:
        """The time of the last occurrence, in RFC 3339."""
        last = self.series.last_observed_time if self.series is not None else ""
        return last or self.deprecated_last_timestamp or self.event_time or self.metadata.creation_timestamp
