"""What of pods and nodes decides where a pod can run: only schedulers read it, so all others are spared its size."""

from typing import Any, Final

import msgspec

from dra.model.meta import Struct
from dra.model.nodes import Node, NodeSelector, NodeStatus
from dra.model.pods import Pod, PodSpec, PodStatus
from dra.model.preemption import PREEMPT_LOWER_PRIORITY

DEFAULT_SCHEDULER: Final = "default-scheduler"


class ContainerClaim(Struct, frozen=True):
    """``resources.claims[]``: a claim of the pod that a container uses, by the pod's name for it."""

    name: str = ""


class ResourceRequirements(Struct, frozen=True):
    """``resources``: what is asked for; limits are the kubelet's business, the API server made requests of them."""

    requests: dict[str, str | int] | None = None
    claims: list[ContainerClaim] | None = None


class ContainerPort(Struct, frozen=True):
    """``containers[].ports[]``, as far as the host is concerned."""

    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = ""


class Container(Struct, frozen=True):
    """``containers[]`` and ``initContainers[]``."""

    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""
    """``Always`` makes an init container run beside the others."""
    ports: list[ContainerPort] | None = None


class Toleration(Struct, frozen=True):
    """``tolerations[]``."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class NodeAffinity(Struct, frozen=True):
    """``nodeAffinity``."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class Affinity(Struct, frozen=True):
    """``affinity``; what is said about other pods is not heeded."""

    node_affinity: NodeAffinity | None = None


class SchedulerPodSpec(PodSpec, frozen=True):
    """``spec``."""

    scheduler_name: str = DEFAULT_SCHEDULER
    priority_class_name: str = ""
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: dict[str, str | int] | None = None
    resources: ResourceRequirements | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    preemption_policy: str = PREEMPT_LOWER_PRIORITY


class ContainerStatus(Struct, frozen=True):
    """``containerStatuses[]``: what its kubelet has given it, while a resize in place is under way."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: dict[str, str | int] | None = None


class NodeAllocatableClaimStatus(Struct, frozen=True):
    """``status.nodeAllocatableResourceClaimStatuses[]``: what of its node's resources a pod has through a claim."""

    resource_claim_name: str = ""
    containers: list[str] | None = None
    """Those that use the claim."""
    mapping: list[dict[str, Any]] | None = None
    overhead: list[dict[str, Any]] | None = None
    resources: dict[str, str | int] | None = None
    """What 1.36 has in place of both."""


class SchedulerPodStatus(PodStatus, frozen=True):
    """``status``."""

    start_time: str | None = None
    """Of two pods of one priority the older is the more important."""

    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: dict[str, str | int] | None = None
    node_allocatable_resource_claim_statuses: list[NodeAllocatableClaimStatus] | None = None


class SchedulerPod(Pod, frozen=True):
    """A pod with all that a scheduler asks for."""

    spec: SchedulerPodSpec = SchedulerPodSpec()
    status: SchedulerPodStatus = SchedulerPodStatus()


class SchedulerNodeStatus(NodeStatus, frozen=True):
    """``status``."""

    allocatable: dict[str, str | int] | None = None


class SchedulerNode(Node, frozen=True):
    """A node with all that a scheduler asks for."""

    status: SchedulerNodeStatus = SchedulerNodeStatus()
