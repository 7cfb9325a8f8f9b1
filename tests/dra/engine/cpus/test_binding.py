"""Which policy counts, and what is refused."""

import pytest

from dra.engine.cpus.binding import Binding, BindPolicy, NodePolicy, Refusal, agree, settle, whole_cpus

FULL, SPREAD = BindPolicy.FULL_PCPUS, BindPolicy.SPREAD_BY_PCPUS
DEFAULT, BURST = BindPolicy.DEFAULT, BindPolicy.CONSTRAINED_BURST


@pytest.mark.parametrize(
    ("asked", "settled"),
    [
        pytest.param({}, Binding(policy=FULL), id="nothing-said"),
        pytest.param({"default": SPREAD}, Binding(policy=SPREAD), id="another-default"),
        pytest.param({"preferred": DEFAULT, "default": SPREAD}, Binding(policy=SPREAD), id="the-default-by-name"),
        pytest.param({"preferred": SPREAD}, Binding(policy=SPREAD), id="preferred"),
        pytest.param({"required": FULL, "preferred": SPREAD}, Binding(policy=FULL, required=True), id="required-first"),
        pytest.param({"required": DEFAULT}, Binding(policy=FULL, required=True), id="the-default-required"),
        pytest.param({"preferred": BURST}, None, id="burst-binds-nothing"),
        pytest.param({"required": BURST}, None, id="burst-required-binds-nothing"),
        pytest.param({"node": NodePolicy.FULL_PCPUS_ONLY}, Binding(policy=FULL, required=True), id="forced"),
        pytest.param(
            {"node": NodePolicy.SPREAD_BY_PCPUS, "preferred": FULL},
            Binding(policy=SPREAD, required=True),
            id="forced-against-a-preference",
        ),
        pytest.param(
            {"node": NodePolicy.SPREAD_BY_PCPUS, "required": SPREAD},
            Binding(policy=SPREAD, required=True),
            id="forced-and-required-alike",
        ),
    ],
)
def test_the_policy_that_counts(asked, settled):
    assert settle(**asked) == settled


def test_node_and_pod_that_require_different_things_conflict():
    refused = settle(node=NodePolicy.SPREAD_BY_PCPUS, required=FULL)
    assert str(refused) == (
        "node(s) cpu bind policy conflicts with pod's required cpu bind policy: "
        "the node has SpreadByPCPUs, the pod requires FullPCPUs"
    )


def test_only_whole_cpus_can_be_bound():
    assert whole_cpus(2000) == 2
    assert str(whole_cpus(2500)) == "the requested CPUs must be integer: 2500m is no whole number of CPUs"


@pytest.mark.parametrize(("node", "pod", "policy"), [("", "", ""), ("A", "", "A"), ("", "A", "A"), ("A", "A", "A")])
def test_numa_policies_that_agree(node, pod, policy):
    assert agree(node=node, pod=pod) == policy


def test_numa_policies_that_do_not():
    refused = agree(node="Restricted", pod="BestEffort")
    assert isinstance(refused, Refusal)
    assert str(refused).startswith("node(s) NUMA Topology policy not match: the node has Restricted")
