"""The choice among many NUMA nodes: the same as that of all sets in order, in bounded time and memory."""

import time
import tracemalloc
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.api.parameters.cpu_policies import CpuBindPolicy, NumaAllocateStrategy
from dra.engine.cpus.accumulator import take_cpus
from dra.engine.cpus.cpu_snapshot import CpuRequest, CpuSnapshot
from dra.engine.cpus.cpusets import CpuSet
from dra.engine.cpus.numa_placement import divide_among_numa_nodes, take_cpus_by_numa_policy
from dra.engine.cpus.numa_selection import fewest_numa_nodes, numa_nodes_of_whole_cores
from dra.engine.cpus.topology import Cpu, CpuTopology
from dra.model.koordinator_classes import NumaTopologyPolicy
from tests.dra.engine.cpus.uniform import uniform_topology

MIB = 1 << 20
MAX_SECONDS = 0.05
MAX_BYTES = 20 * MIB


def sets_in_order(count, free, *, fullest_first, limit):
    """Yield all sets of NUMA nodes with enough free CPUs in the order of the rule: the reference."""
    sign = 1 if fullest_first else -1
    for number in range(1, limit + 1):
        sums = ((sign * sum(free[node] for node in nodes), nodes) for nodes in combinations(sorted(free), number))
        yield from (nodes for total, nodes in sorted(sums) if sign * total >= count)


def gives_whole_cores(cores, count):
    sums = {0}
    for size in cores:
        sums |= {total + size for total in sums}
    return count in sums


def first_even_set(count, cores, *, step, fullest_first, limit):
    free = {node: sum(sizes) for node, sizes in cores.items()}
    for nodes in sets_in_order(count, free, fullest_first=fullest_first, limit=limit):
        division = divide_among_numa_nodes(count, {node: free[node] for node in nodes}, step=step)
        if division and all(gives_whole_cores(cores[node], part) for node, part in division.items()):
            return nodes
    return None


@given(
    free=st.dictionaries(st.integers(0, 20), st.integers(0, 12), min_size=1, max_size=9),
    count=st.integers(1, 60),
    fullest_first=st.booleans(),
)
def test_the_fewest_numa_nodes_are_the_first_of_all_sets(free, count, fullest_first):
    expected = next(sets_in_order(count, free, fullest_first=fullest_first, limit=len(free)), None)
    assert fewest_numa_nodes(count, free, fullest_first=fullest_first) == expected


@given(
    cores=st.dictionaries(
        st.integers(0, 20), st.lists(st.sampled_from([1, 2, 2, 2, 4]), max_size=5), min_size=1, max_size=7
    ),
    count=st.integers(1, 40),
    fullest_first=st.booleans(),
    limit=st.integers(1, 7),
)
def test_numa_nodes_of_whole_cores_are_the_first_even_set(cores, count, fullest_first, limit):
    limit = min(limit, len(cores))
    expected = first_even_set(count, cores, step=1, fullest_first=fullest_first, limit=limit)
    chosen = numa_nodes_of_whole_cores(count, cores, step=1, fullest_first=fullest_first, limit=limit)
    assert chosen == expected


@pytest.mark.parametrize("fullest_first", [True, False])
@pytest.mark.parametrize("count", [8, 53, 96, 131])
def test_16_numa_nodes_are_chosen_as_from_all_sets(count, fullest_first):
    free = {node: (5 * node + 3) % 13 for node in range(16)}
    expected = next(sets_in_order(count, free, fullest_first=fullest_first, limit=16), None)
    assert fewest_numa_nodes(count, free, fullest_first=fullest_first) == expected


def test_16_numa_nodes_of_whole_cores_are_chosen_as_from_all_sets():
    cores = {node: (2,) * (node % 5 + 1) + ((1,) if node == 3 else ()) for node in range(16)}
    expected = first_even_set(31, cores, step=1, fullest_first=True, limit=16)
    assert numa_nodes_of_whole_cores(31, cores, step=1, fullest_first=True, limit=16) == expected


def of_caches(nodes, *, offline_siblings=()):
    """Return two sockets whose L3 caches are NUMA nodes of 8 cores; some cores have one thread."""
    uniform = uniform_topology(sockets=2, nodes=nodes // 2, cores=8, threads=2)
    return CpuTopology(cpus=tuple(cpu for cpu in uniform.cpus if cpu.id not in offline_siblings))


def cost(work):
    """Return the least processor time of three runs in seconds, and the greatest memory of one in bytes."""
    times = []
    for _ in range(3):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    tracemalloc.start()
    try:
        work()
        return min(times), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("offline_siblings", [(), (1, 35)], ids=["equal-cores", "siblings-offline"])
@pytest.mark.parametrize("required", [False, True], ids=["preferred", "required"])
@pytest.mark.parametrize("policy", NumaTopologyPolicy)
@pytest.mark.parametrize("nodes", [16, 64])
def test_many_numa_nodes_take_milliseconds(nodes, policy, required, offline_siblings):
    topology = of_caches(nodes, offline_siblings=offline_siblings)
    snapshot = CpuSnapshot(topology=topology, allocatable=topology.online - CpuSet([0]))
    request = CpuRequest(count=nodes * 8, policy=CpuBindPolicy.FULL_PCPUS, required=required)
    seconds, memory = cost(lambda: take_cpus_by_numa_policy(snapshot, request, policy))
    assert seconds <= MAX_SECONDS
    assert memory <= MAX_BYTES


@pytest.mark.parametrize("strategy", NumaAllocateStrategy)
def test_the_numa_nodes_of_a_socket_are_chosen_in_milliseconds(strategy):
    topology = uniform_topology(sockets=1, nodes=32, cores=8, threads=2)
    snapshot = CpuSnapshot(topology=topology, allocatable=topology.online)
    seconds, memory = cost(lambda: take_cpus(snapshot, CpuRequest(count=250, strategy=strategy)))
    assert seconds <= MAX_SECONDS
    assert memory <= MAX_BYTES


def test_a_search_without_end_gives_up():
    """64 NUMA nodes of different sizes, and a number of CPUs that no set of them divides evenly."""
    cores = {node: (2,) * (node + 40) for node in range(64)}
    seconds, _ = cost(lambda: numa_nodes_of_whole_cores(4095, cores, step=1, fullest_first=True, limit=64))
    assert seconds <= MAX_SECONDS


def test_an_odd_request_uses_the_numa_node_with_the_single_thread():
    cpus = [Cpu(id=i, core=i // 2, numa_node=i // 4, socket=0) for i in range(12) if i != 1]
    topology = CpuTopology(cpus=tuple(cpus))
    snapshot = CpuSnapshot(topology=topology, allocatable=topology.online)
    request = CpuRequest(count=7, policy=CpuBindPolicy.FULL_PCPUS, required=True)
    chosen = take_cpus_by_numa_policy(snapshot, request, NumaTopologyPolicy.BEST_EFFORT)
    assert str(chosen) == "0,2-7"
