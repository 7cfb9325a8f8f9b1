from pathlib import Path

import pytest
import yaml

from dra.cli.kubectl.checklist import CheckState
from dra.cli.kubectl.downgrade import cluster_checks
from dra.cli.kubectl.downgrade.cluster_checks import DowngradeCheckOptions
from dra.cli.kubectl.downgrade.survey import DowngradeSurvey, GatedPod
from dra.cli.kubectl.printers import remedy_text
from dra.engine.claims.consumers import SCHEDULING_GATE
from dra.engine.claims.downgrade import DowngradeAssessment, DowngradeState
from dra.engine.diagnosis.snapshot import InstalledDeployment
from dra.kube.lease_rules import STAND_DOWN, Lease, LeaseSpec
from dra.model.autoscalers import DO_NOT_DISRUPT, KEPT_NODE
from dra.model.meta import ObjectMeta
from dra.model.nodes import Node
from dra.model.references import ConsumerReference
from tests.commands import unknown_commands
from tests.dra.engine.colocation import objects as colocated
from tests.violations import for_each_case

ROOT = Path(__file__).parents[5]
WISH = DowngradeCheckOptions(lease=("dra-reserve", "dra-reserve-controller"))
KEY = ("ml", "train")


def deployment(*, ready=2, replicas=2):
    return InstalledDeployment(
        namespace="dra-reserve", name="controller", component="controller", desired=replicas, ready=ready
    )


DEPLOYMENT = deployment()


def assessment(state, **more):
    return DowngradeAssessment(claim=KEY, state=state, **more)


def test_the_claims_are_counted_by_what_is_to_be_done():
    left = [DowngradeState.CONVERTIBLE, DowngradeState.CONVERTIBLE, DowngradeState.TOO_MANY, DowngradeState.READY]
    found = cluster_checks.judge_claims(DowngradeSurvey(assessments=[assessment(each) for each in left]))
    assert (found.state, found.detail) == (CheckState.MISSING, "2 convertible, 1 too many pods")


def lease(holder="", *, told=False):
    annotations = {STAND_DOWN: "x"} if told else None
    return Lease(metadata=ObjectMeta(annotations=annotations), spec=LeaseSpec(holder_identity=holder))


@for_each_case(
    [
        pytest.param(None, [], CheckState.OK, id="never-installed"),
        pytest.param(None, [DEPLOYMENT], CheckState.MISSING, id="acts-without-a-lease"),
        pytest.param(lease("one"), [DEPLOYMENT], CheckState.MISSING, id="acts"),
        pytest.param(lease(), [DEPLOYMENT], CheckState.MISSING, id="may-act-soon"),
        pytest.param(lease("one"), [], CheckState.MISSING, id="acts-from-elsewhere"),
        pytest.param(lease(told=True), [DEPLOYMENT], CheckState.OK, id="stands-down"),
        pytest.param(lease(), [], CheckState.OK, id="gone"),
        pytest.param(None, [deployment(ready=0)], CheckState.OK, id="never-started"),
        pytest.param(lease(), [deployment(ready=0, replicas=0)], CheckState.OK, id="scaled-to-none"),
        pytest.param(lease("one"), [deployment(ready=0, replicas=0)], CheckState.MISSING, id="ended-just-now"),
        pytest.param(lease(), [deployment(ready=0)], CheckState.MISSING, id="starts-and-may-act-soon"),
    ]
)
def test_no_controller_of_ours_may_act(found, deployments, verdict):
    assert cluster_checks.judge_controllers(found, deployments, WISH).state is verdict


def test_nodes_that_the_controller_keeps_are_named():
    kept = Node(metadata=ObjectMeta(name="n1", annotations={KEPT_NODE: DO_NOT_DISRUPT, DO_NOT_DISRUPT: "true"}))
    found = cluster_checks.judge_nodes(DowngradeSurvey(annotated_nodes=(kept,)))
    assert (found.state, found.detail) == (
        CheckState.MISSING,
        "kept from autoscalers by annotations of dra-reserve: n1",
    )
    assert cluster_checks.judge_nodes(DowngradeSurvey()).state is CheckState.OK


def test_nodes_that_offer_batch_resources_are_named_and_stop_nothing():
    """Nobody would lower what they offer, and the last limits of batch pods would stay."""
    offering = colocated.node(name="n1", batch={"cpu": 0, "memory": 0})
    found = cluster_checks.judge_batch_nodes([colocated.node(name="n2"), offering])
    assert (found.state, found.detail) == (
        CheckState.WARNING,
        "offered by n1: what they offer no longer follows what they use",
    )
    assert "switch colocation off in the ConfigMap" in remedy_text(found.remedy)
    assert cluster_checks.judge_batch_nodes([colocated.node()]).state is CheckState.OK


PAUSING = {"gate.reserve.dra", "koordinator-requests.reserve.dra", "profiles.reserve.dra"}
"""Policies that make new pods wait for a controller of ours."""


def test_policies_that_stay_are_those_of_the_manifests():
    """One that is not known is told as work that is left, and a downgrade would never be ready."""
    found = set()
    for path in (ROOT / "deploy").rglob("*.yaml"):
        text = path.read_text()
        if "helm/" not in str(path) and "AdmissionPolicy" in text:
            objects = yaml.safe_load_all(text)
            found |= {each["metadata"]["name"] for each in objects if each["kind"].endswith("AdmissionPolicy")}
    assert found - cluster_checks.INSTALLATION_POLICIES - cluster_checks.PLUGIN_POLICIES == PAUSING


def test_pods_behind_our_gate_are_counted():
    pod = GatedPod(key=("ml", "a"), uid="u", resource_version="1", gates=(SCHEDULING_GATE,))
    found = cluster_checks.judge_gates(DowngradeSurvey(gated={"u": pod}))
    assert (found.state, found.detail) == (CheckState.MISSING, "pods that wait for the removal of the gate: ml/a")


NOTED = {KEY: ("reserve.dra/reserved-for",)}


@pytest.mark.parametrize(
    ("survey", "purge", "verdict"),
    [
        pytest.param(DowngradeSurvey(), False, CheckState.OK, id="none"),
        pytest.param(DowngradeSurvey(annotated_claims=NOTED), False, CheckState.OK, id="kept-for-the-way-back"),
        pytest.param(DowngradeSurvey(annotated_claims=NOTED), True, CheckState.MISSING, id="not-for-an-uninstallation"),
        pytest.param(DowngradeSurvey(with_finalizers={KEY}), False, CheckState.MISSING, id="a-finalizer-of-ours"),
    ],
)
def test_annotations_and_finalizers(survey, purge, verdict):
    assert cluster_checks.judge_annotations(survey, purge=purge).state is verdict


JOB = ConsumerReference.parse("jobs.batch/train")
WEB = ConsumerReference.parse("deployments.apps/web")
RAY = ConsumerReference.parse("rayclusters.ray.io/llm", uid="uid-of-llm")


@for_each_case(
    [
        pytest.param(assessment(DowngradeState.CONVERTIBLE), "kubectl dra downgrade --apply", id="convertible"),
        pytest.param(assessment(DowngradeState.ORPHAN), "kubectl dra downgrade --apply", id="orphan"),
        pytest.param(
            assessment(DowngradeState.TOO_MANY, workload=JOB, capacity=255),
            "let at most 255 pods use the claim, which ends the work of the others, or wait for pods to end: "
            "spec.parallelism 255 of jobs.batch/train in ml",
            id="too-many-of-a-job",
        ),
        pytest.param(
            assessment(DowngradeState.TOO_MANY, workload=WEB),
            "let at most 256 pods use the claim, which ends the work of the others, or wait for pods to end: "
            "spec.replicas 256 of deployments.apps/web in ml",
            id="too-many-of-a-deployment",
        ),
        pytest.param(
            assessment(DowngradeState.TOO_MANY, workload=RAY),
            "let at most 256 pods use the claim, which ends the work of the others, or wait for pods to end. "
            "See: kubectl get pods -n ml",
            id="too-many-of-anything",
        ),
        pytest.param(
            assessment(DowngradeState.OWNER, workload=JOB),
            "have the workload's controller release claim train, or give up its reservation with --apply --give-up "
            "ml/train; other claims may then get the devices",
            id="without-pods",
        ),
        pytest.param(assessment(DowngradeState.OWNER, pending=2), "kubectl get pods -n ml", id="pods-that-wait"),
        pytest.param(
            assessment(DowngradeState.OWNER, foreign_entries=(RAY,)),
            "remove rayclusters.ray.io/llm (uid uid-of-llm) from status.reservedFor of claim train in ml if "
            "they no longer use its devices; otherwise two workloads share the devices",
            id="somebody-elses",
        ),
        pytest.param(assessment(DowngradeState.NODE, nodes=("n7",)), "kubectl get nodes n7", id="lost-node"),
        pytest.param(assessment(DowngradeState.READY), "", id="ready"),
    ]
)
def test_each_claim_comes_with_what_leads_on(found, command):
    assert remedy_text(cluster_checks.claim_remedy(found)) == command
    assert unknown_commands(command) == []
