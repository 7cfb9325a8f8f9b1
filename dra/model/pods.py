"""Pods, as far as scheduling, claims and the progress of the kubelet are concerned."""

from typing import Any, Final

from dra.model.meta import BoundedObject, ObjectMeta, Struct

TERMINAL_PHASES: Final = frozenset({"Succeeded", "Failed"})
"""Phases that the kubelet publishes only after it has unprepared the pod's devices (kubelet, SyncTerminatingPod)."""

POD_READY_TO_START_CONTAINERS: Final = "PodReadyToStartContainers"
"""Condition that is true only if the devices were prepared for the current sandbox (kubelet, SyncPod)."""

POD_SCHEDULED: Final = "PodScheduled"

GANG_ANNOTATIONS: Final = ("scheduling.k8s.io/group-name", "gang.scheduling.koordinator.sh/name")
"""Annotations that name the gang of a pod: those of Volcano and of Koordinator."""

GANG_LABELS: Final = (
    "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io",
    "pod-group.scheduling.sigs.k8s.io/name",
)
"""Labels that name the gang of a pod: those of the coscheduling plugin, the last two also of Koordinator."""

DISRUPTION_TARGET: Final = "DisruptionTarget"
"""Condition that a component sets before it ends a pod for an external reason; a podFailurePolicy may check it."""


class PodResourceClaim(Struct, frozen=True):
    """``spec.resourceClaims[]`` of a Pod: the name of a claim, or a template from which the pod's claim is made."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class SchedulingGate(Struct, frozen=True):
    """``spec.schedulingGates[]`` of a Pod: can be added only at creation, and be removed later."""

    name: str = ""


class SchedulingGroup(Struct, frozen=True):
    """``spec.schedulingGroup`` of a Pod (1.36, GenericWorkload)."""

    pod_group_name: str | None = None


class Volume(Struct, frozen=True):
    """``spec.volumes[]`` of a Pod: only the kinds that slow down binding have a field."""

    persistent_volume_claim: dict[str, object] | None = None
    ephemeral: dict[str, object] | None = None


class PodSpec(Struct, frozen=True):
    """``spec`` of a Pod."""

    node_name: str = ""
    priority: int = 0
    scheduling_gates: list[SchedulingGate] | None = None
    resource_claims: list[PodResourceClaim] | None = None
    scheduling_group: SchedulingGroup | None = None
    volumes: list[Volume] | None = None
    termination_grace_period_seconds: int | None = None


class ContainerStatus(Struct, frozen=True):
    """``status.containerStatuses[]`` of a Pod."""

    name: str = ""
    restart_count: int = 0
    state: dict[str, Any] | None = None
    last_state: dict[str, Any] | None = None


class PodCondition(Struct, frozen=True):
    """``status.conditions[]`` of a Pod."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class PodResourceClaimStatus(Struct, frozen=True):
    """``status.resourceClaimStatuses[]`` of a Pod: the claim that was generated for an entry with a template."""

    name: str = ""
    resource_claim_name: str | None = None


class PodExtendedResourceClaimStatus(Struct, frozen=True):
    """``status.extendedResourceClaimStatus`` of a Pod: the claim that the scheduler created for extended resources."""

    resource_claim_name: str = ""


class PodStatus(Struct, frozen=True):
    """``status`` of a Pod."""

    phase: str = ""
    conditions: list[PodCondition] | None = None
    nominated_node_name: str = ""
    resource_claim_statuses: list[PodResourceClaimStatus] | None = None
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None


class Pod(BoundedObject, frozen=True):
    """A Pod, as far as claims depend on pods."""

    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def bound_or_nominated(self) -> bool:
        """Whether the pod is bound, or a binding cycle may be in progress; a pod that is being deleted is not bound."""
        nominated = bool(self.status.nominated_node_name) and not self.metadata.deleting
        return not self.terminal and (bool(self.spec.node_name) or nominated)

    @property
    def terminal(self) -> bool:
        """Whether all containers of the pod have ended for good."""
        return self.status.phase in TERMINAL_PHASES

    @property
    def gates(self) -> tuple[str, ...]:
        """The names of the remaining scheduling gates of the pod."""
        gates = self.spec.scheduling_gates
        return tuple(gate.name for gate in gates) if gates else ()

    @property
    def gang(self) -> str:
        """The name of the group of pods that a scheduler other than kube-scheduler schedules together; or empty."""
        for texts, keys in ((self.metadata.annotations, GANG_ANNOTATIONS), (self.metadata.labels, GANG_LABELS)):
            if texts:
                for key in keys:
                    if name := texts.get(key):
                        return name
        return ""

    def condition(self, kind: str) -> PodCondition | None:
        """Return the condition of the given type, if the pod has it."""
        for condition in self.status.conditions or ():
            if condition.type == kind:
                return condition
        return None


def claim_names(pod: Pod) -> tuple[str, ...]:
    """Return the names of the claims that the pod uses, without duplicates, in the order of the spec.

    An entry with a template counts once its claim is generated and named in the status. A status entry without a name
    means that no claim is needed (``resourceClaimStatuses[].resourceClaimName`` may be null). The claim that the
    scheduler creates for extended resources appears only in the status, and comes last.
    """
    extended = pod.status.extended_resource_claim_status
    if not pod.spec.resource_claims and extended is None:
        return ()
    statuses = pod.status.resource_claim_statuses
    generated = {s.name: s.resource_claim_name for s in statuses} if statuses else {}
    named = [entry.resource_claim_name or generated.get(entry.name) for entry in pod.spec.resource_claims or ()]
    if extended is not None:
        named.append(extended.resource_claim_name)
    return tuple(dict.fromkeys(name for name in named if name))


def generated_claim_names(pod: Pod) -> tuple[str, ...]:
    """Return the claims of a pod that only its status names, which may be forged.

    Any client that may write the status can add a name. The pod may use such a claim only if the claim was generated
    for the pod or for its PodGroup; otherwise the pod's kubelet rejects the claim. The claim for extended resources is
    one of them: kube-controller-manager checks its owner from 1.37 on.
    """
    statuses, extended = pod.status.resource_claim_statuses, pod.status.extended_resource_claim_status
    if not statuses and extended is None:
        return ()
    named = {entry.resource_claim_name for entry in pod.spec.resource_claims or ()}
    entries = {entry.name for entry in pod.spec.resource_claims or () if not entry.resource_claim_name}
    names = [s.resource_claim_name for s in statuses or () if s.name in entries]
    names += [extended.resource_claim_name] if extended is not None else []
    return tuple(dict.fromkeys(name for name in names if name and name not in named))
