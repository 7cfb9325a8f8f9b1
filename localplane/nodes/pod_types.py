"""Pods as a kubelet reads them: the containers to run, and the status that the kubelet has written so far."""

from typing import Any

from dra.model.meta import Key, ObjectMeta, Struct
from dra.model.pods import (
    TERMINAL_PHASES,
    ContainerStatus,
    PodExtendedResourceClaimStatus,
    PodResourceClaim,
    PodResourceClaimStatus,
)


class PodMeta(ObjectMeta, frozen=True):
    """``metadata`` with the fields that only a kubelet reads."""

    deletion_grace_period_seconds: int | None = None


class ContainerClaim(Struct, frozen=True):
    """``resources.claims[]``: an entry of the pod's claims, or one request of the entry."""

    name: str = ""
    request: str = ""


class ContainerResources(Struct, frozen=True):
    """``resources`` of a container, as far as devices are concerned."""

    claims: list[ContainerClaim] | None = None
    requests: dict[str, Any] | None = None


class Container(Struct, frozen=True):
    """``spec.containers[]`` of a Pod, as far as the kubelet reads containers."""

    name: str = ""
    image: str = ""
    command: list[str] | None = None
    args: list[str] | None = None
    env: list[dict[str, Any]] | None = None
    working_dir: str = ""
    resources: ContainerResources = ContainerResources()


class KubeletPodSpec(Struct, frozen=True):
    """``spec`` of a Pod, as far as the kubelet reads the spec."""

    node_name: str = ""
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    restart_policy: str = "Always"
    termination_grace_period_seconds: int = 30
    host_network: bool = False
    resource_claims: list[PodResourceClaim] | None = None


class ContainerExtendedResourceRequest(Struct, frozen=True):
    """``status.extendedResourceClaimStatus.requestMappings[]`` of a Pod."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class ExtendedResourceClaimStatus(PodExtendedResourceClaimStatus, frozen=True):
    """``status.extendedResourceClaimStatus`` with the fields that only a kubelet reads."""

    request_mappings: list[ContainerExtendedResourceRequest] | None = None


class KubeletPodStatus(Struct, frozen=True):
    """``status`` of a Pod; conditions are kept whole, because they are written back."""

    phase: str = ""
    conditions: list[dict[str, Any]] | None = None
    start_time: str | None = None
    container_statuses: list[ContainerStatus] | None = None
    pod_ip: str = ""
    resource_claim_statuses: list[PodResourceClaimStatus] | None = None
    extended_resource_claim_status: ExtendedResourceClaimStatus | None = None


class KubeletPod(Struct, frozen=True):
    """A Pod with the fields that a kubelet reads."""

    metadata: PodMeta
    spec: KubeletPodSpec = KubeletPodSpec()
    status: KubeletPodStatus = KubeletPodStatus()

    @property
    def key(self) -> Key:
        """Return the pod's namespace and name."""
        return self.metadata.key

    @property
    def terminal(self) -> bool:
        """Report whether the kubelet has written a terminal phase."""
        return self.status.phase in TERMINAL_PHASES

    @property
    def grace_seconds(self) -> float:
        """Return the seconds that the containers may take to stop: the deletion's, else the spec's; at least one."""
        grace_period = self.metadata.deletion_grace_period_seconds or self.spec.termination_grace_period_seconds
        return max(float(grace_period), 1.0)

    def has_condition(self, condition: str) -> bool:
        """Report whether a condition is True."""
        return any(c.get("type") == condition and c.get("status") == "True" for c in self.status.conditions or ())


def needs_update(new: KubeletPod, old: KubeletPod) -> bool:
    """Report whether a change makes the kubelet sync a pod: any change beyond the status does."""
    after, before = new.metadata, old.metadata
    return (
        after.annotations != before.annotations
        or after.labels != before.labels
        or after.deletion_timestamp != before.deletion_timestamp
        or after.deletion_grace_period_seconds != before.deletion_grace_period_seconds
        or new.spec != old.spec
    )
