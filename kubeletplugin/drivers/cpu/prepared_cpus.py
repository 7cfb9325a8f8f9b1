"""The CPUs of a prepared claim as its state in the checkpoint records them: each result with its CPUs. Pure.

The record of a result also has what later allocations must respect (the exclusive policy), and what the claim consumes
of the node's device. An older plugin ignores the keys that it does not know.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from dra.api.parameters.cpu_policies import CpuExclusivePolicy, CpuSharing
from dra.engine.cpus.cpu_snapshot import CpuAllocation
from dra.engine.cpus.cpusets import NO_CPUS, CpuSet, parse
from dra.model import quantities
from dra.model.claims import DeviceRequestAllocationResult
from dra.model.meta import Struct, Uid
from kubeletplugin.contract import PreparedClaim, PrepareRequest, base_request_name
from kubeletplugin.drivers.cpu.devices import NODE_DEVICE, NUMA_CAPACITY, numa_node_of
from kubeletplugin.drivers.cpu.node_device import DISTINCT_CORE_CAPACITY, WHOLE_CORE_CAPACITY, Consumption, HeldCpus


class AllocatedCpus(Struct, frozen=True):
    """The CPUs allocated for one result."""

    cpus: CpuSet
    exclusivity: CpuExclusivePolicy = CpuExclusivePolicy.NONE
    shared_with: CpuSharing = CpuSharing.NONE
    counted: int = 0
    """Number of CPUs that the kubelet chooses; `cpus` is empty then."""


def prepared_state(request: PrepareRequest, allocated: Iterable[AllocatedCpus]) -> dict[str, Any]:
    """Return the state of a prepared claim that records its CPUs."""
    of_requests: dict[str, CpuSet] = {}
    remembered = []
    for result, share in zip(request.results, allocated, strict=True):
        if share.cpus:
            name = base_request_name(result.request)
            of_requests[name] = of_requests.get(name, NO_CPUS) | share.cpus
        if share.cpus or share.counted:
            remembered.append(_holding(result, share))
    state = {"requests": {name: str(cpus) for name, cpus in of_requests.items()}, "holdings": remembered}
    return state | _numa_nodes_of(request) | _pods_of(request)


def held_cpus(preparations: Collection[PreparedClaim]) -> HeldCpus:
    """Return the CPUs that prepared claims hold, and what the claims consume of the node's device."""
    records = [record for preparation in preparations for record in preparation.state.get("holdings", ())]
    of_node = [record for record in records if WHOLE_CORE_CAPACITY in record]
    of_numa_nodes: dict[int, Consumption] = {}
    for node, *amounts in (record for preparation in preparations for record in preparation.state.get("numaNodes", ())):
        before = of_numa_nodes.get(node, Consumption())
        of_numa_nodes[node] = Consumption(
            before.cpus + amounts[0], before.whole_core_cpus + amounts[1], before.distinct_cores + amounts[2]
        )
    return HeldCpus(
        cpus=_union(parse(record["cpus"]) for record in records),
        consumed=sum(record["consumed"] for record in of_node),
        whole_core_consumed=sum(record[WHOLE_CORE_CAPACITY] for record in of_node),
        distinct_core_consumed=sum(record[DISTINCT_CORE_CAPACITY] for record in of_node),
        numa_nodes=of_numa_nodes,
    )


def claim_cpus(preparation: PreparedClaim) -> CpuSet:
    """Return the CPUs that a prepared claim holds."""
    return _union(device_cpusets(preparation))


def device_cpusets(preparation: PreparedClaim) -> tuple[CpuSet, ...]:
    """Return the CPUs of each device that a prepared claim holds, in order."""
    return tuple(parse(holding["cpus"]) for holding in preparation.state.get("holdings", ()))


def claim_pods(preparation: PreparedClaim) -> tuple[tuple[str, Uid], ...]:
    """Return names and uids of the pods for which the claim was reserved when it was prepared, if that was recorded."""
    return tuple((name, Uid(uid)) for name, uid in preparation.state.get("pods", ()))


def best_effort_cpus(preparations: Iterable[PreparedClaim]) -> CpuSet:
    """Return the CPUs of claims that share them with containers of the QoS class BestEffort."""
    records = (record for preparation in preparations for record in preparation.state.get("holdings", ()))
    return _union(parse(record["cpus"]) for record in records if record.get("sharedWith") == CpuSharing.BEST_EFFORT)


def request_cpusets(preparation: PreparedClaim) -> Mapping[str, CpuSet]:
    """Return the CPUs of each request of a prepared claim."""
    return {name: parse(cpus) for name, cpus in preparation.state.get("requests", {}).items()}


def claim_allocations(preparation: PreparedClaim) -> tuple[CpuAllocation, ...]:
    """Return the CPU allocations that a prepared claim holds."""
    return tuple(
        CpuAllocation(cpus=parse(holding["cpus"]), exclusivity=CpuExclusivePolicy(holding["exclusivity"]))
        for holding in preparation.state.get("holdings", ())
    )


def _holding(result: DeviceRequestAllocationResult, share: AllocatedCpus) -> dict[str, Any]:
    """Return the record of the CPUs of one result; the keys of mode *node* are absent in other modes."""
    record: dict[str, Any] = {"cpus": str(share.cpus), "exclusivity": share.exclusivity.value}
    if share.shared_with is not CpuSharing.NONE:
        record["sharedWith"] = share.shared_with.value
    if result.device == NODE_DEVICE:
        record["consumed"] = share.counted or len(share.cpus)
        for capacity in (WHOLE_CORE_CAPACITY, DISTINCT_CORE_CAPACITY):
            record[capacity] = _consumed_amount(result, capacity)
    return record


def consumed_numa_cpus(request: PrepareRequest) -> tuple[tuple[int, int], ...]:
    """Return the NUMA nodes whose devices a claim was allocated, each with the CPUs that the claim consumes there."""
    return tuple((node, amounts[0]) for node, *amounts in _numa_nodes_of(request).get("numaNodes", ()))


def _numa_nodes_of(request: PrepareRequest) -> dict[str, Any]:
    """Return the record of what an aligned claim consumes of NUMA nodes; empty for any other claim."""
    if not is_aligned(request):
        return {}
    capacities = (NUMA_CAPACITY, WHOLE_CORE_CAPACITY, DISTINCT_CORE_CAPACITY)
    consumed = [
        [node, *(_consumed_amount(result, capacity) for capacity in capacities)]
        for result in request.results
        if (node := numa_node_of(result.device)) is not None
    ]
    return {"numaNodes": consumed}


def is_aligned(request: PrepareRequest) -> bool:
    """Report whether a claim has, beside CPUs of the node, a NUMA node that it shares with its other devices."""
    devices = [result.device for result in request.results]
    return NODE_DEVICE in devices and any(numa_node_of(device) is not None for device in devices)


def _pods_of(request: PrepareRequest) -> dict[str, Any]:
    """Return the record of the pods that use the claim; empty in modes without reports."""
    if not any(result.device == NODE_DEVICE for result in request.results):
        return {}
    return {"pods": [[pod.name, pod.uid] for pod in request.pods]}


def _consumed_amount(result: DeviceRequestAllocationResult, capacity: str) -> int:
    """Return what a result consumes of a capacity of the node's device."""
    consumed = result.consumed_capacity or {}
    names = (name for name in consumed if name.rpartition("/")[2] == capacity)
    return sum(int(quantities.parse(consumed[name])) for name in names)


def _union(sets: Iterable[CpuSet]) -> CpuSet:
    return CpuSet(cpu for cpus in sets for cpu in cpus)
