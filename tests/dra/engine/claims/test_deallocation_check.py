"""An allocation is taken back only if no pod is being bound to it."""

import contextlib

import msgspec
import pytest

from dra.engine.claims.actions import Deallocate
from dra.engine.claims.deallocation_check import BoundMeanwhileError, DeallocationCheck
from dra.model.pods import PodExtendedResourceClaimStatus, PodStatus
from tests.dra.engine.examples import KEY, node, pod, uid
from tests.violations import for_each_case

PLAIN = Deallocate(claim=KEY, confirm=True)
GIVEN_UP = Deallocate(claim=KEY, confirm=True, given_up=frozenset({uid("a")}))
NOMINATED = Deallocate(claim=KEY, confirm=True, nominated=frozenset({(uid("a"), "n1")}))


@for_each_case(
    [
        pytest.param(PLAIN, pod("a"), None, id="waits"),
        pytest.param(PLAIN, pod("a", node="n1"), "pod a is being bound", id="bound"),
        pytest.param(PLAIN, pod("a", nominated="n1"), "pod a is being bound", id="a-binding-cycle-may-be-under-way"),
        pytest.param(PLAIN, pod("a", nominated="n1", deleting=True), None, id="nominated-and-deleted"),
        pytest.param(PLAIN, pod("a", node="n1", phase="Failed"), None, id="ended"),
        pytest.param(NOMINATED, pod("a", nominated="n1"), None, id="nominated-since-long-ago"),
        pytest.param(NOMINATED, pod("a", nominated="n2"), "pod a is being bound", id="nominated-anew"),
        pytest.param(NOMINATED, pod("a", node="n1", nominated="n1"), "pod a is being bound", id="bound-by-now"),
        pytest.param(GIVEN_UP, pod("a", node="n1"), None, id="given-up"),
        pytest.param(GIVEN_UP, pod("b", node="n1"), "pod b is being bound", id="nobody-has-given-it-up"),
    ]
)
def test_a_pod_that_is_being_bound_forbids_the_deallocation(write, found, objection):
    check = DeallocationCheck(write)
    raises = pytest.raises(BoundMeanwhileError, match=f"^claim ml/train: {objection}$")
    with contextlib.nullcontext() if objection is None else raises:
        check.check_pod(found)


@pytest.mark.parametrize(
    ("pods", "nodes", "objection"),
    [
        pytest.param([pod("a", node="n1")], [node("n1", ready=False)], None, id="its-kubelet-does-not-report-in"),
        pytest.param([pod("a", node="n1")], [], None, id="its-node-is-gone"),
        pytest.param([pod("a", node="n1")], [node("n1")], "node n1 reports in", id="its-kubelet-is-back"),
        pytest.param([pod("a", node="n1")], [node("n2")], None, id="another-kubelet-reports-in"),
        pytest.param([], [node("n1")], None, id="its-pod-is-gone"),
    ],
)
def test_pods_are_given_up_only_as_long_as_their_kubelets_do_not_report_in(pods, nodes, objection):
    check = DeallocationCheck(GIVEN_UP)
    for each in pods:
        check.check_pod(each)
    assert check.needs_nodes is bool(pods)
    with contextlib.nullcontext() if objection is None else pytest.raises(BoundMeanwhileError, match=objection):
        for each in check.nodes_to_check(nodes):
            check.check_node(each)


def test_pods_of_the_claim_are_those_that_use_it_in_any_way():
    extended = PodStatus(extended_resource_claim_status=PodExtendedResourceClaimStatus(resource_claim_name=KEY[1]))
    by_extended_resource = msgspec.structs.replace(pod("b", claims=()), status=extended)
    pods = [pod("a"), by_extended_resource, pod("c", claims=("other",)), pod("d", claims=())]
    assert [each.metadata.name for each in DeallocationCheck(PLAIN).users(pods)] == ["a", "b"]
