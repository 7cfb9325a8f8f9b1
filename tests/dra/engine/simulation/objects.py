"""The objects of the simulated cluster, made of the engine's own structs."""

from typing import Final

from dra.engine.consumers import GATE
from dra.model import workloads
from dra.model.claims import AllocationResult, DeviceAllocationResult, DeviceRequestAllocationResult, ResourceClaim
from dra.model.meta import Key, ObjectMeta, Struct, Uid
from dra.model.nodes import (
    Node,
    NodeCondition,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeStatus,
    NodeSystemInfo,
)
from dra.model.pods import Pod, PodCondition, PodResourceClaim, PodSpec, SchedulingGate, Volume
from dra.model.references import ConsumerReference, GroupResource

NAMESPACE: Final = "ml"
JOBS: Final = GroupResource(resource="jobs", group="batch")
FOREIGN_GATE: Final = "kueue.x-k8s.io/admission"
JOB_TRACKING: Final = "batch.kubernetes.io/job-tracking"
"""Upstream's finalizer on pods of Jobs: one deleted before it was bound stays until the Job controller has seen it."""


class Job(Struct, frozen=True):
    """A workload; ``finished`` stands for its Complete or Failed condition."""

    metadata: ObjectMeta
    finished: bool = False


class Device(Struct, frozen=True):
    """A device, and the nodes that reach it: one for a local device, several for one in the network."""

    name: str
    nodes: tuple[str, ...]

    @property
    def selector(self) -> NodeSelector:
        """The nodeSelector of an allocation of this device."""
        by_name = NodeSelectorRequirement(key="metadata.name", operator="In", values=list(self.nodes))
        return NodeSelector(node_selector_terms=[NodeSelectorTerm(match_fields=[by_name])])


def key(name: str) -> Key:
    """Return the key of an object in the only namespace."""
    return (NAMESPACE, name)


def job(name: str) -> Job:
    """Return a Job."""
    return Job(metadata=ObjectMeta(name=name, namespace=NAMESPACE))


def owner(found: Job) -> ConsumerReference:
    """Return the entry that stands for a Job."""
    return ConsumerReference(api_group="batch", resource="jobs", name=found.metadata.name, uid=found.metadata.uid)


def claim(name: str, *, reserved_for: str = "", uid: Uid = workloads.NO_UID, pre_list: bool = False) -> ResourceClaim:
    """Return a claim on one device, reserved for the Job of that name (and uid, if its creator knew it)."""
    annotations = {}
    if reserved_for:
        annotations[workloads.RESERVED_FOR] = f"{JOBS}/{reserved_for}"
    if uid:
        annotations[workloads.RESERVED_FOR_UID] = uid
    if pre_list:
        annotations[workloads.PRE_LIST] = "true"
    return ResourceClaim(metadata=ObjectMeta(name=name, namespace=NAMESPACE, annotations=annotations))


def allocation(device: Device, *, stamp: str) -> AllocationResult:
    """Return the allocation of a device."""
    result = DeviceRequestAllocationResult(request="gpu", driver="gpu.example", pool="pool", device=device.name)
    return AllocationResult(
        devices=DeviceAllocationResult(results=[result]), node_selector=device.selector, allocation_timestamp=stamp
    )


def devices_of(found: AllocationResult) -> frozenset[str]:
    """Return the names of the devices of an allocation."""
    return frozenset(r.device for r in found.devices.results or ())


class PodShape(Struct, frozen=True):
    """What a pod is created with."""

    claims: tuple[str, ...] = ()
    gated: bool = False
    gated_by_another: bool = False
    opted_in: bool = False
    has_volumes: bool = False
    tracked: bool = False
    priority: int = 0


def pod(name: str, shape: PodShape) -> Pod:
    """Return a pod."""
    gates = [GATE] * shape.gated + [FOREIGN_GATE] * shape.gated_by_another
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=NAMESPACE,
            annotations={workloads.PRE_LIST: "true"} if shape.opted_in else None,
            finalizers=[JOB_TRACKING] if shape.tracked else None,
        ),
        spec=PodSpec(
            priority=shape.priority,
            scheduling_gates=[SchedulingGate(name=gate) for gate in gates] or None,
            resource_claims=[PodResourceClaim(name=name, resource_claim_name=name) for name in shape.claims],
            volumes=[Volume(persistent_volume_claim={"claimName": "data"})] if shape.has_volumes else None,
        ),
    )


def node(name: str) -> Node:
    """Return a node that is ready, in its first boot."""
    return Node(metadata=ObjectMeta(name=name), status=node_status(ready=True, boot=1))


def node_status(*, ready: bool, boot: int) -> NodeStatus:
    """Return the status that a kubelet reports, or the node controller in its place."""
    condition = NodeCondition(type="Ready", status="True" if ready else "Unknown")
    return NodeStatus(node_info=NodeSystemInfo(boot_id=f"boot-{boot}"), conditions=[condition])


def with_condition(conditions: list[PodCondition] | None, changed: PodCondition) -> list[PodCondition]:
    """Return conditions of which the one of the same type is replaced."""
    return [c for c in conditions or () if c.type != changed.type] + [changed]


def entry_of(found: Pod) -> ConsumerReference:
    """Return the entry that stands for a pod."""
    return ConsumerReference(resource="pods", name=found.metadata.name, uid=found.metadata.uid)
