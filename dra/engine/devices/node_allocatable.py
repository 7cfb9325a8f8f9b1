"""Node resources that pods have through devices: a driver's cpu, memory and huge pages.

A device may provide such a resource (``mapping``), or cost some of it in addition (``overhead``). kube-scheduler adds
both to the pod's own requests, and writes them into the pod's status once it has chosen devices. With the gate
DRANodeAllocatableResources off, the API server removes all of these fields, so fields that are present always count.

Rules as in kube-scheduler 1.37 (plugins/dynamicresources/nodeallocatabledynamicresources.go and component-helpers'
resource/helpers.go); devices of 1.36 have ``nodeAllocatableResourceMappings`` instead, without overhead. How long the
overhead of a container counts is decided by `AllocatorRelease.init_overhead_ends`.
"""

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any, Final

import msgspec

from dra.engine.devices.ledger import DeviceID
from dra.model import quantities
from dra.model.claims import AllocationResult, DeviceRequestAllocationResult, ResourceClaim
from dra.model.scheduling import NodeAllocatableClaimStatus, SchedulerPod
from dra.model.slices import Device

_NOTHING: Final = Fraction(0)


class UnaccountableError(Exception):
    """A device provides a capacity whose consumed amount the allocation does not state, so no node fits."""


def has_node_resources(device: Device) -> bool:
    """Return whether a device provides or costs resources of its node."""
    return bool(device.node_allocatable_resources or device.node_allocatable_resource_mappings)


def maps_node_resources(device: Device) -> bool:
    """Return whether a device provides a resource of its node: its claim then serves only one pod."""
    resources = device.node_allocatable_resources or {}
    return bool(device.node_allocatable_resource_mappings) or any(
        resource.get("mapping") for resource in resources.values()
    )


def is_reserved_for_another_pod(
    claim: ResourceClaim, pod: SchedulerPod, device_of: Callable[[DeviceID], Device | None]
) -> bool:
    """Return whether an allocated claim that provides node resources is reserved for other pods than this one."""
    allocation = claim.status.allocation
    if allocation is None or not claim.entries or any(entry.uid == pod.metadata.uid for entry in claim.entries):
        return False
    return any(
        (device := device_of(_device_id(result))) and maps_node_resources(device)
        for result in allocation.devices.results or ()
    )


def node_allocatable_statuses(
    pod: SchedulerPod,
    claims: Iterable[tuple[ResourceClaim, AllocationResult | None]],
    device_of: Callable[[DeviceID], Device | None],
) -> list[NodeAllocatableClaimStatus]:
    """Return the node resources that a pod has through its claims, as kube-scheduler writes them into the pod's status.

    Sorted by name of the claim. A claim comes with its allocation if that is new. Raises UnaccountableError.
    """
    statuses = []
    for claim, new in claims:
        allocation = new or claim.status.allocation
        results = (allocation.devices.results or ()) if allocation is not None else ()
        parts = [
            (device, result)
            for result in results
            if (device := device_of(_device_id(result))) is not None and has_node_resources(device)
        ]
        if parts:
            statuses.append(_status(claim.metadata.name, parts, _containers(pod, claim.metadata.name)))
    return sorted(
        (status for status in statuses if status.mapping or status.overhead),
        key=lambda status: status.resource_claim_name,
    )


def with_node_allocatable_statuses(pod: SchedulerPod, statuses: list[NodeAllocatableClaimStatus]) -> SchedulerPod:
    """Return the pod with these statuses of node resources."""
    status = msgspec.structs.replace(pod.status, node_allocatable_resource_claim_statuses=statuses or None)
    return msgspec.structs.replace(pod, status=status)


def resources_through_claims(pod: SchedulerPod) -> dict[str, Fraction]:
    """Return the resources that a pod as a whole has through its claims according to its status.

    What its containers cost besides is in `overhead_of_containers`.
    """
    whole: dict[str, Fraction] = {}
    for status in pod.status.node_allocatable_resource_claim_statuses or ():
        for name, text in (status.resources or {}).items():
            _add(whole, name, quantities.parse(text))
        for mapped in status.mapping or ():
            _add(whole, mapped["name"], _quantity(mapped.get("quantity")))
        for cost in status.overhead or ():
            _add(whole, cost["name"], _quantity(cost.get("perPod")))
    return whole


def overhead_of_containers(pod: SchedulerPod) -> dict[str, dict[str, Fraction]]:
    """Return what devices cost their node for each container of a pod that uses them, according to its status."""
    costs: dict[str, dict[str, Fraction]] = {}
    for status in pod.status.node_allocatable_resource_claim_statuses or ():
        for cost in status.overhead or ():
            for container in status.containers or ():
                _add(costs.setdefault(container, {}), cost["name"], _quantity(cost.get("perContainer")))
    return costs


def _device_id(result: DeviceRequestAllocationResult) -> DeviceID:
    return DeviceID(driver=result.driver, pool=result.pool, device=result.device)


def _containers(pod: SchedulerPod, claim: str) -> list[str]:
    """Return the containers that use a claim, by any of the names that the pod has for that claim."""
    generated = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses or ()}
    named = {
        entry.name
        for entry in pod.spec.resource_claims or ()
        if claim == (entry.resource_claim_name or generated.get(entry.name))
    }
    containers = (*(pod.spec.init_containers or ()), *(pod.spec.containers or ()))
    return [c.name for c in containers for used in c.resources.claims or () if used.name in named]


def _status(
    claim: str, parts: Iterable[tuple[Device, DeviceRequestAllocationResult]], containers: list[str]
) -> NodeAllocatableClaimStatus:
    mapped: dict[str, _QuantitySum] = {}
    costs: dict[str, dict[str, _QuantitySum]] = {}
    for device, result in parts:
        for name, by in _mappings(device):
            amount = _mapped_amount(claim, name, by, result)
            if amount is not None:
                mapped.setdefault(name, _QuantitySum()).add(*amount)
        for name, resource in (device.node_allocatable_resources or {}).items():
            for kind, text in (resource.get("overhead") or {}).items():
                costs.setdefault(name, {}).setdefault(kind, _QuantitySum()).add(quantities.parse(text), text)
    return NodeAllocatableClaimStatus(
        resource_claim_name=claim,
        containers=containers or None,
        mapping=[{"name": name, "quantity": mapped[name].text} for name in sorted(mapped)] or None,
        overhead=[{"name": n, **{kind: quantity.text for kind, quantity in costs[n].items()}} for n in sorted(costs)]
        or None,
    )


class _QuantitySum:
    """A sum of quantities, in the format of the first quantity that is not zero."""

    def __init__(self) -> None:
        self._amount = _NOTHING
        self._like: str | int = "0"

    def add(self, amount: Fraction, like: str | int) -> None:
        if not self._amount:
            self._like = like
        self._amount += amount

    @property
    def text(self) -> str:
        return quantities.canonical(self._amount, quantities.format_of(self._like))


def _mappings(device: Device) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """Yield the resources that a device provides, in the form of 1.37."""
    for name, resource in (device.node_allocatable_resources or {}).items():
        if resource.get("mapping"):
            yield name, resource["mapping"]
    for name, mapping in (device.node_allocatable_resource_mappings or {}).items():
        by = mapping.get("allocationMultiplier")
        key = mapping.get("capacityKey")
        yield name, {"capacityKey": key, "capacityMultiplier": by} if key else {"deviceMultiplier": by}


def _mapped_amount(
    claim: str, name: str, by: Mapping[str, Any], result: DeviceRequestAllocationResult
) -> tuple[Fraction, str | int] | None:
    """Return the amount of a resource that a device provides, and a quantity in the same format.

    None if the amount depends on a capacity of which the allocation has consumed nothing.
    """
    key = by.get("capacityKey")
    if not key:
        multiplier = by.get("deviceMultiplier")
        return None if multiplier is None else (quantities.parse(multiplier), multiplier)
    if result.consumed_capacity is None:
        raise UnaccountableError(
            f"claim {claim}, device {result.device}: ConsumedCapacity is nil, but Capacity key '{key}' is set in "
            f"NodeAllocatableResources for resource {name}"
        )
    consumed = result.consumed_capacity.get(key, result.consumed_capacity.get(_respelt(key, result.driver)))
    if consumed is None:
        return None
    return quantities.parse(consumed) * quantities.parse(by.get("capacityMultiplier") or "1"), consumed


def _respelt(key: str, driver: str) -> str:
    """Return the other spelling of a capacity: with or without the driver's domain (one capacity since 1.38)."""
    return key.removeprefix(f"{driver}/") if "/" in key else f"{driver}/{key}"


def _quantity(text: str | int | None) -> Fraction:
    return _NOTHING if text is None else quantities.parse(text)


def _add(total: dict[str, Fraction], name: str, amount: Fraction) -> None:
    total[name] = total.get(name, _NOTHING) + amount
