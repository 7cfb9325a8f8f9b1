"""Pods, as far as scheduling, claims and the kubelet's progress go."""

from typing import Final

from dra.model.meta import ObjectMeta, Struct

TERMINAL_PHASES: Final = frozenset({"Succeeded", "Failed"})
"""The kubelet publishes these only after it has unprepared the pod's devices (specs/dra-upstream.md §4)."""

POD_READY_TO_START_CONTAINERS: Final = "PodReadyToStartContainers"
"""True implies that the devices were prepared for the current sandbox (specs/dra-upstream.md §5)."""

POD_SCHEDULED: Final = "PodScheduled"

DISRUPTION_TARGET: Final = "DisruptionTarget"
"""Whoever ends a pod for a reason that is not the pod's own says so first: a Job's podFailurePolicy may ask."""


class PodResourceClaim(Struct, frozen=True):
    """``spec.resourceClaims[]``: a claim by name, or a template a claim of the pod's own is made from."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class SchedulingGate(Struct, frozen=True):
    """``spec.schedulingGates[]``: can be put on at creation only, and taken away later."""

    name: str = ""


class SchedulingGroup(Struct, frozen=True):
    """``spec.schedulingGroup`` (1.36, GenericWorkload)."""

    pod_group_name: str | None = None


class Volume(Struct, frozen=True):
    """``spec.volumes[]``: only the kinds that make binding slow are told apart."""

    persistent_volume_claim: dict[str, object] | None = None
    ephemeral: dict[str, object] | None = None


class PodSpec(Struct, frozen=True):
    """``spec``."""

    node_name: str = ""
    priority: int = 0
    scheduling_gates: list[SchedulingGate] | None = None
    resource_claims: list[PodResourceClaim] | None = None
    scheduling_group: SchedulingGroup | None = None
    volumes: list[Volume] | None = None
    termination_grace_period_seconds: int | None = None


class PodCondition(Struct, frozen=True):
    """``status.conditions[]``."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class PodResourceClaimStatus(Struct, frozen=True):
    """``status.resourceClaimStatuses[]``: which claim was made from which template entry."""

    name: str = ""
    resource_claim_name: str | None = None


class PodExtendedResourceClaimStatus(Struct, frozen=True):
    """``status.extendedResourceClaimStatus``: the claim that the scheduler made for extended resources."""

    resource_claim_name: str = ""


class PodStatus(Struct, frozen=True):
    """``status``."""

    phase: str = ""
    conditions: list[PodCondition] | None = None
    nominated_node_name: str = ""
    resource_claim_statuses: list[PodResourceClaimStatus] | None = None
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None


class Pod(Struct, frozen=True):
    """A pod."""

    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def bound_or_nominated(self) -> bool:
        """Whether it uses its claims, or a binding cycle may be under way; nobody can bind a pod that is deleted."""
        nominated = bool(self.status.nominated_node_name) and not self.metadata.deleting
        return not self.terminal and (bool(self.spec.node_name) or nominated)

    @property
    def terminal(self) -> bool:
        """Whether the pod's containers have ended for good."""
        return self.status.phase in TERMINAL_PHASES

    @property
    def gates(self) -> tuple[str, ...]:
        """The names of the gates still on it."""
        return tuple(gate.name for gate in self.spec.scheduling_gates or ())

    def condition(self, kind: str) -> PodCondition | None:
        """Return the condition of that type, if any."""
        for condition in self.status.conditions or ():
            if condition.type == kind:
                return condition
        return None


def claim_names(pod: Pod) -> tuple[str, ...]:
    """Return the names of the claims the pod uses, without repetition, in the order of its spec.

    A template entry counts once its claim has been generated and is named in the status; a status entry with no name
    means that none is needed (``resourceClaimStatuses[].resourceClaimName`` may be null). The claim that the scheduler
    makes for extended resources stands in the status only, and comes last.
    """
    extended = pod.status.extended_resource_claim_status
    if not pod.spec.resource_claims and extended is None:
        return ()
    generated = {s.name: s.resource_claim_name for s in pod.status.resource_claim_statuses or ()}
    named = [entry.resource_claim_name or generated.get(entry.name) for entry in pod.spec.resource_claims or ()]
    if extended is not None:
        named.append(extended.resource_claim_name)
    return tuple(dict.fromkeys(name for name in named if name))


def generated_claim_names(pod: Pod) -> tuple[str, ...]:
    """Return those of them that only ``status.resourceClaimStatuses`` names: anybody may have put them there.

    The pod may use such a claim only if that was made for it, or for its PodGroup; else its kubelet refuses it.
    """
    statuses = pod.status.resource_claim_statuses
    if not statuses:
        return ()
    named = {entry.resource_claim_name for entry in pod.spec.resource_claims or ()}
    entries = {entry.name for entry in pod.spec.resource_claims or () if not entry.resource_claim_name}
    return tuple(
        s.resource_claim_name
        for s in statuses
        if s.name in entries and s.resource_claim_name and s.resource_claim_name not in named
    )
