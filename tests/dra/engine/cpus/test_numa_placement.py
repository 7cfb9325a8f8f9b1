"""CPUs of as few NUMA nodes as possible, and evenly from these (koordinator-rest.md §3.4, vector 12)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.api.parameters.cpu_policies import CpuBindPolicy, NumaAllocateStrategy
from dra.engine.cpus.cpu_snapshot import CpuAllocation, CpuRequest, CpuSnapshot
from dra.engine.cpus.cpusets import CpuSet, parse
from dra.engine.cpus.failures import CpuAllocationFailure
from dra.engine.cpus.numa_placement import divide_among_numa_nodes, take_cpus_by_numa_policy
from dra.model.koordinator_classes import NumaTopologyPolicy
from tests.dra.engine.cpus.uniform import uniform_topology
from tests.violations import for_each_case

SMALL = uniform_topology(sockets=2, cores=4, threads=2)
"""Topology (2,1,4,2): CPUs 0-7 | 8-15."""

NONE, BEST, RESTRICTED, SINGLE = NumaTopologyPolicy
LEAST = NumaAllocateStrategy.LEAST_ALLOCATED


@for_each_case(
    [
        pytest.param(10, {0: 8, 1: 8}, 1, {0: 5, 1: 5}, id="12-two-halves"),
        pytest.param(10, {0: 3, 1: 8}, 1, {0: 3, 1: 7}, id="12-all-of-the-smaller"),
        pytest.param(10, {0: 8, 1: 3}, 1, {0: 7, 1: 3}, id="12-the-smaller-gives-first-whatever-its-number"),
        pytest.param(10, {0: 8, 1: 8}, 2, {0: 4, 1: 6}, id="12-whole-cores"),
        pytest.param(12, {0: 3, 1: 8}, 1, None, id="12-insufficient-numa-cpu"),
        pytest.param(10, {0: 3, 1: 8}, 2, {0: 2, 1: 8}, id="whole-cores-alone-count"),
        pytest.param(3, {0: 3}, 1, {0: 3}, id="one"),
    ]
)
def test_a_request_is_divided_evenly(count, free, step, expected):
    assert divide_among_numa_nodes(count, free, step=step) == expected


@given(
    count=st.integers(1, 64),
    free=st.dictionaries(st.integers(0, 7), st.integers(0, 32), min_size=1),
    step=st.sampled_from([1, 2]),
)
def test_a_division_takes_what_is_there_and_fails_only_if_it_is_too_little(count, free, step):
    count *= step
    found = divide_among_numa_nodes(count, free, step=step)
    usable = sum(each // step * step for each in free.values())
    assert (found is None) == (usable < count)
    if found is not None:
        assert sum(found.values()) == count
        assert all(0 <= found[node] <= free[node] and not found[node] % step for node in free)


def place(count, numa_policy, *, used="", **request):
    snapshot = CpuSnapshot(topology=SMALL, allocatable=SMALL.online, allocations=(CpuAllocation(cpus=parse(used)),))
    return str(take_cpus_by_numa_policy(snapshot, CpuRequest(count=count, **request), numa_policy))


@pytest.mark.parametrize(
    ("count", "policy", "used", "expected"),
    [
        pytest.param(10, RESTRICTED, "", "0-4,8-12", id="12-restricted-is-even"),
        pytest.param(10, BEST, "3-7", "0-2,8-14", id="12-the-smaller-gives-all"),
        pytest.param(10, NONE, "", "0-9", id="without-a-policy-the-accumulator-decides"),
        pytest.param(6, SINGLE, "0-3", "8-13", id="single-takes-the-one-that-fits"),
        pytest.param(4, SINGLE, "0-3", "4-7", id="most-allocated"),
        pytest.param(6, BEST, "0-3,8-11", "4-6,12-14", id="best-effort-takes-two-if-it-must"),
    ],
)
def test_numa_nodes_by_policy(count, policy, used, expected):
    assert place(count, policy, used=used) == expected


@pytest.mark.parametrize(
    ("count", "policy", "used"),
    [
        pytest.param(6, SINGLE, "0-3,8-11", id="single"),
        pytest.param(10, SINGLE, "", id="larger-than-a-numa-node"),
        pytest.param(6, RESTRICTED, "0-3,8-11", id="restricted-is-single-where-one-could-do"),
    ],
)
def test_enough_cpus_on_the_wrong_numa_nodes_are_refused(count, policy, used):
    assert place(count, policy, used=used).startswith(f"Insufficient NUMA cpu: {count} CPUs wanted by {policy}, free: ")


def test_a_shortage_is_no_matter_of_numa_nodes():
    assert place(17, SINGLE).startswith("not enough cpus available")


def test_required_whole_cores_are_divided_in_whole_cores():
    full = {"policy": CpuBindPolicy.FULL_PCPUS, "required": True}
    assert place(10, RESTRICTED, **full) == "0-3,8-13"
    assert place(6, SINGLE, used="0,2,4", **full) == "8-13"


def test_least_allocated_prefers_the_emptier_numa_node():
    assert place(2, SINGLE, used="0-3", strategy=LEAST) == "8-9"


@given(
    used=st.sets(st.integers(0, 15)),
    count=st.integers(1, 16),
    policy=st.sampled_from(NumaTopologyPolicy),
    bind=st.sampled_from(CpuBindPolicy),
    required=st.booleans(),
)
def test_a_policy_is_kept_or_the_request_refused(used, count, policy, bind, required):
    snapshot = CpuSnapshot(topology=SMALL, allocatable=SMALL.online, allocations=(CpuAllocation(cpus=CpuSet(used)),))
    request = CpuRequest(count=count, policy=bind, required=required)
    found = take_cpus_by_numa_policy(snapshot, request, policy)
    if isinstance(found, CpuAllocationFailure):
        anywhere = take_cpus_by_numa_policy(snapshot, request, NONE)
        assert isinstance(anywhere, CpuAllocationFailure) or policy in (SINGLE, RESTRICTED)
        return
    assert len(found) == count
    assert found <= snapshot.available
    nodes = {SMALL.by_id[cpu].numa_node for cpu in found}
    assert policy is not SINGLE or len(nodes) == 1
    assert policy is not RESTRICTED or count > 8 or len(nodes) == 1
