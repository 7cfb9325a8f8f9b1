"""Topologies: what is grouped how, and what no machine can be."""

import pytest

from dra.engine.cpus.cpusets import CpuSet, parse
from dra.engine.cpus.topology import CoreType, Cpu, CpuTopology, InvalidTopologyError
from tests.dra.engine.cpus.uniform import uniform_topology
from tests.violations import for_each_case

HYBRID = CpuTopology(
    cpus=(
        *(Cpu(id=i, core=i // 2, numa_node=0, socket=0, l3=0, core_type=CoreType.PERFORMANCE) for i in range(4)),
        *(Cpu(id=i, core=i - 2, numa_node=0, socket=0, l3=0, core_type=CoreType.EFFICIENCY) for i in range(4, 7)),
    )
)


def test_a_regular_machine():
    machine = uniform_topology(sockets=2, nodes=2, cores=2, threads=2)
    assert machine.online == parse("0-15")
    assert {k: str(v) for k, v in machine.sockets.items()} == {0: "0-7", 1: "8-15"}
    assert {k: str(v) for k, v in machine.numa_nodes.items()} == {0: "0-3", 1: "4-7", 2: "8-11", 3: "12-15"}
    assert {k: str(v) for k, v in machine.cores.items()}[7] == "14-15"
    assert [c.core_id for c in machine.cpus] == [0, 0, 1, 1, 2, 2, 3, 3] * 2
    assert (machine.threads_per_core, machine.whole_core_step) == (2, 2)
    assert machine.whole_cores(parse("0-2,5-7")) == parse("0-1,6-7")


def test_a_numa_node_that_spans_sockets_is_a_domain_in_each():
    machine = CpuTopology(cpus=tuple(Cpu(id=i, core=i, numa_node=0, socket=i // 2) for i in range(4)))
    assert {k: str(v) for k, v in machine.domains.items()} == {(0, 0): "0-1", (0, 1): "2-3"}


def test_cores_of_different_size():
    assert (HYBRID.threads_per_core, HYBRID.whole_core_step) == (2, 1)
    assert HYBRID.whole_cores(parse("1-4")) == parse("2-4")


@for_each_case(
    [
        pytest.param([], {}, "no CPU is online", id="empty"),
        pytest.param([{}, {}], {}, "described twice", id="twice"),
        pytest.param([{}], {"offline": CpuSet([0, 1])}, "CPUs 0 are both online and offline", id="offline-too"),
        pytest.param([{}], {"isolated": CpuSet([5])}, "CPUs 5 are isolated, but neither", id="isolated-unknown"),
        pytest.param(
            [{}],
            {"memory_only_numa_nodes": (0, 1)},
            r"NUMA nodes \[0\] are listed as memory-only",
            id="memory-only-with-cpu",
        ),
        pytest.param([{}, {"id": 1, "socket": 1}], {}, r"CPUs 0 and 1 share core 0, but not their socket", id="socket"),
        pytest.param([{}, {"id": 1, "numa_node": 1}], {}, r"share core 0, but not their NUMA node", id="node"),
        pytest.param([{}, {"id": 1, "l3": 1}], {}, r"share core 0, but not their L3 cache", id="l3"),
        pytest.param(
            [{}, {"id": 1, "core_type": CoreType.EFFICIENCY}],
            {},
            r"share core 0, but not their type of core",
            id="type",
        ),
        pytest.param(
            [{"l3": 0}, {"id": 1, "core": 1, "socket": 1, "l3": 0}],
            {},
            "share L3 cache 0, but not their socket",
            id="l3s",
        ),
    ]
)
def test_what_no_machine_can_be_is_refused(cpus, more, problem):
    with pytest.raises(InvalidTopologyError, match=f"CPU topology: .*{problem}"):
        CpuTopology(
            cpus=tuple(Cpu(**({"id": 0, "core": 0, "numa_node": 0, "socket": 0} | cpu)) for cpu in cpus), **more
        )
