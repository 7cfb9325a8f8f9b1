"""Fields of pods and nodes that only schedulers read, kept apart so that other components need no memory for them."""

import re
from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import islice
from typing import Any, Final, Self

import msgspec

from dra.model.meta import ObjectMeta, Struct
from dra.model.nodes import Node, NodeSelector, NodeStatus, Taint, compare_integers, matches_node_selector
from dra.model.pods import Pod, PodSpec, PodStatus
from dra.model.preemption import PREEMPT_LOWER_PRIORITY
from dra.model.quantities import NO_AMOUNTS, Amounts, from_validated_list, maximum, total

DEFAULT_SCHEDULER: Final = "default-scheduler"


class ContainerClaim(Struct, frozen=True):
    """``resources.claims[]`` of a container: the pod's name for a claim that the container uses."""

    name: str = ""


class ResourceRequirements(Struct, frozen=True):
    """``resources``: schedulers read requests alone, since the API server has turned limits into requests."""

    requests: dict[str, str | int] | None = None
    limits: dict[str, str | int] | None = None
    """Read where the translation of Koordinator's requests is explained: it compares limits with requests."""
    claims: list[ContainerClaim] | None = None


class ContainerPort(Struct, frozen=True):
    """``containers[].ports[]``, as far as ports of the host are concerned."""

    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = ""


class Container(Struct, frozen=True):
    """An entry of ``containers[]`` or ``initContainers[]``."""

    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""
    """`SIDECAR` makes an init container run alongside the other containers."""
    ports: list[ContainerPort] | None = None


class Toleration(Struct, frozen=True):
    """``tolerations[]`` of a Pod."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Return whether the toleration matches a taint of a node (core/v1 ``Toleration.ToleratesTaint``)."""
        if self.effect and self.effect != taint.effect:
            return False
        match self.operator:
            case "Exists":
                return self.key in {"", taint.key}
            case "Gt" | "Lt":
                return self.key == taint.key and compare_integers(self.operator, taint.value, [self.value])
        return self.key == taint.key and self.value == taint.value


class NodeAffinity(Struct, frozen=True):
    """``nodeAffinity`` of a Pod, as far as it is required."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class Affinity(Struct, frozen=True):
    """``affinity`` of a Pod; affinity to other pods is ignored."""

    node_affinity: NodeAffinity | None = None


class SchedulerPodSpec(PodSpec, frozen=True):
    """``spec`` of a Pod, with the fields that a scheduler reads."""

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

    def selects_node(self, name: str, labels: dict[str, str]) -> bool:
        """Return whether the node selector and the required node affinity match a node."""
        if self.node_selector and any(labels.get(key) != value for key, value in self.node_selector.items()):
            return False
        if self.affinity is None or self.affinity.node_affinity is None:
            return True
        required = self.affinity.node_affinity.required_during_scheduling_ignored_during_execution
        return matches_node_selector(required, name=name, labels=labels)


class ContainerStatus(Struct, frozen=True):
    """``containerStatuses[]``: the resources that the kubelet has allocated, for an in-place resize in progress."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: dict[str, str | int] | None = None


class NodeAllocatableClaimStatus(Struct, frozen=True):
    """``status.nodeAllocatableResourceClaimStatuses[]``: the node's resources that a pod uses through a claim."""

    resource_claim_name: str = ""
    containers: list[str] | None = None
    """Names of the containers that use the claim."""
    mapping: list[dict[str, Any]] | None = None
    overhead: list[dict[str, Any]] | None = None
    resources: dict[str, str | int] | None = None
    """The field of 1.36 that mapping and overhead replace."""


class SchedulerPodStatus(PodStatus, frozen=True):
    """``status`` of a Pod, with the fields that a scheduler reads."""

    qos_class: str = ""
    """Kubernetes' QoS class: Guaranteed, Burstable or BestEffort."""

    reason: str = ""
    """Reason of the kubelet, of a pod that it has refused: ``OutOfcpu``."""

    message: str = ""

    start_time: str | None = None
    """Time that orders pods of equal priority: the older pod is more important."""

    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: dict[str, str | int] | None = None
    node_allocatable_resource_claim_statuses: list[NodeAllocatableClaimStatus] | None = None


SIDECAR: Final = "Always"
"""``restartPolicy`` of an init container that runs alongside the containers."""

_KOORDINATOR_LABEL: Final = re.compile(r"([^/]*\.)?koordinator\.sh/")
_LABELS_MAX: Final = 64
_CONTAINERS_MAX: Final = 64
_HOST_PORTS_MAX: Final = 64
_CLAIMS_MAX: Final = 64


class SchedulerPod(Pod, frozen=True):
    """A Pod with all fields that a scheduler reads."""

    spec: SchedulerPodSpec = SchedulerPodSpec()
    status: SchedulerPodStatus = SchedulerPodStatus()

    def reduced(self) -> Self | None:
        """Return a pod that has a node with only what it takes of the node; None for other pods.

        A pod that did not count would leave room that the node does not have: that of a Reservation would be given
        away. Of its labels only those of Koordinator are kept, which say how the pod may be treated; no other selector
        matches the pod.
        """
        spec, status, before = self.spec, self.status, self.metadata
        if not spec.node_name:
            return None
        owners = [owner for owner in before.owner_references or () if owner.controller]
        labels = (label for label in (before.labels or {}).items() if _KOORDINATOR_LABEL.match(label[0]))
        metadata = ObjectMeta(
            name=before.name,
            namespace=before.namespace,
            uid=before.uid,
            resource_version=before.resource_version,
            creation_timestamp=before.creation_timestamp,
            deletion_timestamp=before.deletion_timestamp,
            labels=dict(islice(labels, _LABELS_MAX)),
            annotations=before.annotations,
            owner_references=owners[:1],
        )
        has_many_claims = len(spec.resource_claims or ()) > _CLAIMS_MAX
        spec = msgspec.structs.replace(
            type(spec)(),
            node_name=spec.node_name,
            priority=spec.priority,
            resource_claims=None if has_many_claims else spec.resource_claims,
            scheduler_name=spec.scheduler_name,
            priority_class_name=spec.priority_class_name,
            containers=_merged(spec.containers, status.container_statuses),
            init_containers=_merged_initial(spec.init_containers, status.init_container_statuses),
            overhead=spec.overhead,
            resources=spec.resources,
            preemption_policy=spec.preemption_policy,
            termination_grace_period_seconds=spec.termination_grace_period_seconds,
        )
        if has_many_claims:
            status = msgspec.structs.replace(status, resource_claim_statuses=None)
        if len(status.container_statuses or ()) > _CONTAINERS_MAX:
            status = msgspec.structs.replace(status, container_statuses=None)
        if len(status.init_container_statuses or ()) > _CONTAINERS_MAX:
            status = msgspec.structs.replace(status, init_container_statuses=None)
        return msgspec.structs.replace(self, metadata=metadata, spec=spec, status=status)


def _merged_initial(containers: list[Container] | None, statuses: list[ContainerStatus] | None) -> list[Container]:
    """Return init containers that take no less than these: the sidecars first, then the maximum of the others."""
    if len(containers or ()) <= _CONTAINERS_MAX:
        return _with_host_ports(containers or ())
    sidecars = [container for container in containers or () if container.restart_policy == SIDECAR]
    others = [container for container in containers or () if container.restart_policy != SIDECAR]
    peak = reduce(maximum, _amounts(others, statuses), NO_AMOUNTS)
    return [
        msgspec.structs.replace(_container(total(_amounts(sidecars, statuses))), restart_policy=SIDECAR),
        _container(peak),
    ]


def _merged(containers: list[Container] | None, statuses: list[ContainerStatus] | None) -> list[Container]:
    """Return containers that take as much as these."""
    if len(containers or ()) <= _CONTAINERS_MAX:
        return _with_host_ports(containers or ())
    return [_container(total(_amounts(containers or (), statuses)))]


def _with_host_ports(containers: Iterable[Container]) -> list[Container]:
    return [
        msgspec.structs.replace(
            container, ports=[port for port in container.ports or () if port.host_port][:_HOST_PORTS_MAX]
        )
        for container in containers
    ]


def _container(amounts: Amounts) -> Container:
    return Container(
        resources=ResourceRequirements(requests={resource: f"{nanos}n" for resource, nanos in amounts.items()})
    )


def _amounts(containers: Iterable[Container], statuses: Iterable[ContainerStatus] | None) -> Iterator[Amounts]:
    """Yield what each container takes, an in-place resize included."""
    has = {container_status.name: container_status for container_status in statuses or ()}
    for container in containers:
        status = has.get(container.name, ContainerStatus())
        actual = status.resources.requests if status.resources is not None else None
        lists = (container.resources.requests, actual, status.allocated_resources)
        yield reduce(maximum, map(from_validated_list, lists), NO_AMOUNTS)


class SchedulerNodeStatus(NodeStatus, frozen=True):
    """``status`` of a Node, with the fields that a scheduler reads."""

    allocatable: dict[str, str | int] | None = None


class SchedulerNode(Node, frozen=True):
    """A Node with all fields that a scheduler reads."""

    status: SchedulerNodeStatus = SchedulerNodeStatus()


class InterPodAffinity(Affinity, frozen=True):
    """``affinity`` of a Pod, including affinity to other pods."""

    pod_affinity: dict[str, Any] | None = None
    pod_anti_affinity: dict[str, Any] | None = None


class FullSchedulerPodSpec(SchedulerPodSpec, frozen=True):
    """``spec`` of a Pod, with all constraints on where the pod can run."""

    affinity: InterPodAffinity | None = None
    topology_spread_constraints: list[dict[str, Any]] | None = None


class FullSchedulerPod(SchedulerPod, frozen=True):
    """A Pod with all constraints on where it can run, whether the engine evaluates them or not."""

    spec: FullSchedulerPodSpec = FullSchedulerPodSpec()


def has_undecided_constraints(pod: SchedulerPod) -> bool:
    """Report whether volumes, other pods or topology may exclude nodes that this engine would accept.

    If the pod was read without its constraints, only its volumes are known.
    """
    spec = pod.spec
    if any(v.persistent_volume_claim or v.ephemeral for v in spec.volumes or ()):
        return True
    if not isinstance(spec, FullSchedulerPodSpec):
        return False
    spread = any(c.get("whenUnsatisfiable") != "ScheduleAnyway" for c in spec.topology_spread_constraints or ())
    return spread or (spec.affinity is not None and _requires_inter_pod_affinity(spec.affinity))


def _requires_inter_pod_affinity(affinity: InterPodAffinity) -> bool:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return any(terms and terms.get(required) for terms in (affinity.pod_affinity, affinity.pod_anti_affinity))
