"""How a Node shows that an autoscaler may delete it."""

import pytest

from dra.model.autoscalers import DO_NOT_DISRUPT, SCALE_DOWN_DISABLED, DeletionSign, deletion_sign
from tests.dra.engine.examples import node
from tests.violations import for_each_case

NODE_POOL = {"karpenter.sh/nodepool": "default"}
CANDIDATE = "DeletionCandidateOfClusterAutoscaler"
TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler"
DISRUPTED = "karpenter.sh/disrupted"


@for_each_case(
    [
        pytest.param(node("n1"), None, id="none"),
        pytest.param(node("n1", taints=["node.kubernetes.io/unreachable"]), None, id="another-taint"),
        pytest.param(node("n1", labels={CANDIDATE: ""}), None, id="a-label-of-that-name"),
        pytest.param(node("n1", taints=[CANDIDATE]), DeletionSign.CANDIDATE, id="a-candidate"),
        pytest.param(node("n1", taints=[CANDIDATE, TO_BE_DELETED]), DeletionSign.TO_BE_DELETED, id="being-deleted"),
        pytest.param(node("n1", taints=[DISRUPTED]), DeletionSign.DISRUPTED, id="being-disrupted"),
        pytest.param(node("n1", labels=NODE_POOL), DeletionSign.NODE_POOL, id="in-a-node-pool"),
        pytest.param(
            node("n1", labels=NODE_POOL, taints=[DISRUPTED]), DeletionSign.DISRUPTED, id="disrupted-in-a-pool"
        ),
    ]
)
def test_the_most_certain_sign_counts(found, sign):
    assert deletion_sign(found) is sign


@for_each_case(
    [
        pytest.param({"taints": [CANDIDATE]}, {SCALE_DOWN_DISABLED: "true"}, False, id="kept"),
        pytest.param({"taints": [CANDIDATE]}, {SCALE_DOWN_DISABLED: "yes"}, True, id="a-value-without-effect"),
        pytest.param({"taints": [CANDIDATE]}, {DO_NOT_DISRUPT: "true"}, True, id="the-annotation-of-the-other"),
        pytest.param({"taints": [TO_BE_DELETED]}, {SCALE_DOWN_DISABLED: "true"}, True, id="too-late"),
        pytest.param({"labels": NODE_POOL}, {DO_NOT_DISRUPT: "true"}, False, id="kept-in-a-pool"),
        pytest.param({"labels": NODE_POOL}, {SCALE_DOWN_DISABLED: "true"}, True, id="karpenter-does-not-read-it"),
        pytest.param({"taints": [DISRUPTED]}, {DO_NOT_DISRUPT: "true"}, True, id="too-late-for-karpenter"),
    ]
)
def test_an_annotation_keeps_a_node_whose_deletion_has_not_begun(mark, annotations, shows):
    assert (deletion_sign(node("n1", annotations=annotations, **mark)) is not None) is shows
