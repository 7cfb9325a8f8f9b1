"""Which policy counts, and what is refused."""

import pytest

from dra.engine.cpus.bind_policies import (
    CpuAllocationFailure,
    CpuBindPolicy,
    EffectiveBindPolicy,
    NodeCpuBindPolicy,
    effective_bind_policy,
    merge_numa_topology_policies,
    parse_whole_cpus,
)

FULL, SPREAD = CpuBindPolicy.FULL_PCPUS, CpuBindPolicy.SPREAD_BY_PCPUS
DEFAULT, BURST = CpuBindPolicy.DEFAULT, CpuBindPolicy.CONSTRAINED_BURST


@pytest.mark.parametrize(
    ("asked", "settled"),
    [
        pytest.param({}, EffectiveBindPolicy(policy=FULL), id="nothing-said"),
        pytest.param({"default": SPREAD}, EffectiveBindPolicy(policy=SPREAD), id="another-default"),
        pytest.param(
            {"preferred": DEFAULT, "default": SPREAD}, EffectiveBindPolicy(policy=SPREAD), id="the-default-by-name"
        ),
        pytest.param({"preferred": SPREAD}, EffectiveBindPolicy(policy=SPREAD), id="preferred"),
        pytest.param(
            {"required": FULL, "preferred": SPREAD},
            EffectiveBindPolicy(policy=FULL, required=True),
            id="required-first",
        ),
        pytest.param({"required": DEFAULT}, EffectiveBindPolicy(policy=FULL, required=True), id="the-default-required"),
        pytest.param({"preferred": BURST}, None, id="burst-binds-nothing"),
        pytest.param({"required": BURST}, None, id="burst-required-binds-nothing"),
        pytest.param(
            {"node": NodeCpuBindPolicy.FULL_PCPUS_ONLY}, EffectiveBindPolicy(policy=FULL, required=True), id="forced"
        ),
        pytest.param(
            {"node": NodeCpuBindPolicy.SPREAD_BY_PCPUS, "preferred": FULL},
            EffectiveBindPolicy(policy=SPREAD, required=True),
            id="forced-against-a-preference",
        ),
        pytest.param(
            {"node": NodeCpuBindPolicy.SPREAD_BY_PCPUS, "required": SPREAD},
            EffectiveBindPolicy(policy=SPREAD, required=True),
            id="forced-and-required-alike",
        ),
    ],
)
def test_the_policy_that_counts(asked, settled):
    assert effective_bind_policy(**asked) == settled


def test_node_and_pod_that_require_different_things_conflict():
    refused = effective_bind_policy(node=NodeCpuBindPolicy.SPREAD_BY_PCPUS, required=FULL)
    assert str(refused) == (
        "node(s) cpu bind policy conflicts with pod's required cpu bind policy: "
        "the node has SpreadByPCPUs, the pod requires FullPCPUs"
    )


def test_only_whole_cpus_can_be_bound():
    assert parse_whole_cpus(2000) == 2
    assert str(parse_whole_cpus(2500)) == "the requested CPUs must be integer: 2500m is no whole number of CPUs"


@pytest.mark.parametrize(("node", "pod", "policy"), [("", "", ""), ("A", "", "A"), ("", "A", "A"), ("A", "A", "A")])
def test_numa_policies_that_agree(node, pod, policy):
    assert merge_numa_topology_policies(node=node, pod=pod) == policy


def test_numa_policies_that_do_not():
    refused = merge_numa_topology_policies(node="Restricted", pod="BestEffort")
    assert isinstance(refused, CpuAllocationFailure)
    assert str(refused).startswith("node(s) NUMA Topology policy not match: the node has Restricted")
