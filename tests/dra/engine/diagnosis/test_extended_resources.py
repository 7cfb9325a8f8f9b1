"""A pod that waits for an extended resource which devices serve is told which claims have the devices."""

import msgspec
import pytest

from dra.engine.diagnosis import pods
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.node_groups import Obstacle
from dra.engine.diagnosis.problem_codes import ProblemCode
from tests.dra.engine.diagnosis.cluster_states import DRIVER, claim, entry, node, pod, snapshot

GPU = "example.com/gpu"


def explained(resource, *claims, nodes=("n1", "n2"), **allocatable):
    hosts = [node(name) for name in nodes]
    hosts[0]["status"]["allocatable"] |= allocatable
    waiting = pod("a")
    waiting["spec"]["containers"][0]["resources"]["requests"] |= {resource: "1"}
    found = snapshot(*claims, pods=(waiting,), nodes=hosts)
    classes = [
        msgspec.structs.replace(each, spec=msgspec.structs.replace(each.spec, extended_resource_name=GPU))
        for each in found.classes
    ]
    return pods.explain(ClusterState(msgspec.structs.replace(found, classes=tuple(classes))), ("ml", "a"))


HELD = tuple(claim(f"h{n}", f"n{n}/gpu-0", f"n{n}/gpu-1", listed=(entry("x"),)) for n in (1, 2))


@pytest.mark.parametrize("resource", [GPU, f"deviceclass.resource.kubernetes.io/{DRIVER}"])
def test_the_holders_of_the_devices_are_named(resource):
    found = explained(resource, *HELD)
    (group,) = found.groups
    assert [barrier.obstacle for barrier in group.barriers] == [Obstacle.DEVICES]
    assert {each.claim for each in group.holders} == {("ml", "h1"), ("ml", "h2")}
    assert ProblemCode.UNSCHEDULABLE in {each.code for each in found.problems}


def test_a_node_with_free_devices_can_run_the_pod():
    assert any(not group.barriers for group in explained(GPU, HELD[0]).groups)


def test_a_resource_that_nodes_offer_themselves_is_a_matter_of_nodes():
    (closed, *_) = (group for group in explained(GPU, *HELD, **{GPU: "4"}).groups if group.barriers)
    assert Obstacle.ROOM in {barrier.obstacle for barrier in closed.barriers}
