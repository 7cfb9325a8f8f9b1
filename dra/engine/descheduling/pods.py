"""Pods, with all fields that descheduling reads."""

from dra.engine.migration.view import MigrationPod, MigrationPodSpec, MigrationPodStatus
from dra.model.diagnosed_pods import DeviceContainerStatus
from dra.model.meta import Struct
from dra.model.nodes import NodeSelector, NodeSelectorTerm
from dra.model.pod_affinity import PodAffinity
from dra.model.preemption import LabelSelector
from dra.model.scheduling import Affinity, Container, NodeAffinity


class PreferredNodeTerm(Struct, frozen=True):
    """``preferredDuringSchedulingIgnoredDuringExecution[]`` of a node affinity."""

    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class PreferredNodeAffinity(NodeAffinity, frozen=True):
    """``nodeAffinity`` of a Pod, required and preferred."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredNodeTerm] | None = None


class DeschedulingAffinity(Affinity, frozen=True):
    """``affinity`` of a Pod."""

    node_affinity: PreferredNodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Struct, frozen=True):
    """``topologySpreadConstraints[]`` of a Pod."""

    topology_key: str = ""
    max_skew: int = 1
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: list[str] | None = None


class DeschedulingContainer(Container, frozen=True):
    """A container with its image: pods of one owner are duplicates only if their images are the same."""

    image: str = ""


class WaitingState(Struct, frozen=True):
    """``state.waiting`` of a container."""

    reason: str = ""


class TerminatedState(Struct, frozen=True):
    """``state.terminated`` of a container."""

    reason: str = ""
    exit_code: int = 0


class RunningState(Struct, frozen=True):
    """``state.running`` of a container."""

    started_at: str = ""


class ContainerState(Struct, frozen=True):
    """``state`` or ``lastState`` of a container."""

    waiting: WaitingState | None = None
    running: RunningState | None = None
    terminated: TerminatedState | None = None


class DeschedulingContainerStatus(DeviceContainerStatus, frozen=True):
    """``containerStatuses[]``: how often the container was restarted, and its state."""

    restart_count: int = 0
    state: ContainerState | None = None
    last_state: ContainerState | None = None


class DeschedulingPodSpec(MigrationPodSpec, frozen=True):
    """``spec`` of a Pod, with all constraints on where the pod can run."""

    affinity: DeschedulingAffinity | None = None
    topology_spread_constraints: list[TopologySpreadConstraint] | None = None
    containers: list[DeschedulingContainer] | None = None  # type: ignore[assignment]  # nobody appends
    init_containers: list[DeschedulingContainer] | None = None  # type: ignore[assignment]


class DeschedulingPodStatus(MigrationPodStatus, frozen=True):
    """``status`` of a Pod."""

    container_statuses: list[DeschedulingContainerStatus] | None = None  # type: ignore[assignment]  # nobody appends
    init_container_statuses: list[DeschedulingContainerStatus] | None = None  # type: ignore[assignment]
    ephemeral_container_statuses: list[DeschedulingContainerStatus] | None = None


class DeschedulingPod(MigrationPod, frozen=True):
    """A Pod with all fields that descheduling reads."""

    spec: DeschedulingPodSpec = DeschedulingPodSpec()
    status: DeschedulingPodStatus = DeschedulingPodStatus()
