"""The objects of the simulated cluster, made of the engine's own structs."""

from typing import Final

from msgspec.structs import replace

from dra.engine.claims.consumers import SCHEDULING_GATE
from dra.engine.claims.policy import Policy
from dra.model import nodes, workload_reservations
from dra.model.claims import (
    POD_CLAIM_NAME,
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from dra.model.meta import Key, ObjectMeta, OwnerReference, Struct, Uid
from dra.model.nodes import (
    Node,
    NodeCondition,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeStatus,
    NodeSystemInfo,
)
from dra.model.pods import (
    Pod,
    PodCondition,
    PodResourceClaim,
    PodResourceClaimStatus,
    PodSpec,
    SchedulingGate,
    SchedulingGroup,
    Volume,
)
from dra.model.references import POD_GROUPS, ConsumerReference, GroupResource
from dra.model.templates import PodGroup, PodGroupSpec

NAMESPACE: Final = "ml"
JOBS: Final = GroupResource(resource="jobs", group="batch")
FOREIGN_GATE: Final = "kueue.x-k8s.io/admission"
JOB_TRACKING: Final = "batch.kubernetes.io/job-tracking"
"""Upstream's finalizer on pods of Jobs: one deleted before it was bound stays until the Job controller has seen it."""


class Job(Struct, frozen=True):
    """A workload; ``finished`` stands for its Complete or Failed condition."""

    metadata: ObjectMeta
    finished: bool = False
    suspended: bool = False
    was_suspended: bool = False
    """Whether the Job is or was suspended: a write of a controller may be late."""

    def is_at_work(self, policy: Policy) -> bool:
        """Return whether the Job keeps its claims."""
        return not self.finished and not (self.suspended and policy.release_suspended)


class Reservation(Struct, frozen=True):
    """What of a Reservation the claim rules know."""

    metadata: ObjectMeta
    phase: str = "Pending"
    node: str = ""


class Device(Struct, frozen=True):
    """A device, and the nodes that reach it: one for a local device, several for one in the network."""

    name: str
    nodes: tuple[str, ...]
    units: tuple[str, ...] = ()
    """The parts of the hardware that it takes: partitions overlap (KEP-4815). Empty: the hardware has its name."""

    shares: int = 1
    """How many claims may have it at the same time, each a share of its capacity (KEP-5075)."""

    conditional: bool = False
    """Whether binding waits until the driver reports that it is attached (KEP-5007)."""

    by_label: bool = False
    """Whether allocations select its nodes by a label, which may change, instead of by name."""

    @property
    def parts(self) -> frozenset[str]:
        """The hardware that nobody else may have."""
        return frozenset(self.units or (self.name,))

    @property
    def label(self) -> str:
        """The label of the nodes that reach it."""
        return f"reaches-{self.name}"

    @property
    def selector(self) -> NodeSelector:
        """The nodeSelector of an allocation of this device."""
        if self.by_label:
            by_label = NodeSelectorRequirement(key=self.label, operator="In", values=["true"])
            return NodeSelector(node_selector_terms=[NodeSelectorTerm(match_expressions=[by_label])])
        by_name = NodeSelectorRequirement(key="metadata.name", operator="In", values=list(self.nodes))
        return NodeSelector(node_selector_terms=[NodeSelectorTerm(match_fields=[by_name])])

    def reached_from(self, node: Node) -> bool:
        """Whether the scheduler finds the device for a pod on that node."""
        return nodes.matches_node_selector(self.selector, name=node.metadata.name, labels=node.metadata.labels)

    def __str__(self) -> str:
        marks = [f"parts {'+'.join(self.units)}"] * bool(self.units) + [f"{self.shares} shares"] * (self.shares > 1)
        marks += ["conditional"] * self.conditional + ["by label"] * self.by_label
        return f"{self.name}@{'+'.join(self.nodes)}" + (f" ({', '.join(marks)})" if marks else "")


ONE_DEVICE: Final = (Device(name="gpu-0", nodes=("n1", "n2")),)
"""One device that two of three nodes reach: claims compete for it, and pods may be stuck outside."""

TWO_DEVICES: Final = (Device(name="gpu-0", nodes=("n1", "n2")), Device(name="gpu-1", nodes=("n3",)))
"""A second one elsewhere: an allocation that is taken back can come out elsewhere."""

ATTACHED: Final = "Attached"
"""The condition that binding a conditional device waits for."""

BROKEN: Final = "Broken"
"""The condition that says that a conditional device cannot be bound."""


def key(name: str) -> Key:
    """Return the key of an object in the only namespace."""
    return (NAMESPACE, name)


def job(name: str) -> Job:
    """Return a Job."""
    return Job(metadata=ObjectMeta(name=name, namespace=NAMESPACE))


def job_entry(found: Job) -> ConsumerReference:
    """Return the entry that stands for a Job."""
    return ConsumerReference(api_group="batch", resource="jobs", name=found.metadata.name, uid=found.metadata.uid)


def claim(
    name: str, *, reserved_for: str = "", uid: Uid = workload_reservations.NO_UID, pre_list: bool = False
) -> ResourceClaim:
    """Return a claim on one device, reserved for the Job of that name (and uid, if its creator knew it)."""
    annotations = {}
    if reserved_for:
        annotations[workload_reservations.RESERVED_FOR] = f"{JOBS}/{reserved_for}"
    if uid:
        annotations[workload_reservations.RESERVED_FOR_UID] = uid
    if pre_list:
        annotations[workload_reservations.PRE_LIST] = "true"
    return ResourceClaim(metadata=ObjectMeta(name=name, namespace=NAMESPACE, annotations=annotations))


def allocation(device: Device, *, stamp: str, share: str | None = None) -> AllocationResult:
    """Return the allocation of a device, or of a share of it."""
    result = DeviceRequestAllocationResult(
        request="gpu",
        driver="gpu.example",
        pool="pool",
        device=device.name,
        share_id=share,
        consumed_capacity={"memory": "1"} if share else None,
        binding_conditions=[ATTACHED] if device.conditional else None,
        binding_failure_conditions=[BROKEN] if device.conditional else None,
    )
    return AllocationResult(
        devices=DeviceAllocationResult(results=[result]), node_selector=device.selector, allocation_timestamp=stamp
    )


def devices_of(found: AllocationResult) -> frozenset[str]:
    """Return the names of the devices of an allocation."""
    return frozenset(r.device for r in found.devices.results or ())


SCHEDULER_ANNOTATION: Final = "test/scheduler"
NODE_ANNOTATION: Final = "test/node"
GRACE_ANNOTATION: Final = "test/grace"
"""Annotations in the place of fields of a pod's spec that the engine does not read."""


OWN_CLAIM: Final = "own"
"""The entry of a pod's spec that names a template."""


class PodShape(Struct, frozen=True):
    """What a pod is created with."""

    claims: tuple[str, ...] = ()
    gated: bool = False
    gated_by_another: bool = False
    opted_in: bool = False
    has_volumes: bool = False
    tracked: bool = False
    priority: int = 0
    scheduler: str = ""
    """``schedulerName``; empty: the default one."""

    node: str = ""
    """``nodeSelector``: the only node that it may run on; perhaps one that is not there."""

    gang: str = ""
    """``schedulingGroup``: its PodGroup."""

    grace: int = 30
    """``terminationGracePeriodSeconds``."""

    template: bool = False
    """Whether it has a claim of its own, too, made from a template."""

    template_for: str = ""
    """The workload that the template says its claims are reserved for; empty for none."""


def pod(name: str, shape: PodShape) -> Pod:
    """Return a pod."""
    gates = [SCHEDULING_GATE] * shape.gated + [FOREIGN_GATE] * shape.gated_by_another
    annotations = {workload_reservations.PRE_LIST: "true"} if shape.opted_in else {}
    annotations |= {NODE_ANNOTATION: shape.node} if shape.node else {}
    annotations |= {SCHEDULER_ANNOTATION: shape.scheduler} if shape.scheduler else {}
    annotations |= {GRACE_ANNOTATION: str(shape.grace)}
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=NAMESPACE,
            annotations=annotations,
            finalizers=[JOB_TRACKING] if shape.tracked else None,
        ),
        spec=PodSpec(
            priority=shape.priority,
            scheduling_gates=[SchedulingGate(name=gate) for gate in gates] or None,
            resource_claims=[
                *(PodResourceClaim(name=name, resource_claim_name=name) for name in shape.claims),
                *[PodResourceClaim(name=OWN_CLAIM, resource_claim_template_name="gpu")] * shape.template,
            ],
            volumes=[Volume(persistent_volume_claim={"claimName": "data"})] if shape.has_volumes else None,
            termination_grace_period_seconds=shape.grace or None,
            scheduling_group=SchedulingGroup(pod_group_name=shape.gang) if shape.gang else None,
        ),
    )


def generated_claim(found: Pod, *, reserved_for: str = "") -> ResourceClaim:
    """Return the claim that is made for a pod from its template, with the annotation of the template."""
    meta = found.metadata
    owner = OwnerReference(api_version="v1", kind="Pod", name=meta.name, uid=meta.uid, controller=True)
    made = ObjectMeta(
        name=f"{meta.name}-{meta.uid}",
        namespace=NAMESPACE,
        annotations={
            POD_CLAIM_NAME: OWN_CLAIM,
            **({workload_reservations.RESERVED_FOR: f"jobs.batch/{reserved_for}"} if reserved_for else {}),
        },
        owner_references=[owner],
    )
    return ResourceClaim(metadata=made)


def with_claim(found: Pod, name: str) -> Pod:
    """Return the pod with the name of its own claim in its status."""
    named = [PodResourceClaimStatus(name=OWN_CLAIM, resource_claim_name=name)]
    return replace(found, status=replace(found.status, resource_claim_statuses=named))


def grace_of(found: Pod) -> float:
    """Return how many seconds the containers of a pod have to end."""
    return float(found.metadata.annotation(GRACE_ANNOTATION) or 30)


def pod_group(name: str, claims: tuple[str, ...]) -> PodGroup:
    """Return a PodGroup whose pods share claims."""
    uses = [PodResourceClaim(name=claim, resource_claim_name=claim) for claim in claims]
    return PodGroup(metadata=ObjectMeta(name=name, namespace=NAMESPACE), spec=PodGroupSpec(resource_claims=uses))


def group_entry(found: PodGroup) -> ConsumerReference:
    """Return the entry that stands for all pods of a PodGroup."""
    return ConsumerReference(
        api_group=POD_GROUPS.group, resource=POD_GROUPS.resource, name=found.metadata.name, uid=found.metadata.uid
    )


def node(name: str, devices: tuple[Device, ...] = (), *, boot: int = 1) -> Node:
    """Return a node that is ready, with the labels of the devices that it reaches."""
    labels = {device.label: "true" for device in devices if device.by_label and name in device.nodes}
    return Node(metadata=ObjectMeta(name=name, labels=labels or None), status=node_status(ready=True, boot=boot))


def node_status(*, ready: bool, boot: int) -> NodeStatus:
    """Return the status that a kubelet reports, or the node controller in its place."""
    condition = NodeCondition(type="Ready", status="True" if ready else "Unknown")
    return NodeStatus(node_info=NodeSystemInfo(boot_id=f"boot-{boot}"), conditions=[condition])


def with_condition(conditions: list[PodCondition] | None, changed: PodCondition) -> list[PodCondition]:
    """Return conditions of which the one of the same type is replaced."""
    return [c for c in conditions or () if c.type != changed.type] + [changed]


def pod_entry(found: Pod) -> ConsumerReference:
    """Return the entry that stands for a pod."""
    return ConsumerReference(resource="pods", name=found.metadata.name, uid=found.metadata.uid)


def is_reserved_for(claim: ResourceClaim, pod: Pod) -> bool:
    """``resourceclaim.IsReservedForPod``: by uid, or by the name of the pod's PodGroup."""
    gang = pod.spec.scheduling_group.pod_group_name if pod.spec.scheduling_group is not None else None
    return has_pod_entry(claim, pod) or any(e.is_pod_group and e.name == gang for e in claim.entries)


def has_pod_entry(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether a pod is listed itself."""
    return any(entry.uid == pod.metadata.uid for entry in claim.entries)


def has_device_condition(claim: ResourceClaim, condition: str) -> bool:
    """Whether the driver reports a condition of the share that is allocated."""
    found = (c for device in claim.status.devices or () for c in device.conditions or ())
    return any(c.type == condition and c.status == "True" for c in found)
