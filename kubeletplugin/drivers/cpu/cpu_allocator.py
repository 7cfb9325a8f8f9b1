"""Allocation of CPUs to claims: the allocated CPUs, or of a grouped device the CPUs that the bind policy selects. Pure.

Beside a kubelet that allocates CPUs itself, the CPUs of a claim are only counted.
"""

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from dra.api.parameters.cpu_policies import NO_CPU_CONFIG, NoCpuConfig
from dra.engine.cpus.accumulator import check_count, satisfies_required_policy
from dra.engine.cpus.cpu_assignments import CpuAssignments
from dra.engine.cpus.cpu_snapshot import CpuAllocation, CpuRequest, CpuSnapshot
from dra.engine.cpus.cpusets import NO_CPUS, CpuSet
from dra.engine.cpus.failures import CpuAllocationFailure, CpuFailureReason
from dra.engine.cpus.node_policies import NO_NODE_POLICIES, NodeCpuPolicies, apply_node_bind_policy
from dra.engine.cpus.numa_placement import take_cpus_by_numa_policy
from dra.engine.cpus.topology import CpuTopology
from dra.engine.devices.ledger import Holder
from dra.engine.prepare_refusals.reasons import PrepareRefusalReason
from dra.model import quantities
from dra.model.claims import DeviceRequestAllocationResult
from dra.model.koordinator_classes import NumaTopologyPolicy
from kubeletplugin.contract import (
    ClaimIdentity,
    DevicesInUseError,
    PreparedClaim,
    PrepareError,
    PrepareRequest,
)
from kubeletplugin.drivers.cpu.devices import CPU_CAPACITY, NODE_DEVICE, device_cpus, is_grouped_device, numa_node_of
from kubeletplugin.drivers.cpu.prepared_cpus import (
    AllocatedCpus,
    claim_allocations,
    claim_cpus,
    consumed_numa_cpus,
    is_aligned,
)

if TYPE_CHECKING:
    from dra.api.parameters.cpu import CpuConfig


def divide_among_claims(nobodys: CpuAssignments, preparations: Iterable[PreparedClaim]) -> CpuAssignments:
    """Return the CPUs of each prepared claim; `nobodys` is the node before any claim has CPUs."""
    held = {_claim_holder(preparation.claim): claim_cpus(preparation) for preparation in preparations}
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
    taken = [allocation for preparation in held for allocation in claim_allocations(preparation)]
    me = _claim_holder(request.claim)
    allocated: list[AllocatedCpus] = []
    for result in request.results:
        if result.admin_access or _only_aligns(request, result):
            allocated.append(AllocatedCpus(cpus=NO_CPUS))
            continue
        share = _allocate_result(division, request, result, taken=taken, others=held, policies=policies)
        now = division.assign(me, division.assignments.get(me, NO_CPUS) | share.cpus)
        if isinstance(now, str):
            if share.cpus & division.assigned:
                raise DevicesInUseError(now, reason=PrepareRefusalReason.CPUS_IN_USE)
            raise PrepareError(now, reason=PrepareRefusalReason.CPUS_UNSUITABLE)
        division = now
        taken.append(CpuAllocation(cpus=share.cpus, exclusivity=share.exclusivity))
        allocated.append(share)
    return tuple(allocated)


def count_cpus(
    topology: CpuTopology, request: PrepareRequest, *, policies: NodeCpuPolicies = NO_NODE_POLICIES
) -> tuple[AllocatedCpus, ...]:
    """Return the number of CPUs of each result, in order, for a claim whose CPUs the kubelet chooses.

    Raises PrepareError.
    """
    allocated = []
    for result in request.results:
        where = f"{request.claim}: device {result.device}"
        if result.admin_access or _only_aligns(request, result):
            allocated.append(AllocatedCpus(cpus=NO_CPUS))
            continue
        if result.device != NODE_DEVICE:
            raise PrepareError(
                f"{where}: the kubelet allocates CPUs on this node, so the driver has no CPUs for this device; delete "
                "the claim's pods, so that the claim is allocated again",
                reason=PrepareRefusalReason.CPUS_UNSUITABLE,
            )
        config = _cpu_config(request, result, where=where)
        count = _allocated_cpu_count(result, where=where)
        settled = apply_node_bind_policy(_cpu_request(config, count), policies.bind_policy)
        if not isinstance(settled, CpuAllocationFailure):
            settled = check_count(topology, settled) or settled
        if isinstance(settled, CpuAllocationFailure):
            raise PrepareError(f"{where}: {settled}", reason=PrepareRefusalReason.CPUS_UNSUITABLE)
        allocated.append(AllocatedCpus(cpus=NO_CPUS, exclusivity=config.exclusivity, counted=count))
    return tuple(allocated)


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
    all_of, numa_policy = device_cpus(result.device, division.topology), NumaTopologyPolicy.NONE
    if result.device == NODE_DEVICE:
        of_numa_node, numa_policy = _numa_placement(request, division.topology, policies)
        all_of &= of_numa_node
    if not all_of:
        raise PrepareError(
            f"{where}: none of its CPUs is online (online: {division.topology.online}); delete the claim's pods, "
            "so that the claim is allocated again",
            reason=PrepareRefusalReason.CPUS_UNSUITABLE,
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
            raise PrepareError(f"{where}: {settled}", reason=PrepareRefusalReason.CPUS_UNSUITABLE)
        cpu_request = replace(settled, strategy=config.given_strategy or policies.strategy)
    preferred = division.topology.isolated if config.prefers_isolated else NO_CPUS
    chosen = take_cpus_by_numa_policy(snapshot, cpu_request, numa_policy, preferred=preferred)
    if isinstance(chosen, CpuAllocationFailure):
        alone = take_cpus_by_numa_policy(dataclasses.replace(snapshot, allocations=()), cpu_request, numa_policy)
        holders = _describe_holders(others, of=all_of)
        if isinstance(alone, CpuAllocationFailure) or not holders:
            raise PrepareError(f"{where}: {chosen}", reason=PrepareRefusalReason.CPUS_UNSUITABLE)
        raise DevicesInUseError(
            f"{where}: {chosen}; allocated: {holders}; the pod starts when pods of these claims on this node have "
            "ended",
            reason=PrepareRefusalReason.CPUS_IN_USE,
        )
    return AllocatedCpus(cpus=chosen, exclusivity=cpu_request.exclusivity, shared_with=config.shared_with)


def _only_aligns(request: PrepareRequest, result: DeviceRequestAllocationResult) -> bool:
    """Report whether a result only says on which NUMA node the claim's CPUs of the node are."""
    return is_aligned(request) and numa_node_of(result.device) is not None


def _numa_placement(
    request: PrepareRequest, topology: CpuTopology, policies: NodeCpuPolicies
) -> tuple[CpuSet, NumaTopologyPolicy]:
    """Return the CPUs of the node that a claim may have, and the policy for the choice among their NUMA nodes.

    An aligned claim consumes CPUs of its NUMA node, or none: then the scheduler has found none with enough CPUs, or
    none near the claim's other devices, and the claim allows several.
    """
    if not is_aligned(request):
        return topology.online, policies.numa_policy
    for node, cpus in consumed_numa_cpus(request):
        if cpus:
            return topology.numa_nodes.get(node, NO_CPUS), NumaTopologyPolicy.NONE
    return topology.online, NumaTopologyPolicy.BEST_EFFORT


def _describe_holders(others: Iterable[PreparedClaim], *, of: CpuSet) -> str:
    """Return a text with the claims that hold CPUs of a group; empty if there are none."""
    theirs = ((preparation.claim, claim_cpus(preparation) & of) for preparation in others)
    return ", ".join(f"{cpus} by {claim}" for claim, cpus in theirs if cpus)


def _verify_scheduler_choice(
    snapshot: CpuSnapshot, request: PrepareRequest, cpu_request: CpuRequest, *, where: str
) -> None:
    """Raise PrepareError if all individual CPUs of the claim together do not satisfy the required bind policy.

    The scheduler chose these CPUs.
    """
    single = CpuSet(
        cpu
        for result in request.results
        if not is_grouped_device(result.device) and not result.admin_access
        for cpu in device_cpus(result.device, snapshot.topology)
    )
    if not satisfies_required_policy(snapshot, cpu_request, single):
        refusal = CpuAllocationFailure(reason=CpuFailureReason.POLICY_UNSATISFIED, subject=cpu_request.policy)
        raise PrepareError(
            f"{where}: {refusal}: the scheduler chose CPUs {single}; constrain its choice "
            "(matchAttribute, distinctAttribute), or let the driver choose: --cpu-devices grouped"
        )


def _cpu_request(config: "CpuConfig | NoCpuConfig", count: int) -> CpuRequest:
    return CpuRequest(
        count=count,
        policy=config.bind_policy,
        required=config.required_bind_policy is not None,
        exclusivity=config.exclusivity,
        strategy=config.strategy,
    )


def _cpu_config(
    request: PrepareRequest, result: DeviceRequestAllocationResult, *, where: str
) -> "CpuConfig | NoCpuConfig":
    entries = request.parameters_of(result)
    if not entries:
        return NO_CPU_CONFIG
    from dra.api.parameters.cpu import CpuConfig  # noqa: PLC0415 - with pydantic, 13 MiB, once a claim has any
    from dra.api.parameters.opaque import MalformedParametersError, decode_parameters  # noqa: PLC0415

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


def _claim_holder(claim: ClaimIdentity) -> Holder:
    return Holder(kind="claim", key=claim.key, uid=claim.uid)
