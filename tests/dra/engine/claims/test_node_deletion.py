"""The warning that an autoscaler may delete the node of a claim that is kept without a pod."""

import pytest

from dra.engine.claims.claim_holders import ClaimHolder, HolderState
from dra.engine.claims.codes import Code
from dra.engine.claims.node_deletion import UNUSED_WITHOUT_SIGN
from dra.engine.claims.view import NodeDeletionSign, ObservedHistory, WorkloadPhase, WorkloadState
from dra.engine.instants import NEVER
from dra.model.autoscalers import DeletionSign
from dra.model.meta import Uid
from dra.model.references import POD_GROUPS, RESERVATIONS, ConsumerReference
from tests.dra.engine.examples import (
    FINISHED,
    FOREIGN,
    JOB,
    NOON,
    PRESENT,
    allocation,
    claim,
    codes,
    decided,
    finished,
    gated,
    started,
    starting,
    view,
    waiting,
)
from tests.violations import for_each_case

ON_N1 = allocation(nodes=["n1"])
CANDIDATE = (NodeDeletionSign(node="n1", sign=DeletionSign.CANDIDATE),)
IN_A_POOL = (NodeDeletionSign(node="n1", sign=DeletionSign.NODE_POOL),)
GANG = ConsumerReference(api_group=POD_GROUPS.group, resource=POD_GROUPS.resource, name="gang", uid=Uid("uid-gang"))
HELD = ConsumerReference(api_group=RESERVATIONS.group, resource=RESERVATIONS.resource, name="r", uid=Uid("uid-r"))


def kept(*pods, entries=(JOB,), workload=JOB, phase=PRESENT, signs=CANDIDATE, **known):
    entered = workload is not None
    of = claim(allocation=ON_N1, list=[*entries], workload=workload, entered=entered)
    return view(of, *pods, workload=phase, deletion_signs=signs, **known)


@for_each_case(
    [
        pytest.param(kept(), True, id="kept-for-a-workload"),
        pytest.param(kept(finished("a")), True, id="its-pods-have-ended"),
        pytest.param(kept(waiting("a"), gated("b")), True, id="its-pods-wait"),
        pytest.param(
            kept(entries=[GANG], workload=None, group=WorkloadState(phase=WorkloadPhase.PRESENT, uid=GANG.uid)),
            True,
            id="kept-for-a-pod-group",
        ),
        pytest.param(
            kept(entries=[HELD], workload=None, holds=(ClaimHolder(reference=HELD, state=HolderState.AVAILABLE),)),
            True,
            id="kept-for-a-reservation",
        ),
        pytest.param(kept(started("a")), False, id="a-pod-uses-it"),
        pytest.param(kept(starting("a")), False, id="a-pod-starts"),
        pytest.param(kept(signs=()), False, id="no-sign"),
        pytest.param(kept(phase=FINISHED), False, id="the-workload-has-finished"),
        pytest.param(kept(entries=[FOREIGN], workload=None), False, id="kept-by-others-alone"),
        pytest.param(
            kept(entries=[HELD], workload=None, holds=(ClaimHolder(reference=HELD, state=HolderState.OVER),)),
            False,
            id="the-reservation-is-over",
        ),
    ]
)
def test_a_claim_that_is_kept_without_a_pod_is_reported_with_its_nodes(found, warns):
    assert (Code.NODE_MAY_BE_DELETED in codes(decided(found))) is warns


@pytest.mark.parametrize(
    ("unused", "warns"),
    [
        pytest.param(UNUSED_WITHOUT_SIGN - 1, False, id="just-now"),
        pytest.param(UNUSED_WITHOUT_SIGN, True, id="for-long"),
        pytest.param(None, True, id="unknown"),
    ],
)
def test_a_node_of_a_node_pool_is_reported_when_no_pod_has_come_for_a_while(unused, warns):
    history = ObservedHistory(unused_since=None if unused is None else NOON - unused)
    plan = decided(kept(signs=IN_A_POOL, history=history))
    assert (Code.NODE_MAY_BE_DELETED in codes(plan)) is warns
    assert plan.wake_at == (NEVER if warns else NOON + 1)


def test_a_taint_is_reported_at_once():
    assert Code.NODE_MAY_BE_DELETED in codes(decided(kept(history=ObservedHistory(unused_since=NOON))))


def test_the_warning_names_the_nodes_the_signs_the_keeper_and_what_keeps_a_node():
    signs = (*CANDIDATE, NodeDeletionSign(node="n2", sign=DeletionSign.NODE_POOL))
    (note,) = (r.note for r in decided(kept(signs=signs)).reasons if r.code is Code.NODE_MAY_BE_DELETED)
    assert note.startswith("stays reserved for jobs.batch/train without a pod")
    assert "node n1, node n2 may be deleted" in note
    assert "(taint DeletionCandidateOfClusterAutoscaler or label karpenter.sh/nodepool)" in note
    assert "cluster-autoscaler.kubernetes.io/scale-down-disabled or karpenter.sh/do-not-disrupt keeps a node" in note
