"""Workloads whose pods wait for the devices of a claim that is kept for the same workload."""

import msgspec
import pytest

from dra.engine.claims.view import WorkloadPhase
from dra.engine.diagnosis import claims, pods, self_waits
from dra.engine.diagnosis.audit import audit
from dra.engine.diagnosis.pods import AdvisedAction
from dra.engine.diagnosis.problem_codes import ProblemCode
from dra.engine.diagnosis.snapshot import PodController
from tests.dra.engine.diagnosis.cluster_states import JOB, SOMEBODY, claim, cluster_state, entry, node, pod, workload
from tests.violations import for_each_case

NODES = [node("n1")]
RESERVED = {"annotations": {"reserve.dra/reserved-for": "jobs.batch/train", "reserve.dra/reserved-for-uid": "uid-job"}}
KEPT = claim("kept", "n1/gpu-0", "n1/gpu-1", listed=(JOB,), **RESERVED)
THERE = (workload(WorkloadPhase.PRESENT),)
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}


def waits(name="a", *, kind="Job", owner="train", uid="uid-job", on="wanted"):
    by = {"apiVersion": "batch/v1", "kind": kind, "name": owner, "uid": uid, "controller": True}
    found = pod(name, on, metadata={"ownerReferences": [by]})
    return {**found, "status": {"phase": "Pending", "conditions": [UNSCHEDULABLE]}}


def cluster(*more_pods, asked=None, kept=KEPT, workloads=THERE, controllers=()):
    found = cluster_state(
        kept, asked or claim("wanted"), pods=more_pods, workloads=workloads, nodes=NODES, leader=SOMEBODY
    )
    found.snapshot = msgspec.structs.replace(found.snapshot, controllers=tuple(controllers))
    return found


BETWEEN = PodController(
    resource="replicasets", group="apps", kind="ReplicaSet", namespace="ml", name="r", uid="uid-r", controller="uid-job"
)
OTHER = claim("other", "n1/gpu-1", listed=(entry("b"),))


@for_each_case(
    [
        pytest.param(cluster(waits()), [ProblemCode.WAITS_FOR_ITSELF], id="its-own-pod"),
        pytest.param(
            cluster(waits(kind="ReplicaSet", owner="train-workers-0", uid="uid-w")),
            [ProblemCode.WAITS_FOR_ITSELF],
            id="of-a-controller-below-that-was-not-read",
        ),
        pytest.param(
            cluster(waits(owner="train-eval", uid="uid-e")), [ProblemCode.IDLE], id="a-pod-of-a-job-with-a-longer-name"
        ),
        pytest.param(
            cluster(waits(kind="ReplicaSet", owner="r", uid="uid-r"), controllers=[BETWEEN]),
            [ProblemCode.WAITS_FOR_ITSELF],
            id="of-a-controller-below-that-was-read",
        ),
        pytest.param(cluster(waits(owner="other", uid="uid-o")), [ProblemCode.IDLE], id="a-pod-of-another-workload"),
        pytest.param(
            cluster(waits(), kept=claim("kept", "n1/gpu-0", listed=(JOB,), **RESERVED), workloads=()),
            [ProblemCode.IN_DOUBT],
            id="a-workload-that-was-not-read",
        ),
        pytest.param(cluster(waits(on="kept")), [], id="a-pod-that-waits-for-this-very-claim"),
        pytest.param(cluster(), [ProblemCode.IDLE], id="no-pod-waits"),
    ]
)
def test_the_audit_names_a_workload_that_waits_for_itself(found, codes):
    assert [each.code for each in audit(found) if each.subject.key == ("ml", "kept")] == codes


@pytest.mark.parametrize(
    ("found", "codes"),
    [
        pytest.param(cluster(waits()), [ProblemCode.WAITS_FOR_ITSELF], id="a-pod-of-the-workload-waits"),
        pytest.param(cluster(), [ProblemCode.IDLE], id="no-pod-waits"),
    ],
)
def test_the_explanation_of_a_claim_says_that_its_workload_waits_for_itself(found, codes):
    facts = self_waits.with_self_wait(found, claims.explain(found, ("ml", "kept")))
    assert [each.code for each in facts.problems] == codes


def test_a_pod_is_not_told_to_wait_for_a_claim_that_is_kept_for_its_own_workload():
    facts = pods.explain(cluster(waits()), ("ml", "a"))
    assert facts is not None
    assert facts.advice.way is AdvisedAction.NONE
    assert ProblemCode.WAITS_FOR_ITSELF in [each.code for each in facts.problems]


def test_a_pod_of_another_workload_waits_for_the_claim():
    facts = pods.explain(cluster(waits(owner="other", uid="uid-o")), ("ml", "a"))
    assert facts is not None
    assert facts.advice.way is AdvisedAction.WAIT


def test_an_annotation_of_a_template_itself_is_reported():
    meta = {"name": "t", "namespace": "ml", "uid": "uid-t", "annotations": {"reserve.dra/reserved-for": "jobs.batch/x"}}
    found = cluster_state(templates=[{"metadata": meta}])
    assert [(each.code, each.subject.kind) for each in audit(found)] == [
        (ProblemCode.RESERVATION_IGNORED, "ResourceClaimTemplate")
    ]
