"""What Koordinator's labels on a Node make of requests for CPUs."""

import pytest

from dra.api.parameters.cpu_policies import CpuBindPolicy, NumaAllocateStrategy
from dra.engine.cpus.cpu_snapshot import CpuRequest
from dra.engine.cpus.failures import CpuAllocationFailure, CpuFailureReason
from dra.engine.cpus.node_policies import (
    LABEL_CPU_BIND_POLICY,
    LABEL_NUMA_ALLOCATE_STRATEGY,
    NO_NODE_POLICIES,
    NodeCpuBindPolicy,
    apply_node_bind_policy,
    parse_node_labels,
)
from tests.violations import for_each_case

FULL, SPREAD = CpuBindPolicy.FULL_PCPUS, CpuBindPolicy.SPREAD_BY_PCPUS


@for_each_case(
    [
        pytest.param(None, "None", "MostAllocated", id="no-labels"),
        pytest.param({LABEL_CPU_BIND_POLICY: "None"}, "None", "MostAllocated", id="none"),
        pytest.param({LABEL_CPU_BIND_POLICY: ""}, "None", "MostAllocated", id="empty"),
        pytest.param({LABEL_CPU_BIND_POLICY: "FullPCPUsOnly"}, "FullPCPUsOnly", "MostAllocated", id="whole-cores"),
        pytest.param({LABEL_CPU_BIND_POLICY: "SpreadByPCPUs"}, "SpreadByPCPUs", "MostAllocated", id="spread"),
        pytest.param({LABEL_NUMA_ALLOCATE_STRATEGY: "LeastAllocated"}, "None", "LeastAllocated", id="emptiest"),
        pytest.param({LABEL_NUMA_ALLOCATE_STRATEGY: "DistributeEvenly"}, "None", "DistributeEvenly", id="evenly"),
    ]
)
def test_labels(labels, bind_policy, strategy):
    found, problems = parse_node_labels(labels)
    assert (found.bind_policy, found.strategy, problems) == (bind_policy, strategy, ())


def test_an_unknown_value_counts_as_no_label_and_is_named_with_the_known_ones():
    found, problems = parse_node_labels({LABEL_CPU_BIND_POLICY: "FullPCPUs", LABEL_NUMA_ALLOCATE_STRATEGY: "Most"})
    assert found == NO_NODE_POLICIES
    bind, strategy = "None, FullPCPUsOnly, SpreadByPCPUs", "MostAllocated, LeastAllocated, DistributeEvenly"
    assert problems == (
        f"label {LABEL_CPU_BIND_POLICY}: 'FullPCPUs' is not valid; use {bind}; until then None counts",
        f"label {LABEL_NUMA_ALLOCATE_STRATEGY}: 'Most' is not valid; use {strategy}; until then MostAllocated counts",
    )


@for_each_case(
    [
        pytest.param("None", FULL, False, (FULL, False), id="nothing-is-forced"),
        pytest.param("None", SPREAD, True, (SPREAD, True), id="what-is-required-stays"),
        pytest.param("FullPCPUsOnly", SPREAD, False, (FULL, True), id="a-preference-gives-way"),
        pytest.param("FullPCPUsOnly", FULL, True, (FULL, True), id="the-same-is-required"),
        pytest.param("SpreadByPCPUs", FULL, False, (SPREAD, True), id="forced-to-spread"),
        pytest.param("FullPCPUsOnly", SPREAD, True, None, id="conflict-spread"),
        pytest.param("SpreadByPCPUs", FULL, True, None, id="conflict-full"),
    ]
)
def test_the_bind_policy_of_the_node(node, asked, required, becomes):
    found = apply_node_bind_policy(CpuRequest(count=2, policy=asked, required=required), NodeCpuBindPolicy(node))
    if becomes is None:
        assert isinstance(found, CpuAllocationFailure)
        assert found.reason is CpuFailureReason.POLICY_CONFLICT
        assert str(found).startswith("node(s) cpu bind policy conflicts with pod's required cpu bind policy: ")
    else:
        assert found == CpuRequest(count=2, policy=becomes[0], required=becomes[1])


def test_distribute_evenly_orders_as_least_allocated():
    # Koordinator splits evenly only over the NUMA nodes of a hint, which no claim has.
    assert NumaAllocateStrategy("DistributeEvenly") is not NumaAllocateStrategy.MOST_ALLOCATED
