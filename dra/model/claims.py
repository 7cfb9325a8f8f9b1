"""ResourceClaims (resource.k8s.io/v1), with the fields of KEP-5194, present or not."""

from typing import Any, Final, Self

import msgspec

from dra.model.meta import BoundedObject, ObjectMeta, OwnerReference, Struct, Uid
from dra.model.nodes import NodeSelector
from dra.model.references import ConsumerReference

RESERVED_FOR_MAX_SIZE: Final = 256
"""Maximum number of entries of ``status.reservedFor`` (upstream ``ResourceClaimReservedForMaxSize``)."""

DELETE_PROTECTION: Final = "resource.kubernetes.io/delete-protection"
"""Upstream's finalizer: the scheduler adds it before the allocation; it is removed after the deallocation."""

POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"
"""Upstream's annotation on a claim generated for a pod: the name of the entry in the pod's spec."""


EXTENDED_RESOURCE_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"
"""Upstream's annotation (``"true"``) on a claim that the scheduler created for a pod's extended resources."""


class DeviceRequestAllocationResult(Struct, frozen=True):
    """``allocation.devices.results[]`` of a ResourceClaim: one device, or a share of one."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, str] | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    tolerations: list[dict[str, Any]] | None = None


class DeviceAllocationResult(Struct, frozen=True):
    """``allocation.devices`` of a ResourceClaim: the allocated devices."""

    results: list[DeviceRequestAllocationResult] | None = None
    config: list[dict[str, Any]] | None = None


class AllocationResult(Struct, frozen=True):
    """``status.allocation`` of a ResourceClaim: immutable as a whole until it is cleared (upstream's validation)."""

    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None
    reserved_for_any_pod: bool | None = None


_CPUSET: Final = "cpuset"
_CPUSET_MAX: Final = 1024
"""Maximum characters of a list of CPUs that is kept."""


CONDITION_MESSAGE_MAX: Final = 160
"""Maximum number of characters that are kept of the message of a device's condition: drivers may write 32 KiB."""


class Condition(Struct, frozen=True):
    """``status.devices[].conditions[]`` of a ResourceClaim."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    """The beginning of the message, `CONDITION_MESSAGE_MAX` characters at most."""

    last_transition_time: str | None = None

    def __post_init__(self) -> None:
        if len(self.message) > CONDITION_MESSAGE_MAX:
            msgspec.structs.force_setattr(self, "message", self.message[:CONDITION_MESSAGE_MAX])


class AllocatedDeviceStatus(Struct, frozen=True):
    """``status.devices[]`` of a ResourceClaim: what a driver reports about an allocated device."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = msgspec.field(default=None, name="shareID")
    conditions: list[Condition] | None = None
    data: Any = None
    """Data of the driver, reduced to the field ``cpuset``: a driver may store ten kilobytes for each device."""

    def __post_init__(self) -> None:
        if self.data is not None:
            cpuset = self.data.get(_CPUSET) if isinstance(self.data, dict) else None
            kept = {_CPUSET: cpuset} if isinstance(cpuset, str) and len(cpuset) <= _CPUSET_MAX else None
            msgspec.structs.force_setattr(self, "data", kept)

    @property
    def cpuset(self) -> str:
        """The CPUs that the driver has reported, as a list such as ``0-3,8``; empty if the driver has not."""
        return self.data[_CPUSET] if self.data else ""


class ResourceClaimSpec(Struct, frozen=True):
    """``spec`` of a ResourceClaim; the device requests stay plain data, as only schedulers read them."""

    devices: dict[str, Any] | None = None
    reserved_for: ConsumerReference | None = None


class ResourceClaimStatus(Struct, frozen=True):
    """``status`` of a ResourceClaim."""

    allocation: AllocationResult | None = None
    reserved_for: list[ConsumerReference] | None = None
    devices: list[AllocatedDeviceStatus] | None = None


class ResourceClaim(Struct, frozen=True):
    """A ResourceClaim: requests for devices, and their allocation."""

    metadata: ObjectMeta
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()

    @property
    def entries(self) -> tuple[ConsumerReference, ...]:
        """The entries of ``status.reservedFor``; empty if there are none."""
        return tuple(self.status.reserved_for or ())

    @property
    def kept_for(self) -> str:
        """The Reservation that keeps the claim for its owners, such as ``reservation/night``; empty without one."""
        return next((f"reservation/{entry.name}" for entry in self.entries if entry.is_reservation), "")

    @property
    def protected(self) -> bool:
        """Whether the claim has upstream's finalizer."""
        return DELETE_PROTECTION in (self.metadata.finalizers or ())

    @property
    def admits_any_pod(self) -> bool:
        """Whether any pod that references the claim may use the claim, listed or not (KEP-5194).

        That holds as long as an entry stands for something else than a pod. The scheduler adds no entry for such a pod,
        so its binding writes nothing to the claim.
        """
        allocation = self.status.allocation
        any_pod = allocation is not None and allocation.reserved_for_any_pod
        return bool(any_pod) and any(not entry.is_pod for entry in self.entries)

    @property
    def controller(self) -> OwnerReference | None:
        """The owner reference that is marked as the controller's, of which there is at most one; else None."""
        return self.metadata.controller

    @property
    def owning_pod(self) -> OwnerReference | None:
        """The pod that the claim was generated for, from a template or for extended resources; else None."""
        owner = self.controller
        return owner if owner is not None and owner.kind == "Pod" and owner.api_version == "v1" else None

    @property
    def serves_extended_resources(self) -> bool:
        """Whether a scheduler created the claim for extended resources of a pod."""
        return self.metadata.annotation(EXTENDED_RESOURCE_CLAIM) == "true"

    @property
    def generated_for(self) -> Uid | None:
        """The uid of the pod that the claim was generated for; else None."""
        owner = self.owning_pod
        return owner.uid if owner is not None else None


class WatchedClaim(ResourceClaim, BoundedObject, frozen=True):
    """A ResourceClaim as informers keep it: its allocation has no parameters, which only drivers read.

    A user may write 320 KiB of parameters, and the allocation repeats them.
    """

    def __post_init__(self) -> None:
        allocation = self.status.allocation
        if allocation is not None and allocation.devices.config is not None:
            msgspec.structs.force_setattr(allocation.devices, "config", None)

    def reduced(self) -> Self:
        """Return the claim without its device requests and labels: its devices must be known to be taken.

        The rules for claims read neither. A Reservation does: no pod gets such a claim from a Reservation.
        """
        return msgspec.structs.replace(
            self,
            metadata=msgspec.structs.replace(self.metadata, labels=None),
            spec=msgspec.structs.replace(self.spec, devices=None),
        )


def has_binding_failure(claim: ResourceClaim) -> bool:
    """Report whether a device of the allocation reports one of its bindingFailureConditions (KEP-5007).

    The rule is kube-scheduler's (``isClaimReadyForBinding``, 1.34 to 1.36): only results with bindingConditions count,
    and of several statuses for one device, one per share, only the first counts.
    """
    conditions = _true_conditions(claim)
    return any(
        not conditions.get((r.driver, r.pool, r.device), _NO_CONDITIONS).isdisjoint(r.binding_failure_conditions or ())
        for r in _results_with_conditions(claim)
    )


def awaits_binding_conditions(claim: ResourceClaim) -> bool:
    """Report whether a device of the allocation has not yet reported all of its bindingConditions (KEP-5007)."""
    conditions = _true_conditions(claim)
    return any(
        not conditions.get((r.driver, r.pool, r.device), _NO_CONDITIONS).issuperset(r.binding_conditions or ())
        for r in _results_with_conditions(claim)
    )


_NO_CONDITIONS: Final[frozenset[str]] = frozenset()


def _results_with_conditions(claim: ResourceClaim) -> list[DeviceRequestAllocationResult]:
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation is not None else None
    return [r for r in results or () if r.binding_conditions]


def _true_conditions(claim: ResourceClaim) -> dict[tuple[str, str, str], frozenset[str]]:
    """Return the true conditions of each device, from the first status that names the device."""
    conditions: dict[tuple[str, str, str], frozenset[str]] = {}
    for device in claim.status.devices or ():
        true = frozenset(c.type for c in device.conditions or () if c.status == "True")
        conditions.setdefault((device.driver, device.pool, device.device), true)
    return conditions
