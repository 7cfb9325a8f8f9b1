"""Allocation of CPUs to claims: the allocated CPUs, or of a grouped device the CPUs that the bind policy selects. Pure.

The state of the prepared claim records the result: the CPUs of each request (containers may refer to single requests of
a claim), and the allocations that later ones must respect.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from dra.api.parameters.cpu import CpuConfig
from dra.api.parameters.cpu_policies import CpuExclusivePolicy, CpuSharing
from dra.api.parameters.opaque import MalformedParametersError, decode_parameters
from dra.engine.cpus.accumulator import check_count, satisfies_required_policy, take_cpus
from dra.engine.cpus.cpu_assignments import CpuAssignments
from dra.engine.cpus.cpu_snapshot import CpuAllocation, CpuRequest, CpuSnapshot
from dra.engine.cpus.cpusets import NO_CPUS, CpuSet, parse
from dra.engine.cpus.failures import CpuAllocationFailure, CpuFailureReason
from dra.engine.cpus.node_policies import NO_NODE_POLICIES, NodeCpuPolicies, apply_node_bind_policy
from dra.engine.cpus.topology import CpuTopology
from dra.engine.devices.ledger import Holder
from dra.model import quantities
from dra.model.claims import DeviceRequestAllocationResult
from dra.model.meta import Struct, Uid
from kubeletplugin.contract import (
    ClaimIdentity,
    DevicesInUseError,
    PreparedClaim,
    PrepareError,
    PrepareRequest,
    base_request_name,
)
from kubeletplugin.drivers.cpu.devices import CPU_CAPACITY, NODE_DEVICE, device_cpus, is_grouped_device
from kubeletplugin.drivers.cpu.node_device import WHOLE_CORE_CAPACITY, HeldCpus


class AllocatedCpus(Struct, frozen=True):
    """The CPUs allocated for one result."""

    cpus: CpuSet
    exclusivity: CpuExclusivePolicy = CpuExclusivePolicy.NONE
    shared_with: CpuSharing = CpuSharing.NONE


def divide_among_claims(nobodys: CpuAssignments, preparations: Iterable[PreparedClaim]) -> CpuAssignments:
    """Return the CPUs of each prepared claim; `nobodys` is the node before any claim has CPUs."""
    held = {
        _claim_holder(each.claim): _union(allocation.cpus for allocation in claim_allocations(each))
        for each in preparations
    }
    return dataclasses.replace(nobodys, assignments={who: cpus for who, cpus in held.items() if cpus})


def allocate_cpus(
    nobodys: CpuAssignments,
    request: PrepareRequest,
    others: Iterable[PreparedClaim],
    *,
    policies: NodeCpuPolicies = NO_NODE_POLICIES,
) -> tuple[AllocatedCpus, ...]:
    """Return the CPUs of each result, in order; a result with adminAccess gets none. Raises PrepareError.

    `policies` are those of the node; only results of the node's device are subject to them.
    """
    held = tuple(others)
    division = divide_among_claims(nobodys, held)
    taken = [allocation for each in held for allocation in claim_allocations(each)]
    me = _claim_holder(request.claim)
    found: list[AllocatedCpus] = []
    for result in request.results:
        if result.admin_access:
            found.append(AllocatedCpus(cpus=NO_CPUS))
            continue
        share = _allocate_result(division, request, result, taken=taken, others=held, policies=policies)
        now = division.assign(me, division.assignments.get(me, NO_CPUS) | share.cpus)
        if isinstance(now, str):
            raise (DevicesInUseError if share.cpus & division.assigned else PrepareError)(now)
        division = now
        taken.append(CpuAllocation(cpus=share.cpus, exclusivity=share.exclusivity))
        found.append(share)
    return tuple(found)


def counted_state(
    topology: CpuTopology, request: PrepareRequest, *, policies: NodeCpuPolicies = NO_NODE_POLICIES
) -> dict[str, Any]:
    """Return the state of a prepared claim whose CPUs the kubelet chooses: their number alone. Raises PrepareError."""
    records = []
    for result in request.results:
        where = f"{request.claim}: device {result.device}"
        if result.admin_access:
            continue
        if result.device != NODE_DEVICE:
            raise PrepareError(
                f"{where}: the kubelet allocates CPUs on this node, so the driver has no CPUs for this device; delete "
                "the claim's pods, so that the claim is allocated again"
            )
        config = _cpu_config(request, result, where=where)
        count = _allocated_cpu_count(result, where=where)
        settled = apply_node_bind_policy(_cpu_request(config, count), policies.bind_policy)
        if not isinstance(settled, CpuAllocationFailure):
            settled = check_count(topology, settled) or settled
        if isinstance(settled, CpuAllocationFailure):
            raise PrepareError(f"{where}: {settled}")
        record = {"cpus": "", "exclusivity": config.exclusivity.value, "consumed": count}
        records.append(record | {WHOLE_CORE_CAPACITY: _consumed_whole_cores(result)})
    return {"requests": {}, "holdings": records} | _pods_of(request)


def prepared_state(request: PrepareRequest, chosen: Iterable[AllocatedCpus]) -> dict[str, Any]:
    """Return the state of a prepared claim that records its CPUs."""
    of_requests: dict[str, CpuSet] = {}
    remembered = []
    for result, share in zip(request.results, chosen, strict=True):
        if share.cpus:
            name = base_request_name(result.request)
            of_requests[name] = of_requests.get(name, NO_CPUS) | share.cpus
            remembered.append(_holding(result, share))
    state = {"requests": {name: str(cpus) for name, cpus in of_requests.items()}, "holdings": remembered}
    return state | _pods_of(request)


def _pods_of(request: PrepareRequest) -> dict[str, Any]:
    """Return the record of the pods that use the claim; empty in modes without reports."""
    if not any(result.device == NODE_DEVICE for result in request.results):
        return {}
    return {"pods": [[pod.name, pod.uid] for pod in request.pods]}


def _holding(result: DeviceRequestAllocationResult, share: AllocatedCpus) -> dict[str, Any]:
    """Return the record of the CPUs of one result; the keys of mode *node* are absent in other modes."""
    record: dict[str, Any] = {"cpus": str(share.cpus), "exclusivity": share.exclusivity.value}
    if share.shared_with is not CpuSharing.NONE:
        record["sharedWith"] = share.shared_with.value
    if result.device == NODE_DEVICE:
        record[WHOLE_CORE_CAPACITY] = _consumed_whole_cores(result)
    return record


def held_cpus(preparations: Iterable[PreparedClaim]) -> HeldCpus:
    """Return the CPUs that prepared claims hold, and what the claims consume of the node's device."""
    records = [record for each in preparations for record in each.state.get("holdings", ())]
    of_node = [record for record in records if WHOLE_CORE_CAPACITY in record]
    return HeldCpus(
        cpus=_union(parse(record["cpus"]) for record in records),
        consumed=sum(record.get("consumed", len(parse(record["cpus"]))) for record in of_node),
        whole_core_consumed=sum(record[WHOLE_CORE_CAPACITY] for record in of_node),
    )


def claim_cpus(preparation: PreparedClaim) -> CpuSet:
    """Return the CPUs that a prepared claim holds."""
    return _union(device_cpusets(preparation))


def device_cpusets(preparation: PreparedClaim) -> tuple[CpuSet, ...]:
    """Return the CPUs of each device that a prepared claim holds, in order."""
    return tuple(parse(each["cpus"]) for each in preparation.state.get("holdings", ()))


def claim_pods(preparation: PreparedClaim) -> tuple[tuple[str, Uid], ...]:
    """Return names and uids of the pods for which the claim was reserved when it was prepared, if that was recorded."""
    return tuple((name, Uid(uid)) for name, uid in preparation.state.get("pods", ()))


def best_effort_cpus(preparations: Iterable[PreparedClaim]) -> CpuSet:
    """Return the CPUs of claims that share them with containers of the QoS class BestEffort."""
    records = (record for each in preparations for record in each.state.get("holdings", ()))
    return _union(parse(each["cpus"]) for each in records if each.get("sharedWith") == CpuSharing.BEST_EFFORT)


def request_cpusets(preparation: PreparedClaim) -> Mapping[str, CpuSet]:
    """Return the CPUs of each request of a prepared claim."""
    return {name: parse(cpus) for name, cpus in preparation.state.get("requests", {}).items()}


def claim_allocations(preparation: PreparedClaim) -> tuple[CpuAllocation, ...]:
    """Return the CPU allocations that a prepared claim holds."""
    return tuple(
        CpuAllocation(cpus=parse(each["cpus"]), exclusivity=CpuExclusivePolicy(each["exclusivity"]))
        for each in preparation.state.get("holdings", ())
    )


def _allocate_result(
    division: CpuAssignments,
    request: PrepareRequest,
    result: DeviceRequestAllocationResult,
    *,
    taken: list[CpuAllocation],
    others: Iterable[PreparedClaim],
    policies: NodeCpuPolicies,
) -> AllocatedCpus:
    where = f"{request.claim}: device {result.device}"
    all_of = device_cpus(result.device, division.topology)
    if not all_of:
        raise PrepareError(
            f"{where}: none of its CPUs is online (online: {division.topology.online}); delete the claim's pods, "
            "so that the claim is allocated again"
        )
    config = _cpu_config(request, result, where=where)
    snapshot = CpuSnapshot(
        topology=division.topology, allocatable=all_of & division.allocatable, allocations=tuple(taken)
    )
    cpu_request = _cpu_request(
        config, _allocated_cpu_count(result, where=where) if is_grouped_device(result.device) else len(all_of)
    )
    if not is_grouped_device(result.device):
        _verify_scheduler_choice(snapshot, request, cpu_request, where=where)
        return AllocatedCpus(cpus=all_of, exclusivity=cpu_request.exclusivity, shared_with=config.shared_with)
    if result.device == NODE_DEVICE:
        settled = apply_node_bind_policy(cpu_request, policies.bind_policy)
        if isinstance(settled, CpuAllocationFailure):
            raise PrepareError(f"{where}: {settled}")
        cpu_request = replace(settled, strategy=config.given_strategy or policies.strategy)
    chosen = take_cpus(snapshot, cpu_request)
    if isinstance(chosen, CpuAllocationFailure):
        alone = take_cpus(
            CpuSnapshot(topology=snapshot.topology, allocatable=snapshot.allocatable, allocations=()), cpu_request
        )
        holders = _describe_holders(others, of=all_of)
        if isinstance(alone, CpuAllocationFailure) or not holders:
            raise PrepareError(f"{where}: {chosen}")
        raise DevicesInUseError(
            f"{where}: {chosen}; allocated: {holders}; the pod starts when pods of these claims on this node have ended"
        )
    return AllocatedCpus(cpus=chosen, exclusivity=cpu_request.exclusivity, shared_with=config.shared_with)


def _describe_holders(others: Iterable[PreparedClaim], *, of: CpuSet) -> str:
    """Return a text with the claims that hold CPUs of a group; empty if there are none."""
    theirs = ((each.claim, _union(allocation.cpus for allocation in claim_allocations(each)) & of) for each in others)
    return ", ".join(f"{cpus} by {claim}" for claim, cpus in theirs if cpus)


def _verify_scheduler_choice(
    snapshot: CpuSnapshot, request: PrepareRequest, cpu_request: CpuRequest, *, where: str
) -> None:
    """Raise PrepareError if all individual CPUs of the claim together do not satisfy the required bind policy.

    The scheduler chose these CPUs.
    """
    single = CpuSet(
        cpu
        for each in request.results
        if not is_grouped_device(each.device) and not each.admin_access
        for cpu in device_cpus(each.device, snapshot.topology)
    )
    if not satisfies_required_policy(snapshot, cpu_request, single):
        refusal = CpuAllocationFailure(reason=CpuFailureReason.POLICY_UNSATISFIED, subject=cpu_request.policy)
        raise PrepareError(
            f"{where}: {refusal}: the scheduler chose CPUs {single}; constrain its choice "
            "(matchAttribute, distinctAttribute), or let the driver choose: --cpu-devices grouped"
        )


def _cpu_request(config: CpuConfig, count: int) -> CpuRequest:
    return CpuRequest(
        count=count,
        policy=config.bind_policy,
        required=config.required_bind_policy is not None,
        exclusivity=config.exclusivity,
        strategy=config.strategy,
    )


def _cpu_config(request: PrepareRequest, result: DeviceRequestAllocationResult, *, where: str) -> CpuConfig:
    entries = request.parameters_of(result)
    if not entries:
        return CpuConfig()
    try:
        return decode_parameters(entries[-1], CpuConfig)
    except MalformedParametersError as error:
        raise PrepareError(f"{where}: parameters: {error}") from error


def _allocated_cpu_count(result: DeviceRequestAllocationResult, *, where: str) -> int:
    """Return the number of CPUs that were allocated of a group; raises PrepareError."""
    amount = (result.consumed_capacity or {}).get(CPU_CAPACITY)
    if amount is None:
        raise PrepareError(
            f"{where}: the allocation has no amount of {CPU_CAPACITY}; enable the feature gate DRAConsumableCapacity, "
            "or use --cpu-devices individual"
        )
    try:
        number = quantities.parse(amount)
    except quantities.MalformedQuantityError as error:
        raise PrepareError(f"{where}: {CPU_CAPACITY}: {error}") from error
    if number.denominator != 1 or number < 1:
        raise PrepareError(
            f"{where}: {CpuAllocationFailure(reason=CpuFailureReason.NOT_INTEGER, detail=f'{amount} were allocated')}"
        )
    return int(number)


def _consumed_whole_cores(result: DeviceRequestAllocationResult) -> int:
    """Return what a result consumes of the capacity of entirely free cores."""
    consumed = result.consumed_capacity or {}
    names = (name for name in consumed if name.rpartition("/")[2] == WHOLE_CORE_CAPACITY)
    return sum(int(quantities.parse(consumed[name])) for name in names)


def _claim_holder(claim: ClaimIdentity) -> Holder:
    return Holder(kind="claim", key=claim.key, uid=claim.uid)


def _union(sets: Iterable[CpuSet]) -> CpuSet:
    return CpuSet(cpu for cpus in sets for cpu in cpus)
