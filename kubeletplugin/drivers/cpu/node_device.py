"""The device of a whole node, from which claims take a number of CPUs: mode *node*. Pure.

With a device for each NUMA node, the scheduler would choose the NUMA node, the first that fits. With one device the
driver chooses among all CPUs, by the node's policies (`dra.engine.cpus.node_policies`), and across NUMA nodes where one
is too small.

The scheduler adds up what claims consume of a capacity, and cannot know which CPUs they have. Each capacity is
therefore published as what is free now plus what prepared claims consume: what remains for the scheduler is right also
while claims wait to be prepared.

``dra.cpu/cpu`` has the free CPUs; on a node that forces whole cores (``FullPCPUsOnly``) only those of entirely free
cores. The value is constant as long as no claim fragments such a core. Elsewhere, free CPUs may be single threads, so
two more capacities show what is left for claims with a *required* policy. Such a claim requests as much of its capacity
as of ``dra.cpu/cpu``; other claims consume none.

* ``wholeCoreCPUs``, for ``FullPCPUs``: the CPUs of entirely free cores.
* ``distinctCoreCPUs``, for ``SpreadByPCPUs``: the number of cores with a free CPU. Prepared claims may have the two
  threads of one core; as long as claims only wait to be prepared, each is reckoned to take a core for every CPU.

The attribute ``freeCores`` is that number without what prepared claims consume. Claims without a required policy select
by it, on nodes that force ``SpreadByPCPUs``. Likewise, ``freeNUMANodeCPUs`` has the free CPUs of the NUMA node with
most of them, and ``numaNodeCPUs`` those of the largest one without claims: for nodes whose label restricts NUMA nodes.
"""

from collections.abc import Mapping
from typing import Any, Final

from dra.engine.cpus.cpusets import NO_CPUS, CpuSet
from dra.engine.cpus.node_policies import NodeCpuBindPolicy, NodeCpuPolicies
from dra.engine.cpus.topology import CpuTopology
from dra.model.meta import Struct
from dra.model.slices import Device
from kubeletplugin.drivers.cpu.devices import CPU_CAPACITY, ISOLATED_CPUS, NODE_DEVICE

WHOLE_CORE_CAPACITY: Final = "wholeCoreCPUs"
DISTINCT_CORE_CAPACITY: Final = "distinctCoreCPUs"

ON_REQUEST: Final = {"default": "0", "validRange": {"min": "0"}}
"""Request policy of the capacities for required policies.

Without a step: the API server refuses a step that is larger than the value, which may be 0.
"""


class Consumption(Struct, frozen=True):
    """The amounts that claims consume of the capacities of a device."""

    cpus: int = 0
    whole_core_cpus: int = 0
    distinct_cores: int = 0


class HeldCpus(Struct, frozen=True):
    """The CPUs that prepared claims hold, and what these claims consume of the node's device."""

    cpus: CpuSet = NO_CPUS
    consumed: int = 0
    """CPUs consumed of the node's device; less than the held ones while claims of another mode have CPUs."""
    whole_core_consumed: int = 0
    distinct_core_consumed: int = 0
    numa_nodes: Mapping[int, Consumption] = {}
    """What aligned claims consume of the devices of NUMA nodes."""


def build_node_device(
    topology: CpuTopology, *, allocatable: CpuSet, policies: NodeCpuPolicies, held: HeldCpus
) -> tuple[Device, ...]:
    """Return the device of the node; none if the node has no CPU for claims."""
    free = allocatable - held.cpus
    whole = topology.whole_cores(free)
    whole_cores_only = policies.bind_policy is NodeCpuBindPolicy.FULL_PCPUS_ONLY
    step = topology.whole_core_step if whole_cores_only else 1
    cores = count_cores(topology, free)
    amount = len(whole if whole_cores_only else free) + held.consumed
    if amount < step:
        return ()
    return (
        Device(
            name=NODE_DEVICE,
            attributes={
                "dra.cpu/smtEnabled": {"bool": topology.threads_per_core > 1},
                "dra.cpu/numCPUs": {"int": len(allocatable)},
                ISOLATED_CPUS: {"int": len(allocatable & topology.isolated)},
                "threadsPerCore": {"int": topology.whole_core_step},
                "bindPolicy": {"string": policies.bind_policy.value},
                "numaStrategy": {"string": policies.strategy.value},
                "numNUMANodes": {"int": len(topology.numa_nodes)},
                "freeCores": {"int": cores},
                "numaTopologyPolicy": {"string": policies.numa_policy.value},
                "numaNodeCPUs": {"int": _most_of_a_numa_node(topology, allocatable)},
                "freeNUMANodeCPUs": {"int": _most_of_a_numa_node(topology, whole if whole_cores_only else free)},
            },
            capacity={
                CPU_CAPACITY: {"value": str(amount), "requestPolicy": _cpu_request_policy(amount, step=step)},
                WHOLE_CORE_CAPACITY: {
                    "value": str(len(whole) + held.whole_core_consumed),
                    "requestPolicy": ON_REQUEST,
                },
                DISTINCT_CORE_CAPACITY: {
                    "value": str(cores + held.distinct_core_consumed),
                    "requestPolicy": ON_REQUEST,
                },
            },
            allow_multiple_allocations=True,
        ),
    )


def count_cores(topology: CpuTopology, cpus: CpuSet) -> int:
    """Return the number of cores of CPUs."""
    return len({topology.by_id[cpu].core for cpu in cpus})


def _most_of_a_numa_node(topology: CpuTopology, cpus: CpuSet) -> int:
    return max(len(cpus & of_node) for of_node in topology.numa_nodes.values())


def _cpu_request_policy(amount: int, *, step: int) -> dict[str, Any]:
    """Return the policy that rounds requests up to a multiple of `step`.

    The API server requires a range that has room for one step above its minimum.
    """
    if amount < 2 * step:
        return {"default": str(step), "validValues": [str(step)]}
    return {"default": str(step), "validRange": {"min": str(step), "step": str(step)}}
