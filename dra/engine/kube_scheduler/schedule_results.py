"""The results of a scheduling cycle."""

from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from dra.engine.devices import node_allocatable
from dra.engine.kube_scheduler.extended_resources import ExtendedResourceClaim
from dra.engine.kube_scheduler.scheduling_queue import ClusterEvent
from dra.model.claims import AllocationResult, ResourceClaim
from dra.model.pods import PodExtendedResourceClaimStatus
from dra.model.scheduling import NodeAllocatableClaimStatus, SchedulerPod


@dataclass(frozen=True, slots=True)
class NodeAssignment:
    """The node chosen for a pod; `claims` are all of its claims, each with its allocation if that is new."""

    node: str
    claims: tuple[tuple[ResourceClaim, AllocationResult | None], ...] = ()
    node_allocatable_statuses: tuple[NodeAllocatableClaimStatus, ...] = ()
    """Resources of the node itself that the pod gets through its claims (DRANodeAllocatableResources)."""
    extended: ExtendedResourceClaim | None = None
    """The claim among `claims` that devices for the pod's extended resources are allocated to."""

    def assigned_pod(self, pod: SchedulerPod) -> SchedulerPod:
        """Return the assigned pod, with the resources that it gets through its claims, and the name of its claim."""
        if self.extended is not None:
            status = PodExtendedResourceClaimStatus(resource_claim_name=self.extended.claim.metadata.name)
            pod = msgspec.structs.replace(
                pod, status=msgspec.structs.replace(pod.status, extended_resource_claim_status=status)
            )
        return (
            node_allocatable.with_node_allocatable_statuses(pod, list(self.node_allocatable_statuses))
            if self.node_allocatable_statuses
            else pod
        )


@dataclass(frozen=True, slots=True)
class Deallocation:
    """The removal of an allocation that no other pod uses and that keeps the pod from every node."""

    claim: ResourceClaim
    message: str


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """The result for a pod that fits on no node until one of the `events` happens."""

    message: str
    events: ClusterEvent


@dataclass(frozen=True, slots=True)
class SchedulerError:
    """The result for a pod whose cycle ended with an error; kube-scheduler tries such a pod again after a while."""

    message: str


@dataclass(frozen=True, slots=True)
class Pending:
    """The result for a pod that waits for work under way; users need no report."""

    reason: str
    events: ClusterEvent = ClusterEvent.CLAIM


ScheduleResult: TypeAlias = NodeAssignment | Deallocation | Unschedulable | SchedulerError | Pending
