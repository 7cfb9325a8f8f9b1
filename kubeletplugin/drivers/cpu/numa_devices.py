"""The devices of NUMA nodes beside the node's device, for claims whose CPUs and other devices share one. Pure.

An aligned claim takes its CPUs from the node's device, as all claims do, and requests as many of the device of a NUMA
node. ``matchAttribute`` on ``numaNode`` thus places its GPUs and its CPUs. The capacities of a NUMA node are those of
the node's device (`kubeletplugin.drivers.cpu.node_device`), restricted to the NUMA node: what is free there now, plus
what prepared aligned claims consume there.

A claim without a NUMA node may get CPUs anywhere, and the scheduler learns where once the claim is prepared. If an
aligned claim was allocated in the meantime, its CPUs may be gone; it is then prepared when other claims have ended.

No other claim may be allocated such a device, since only the node's device counts all CPUs: the devices have a taint,
and where the API server knows no taints of devices (before Kubernetes 1.36), a request for ``dra.cpu/cpu`` does not
match the capacity ``numaCPUs``. The attribute for the bind policy has a name of its own, too. The scheduler takes the
first device that fits, so these devices are published in the order of the node's strategy.
"""

from typing import Any, Final

from dra.api.parameters.cpu_policies import NumaAllocateStrategy
from dra.engine.cpus.cpusets import CpuSet
from dra.engine.cpus.node_policies import NodeCpuBindPolicy, NodeCpuPolicies
from dra.engine.cpus.topology import CpuTopology
from dra.model.slices import Device
from dra.model.taints import DeviceTaint
from kubeletplugin.drivers.cpu.devices import NUMA_CAPACITY, numa_attributes, numa_device_name
from kubeletplugin.drivers.cpu.node_device import (
    DISTINCT_CORE_CAPACITY,
    ON_REQUEST,
    WHOLE_CORE_CAPACITY,
    Consumption,
    HeldCpus,
    count_cores,
)

NUMA_BIND_POLICY: Final = "numaBindPolicy"
NUMA_TAINT: Final = "cpu.reserve.dra/numa-node"
"""Taint of the devices; aligned claims tolerate the taint."""


def build_numa_devices(
    topology: CpuTopology, *, allocatable: CpuSet, policies: NodeCpuPolicies, held: HeldCpus
) -> tuple[Device, ...]:
    """Return the devices of all NUMA nodes with CPUs, also of those that have none for claims."""
    sign = 1 if policies.strategy is NumaAllocateStrategy.MOST_ALLOCATED else -1
    free = {node: (cpus & allocatable) - held.cpus for node, cpus in topology.numa_nodes.items()}
    size = allocatable or topology.online  # without CPUs for aligned claims, no NUMA node counts as too small for one
    largest = max(len(cpus & size) for cpus in topology.numa_nodes.values())
    return tuple(
        Device(
            name=numa_device_name(node),
            attributes=numa_attributes(node)
            | {
                "dra.cpu/smtEnabled": {"bool": topology.threads_per_core > 1},
                "dra.cpu/numCPUs": {"int": len(topology.numa_nodes[node] & allocatable)},
                "threadsPerCore": {"int": topology.whole_core_step},
                NUMA_BIND_POLICY: {"string": policies.bind_policy.value},
                "numaNodeCPUs": {"int": largest},
                "freeCores": {"int": count_cores(topology, free[node])},
            },
            capacity=_capacity(
                topology, free[node], policies=policies, consumed=held.numa_nodes.get(node, Consumption())
            ),
            taints=[DeviceTaint(key=NUMA_TAINT, effect="NoSchedule")],
            allow_multiple_allocations=True,
        )
        for node in sorted(free, key=lambda numa_node: (sign * len(free[numa_node]), numa_node))
    )


def _capacity(
    topology: CpuTopology, free: CpuSet, *, policies: NodeCpuPolicies, consumed: Consumption
) -> dict[str, Any]:
    whole = topology.whole_cores(free)
    usable = whole if policies.bind_policy is NodeCpuBindPolicy.FULL_PCPUS_ONLY else free
    amounts = {
        NUMA_CAPACITY: len(usable) + consumed.cpus,
        WHOLE_CORE_CAPACITY: len(whole) + consumed.whole_core_cpus,
        DISTINCT_CORE_CAPACITY: count_cores(topology, free) + consumed.distinct_cores,
    }
    return {name: {"value": str(amount), "requestPolicy": ON_REQUEST} for name, amount in amounts.items()}
